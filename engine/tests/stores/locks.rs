//! The locks of plans as stores keep them: taken and given back with an entry, or not at all.

use std::sync::Arc;

use turnwheel_engine::store::{Append, Batch, StoreWriter, Verdict};
use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, PlanId, PlanResult, Run, Runs, Singleton, StepContext,
    Store, World,
};
use turnwheel_sqlite::SqliteStore;

/// A store, and what has to live as long as it does.
struct Place {
    store: Arc<dyn Store>,
    _folder: Option<tempfile::TempDir>,
}

/// One of each kind.
fn places() -> [Place; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SqliteStore::new(folder.path().join("plans.db"));
    [
        Place { store: Arc::new(MemoryStore::new()), _folder: None },
        Place { store: Arc::new(disk), _folder: Some(folder) },
    ]
}

fn plan(number: u8) -> PlanId {
    PlanId::from_bytes([number; 16])
}

fn entry(number: u8) -> Append {
    Append { plan: plan(number), records: vec![1], ..crate::place::entry(number, 0, "") }
}

fn with_key(append: Append) -> Append {
    Append { key: Some("order 7".to_owned()), ..append }
}

fn append(writer: &mut dyn StoreWriter, appends: &[Append]) -> Vec<Verdict> {
    writer.commit(&Batch { appends, changes: &[], rows: &[], projected: 0 }).expect("it is written")
}

fn locking(number: u8, take: &[&str], release: &[&str]) -> Append {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Append { take: names(take), release: names(release), ..entry(number) }
}

fn taken(name: &str, holder: u8) -> Verdict {
    Verdict::LockTaken { name: name.to_owned(), holder: plan(holder) }
}

fn locks(place: &Place) -> Vec<(String, PlanId)> {
    let mut reader = place.store.reader().expect("a reader");
    reader.locks().expect("it answers")
}

#[test]
fn a_lock_is_of_one_plan_until_that_gives_it_back() {
    places().iter().for_each(locks_are_given_back);
}

fn locks_are_given_back(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let verdicts = append(&mut *writer, &[locking(1, &["b", "a"], &[]), locking(2, &["a"], &[])]);
    assert_eq!(verdicts, [Verdict::Written(1), taken("a", 1)], "also in the same batch");
    assert_eq!(locks(place), [("a".to_owned(), plan(1)), ("b".to_owned(), plan(1))]);
    // Its owner may take it again; nobody else gives it back.
    let verdicts = append(&mut *writer, &[locking(1, &["a"], &[]), locking(2, &[], &["a"])]);
    assert_eq!(verdicts, [Verdict::Written(2), Verdict::Written(3)]);
    // Another writer finds what this one has left.
    drop(writer);
    let mut writer = place.store.writer().expect("a writer");
    assert_eq!(append(&mut *writer, &[locking(2, &["c", "b"], &[])]), [taken("b", 1)]);
    let verdicts = append(&mut *writer, &[locking(1, &[], &["b"]), locking(2, &["b"], &[])]);
    assert_eq!(verdicts, [Verdict::Written(4), Verdict::Written(5)]);
    assert_eq!(locks(place), [("a".to_owned(), plan(1)), ("b".to_owned(), plan(2))]);
    // Taken and given back in one: it only has to be free.
    let both = ["b", "d"];
    assert_eq!(append(&mut *writer, &[locking(3, &both, &both)]), [taken("b", 2)]);
    assert_eq!(append(&mut *writer, &[locking(2, &both, &both)]), [Verdict::Written(6)]);
    assert_eq!(locks(place), [("a".to_owned(), plan(1))]);
}

#[test]
fn a_refused_lock_keeps_the_whole_entry_out() {
    places().iter().for_each(a_refused_lock_leaves_nothing);
}

fn a_refused_lock_leaves_nothing(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[locking(1, &["a"], &[])]);
    let refused = with_key(locking(2, &["b", "a"], &[]));
    assert_eq!(append(&mut *writer, &[refused]), [taken("a", 1)]);
    assert_eq!(writer.last(), 1);
    assert_eq!(reader.by_key("order 7").expect("it answers"), None);
    assert_eq!(locks(place), [("a".to_owned(), plan(1))]);
    assert_eq!(append(&mut *writer, &[with_key(entry(3))]), [Verdict::Written(2)]);
}

/// One at a time; others wait.
struct Solo;

impl Action for Solo {
    const NAME: &'static str = "solo";
    type Input = ();
    type Output = ();
    type Phases = Runs;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new().wait())
    }
}

impl Run for Solo {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

#[test]
fn a_lock_of_a_plan_that_is_not_there_is_freed_by_the_next_start() {
    places().iter().for_each(a_lock_of_no_plan_is_freed);
}

fn a_lock_of_no_plan_is_freed(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    // Plan 1 is removed although it has a lock; plan 2 has one, and no row yet.
    let appends = [
        Append { plan: crate::place::plan(1), ..locking(1, &["solo"], &[]) },
        locking(2, &["other"], &[]),
    ];
    let rows = [crate::place::stopped(1, 1, 7)];
    let batch = Batch {
        appends: &appends,
        changes: &[],
        rows: &crate::place::current(&rows),
        projected: 1,
    };
    writer.commit(&batch).expect("it is written");
    assert_eq!(writer.remove(&[crate::place::gone(1, 1)]).expect("it goes"), 1);
    drop(writer);
    let world = World::builder().action(Solo).build(Arc::clone(&place.store)).expect("it begins");
    let other = ("other".to_owned(), plan(2));
    assert_eq!(locks(place), [other], "a lock of a plan whose row is behind stays");
    let held: Vec<_> = world.locks().into_iter().map(|lock| lock.name).collect();
    assert_eq!(held, ["other"]);
    let view = world.trigger::<Solo>(()).wait().expect("it is taken").finished().wait();
    assert_eq!(view.expect("it is there").result(), PlanResult::Success);
    world.shutdown().expect("it ends");
}
