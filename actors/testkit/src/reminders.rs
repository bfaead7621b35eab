//! Test suite for stores of reminders.

use turnwheel_actors::entity::{
    DueRange, MissedTicks, ReminderId, ReminderRow, ReminderStore, StoreError, StoreFuture,
};
use turnwheel_runtime::completion::block_on;

/// The latest time that a store must keep.
const LAST_MS: u64 = i64::MAX as u64;

/// Checks that a store of reminders keeps the promises of [`ReminderStore`]. It must be empty at
/// first, and is not at the end. Blocks the thread: not for workers.
///
/// ```
/// use turnwheel_actors::entity::MemoryReminders;
/// use turnwheel_actors_testkit as testkit;
///
/// testkit::check_reminder_store(&MemoryReminders::new());
/// ```
///
/// # Panics
///
/// If it does not; the message says which.
pub fn check_reminder_store(store: &dyn ReminderStore) {
    let suite = Suite { store };
    suite.writes_are_compared_with_the_version();
    suite.every_field_comes_back();
    suite.a_removed_one_comes_back_with_a_later_version();
    suite.ranges_are_in_order_and_end_where_they_should();
    suite.those_of_an_entity_are_listed_by_name();
    suite.an_epoch_that_is_over_writes_nothing();
}

struct Suite<'a> {
    store: &'a dyn ReminderStore,
}

/// A copy of `row` with some fields changed.
fn changed(row: &ReminderRow, change: impl FnOnce(&mut ReminderRow)) -> ReminderRow {
    let mut row = row.clone();
    change(&mut row);
    row
}

fn row(entity: &str, key: &str, name: &str, due_ms: u64) -> ReminderRow {
    let mut row = ReminderRow::new(ReminderId::new(entity, key, name));
    (row.first_due_ms, row.planned_ms, row.due_ms) = (due_ms, due_ms, due_ms);
    row
}

fn now<T>(future: StoreFuture<'_, T>) -> Result<T, StoreError> {
    block_on(future).expect("the suite runs outside of workers")
}

