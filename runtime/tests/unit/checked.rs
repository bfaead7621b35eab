//! Units of the checks that make memory mistakes loud.

use super::*;

/// Set in the process that is to be aborted: its mistake.
const MISTAKE: &str = "TURNWHEEL_TEST_MISTAKE";

fn layout() -> Layout {
    Layout::new::<[u64; 8]>()
}

fn make(mistake: &str) {
    let place = take(layout());
    let life = place.cast::<Life>();
    // SAFETY: the memory is ours, and large enough.
    unsafe { life.write(Life::new()) };
    match mistake {
        "another task" => {
            // SAFETY: it was just initialized.
            let queued = Queued::on(unsafe { &*life });
            return queued.check(&Life::new());
        }
        _ => {}
    }
    // SAFETY: no other code uses it any more, but for the mistake below.
    unsafe { give(place, layout()) };
    match mistake {
        "none" => {}
        // SAFETY: none, and in quarantine it is memory still.
        "twice" => unsafe { give(place, layout()) },
        // SAFETY: as above.
        "use" => unsafe { &*life }.check(),
        _ => {
            // SAFETY: as above.
            unsafe { place.write(1) };
            let all = QUARANTINE_BYTES / layout().size();
            // SAFETY: taken for it.
            (0..=all).for_each(|_| unsafe { give(take(layout()), layout()) });
        }
    }
}

#[test]
fn mistakes_end_the_process() {
    if let Ok(mistake) = std::env::var(MISTAKE) {
        return make(&mistake);
    }
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    let program = std::env::current_exe().expect("a test has a program");
    for mistake in ["none", "another task", "twice", "use", "write"] {
        let mut child = std::process::Command::new(&program);
        child.args(["--exact", &name]).env(MISTAKE, mistake);
        let ended = child.env_remove(QUARANTINE).output();
        let ended = ended.expect("the test's own program runs");
        let is_told = String::from_utf8_lossy(&ended.stderr).contains("turnwheel_checked:");
        assert_eq!(ended.status.success(), mistake == "none", "{mistake}: {ended:?}");
        assert_eq!(is_told, mistake != "none", "{mistake}: {ended:?}");
    }
}
