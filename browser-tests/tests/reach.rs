//! For everybody: by keyboard alone, in dark and light, on a phone, with a token.

use serde_json::json;
use turnwheel::engine::MemoryStore;
use turnwheel::http::{Access, Options, Role, Token};
use turnwheel_browser::{Chromium, Page, Served};

/// Every page, by its address.
const PAGES: [&str; 14] = [
    "",
    "runs",
    "flows",
    "add-flow",
    "schedules",
    "events",
    "jobs",
    "job/nightly",
    "journeys",
    "cluster",
    "system",
    "system/actions",
    "system/runtime",
    "system/entities",
];

fn browser(name: &str) -> (Chromium, Page) {
    let (browser, mut page) = Chromium::start().expect("a browser");
    page.called(name);
    page.size(1280, 900);
    (browser, page)
}

#[test]
fn work_is_done_by_keyboard_alone() {
    let (_browser, mut page) = browser("keyboard");
    let served = Served::new();
    served.begin("wait", &json!({}));
    page.open(&served.page(""));
    page.see("h1");
    // The first stop leads over the navigation to the content.
    page.press("Tab");
    assert!(page.has_focus(".skip"), "the skip link comes first");
    page.press("Enter");
    page.wait("document.activeElement.id === 'main'");
    page.tab_to(".tile", 3);
    page.press("?");
    page.see("dialog");
    page.press("Escape");
    page.see_no("dialog");
    page.press("g");
    page.press("p");
    page.see("link:wait");
    page.press("/");
    page.wait("document.activeElement.matches('[data-search]')");
    page.type_text("wait");
    page.press("Escape");
    page.press("j");
    page.wait("document.activeElement.matches('[data-item]')");
    assert!(page.has_focus("link:wait"), "the first plan has the focus, and shows it");
    page.press("Enter");
    page.see("text:It waits: ");
    page.tab_to("button:send event…", 40);
    page.press("Enter");
    page.see("dialog");
    page.tab_to("dialog textarea", 3);
    page.press("ControlA");
    page.type_text("{\"by\": \"keys\"}");
    page.tab_to("dialog button.main", 2);
    page.press("Enter");
    page.see("text:send event: done.");
    page.see("h1 .s-success");
    // The list of steps is one stop; arrows go through it.
    page.tab_to(".steps", 60);
    page.press("ArrowDown");
    page.press("Enter");
    page.see(".panel h2");
    page.is_sound();
}

/// The contrast of text with what is behind it, for all that is seen: the least, and where.
const CONTRAST: &str = "(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if ((c[3] ?? 1) > 0.5) return c; } return [255, 255, 255]; };
  let worst = [21, ''];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest('svg, .hidden, .skip')) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 120)];
  }
  return worst;
})()";

/// Findings of a check of accessibility: controls without a name, pictures without a text, an id that
/// two elements have, more or less than one first heading, a focus order by numbers, a cell without a
/// table, a role without its place.
const FINDINGS: &str = "(() => {
  const found = [];
  const note = (what, e) => found.push(`${what}: ${e.outerHTML.slice(0, 140)}`);
  const isSeen = (e) => e.checkVisibility() && !e.closest('[aria-hidden=true]');
  const name = (e) => (e.getAttribute('aria-label') ?? '') + (e.labels ? [...e.labels].map((l) => l.textContent).join('') : '') + (e.title ?? '') + e.textContent + [...e.querySelectorAll('[aria-label]')].map((i) => i.getAttribute('aria-label')).join('');
  for (const e of document.querySelectorAll('button, a[href], input, select, textarea, summary, [role=button], [role=listbox], meter, progress, svg[role=img], dialog')) {
    if (isSeen(e) && !name(e).trim()) note('no name', e);
  }
  for (const e of document.querySelectorAll('img:not([alt])')) note('no text', e);
  for (const e of document.querySelectorAll('[role=button], [role=link]')) if (e.tabIndex < 0) note('not by keyboard', e);
  for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) note('own focus order', e);
  for (const e of document.querySelectorAll('[role=option]')) if (!e.closest('[role=listbox]')) note('no list', e);
  for (const e of document.querySelectorAll('table')) if (!e.caption) note('no caption', e);
  for (const e of document.querySelectorAll('a a, a button, button a, button button')) note('one in another', e);
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push(`two have the id ${id}`);
  if (document.querySelectorAll('h1').length !== 1) found.push(`${document.querySelectorAll('h1').length} first headings`);
  if (!document.documentElement.lang || !document.title) found.push('no language or title');
  return found;
})()";

/// Controls that are smaller than a finger needs; links in lines of text may be.
const SMALL: &str = "[...document.querySelectorAll('button, select, summary, nav a, a.button, .brand, .runs td.name a, input')].filter((e) => {
  const { width, height } = e.getBoundingClientRect();
  const room = e.type === 'checkbox' ? e.closest('td, label')?.getBoundingClientRect() ?? { width, height } : { width, height };
  return e.checkVisibility() && width > 0 && (room.height < 39.5 || (e.type === 'checkbox' && room.width < 39.5));
}).map((e) => `${e.outerHTML.slice(0, 120)} ${e.getBoundingClientRect().height}`)";

