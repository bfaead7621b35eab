//! The checker finds what is wrong: each broken block is told with its line.

use crate::blocks::{fits, of, Fault};
use crate::check;

/// What is wrong with a page of one block.
fn faults(language: &str, text: &str) -> Vec<Fault> {
    check(&format!("# A page\n\nIt says:\n\n```{language}\n{text}\n```\n"), true)
}

/// The block is wrong in this line, and the message says this.
fn wrong(language: &str, text: &str, line: usize, says: &str) {
    let found = faults(language, text);
    let is_told = found.iter().any(|fault| fault.line == line && fault.text.contains(says));
    assert!(is_told, "{language}: {text}\nshould fail in line {line} with «{says}»: {found:?}");
}

fn right(language: &str, text: &str) {
    assert_eq!(faults(language, text), Vec::new(), "{language}: {text}");
}

#[test]
fn blocks_have_places_languages_and_texts() {
    let page = "a\n```rust,no_run\nlet a = 1;\n```\n1. b\n   ```sh\n   ls\n   ```\n";
    let blocks = of(page).expect("they end");
    assert_eq!(blocks.len(), 2);
    assert_eq!((blocks[0].line, blocks[0].language.as_str()), (3, "rust"));
    assert_eq!(blocks[0].attributes, ["no_run"]);
    assert_eq!((blocks[1].line, blocks[1].text.as_str()), (7, "ls\n"));
    assert_eq!(of("```sh\nls\n").expect_err("it does not end").line, 1);
}

#[test]
fn three_points_stand_for_anything() {
    assert!(fits(&["a ... c", "...", "z"], &["a b c", "d", "e", "z"]));
    assert!(fits(&["...", "z"], &["z", ""]));
    assert!(!fits(&["a ... c"], &["a b d"]));
    assert!(!fits(&["a"], &["a", "b"]));
    assert!(!fits(&["a", "b"], &["a"]));
}

#[test]
fn unknown_languages_are_told() {
    wrong("cobol", "DISPLAY 'a'.", 6, "unknown language «cobol»");
    wrong("", "ls", 6, "without a language");
}

#[test]
fn rust_that_is_not_tested_is_told() {
    wrong("rust,ignore", "let a = 1;", 6, "ignore");
    let page = "```rust\nlet a = 1;\n```\n";
    assert_eq!(check(page, false), [Fault::new(2, "src/lib.rs does not include the page")]);
    assert_eq!(check(page, true), []);
}

#[test]
fn flows_that_are_wrong_are_told() {
    wrong("yaml", "- a:\n    sett: { b: 1 }", 6, "sett");
    wrong("yaml", "schedule:\n  evry: { minutes: 1 }", 6, "evry");
    wrong("yaml", "# broken.yaml\n- a:\n    set: { b: 1 }", 6, "nothing is wrong");
    right("yaml", "# broken.yaml\n- a:\n    sett: { b: 1 }");
    right("yaml", "- a:\n    set: { b: 1 }");
    right("yaml", "# jobs.yaml\n- name: a\n  schedule: '@daily'");
    wrong("yaml", "# jobs.yaml\n- name: a\n  shedule: '@daily'", 6, "shedule");
    right("yaml", "use:\n  secrets: [a]");
}

#[test]
fn alerts_on_figures_that_are_not_there_are_told() {
    let rule = |figure: &str| {
        format!("groups:\n  - name: a\n    rules:\n      - alert: b\n        expr: {figure} > 0")
    };
    wrong("yaml", &rule("turnwheel_plants"), 6, "turnwheel_plants");
    wrong("yaml", &rule("up"), 6, "no figure of ours");
}

#[test]
fn settings_and_manifests_that_are_wrong_are_told() {
    wrong("toml", "[io]\nhttp-timout = \"3s\"", 6, "http-timout");
    wrong("toml", "[dependencies]\nturnwheel = { features = [\"speed\"] }", 6, "speed");
    wrong("toml", "[dependencies]\nturnweel = \"1\"", 6, "turnweel");
    wrong("json", "{\"a\": }", 6, "expected value");
    right("toml", "[io]\nhttp-timeout = \"3s\"");
    right("toml", "[dependencies]\nturnwheel = { features = [\"client\"] }\nserde = \"1\"");
}

#[test]
fn commands_that_fail_are_told() {
    wrong("sh", "turnwheel list --steat", 6, "--steat");
    wrong("sh", "true\n\nfalse", 6, "ended with 1");
    wrong("sh", "cargo run --release --example nothing", 6, "nothing");
    wrong("sh", "cargo run -p turnwheel-bench -- compare --patern count", 6, "--patern");
    wrong("console", "$ true\n$ turnwheel show last", 7, "ended with 3");
    wrong("console", "lost\n$ true", 6, "before the first");
    right("sh", "turnwheel doctor --help\ncargo run --release -- completions bash");
}

#[test]
fn outputs_that_differ_are_told() {
    wrong("console", "$ echo a\nb", 6, "and the page shows\nb");
    wrong("console", "$ false\n$ echo $?\n0", 7, "and the page shows\n0");
    right("console", "$ echo a; echo b\na\n...\n$ false\n$ echo $?\n1");
    right("console", "$ export A=b\n$ echo \"$A\" \\\n    c\nb c");
}

#[test]
fn a_server_is_started_asked_and_stopped() {
    right(
        "console",
        "$ turnwheel serve --store a.db &\nlistening on http://127.0.0.1:7070\n$ turnwheel list --store a.db\n\
         ...\n$ kill -9 %1\n$ turnwheel serve --store a.db\n$ kill %1",
    );
    wrong("console", "$ turnwheel serve --lisen 127.0.0.1:7070", 6, "--lisen");
    wrong("sh", "kill %1", 6, "no server");
}

#[test]
fn units_container_files_and_proxies_that_are_wrong_are_told() {
    let unit = |arguments: &str, variable: &str| {
        format!("[Service]\nEnvironment={variable}\nExecStart=/usr/local/bin/turnwheel {arguments}")
    };
    right("ini", &unit("serve --store /a.db", "TURNWHEEL_IO_HTTP_TIMEOUT=5s"));
    wrong("ini", &unit("serve --stor /a.db", "A=b"), 6, "--stor");
    wrong("ini", &unit("serve --listen nowhere", "A=b"), 6, "nowhere");
    wrong("ini", &unit("serve", "TURNWHEEL_IO_HTTP_TIMEOT=5s"), 6, "TURNWHEEL_IO_HTTP_TIMEOT");
    let file = |command: &str| format!("FROM scratch\nENTRYPOINT [\"turnwheel\"]\nCMD {command}");
    right("dockerfile", &file("[\"serve\", \"--listen\", \"127.0.0.1:7070\"]"));
    wrong("dockerfile", &file("[\"server\"]"), 6, "server");
    wrong("dockerfile", "FROM scratch\nCOPY nothing /", 6, "nothing");
    wrong("nginx", "location /consol/ {\n}", 6, "/consol/");
    right("nginx", "location /console/ {\n    proxy_pass http://127.0.0.1:7070;\n}");
}
