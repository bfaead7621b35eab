//! The page of a browser: what a person does with it, and sees.

use std::path::{Path, PathBuf};

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use serde_json::{json, Value};

use crate::wire::Wire;

/// What a page is asked with: finds what a person would find by looking, and waits for it.
const HELP: &str = include_str!("help.js");

/// How long something may take to be seen; only what never comes takes so long. Who writes a test sets
/// `TURNWHEEL_SEEN_MS`.
const SEEN_MS: u32 = 60_000;

/// How often a click is tried on what moves away.
const CLICKS_MAX: usize = 5;

/// A page of a browser.
///
/// Elements are named as people find them: `button:Start` is a button with that text, `link:Plans` a
/// link, `field:Name` the field with that label, `text:…` anything with that text; everything else is a
/// selector of style sheets. What is asked for is waited for; a panic says what did not come, and leaves a
/// picture of the page in `target/browser-tests`.
#[derive(Debug)]
pub struct Page {
    wire: Wire,
    name: String,
}

impl Page {
    pub(crate) fn of(wire: Wire) -> Self {
        Self { wire, name: "page".to_owned() }
    }

    /// The name of its pictures.
    pub fn called(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        match self.wire.ask(method, parameters) {
            Ok(answer) => answer,
            Err(error) => panic!("the browser: {error}"),
        }
    }