impl Suite<'_> {
    fn get(&self, id: &ReminderId) -> Option<ReminderRow> {
        now(self.store.get(id)).expect("it can be read")
    }

    /// Writes a row, and answers it as it is then.
    #[track_caller]
    fn put(&self, row: &ReminderRow) -> ReminderRow {
        let version = now(self.store.upsert(row, 1)).expect("it can be written");
        assert!(version > row.version, "the version {version} is no later one");
        let revision = if row.revision == 0 { version } else { row.revision };
        let put = changed(row, |row| (row.version, row.revision) = (version, revision));
        assert_eq!(self.get(&row.id).as_ref(), Some(&put), "it is as it was written");
        put
    }

    fn conflicts(&self, row: &ReminderRow) {
        let before = self.get(&row.id);
        let refused = now(self.store.upsert(row, 1)).map(drop);
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "no conflict: {refused:?}");
        let refused = now(self.store.remove(&row.id, row.version, 1));
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "no conflict: {refused:?}");
        assert_eq!(self.get(&row.id), before, "a refused write changes nothing");
    }

    fn list(&self, range: &DueRange) -> Vec<ReminderRow> {
        now(self.store.list(range)).expect("it can be listed")
    }

    fn writes_are_compared_with_the_version(&self) {
        let new = row("write", "key", "name", 10);
        assert_eq!(self.get(&new.id), None, "it is empty at first");
        let first = self.put(&new);
        self.conflicts(&new);
        self.conflicts(&changed(&new, |row| row.version = first.version + 1));
        let second = self.put(&changed(&first, |row| (row.due_ms, row.failures) = (20, 1)));
        assert_eq!(second.revision, first.revision, "a tick is no registration");
        self.conflicts(&first);
        let third = self.put(&changed(&second, |row| row.revision = 0));
        assert!(third.revision > second.revision, "a registration is");
    }

    fn every_field_comes_back(&self) {
        let policies = [MissedTicks::Skip, MissedTicks::Once, MissedTicks::Every];
        for (number, missed) in policies.into_iter().enumerate() {
            let mut full = row("field", "it's «ä» 100 % of \"K\"; --", &format!("n{number}"), 0);
            (full.first_due_ms, full.planned_ms, full.due_ms) = (1, LAST_MS - 1, LAST_MS);
            (full.delay_ms, full.period_ms) = (Some(0), Some(LAST_MS));
            (full.missed, full.failures, full.skipped) = (missed, u32::MAX, LAST_MS);
            let full = self.put(&full);
            self.put(&changed(&full, |row| (row.delay_ms, row.period_ms) = (None, None)));
        }
    }

    fn a_removed_one_comes_back_with_a_later_version(&self) {
        let old = self.put(&row("remove", "key", "name", 10));
        now(self.store.remove(&old.id, old.version, 1)).expect("it is removed");
        assert_eq!(self.get(&old.id), None, "removed is removed");
        self.conflicts(&old);
        let new = self.put(&row("remove", "key", "name", 10));
        assert!(new.version > old.version, "a handle of the old one would remove the new one");
        self.conflicts(&old);
        now(self.store.remove(&new.id, new.version, 1)).expect("it is removed");
    }

    fn ranges_are_in_order_and_end_where_they_should(&self) {
        let base = 1_000_000;
        let mut rows: Vec<_> = (0..50_u64)
            .map(|number| {
                let key = format!("{:02}", number * 7 % 50);
                self.put(&row("range", &key, "name", base + number / 5))
            })
            .collect();
        // One row moves, one is removed.
        rows[3] = self.put(&changed(&rows[3], |row| row.due_ms = base + 4));
        let gone = rows.remove(20);
        now(self.store.remove(&gone.id, gone.version, 1)).expect("it is removed");
        rows.sort_by(|one, two| (one.due_ms, &one.id).cmp(&(two.due_ms, &two.id)));
        let start = ReminderId::new("", "", "");
        for limit in [1, 3, 49, 1_000] {
            let mut range = DueRange::until(base + 9, limit);
            range.after = Some((base, start.clone()));
            let mut listed = Vec::new();
            loop {
                let page = self.list(&range);
                assert!(page.len() <= limit, "more than {limit} rows");
                range.after = page.last().map(|row| (row.due_ms, row.id.clone()));
                let is_last = page.len() < limit;
                listed.extend(page);
                if is_last {
                    break;
                }
            }
            assert_eq!(listed, rows, "each row once, in order, by pages of {limit}");
        }
        let mut range = DueRange::until(base + 4, 1_000);
        range.after = Some((base, start));
        let until: Vec<_> = rows.iter().filter(|row| row.due_ms <= base + 4).cloned().collect();
        assert_eq!(self.list(&range), until, "the end of a range belongs to it");
        let first = self.list(&DueRange::until(LAST_MS, 1));
        assert!(
            first.len() == 1 && first[0].due_ms < base,
            "a range begins with what is due first"
        );
    }

    fn those_of_an_entity_are_listed_by_name(&self) {
        for (key, name) in [("k", "b"), ("k", "a"), ("k1", "a"), ("", "a"), ("k", "c"), ("j", "z")]
        {
            self.put(&row("entity", key, name, 5));
        }
        self.put(&row("entity2", "k", "a", 5));
        // The same by due time, page by page, for one entity only.
        for (name, due_ms) in [("x", 4), ("y", 3), ("z", 9)] {
            self.put(&row("entity3", "k", name, due_ms));
            self.put(&row("entity3", "l", name, due_ms));
        }
        let mut range = DueRange::until(8, 1).of("entity3", "k");
        let first = self.list(&range);
        range.after = first.last().map(|row| (row.due_ms, row.id.clone()));
        let second = self.list(&range);
        range.after = second.last().map(|row| (row.due_ms, row.id.clone()));
        let listed: Vec<_> = first.iter().chain(&second).map(|row| row.id.clone()).collect();
        let of = |name| ReminderId::new("entity3", "k", name);
        assert_eq!(listed, [of("y"), of("x")], "by due time, of one entity");
        assert_eq!(self.list(&range), Vec::new(), "what is not due is not listed");
        let names = |limit| {
            let rows = now(self.store.list_of("entity", "k", limit)).expect("it can be listed");
            assert!(rows.iter().all(|row| row.id.is_of("entity", "k")), "others: {rows:?}");
            rows.iter().map(|row| row.id.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(1_000), ["a", "b", "c"]);
        assert_eq!(names(2), ["a", "b"]);
    }

    fn an_epoch_that_is_over_writes_nothing(&self) {
        let one = self.put(&row("epoch", "key", "one", 5));
        let two = row("epoch", "key", "two", 5);
        now(self.store.upsert(&two, 7)).expect("a later epoch writes");
        let fenced = |outcome: Result<(), StoreError>| {
            let is_so = matches!(&outcome, Err(StoreError::Fenced { epoch: 6, newest: 7, .. }));
            assert!(is_so, "an epoch that is over was not refused: {outcome:?}");
        };
        fenced(now(self.store.upsert(&one, 6)).map(drop));
        fenced(now(self.store.remove(&one.id, one.version, 6)));
        fenced(now(self.store.upsert(&row("epoch", "key", "three", 5), 6)).map(drop));
        assert_eq!(self.get(&one.id).as_ref(), Some(&one), "a refused write changes nothing");
        now(self.store.remove(&one.id, one.version, 7)).expect("the epoch of now writes");
        let other = row("epoch", "other", "one", 5);
        now(self.store.upsert(&other, 6)).expect("another entity has epochs of its own");
    }
}
