//! `turnwheel run` on a terminal: the live tree, and what is left of it.
#![cfg(unix)]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use rustix::fs::{open, Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};

use crate::cli_common::Folder;

/// The second task waits until a file is there, and counts how often it was begun.
const GATE: &str = "document: { dsl: '1.0.3', namespace: test, name: gate, version: '1.0.0' }
do:
  - first: { set: { step: 1 } }
  - open:
      do:
        - wait:
            run:
              shell:
                command: echo x >> begun; until test -e gate; do sleep 0.02; done; wc -l < begun
";

/// How long something may take to be shown.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with 100 columns, and who sits before it.
struct Screen {
    shown: Receiver<Vec<u8>>,
    /// What is typed.
    keys: File,
    text: String,
}

impl Screen {
    fn new() -> (Self, OwnedFd) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("it is a terminal");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        // Not for programs that other tests start meanwhile: the end of this one would not be seen.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let own = open(&name, flags, Mode::empty()).expect("it is there");
        let (told, shown) = channel();
        let keys = File::from(master.try_clone().expect("there are descriptors"));
        std::thread::spawn(move || {
            let (mut master, mut buffer) = (File::from(master), [0; 4_096]);
            // The last one who has the terminal open ends it; some systems call that an error.
            while let Ok(count @ 1..) = master.read(&mut buffer) {
                if told.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        (Self { shown, keys, text: String::new() }, own)
    }

    /// Looks until something is shown.
    fn wait_for(&mut self, wanted: &[&str]) {
        while !wanted.iter().all(|wanted| self.text.contains(wanted)) {
            let Ok(bytes) = self.shown.recv_timeout(PATIENCE) else {
                panic!("{wanted:?} is not shown, but «{}»", self.text);
            };
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// All that was shown until its end.
    fn rest(mut self) -> String {
        while let Ok(bytes) = self.shown.recv_timeout(PATIENCE) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.text
    }
}

fn run_on_terminal(folder: &Folder, arguments: &[&str]) -> (Child, Screen) {
    let (screen, own) = Screen::new();
    run_with(folder, arguments, Stdio::piped(), screen, own)
}

fn run_with(
    folder: &Folder,
    arguments: &[&str],
    stdout: Stdio,
    screen: Screen,
    own: OwnedFd,
) -> (Child, Screen) {
    let mut command = folder.command(arguments);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::from(own));
    let child = command.spawn().expect("the binary was built for this test");
    // The command holds the terminal: it is closed here, so that it ends with the process.
    drop(command);
    (child, screen)
}

#[test]
fn a_terminal_shows_the_tree_of_a_flow_while_it_runs() {
    let folder = Folder::new();
    folder.write("gate.yaml", GATE);
    let (child, mut screen) = run_on_terminal(&folder, &["run", "gate.yaml"]);
    screen.wait_for(&["plan ", "turnwheel resume last goes on", "✓ first", "▶ open › wait"]);
    folder.write("gate", "");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "\"1\\n\"");
    let text = screen.rest();
    let after = text.rfind("▶ open").map_or("", |at| &text[at..]);
    assert!(after.contains("\u{1b}[2K") || after.contains("\u{1b}[J"), "it is cleared: {text:?}");
}

#[test]
fn an_interrupt_on_a_terminal_says_how_to_go_on_and_loses_nothing() {
    let folder = Folder::new();
    folder.write("gate.yaml", GATE);
    let (child, mut screen) = run_on_terminal(&folder, &["run", "gate.yaml"]);
    screen.wait_for(&["✓ first", "▶ open › wait"]);
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.is_ok_and(|status| status.success()), "it is sent");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    let text = screen.rest();
    assert!(text.contains("interrupted; the flow goes on with: turnwheel resume "), "{text}");
    folder.write("gate", "");
    assert_eq!(folder.ok(&["resume", "last"]).trim(), "\"2\\n\"", "the command was begun twice");
}

#[test]
fn who_wants_it_quiet_sees_nothing() {
    let folder = Folder::new();
    folder.write("gate.yaml", GATE);
    folder.write("gate", "");
    let (child, screen) = run_on_terminal(&folder, &["run", "gate.yaml", "--quiet"]);
    assert!(child.wait_with_output().expect("it ends").status.success());
    assert_eq!(screen.rest(), "");
}

#[test]
fn commands_to_the_terminal_in_results_errors_and_names_are_shown_and_not_obeyed() {
    const FLOW: &str = r#"
document: { dsl: '1.0.3', namespace: test, name: hostile, version: '1.0.0' }
do:
  - "name\u009b2J": { set: { x: "\u009b31mred\u202eback\u007f\e]0;title\a" } }
"#;
    const RAISED: &str = r#"
document: { dsl: '1.0.3', namespace: test, name: raised, version: '1.0.0' }
do:
  - shout:
      raise:
        error: { type: 'https://example.org/x', status: 500, detail: "\e]0;title\a\u009b2J\rback" }
"#;
    let folder = Folder::new();
    folder.write("hostile.yaml", FLOW);
    folder.write("raised.yaml", RAISED);
    let shown = |arguments: &[&str]| {
        let (screen, own) = Screen::new();
        let stdout = Stdio::from(own.try_clone().expect("there are descriptors"));
        let (mut child, screen) = run_with(&folder, arguments, stdout, screen, own);
        child.wait().expect("it ends");
        screen.rest()
    };
    for (arguments, wanted) in [
        (&["run", "--quiet", "hostile.yaml"][..], "\\u009b31mred\\u202eback\\u007f"),
        (&["run", "--quiet", "raised.yaml"][..], "\\u009b2J"),
        (&["run", "raised.yaml"][..], "\\u009b2J"),
        (&["list"][..], "raised"),
        (&["show", "last"][..], "shout"),
        (&["show", "last", "--json"][..], "\\u009b2J"),
    ] {
        let text = shown(arguments);
        assert!(text.contains(wanted), "{arguments:?}: {text:?}");
        let is_hostile = |bad: &&str| text.contains(*bad);
        let bad = ["\u{9b}", "\u{202e}", "\u{7f}", "\u{7}", "\u{1b}]", "\rback"];
        assert_eq!(bad.iter().find(|bad| is_hostile(bad)), None, "{arguments:?}: {text:?}");
    }
}

#[test]
fn plans_that_are_described_are_shown_and_asked_for_on_a_terminal() {
    use std::io::Write as _;
    let (folder, plans) = Folder::with_plans();
    let state = |folder: &Folder| {
        folder.json(&["show", &plans.waits.to_string(), "--json"])["state"].clone()
    };
    for (answer, code, after) in [("n\n", 1, "running"), ("y\n", 0, "stopped")] {
        let (mut screen, own) = Screen::new();
        let mut command = folder.command(&["cancel", "--state", "running"]);
        command.stdin(Stdio::from(own.try_clone().expect("there are descriptors")));
        command.stdout(Stdio::piped()).stderr(Stdio::from(own));
        let child = command.spawn().expect("the binary was built for this test");
        drop(command);
        screen.wait_for(&[&plans.waits.to_string(), "cancel: 1 plan? [y/N]"]);
        screen.keys.write_all(answer.as_bytes()).expect("the terminal takes keys");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", screen.rest());
        assert_eq!(state(&folder), after);
    }
    let (folder, plans) = Folder::with_plans();
    let (screen, own) = Screen::new();
    let mut command = folder.command(&["cancel", "--state", "running", "--yes"]);
    command.stdin(Stdio::from(own.try_clone().expect("there are descriptors")));
    let output = command.stderr(Stdio::from(own)).output().expect("it runs");
    drop(command);
    assert!(output.status.success(), "{}", screen.rest());
    let shown = folder.json(&["show", &plans.waits.to_string(), "--json"]);
    assert_eq!(shown["state"], "stopped");
}
