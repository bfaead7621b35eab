//! Units of the reference counts of a task.

use super::*;

/// Set in the process that is expected to abort: the kind of count.
const COUNTS: &str = "TURNWHEEL_TEST_COUNTS";

#[test]
fn too_many_references_abort() {
    let count = |counts: &str| {
        let refs = References(AtomicU64::new(REFERENCES_MAX + 1));
        match counts {
            "handle" => refs.add(),
            "weak" => refs.weaken(),
            _ => drop(refs.strengthen()),
        }
    };
    if let Ok(counts) = std::env::var(COUNTS) {
        return count(&counts);
    }
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    let program = std::env::current_exe().expect("a test has a program");
    for counts in ["handle", "weak", "upgraded"] {
        let mut child = std::process::Command::new(&program);
        let ended = child.args(["--exact", &name]).env(COUNTS, counts).output();
        let ended = ended.expect("the test's own program runs");
        assert!(!ended.status.success(), "{counts}: {ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stdout).contains("test result"), "{counts}");
    }
}
