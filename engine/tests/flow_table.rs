//! `docs/flows.md` names a test, a refusal or a reason for each property: the tests are there.

use std::path::Path;

#[test]
fn the_tests_that_the_table_of_flows_names_are_there() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| std::fs::read_to_string(path).expect("it can be read");
    let mut sources = String::new();
    let mut folders = vec![engine.join("tests"), engine.join("src/flow")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it is there").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.extension().is_some_and(|kind| kind == "rs") => {
                    sources += &read(&path)
                }
                _ => {}
            }
        }
    }
    let table = read(&engine.join("../docs/flows.md"));
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with('|')) {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        assert!(!last.trim().is_empty(), "{row} says nothing");
        for name in last.split('`').filter(|name| name.matches('_').count() > 3) {
            named += 1;
            assert!(sources.contains(&format!("fn {name}()")), "there is no test {name}");
        }
    }
    assert!(named > 40, "{named} tests are named");
}
