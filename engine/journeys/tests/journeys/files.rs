//! The walk-through over a file: the process ends after each commit in turn.

use std::path::Path;

use turnwheel_sqlite::SqliteStore;

use super::trouble::walked_over_kills;

/// Copies what a process that is killed leaves on the disk.
fn copied(from: &Path, to: &Path) {
    for end in ["", "-wal"] {
        let name = |path: &Path| format!("{}{end}", path.display());
        if Path::new(&name(from)).exists() {
            std::fs::copy(name(from), name(to)).expect("the folder is writable");
        }
    }
}

#[test]
fn each_step_happens_once_over_a_file_whichever_commit_is_the_last_one() {
    walked_over_kills(|| {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (path, left) = (folder.path().join("one.db"), folder.path().join("two.db"));
        let store = SqliteStore::new(&path);
        let copy = move || {
            let _kept = &folder;
            copied(&path, &left);
            SqliteStore::new(&left)
        };
        (store, copy)
    });
}