    /// Runs a script in each document from now on, before its own.
    pub fn before(&mut self, script: &str) {
        self.ask("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }));
    }

    /// Opens an address; another one after `#` of the same document goes there as a link does.
    pub fn open(&mut self, address: &str) {
        let done = self.ask("Page.navigate", json!({ "url": address }));
        assert!(done.get("errorText").is_none(), "{address}: {done}");
        if address.contains("/console/") {
            self.wait("document.querySelector('#main')?.dataset.shown === location.hash");
        }
    }

    /// The same from the begin, as in a new tab.
    pub fn open_new(&mut self, address: &str) {
        self.open("about:blank");
        self.open(address);
    }

    /// What an expression is in the page; a promise is waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        match self.try_eval(expression) {
            Ok(value) => value,
            Err(problem) => self.fail(&format!("{expression}: {problem}")),
        }
    }

    fn try_eval(&mut self, expression: &str) -> Result<Value, String> {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        // A page that is being left answers that its context is gone.
        let mut answer =
            self.wire.ask("Runtime.evaluate", asked).map_err(|error| error.to_string())?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(details["exception"]["description"]
                .as_str()
                .map_or_else(|| details.to_string(), str::to_owned)),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    fn help(&mut self, call: &str) -> Value {
        let set = std::env::var("TURNWHEEL_SEEN_MS").ok().and_then(|set| set.parse().ok());
        let expression = format!("{HELP}\nhelp({}).{call}", set.unwrap_or(SEEN_MS));
        for _ in 0..5 {
            match self.try_eval(&expression) {
                Ok(value) => return value,
                // The document was exchanged for the next one meanwhile.
                Err(problem) if problem.contains("context") || problem.contains("navigated") => {}
                Err(problem) => self.fail(&format!("{call}: {problem}")),
            }
        }
        self.fail(&format!("{call}: the page is left again and again"))
    }

    /// Waits until something is seen, and answers its text.
    pub fn see(&mut self, what: &str) -> String {
        let text = self.help(&format!("see({})", json!(what)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until something is not seen any more.
    pub fn see_no(&mut self, what: &str) {
        self.help(&format!("seeNo({})", json!(what)));
    }

    /// Waits until an expression is true in the page.
    pub fn wait(&mut self, expression: &str) -> Value {
        self.help(&format!("wait(() => {expression}, {})", json!(expression)))
    }

    /// How many there are now.
    pub fn count(&mut self, what: &str) -> u64 {
        self.help(&format!("count({})", json!(what))).as_u64().unwrap_or_default()
    }

    /// Waits until something is seen, can be used and is covered by nothing, and clicks it as a mouse
    /// does: the browser itself finds what is under the pointer. A page can move in between; a click
    /// beside it is done again.
    pub fn click(&mut self, what: &str) {
        for _ in 0..CLICKS_MAX {
            let spot = self.help(&format!("target({})", json!(what)));
            let (x, y) = (spot[0].clone(), spot[1].clone());
            self.ask("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
            for kind in ["mousePressed", "mouseReleased"] {
                let event =
                    json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
                self.ask("Input.dispatchMouseEvent", event);
            }
            // Another document knows nothing of it: it came by the click.
            if self.help("missed()") != Value::Bool(true) {
                return;
            }
        }
        self.fail(&format!("«{what}» is missed by {CLICKS_MAX} clicks: it does not stay in place"));
    }

    /// Clicks something with a press that lasts so long, as a slow hand does: the page may change
    /// meanwhile.
    pub fn press_slowly(&mut self, what: &str, milliseconds: u32) {
        let spot = self.help(&format!("target({})", json!(what)));
        let event = |kind: &str| {
            let (x, y) = (&spot[0], &spot[1]);
            json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 })
        };
        self.ask("Input.dispatchMouseEvent", event("mousePressed"));
        let pause = format!("new Promise((done) => {{ setTimeout(done, {milliseconds}); }})");
        self.eval(&pause);
        self.ask("Input.dispatchMouseEvent", event("mouseReleased"));
    }

    /// Writes a text into a field in place of what is there.
    pub fn write(&mut self, what: &str, text: &str) {
        self.help(&format!("write({}, {})", json!(what), json!(text)));
    }

    /// Presses a key, as `Tab`, `Enter`, `Escape`, `ArrowDown` or a letter, with what has the focus;
    /// `ControlA` marks all of a field.
    pub fn press(&mut self, key: &str) {
        if key == "ControlA" {
            let all = json!({
                "type": "rawKeyDown", "key": "a", "code": "KeyA", "modifiers": 2, "windowsVirtualKeyCode": 65,
                "commands": ["selectAll"],
            });
            self.ask("Input.dispatchKeyEvent", all);
            return;
        }
        let (code, number, text) = match key {
            "Tab" => ("Tab".to_owned(), 9, String::new()),
            "Enter" => ("Enter".to_owned(), 13, "\r".to_owned()),
            "Escape" => ("Escape".to_owned(), 27, String::new()),
            "Space" => ("Space".to_owned(), 32, " ".to_owned()),
            "ArrowDown" => ("ArrowDown".to_owned(), 40, String::new()),
            "ArrowUp" => ("ArrowUp".to_owned(), 38, String::new()),
            "End" => ("End".to_owned(), 35, String::new()),
            _ => {
                let letter = key.to_uppercase();
                let number = letter.chars().next().map_or(0, u32::from);
                (format!("Key{letter}"), number, key.to_owned())
            }
        };
        let name = if key == "Space" { " " } else { key };
        let mut down = json!({ "type": if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "key": name, "code": code, "windowsVirtualKeyCode": number });
        if !text.is_empty() {
            down["text"] = json!(text);
        }
        self.ask("Input.dispatchKeyEvent", down);
        let up =
            json!({ "type": "keyUp", "key": name, "code": code, "windowsVirtualKeyCode": number });
        self.ask("Input.dispatchKeyEvent", up);
    }

    /// Types a text into what has the focus.
    pub fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", json!({ "text": text }));
    }

    /// Presses Tab until something has the focus; it must come within so many presses.
    pub fn tab_to(&mut self, what: &str, presses: u32) {
        for _ in 0..presses {
            if self.has_focus(what) {
                return;
            }
            self.press("Tab");
        }
        if !self.has_focus(what) {
            let at = self.eval("document.activeElement?.outerHTML?.slice(0, 200) ?? ''");
            self.fail(&format!(
                "«{what}» is not reached by {presses} presses of Tab; the focus is on {at}"
            ));
        }
    }

    /// Whether something has the focus, and that can be seen.
    pub fn has_focus(&mut self, what: &str) -> bool {
        self.help(&format!("hasFocus({})", json!(what))).as_bool().unwrap_or_default()
    }

    /// How wide and high the window is; a narrow one is a phone's.
    pub fn size(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the reader prefers.
    pub fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of what is seen, as PNG, where `TURNWHEEL_SHOTS` says; nothing without it.
    pub fn shot(&mut self, name: &str) {
        if let Some(folder) = std::env::var_os("TURNWHEEL_SHOTS") {
            self.save(&PathBuf::from(folder), name);
        }
    }

    fn save(&mut self, folder: &Path, name: &str) {
        let picture = self.wire.ask("Page.captureScreenshot", json!({ "format": "png" }));
        let Ok(picture) = picture else { return };
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap_or_default());
        let bytes = bytes.expect("the browser sends base 64");
        let place = folder.join(format!("{name}.png"));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&place, bytes));
        match written {
            Ok(()) => eprintln!("picture: {}", place.display()),
            Err(error) => eprintln!("{}: {error}", place.display()),
        }
    }

    fn fail(&mut self, what: &str) -> ! {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/browser-tests");
        let name = self.name.clone();
        self.save(&folder, &name);
        let text =
            self.try_eval("document.body?.innerText?.slice(0, 3000) ?? ''").unwrap_or_default();
        let troubles = self.wire.troubles.join("\n");
        panic!("{what}\nthe page says:\n{}\n{troubles}", text.as_str().unwrap_or_default());
    }

    /// Nothing went wrong in the page by itself, and nothing sticks out of the window.
    pub fn is_sound(&mut self) {
        let over = self.eval("document.documentElement.scrollWidth - innerWidth");
        if over.as_i64().unwrap_or_default() > 0 {
            self.fail(&format!("the page is wider than its window by {over} points"));
        }
        if !self.wire.troubles.is_empty() {
            self.fail("something went wrong in the page");
        }
    }
}
