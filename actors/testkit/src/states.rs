//! Test suite for stores of entity states.

use turnwheel_actors::entity::{Record, StateStore, StoreError, StoreFuture};
use turnwheel_runtime::completion::block_on;

/// Checks that a store of states keeps the promises of [`StateStore`]. It must be empty at first,
/// and is not at the end. Blocks the thread: not for workers.
///
/// ```
/// use turnwheel_actors::entity::MemoryStore;
/// use turnwheel_actors_testkit as testkit;
///
/// testkit::check_state_store(&MemoryStore::new());
/// ```
///
/// # Panics
///
/// If it does not; the message says which.
pub fn check_state_store(store: &dyn StateStore) {
    let suite = Suite { store };
    suite.a_state_is_written_under_the_version_that_is_known();
    suite.a_removed_state_goes_on_counting();
    suite.names_are_told_apart();
    suite.all_bytes_come_back();
    suite.an_epoch_that_is_over_writes_nothing();
    suite.many_writers_lose_nothing();
}

struct Suite<'a> {
    store: &'a dyn StateStore,
}

fn now<T>(future: StoreFuture<'_, T>) -> Result<T, StoreError> {
    block_on(future).expect("the suite runs outside of workers")
}

impl Suite<'_> {
    fn load(&self, entity: &str, key: &str) -> Record {
        now(self.store.load(entity, key)).expect("it can be read")
    }

    #[track_caller]
    fn save(&self, entity: &str, key: &str, text: &[u8], expected: u64) {
        let version = now(self.store.save(entity, key, text.to_vec(), expected, 1));
        assert_eq!(version.expect("it can be written"), expected + 1, "versions count the writes");
        let record = Record { bytes: Some(text.to_vec()), version: expected + 1 };
        assert_eq!(self.load(entity, key), record, "it is as it was written");
    }

    #[track_caller]
    fn conflicts(&self, key: &str, wrong: u64) {
        let before = self.load("suite", key);
        for refused in [
            now(self.store.save("suite", key, b"wrong".to_vec(), wrong, 1)),
            now(self.store.clear("suite", key, wrong, 1)),
        ] {
            let is_told = matches!(
                &refused,
                Err(StoreError::Conflict { entity, key: of, expected, found })
                    if entity == "suite" && of == key && *expected == wrong
                        && *found == before.version
            );
            assert!(is_told, "no conflict: {refused:?}");
        }
        assert_eq!(self.load("suite", key), before, "a refused write changes nothing");
    }

    fn a_state_is_written_under_the_version_that_is_known(&self) {
        assert_eq!(self.load("suite", "write"), Record::default(), "it is empty at first");
        self.conflicts("write", 1);
        self.save("suite", "write", b"one", 0);
        self.conflicts("write", 0);
        self.conflicts("write", 2);
        self.save("suite", "write", b"two", 1);
        self.save("suite", "write", b"three", 2);
        self.conflicts("write", u64::MAX - 1);
    }

    fn a_removed_state_goes_on_counting(&self) {
        self.save("suite", "remove", b"one", 0);
        let version = now(self.store.clear("suite", "remove", 1, 1)).expect("it can be removed");
        assert_eq!(version, 2, "a removal is a write");
        assert_eq!(self.load("suite", "remove"), Record { bytes: None, version: 2 });
        self.conflicts("remove", 0);
        self.save("suite", "remove", b"again", 2);
        let version = now(self.store.clear("suite", "never", 0, 1)).expect("it can be removed");
        assert_eq!(version, 1, "also of what was never written");
    }

    fn names_are_told_apart(&self) {
        let names = [("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"), ("a", "BC"), ("a", "bc ")];
        for (entity, key) in names {
            self.save(entity, key, format!("{entity}/{key}").as_bytes(), 0);
        }
        for (entity, key) in names {
            let bytes = self.load(entity, key).bytes.expect("it was written");
            assert_eq!(bytes, format!("{entity}/{key}").as_bytes(), "«{entity}» «{key}»");
        }
        for key in ["«Ünïcödé»", "a\0b", "a\0c", "%_'\"\\", &"long".repeat(250)] {
            self.save("suite", key, key.as_bytes(), 0);
            assert_eq!(self.load("suite", key).bytes.as_deref(), Some(key.as_bytes()), "«{key}»");
        }
    }

    fn all_bytes_come_back(&self) {
        self.save("suite", "bytes", b"", 0);
        self.save("suite", "bytes", &(0..=255).collect::<Vec<u8>>(), 1);
        self.save("suite", "bytes", &vec![7; 1 << 20], 2);
    }

    fn an_epoch_that_is_over_writes_nothing(&self) {
        self.save("suite", "epoch", b"first", 0);
        let version = now(self.store.save("suite", "epoch", b"second".to_vec(), 1, 5));
        assert_eq!(version.expect("a later epoch writes"), 2);
        for refused in [
            now(self.store.save("suite", "epoch", b"late".to_vec(), 2, 4)),
            now(self.store.clear("suite", "epoch", 2, 1)),
            // The later epoch refuses it, although the version is right.
            now(self.store.save("suite", "epoch", b"late".to_vec(), 1, 4)),
        ] {
            let is_fenced = matches!(refused, Err(StoreError::Fenced { newest: 5, .. }));
            assert!(is_fenced, "not fenced: {refused:?}");
        }
        let record = Record { bytes: Some(b"second".to_vec()), version: 2 };
        assert_eq!(self.load("suite", "epoch"), record);
        let version = now(self.store.clear("suite", "epoch", 2, 5));
        assert_eq!(version.expect("the newest epoch writes"), 3);
        let refused = now(self.store.save("suite", "epoch", b"late".to_vec(), 3, 4));
        assert!(matches!(refused, Err(StoreError::Fenced { newest: 5, .. })), "a removal counts");
    }

    /// Concurrent writes: only one of those with the same version succeeds.
    fn many_writers_lose_nothing(&self) {
        for round in 0..5 {
            let tries: Vec<_> = (0..8_u8)
                .map(|number| self.store.save("suite", "race", vec![number], round, 1))
                .collect();
            let made: Vec<_> = tries.into_iter().map(now).collect();
            let wins = made.iter().filter(|outcome| matches!(outcome, Ok(v) if *v == round + 1));
            assert_eq!(wins.count(), 1, "one of them is made: {made:?}");
        }
    }
}