/// Orders on the page, which a reader may not give.
const ORDERS: &str =
    "[...document.querySelectorAll('main button, main a.button')].filter((e) => e.checkVisibility()
  && /…$|^(cancel|pause|resume|remove|launch|go on|disable|let it fire)/i.test(e.textContent.trim())
  && !/^(columns|open a file)/i.test(e.textContent)).map((e) => e.textContent)";

const WELCOME: &str = "journey: welcome
platform: shop
elements:
  begin: { start: { on: signed.up }, then: order }
  order: { wait: { on: order.paid, for: P3D }, lines: [ { if: 'true', then: end } ], otherwise: end }
";

#[test]
fn every_page_is_readable_in_dark_and_light_and_fits_a_phone() {
    let (_browser, mut page) = browser("looks");
    let served = Served::new();
    let plan = served.begin("mend", &json!({ "is_mended": false }));
    served.begin("wait", &json!({}));
    served.put_job(
        &json!({ "name": "nightly", "schedule": "@daily", "config": { "command": "true" } }),
    );
    let flow = "document: { dsl: '1.0.3', namespace: a, name: b, version: '1.0.0' }\ndo: [{ c: { set: { d: 1 } } }]";
    let of_flow = served.start_flow(flow, json!({}));
    served.over_with(of_flow);
    let of_flow = format!("run/{of_flow}");
    let plan = format!("run/{plan}");
    let parts = ["", "/graph", "/timeline", "/steps", "/history", "/data"]
        .map(|part| format!("{plan}{part}"));
    served.put_journey(WELCOME);
    served.user_event("shop", "ann", "1", "signed.up", json!({}));
    let node = served.world().worlds().first().expect("itself").name.replace(' ', "%20");
    let flow = [
        "flow/a/b/1.0.0".to_owned(),
        of_flow,
        "journey/welcome".to_owned(),
        "journey/welcome?user=ann".to_owned(),
        "journey/welcome?walk=".to_owned(),
        format!("runs?node={node}"),
    ];
    let pages = PAGES.map(str::to_owned).into_iter().chain(parts).chain(flow);
    for name in pages {
        for width in [1280, 390] {
            page.size(width, 844);
            page.open_new(&served.page(&name));
            page.see("#main h1, #main .notice");
            page.wait("!document.querySelector('#main').innerText.includes('Loading…')");
            for is_dark in [false, true] {
                page.dark(is_dark);
                page.is_sound();
                let back = page.eval("getComputedStyle(document.documentElement).backgroundColor");
                let expected = if is_dark { "rgb(17, 21, 27)" } else { "rgb(255, 255, 255)" };
                assert_eq!(back, expected, "{name}");
                let worst = page.eval(CONTRAST);
                let ratio = worst[0].as_f64().unwrap_or_default();
                assert!(ratio >= 4.5, "{name}, dark {is_dark}: {ratio:.2} of {}", worst[1]);
                let look = name.replace(&plan, "plan").replace(['/', '?'], "-");
                let look = if look.is_empty() { "overview" } else { &look };
                let kind = if is_dark { "dark" } else { "light" };
                page.shot(&format!("{look}-{kind}-{width}"));
            }
            let found = page.eval(FINDINGS);
            assert_eq!(found, json!([]), "{name} at {width}");
            if width == 390 {
                let small = page.eval(SMALL);
                assert_eq!(small, json!([]), "{name}: a finger needs 40 points");
            }
        }
    }
}

#[test]
fn who_has_no_token_is_asked_for_it() {
    let (_browser, mut page) = browser("token");
    let world = Served::builder().build(MemoryStore::new()).expect("a world");
    let tokens = vec![
        Token::new("ann", Role::Operate, "a secret of the operator"),
        Token::new("rob", Role::Read, "a secret of the reader"),
    ];
    let served = Served::with(world, Options::new(Access::Tokens(tokens)));
    let plan = served.begin("wait", &json!({}));
    page.open(&served.page(&format!("run/{plan}")));
    page.see("text:A token is needed");
    page.write("field:Token", "a wrong one");
    page.click("button:Sign in");
    page.see("text:the token is not known");
    // Readers see no orders, on any page and after the page was loaded again.
    page.write("field:Token", "a secret of the reader");
    page.click("button:Sign in");
    page.see("text:It waits: an event");
    page.see("[data-role=read]");
    page.see_no("button:cancel");
    for name in ["flows", "jobs", "journeys", "schedules", "events", "runs", "system"] {
        page.open(&served.page(name));
        page.see("[data-role=read] main h1");
        let orders = page.eval(ORDERS);
        assert_eq!(orders, json!([]), "{name}");
    }
    page.open(&served.page(&format!("run/{plan}")));
    page.see("text:It waits: an event");
    page.click("button:Sign out");
    page.write("field:Token", "a secret of the operator");
    page.click("button:Sign in");
    page.click("button:cancel");
    page.click("dialog button.main");
    page.see("h1 .s-cancelled");
    page.see("text:noted for ann");
}
