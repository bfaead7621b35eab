//! Steps that write to tables of their own in the world's file: once, with what they returned.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, MemoryStore, Next, PlanHandle, PlanResult, PlanState, PlanView, Retention,
    RetryPolicy, RunAsync, RunsAsync, StepContext, StepState, World,
};
use turnwheel_runtime::Backoff;
use turnwheel_sqlite::rusqlite::{params, Connection};
use turnwheel_sqlite::SqliteStore;
use turnwheel_sqlite::Transact;

/// What a step does in its transaction, and after it.
type Code = dyn Fn(&Connection) -> Result<u64, ActionError> + Send + Sync;
type After = dyn Fn(u32) -> Result<bool, ActionError> + Send + Sync;

/// Does what its test says, and counts.
#[derive(Clone)]
struct Book {
    code: Arc<Code>,
    /// Gets the attempt; the step stays in its call if this is not true.
    after: Arc<After>,
    called: Arc<AtomicU32>,
    steps: Arc<AtomicU32>,
}

impl Action for Book {
    const NAME: &'static str = "book";
    type Input = ();
    type Output = u64;
    type Phases = RunsAsync;

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(5).pauses(Backoff::constant(Duration::from_millis(1)))
    }
}

impl RunAsync for Book {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        let (code, called) = (Arc::clone(&self.code), Arc::clone(&self.called));
        let booked = step.transaction("book", move |db| {
            called.fetch_add(1, Ordering::SeqCst);
            code(db)
        });
        step.output = booked.await?;
        if !(self.after)(step.attempt())? {
            std::future::pending::<()>().await;
        }
        Ok(Next::Done)
    }
}

impl Book {
    fn new(code: impl Fn(&Connection) -> Result<u64, ActionError> + Send + Sync + 'static) -> Self {
        let (called, steps) = (Arc::default(), Arc::default());
        Self { code: Arc::new(code), after: Arc::new(|_| Ok(true)), called, steps }
    }

    fn and_then(
        self,
        after: impl Fn(u32) -> Result<bool, ActionError> + Send + Sync + 'static,
    ) -> Self {
        Self { after: Arc::new(after), ..self }
    }

    fn called(&self) -> u32 {
        self.called.load(Ordering::SeqCst)
    }

    fn world(&self, path: &Path) -> World {
        let builder = World::builder().action(self.clone()).action(Plain);
        builder.build(SqliteStore::new(path)).expect("the world begins")
    }
}

/// A step that does nothing.
struct Plain;

impl Action for Plain {
    const NAME: &'static str = "plain";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Plain {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

fn trigger(world: &World) -> PlanHandle {
    world.trigger::<Book>(()).wait().expect("it is taken")
}

fn end(plan: &PlanHandle) -> PlanView {
    plan.finished().wait().expect("it is over")
}

/// The error that a plan is paused with.
fn error(view: &PlanView) -> ActionError {
    assert_eq!(view.state, PlanState::Paused);
    view.run_step::<Book>().expect("it was planned").error.clone().expect("it has failed")
}

fn insert(db: &Connection) -> Result<u64, ActionError> {
    db.execute_batch("CREATE TABLE IF NOT EXISTS bookings (cents INTEGER)")?;
    db.execute("INSERT INTO bookings VALUES (?1)", [1_995])?;
    Ok(db.query_row("SELECT count(*) FROM bookings", [], |row| row.get(0))?)
}

fn number(path: &Path, sql: &str) -> u64 {
    let file = Connection::open(path).expect("it opens");
    file.query_row(sql, [], |row| row.get(0)).expect("it can be asked")
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("plans.db")
    }
}

#[test]
fn it_is_done_once_however_often_its_step_is_called() {
    let place = Place::new();
    let book = Book::new(insert).and_then(|attempt| {
        if attempt < 4 {
            return Err(ActionError::new("service", "it is away"));
        }
        Ok(true)
    });
    let world = book.world(&place.path());
    let view = end(&trigger(&world));
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.output::<Book>().unwrap(), 1);
    assert_eq!((book.called(), book.steps.load(Ordering::SeqCst)), (1, 4));
    assert_eq!(end(&trigger(&world)).output::<Book>().unwrap(), 2, "another step does its own");
    world.shutdown().unwrap();
    assert_eq!(number(&place.path(), "SELECT count(*) FROM bookings"), 2);
}

#[test]
fn what_was_durable_before_the_end_of_the_world_is_not_done_again() {
    let place = Place::new();
    let (told, reached) = std::sync::mpsc::channel();
    let book = Book::new(insert).and_then(move |attempt| {
        told.send(attempt).expect("somebody listens");
        Ok(attempt > 1)
    });
    let world = book.world(&place.path());
    let plan = trigger(&world);
    assert_eq!(reached.recv().unwrap(), 1);
    let id = plan.id();
    world.shutdown_within(Duration::from_millis(500)).unwrap();
    drop((plan, world));
    let world = book.world(&place.path());
    let view = end(&world.plan(id));
    assert_eq!(view.output::<Book>().unwrap(), 1, "what it returned the first time");
    assert_eq!(book.called(), 1);
    world.shutdown().unwrap();
    assert_eq!(number(&place.path(), "SELECT count(*) FROM bookings"), 1);
}

#[test]
fn a_failure_or_panic_takes_back_what_was_written() {
    for panics in [false, true] {
        let place = Place::new();
        let book = Book::new(move |db| {
            insert(db)?;
            assert!(!panics, "on purpose");
            Err(ActionError::new("unsound", "on purpose").and_final())
        });
        let world = book.world(&place.path());
        let error = error(&end(&trigger(&world)));
        assert_eq!(error.kind, if panics { "panic" } else { "unsound" });
        assert!(world.trigger::<Plain>(()).wait().is_ok(), "others go on");
        world.shutdown().unwrap();
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'bookings'";
        assert_eq!(number(&place.path(), tables), 0);
    }
}

#[test]
fn the_commit_and_the_tables_of_the_store_are_out_of_reach() {
    let refused = [
        "COMMIT",
        "ROLLBACK",
        "ROLLBACK TO turnwheel_work",
        "RELEASE turnwheel_work",
        "DELETE FROM journal",
        "UPDATE PLANS SET state = 'stopped'",
        "INSERT INTO meta VALUES ('x', 1)",
        "DROP TABLE journal",
        "ALTER TABLE plans ADD COLUMN mine",
        "CREATE TRIGGER t AFTER INSERT ON journal BEGIN SELECT 1; END",
        "DELETE FROM turnwheel_works",
        "ATTACH DATABASE ':memory:' AS other",
        "PRAGMA synchronous = OFF",
    ];
    let place = Place::new();
    let at = Arc::new(AtomicU32::new(0));
    let which = Arc::clone(&at);
    let book = Book::new(move |db| {
        insert(db)?;
        let sql = refused[which.load(Ordering::SeqCst) as usize];
        db.execute_batch(sql).map_err(|error| ActionError::from(error).and_final())?;
        Ok(0)
    });
    let world = book.world(&place.path());
    for (number, sql) in refused.iter().enumerate() {
        at.store(u32::try_from(number).unwrap(), Ordering::SeqCst);
        let error = error(&end(&trigger(&world)));
        assert!(error.message.contains("not authorized"), "{sql}: {error}");
    }
    world.shutdown().unwrap();
}

/// Counts so far without a table.
const COUNT: &str = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?1)
     SELECT count(*) FROM n";

#[test]
fn a_slow_one_gets_a_commit_of_its_own() {
    let place = Place::new();
    let book = Book::new(|db| {
        insert(db)?;
        Ok(db.query_row(COUNT, [500_000], |row| row.get(0))?)
    });
    let world = book.world(&place.path());
    let plan = trigger(&world);
    let others: Vec<_> = (0..50).map(|_| world.trigger::<Plain>(())).collect();
    for other in others {
        let other = other.wait().expect("others are not refused for it");
        assert_eq!(end(&other).result(), PlanResult::Success);
    }
    assert_eq!(end(&plan).output::<Book>().unwrap(), 500_000);
    assert_eq!(book.called(), 2, "once with others, once alone");
    world.shutdown().unwrap();
    assert_eq!(number(&place.path(), "SELECT count(*) FROM bookings"), 1);
}

#[test]
fn one_that_never_ends_is_stopped_while_it_reads_or_writes() {
    let writes = format!("CREATE TABLE numbers AS {COUNT}").replace("count(*)", "x");
    for sql in [COUNT.to_owned(), writes] {
        let place = Place::new();
        let book = Book::new(move |db| {
            insert(db)?;
            db.prepare(&sql)?.query(params![i64::MAX])?.next()?;
            Ok(0)
        });
        let world = book.world(&place.path());
        let plan = trigger(&world);
        let others: Vec<_> = (0..50).map(|_| world.trigger::<Plain>(())).collect();
        let error = error(&end(&plan));
        assert_eq!(error.kind, "transaction_too_long");
        assert!(error.message.contains("«book» of step"), "{error}");
        for other in others {
            let other = other.wait().expect("what shared its commit is written");
            assert_eq!(end(&other).result(), PlanResult::Success);
        }
        world.shutdown().unwrap();
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('bookings', 'numbers')";
        assert_eq!(number(&place.path(), tables), 0);
    }
}

#[test]
fn a_store_without_sql_says_so() {
    let book = Book::new(insert);
    let world = World::builder().action(book).build(MemoryStore::new()).unwrap();
    let view = end(&trigger(&world));
    assert_eq!(error(&view).kind, "transaction_unsupported");
    assert_eq!(view.run_step::<Book>().unwrap().state, StepState::Error);
    world.shutdown().unwrap();
}

#[test]
fn its_answers_go_with_their_plan() {
    let place = Place::new();
    let book = Book::new(insert);
    let world = book.world(&place.path());
    end(&trigger(&world));
    let answers = "SELECT count(*) FROM turnwheel_works";
    assert_eq!(number(&place.path(), answers), 1);
    let cleaned = world.clean(Retention::older_than(Duration::ZERO));
    let cleaned = turnwheel_runtime::completion::block_on(cleaned).unwrap().unwrap();
    assert_eq!(cleaned.plans, 1);
    assert_eq!(number(&place.path(), answers), 0);
    assert_eq!(number(&place.path(), "SELECT count(*) FROM bookings"), 1, "that is the user's own");
    world.shutdown().unwrap();
}

#[test]
fn a_step_changes_nothing_of_the_engine_and_everything_of_its_own() {
    const REFUSED: &[&str] = &[
        "INSERT INTO labels VALUES ('a', 'b', x'00')",
        "DELETE FROM labels",
        "UPDATE counts SET plans = 0",
        "DELETE FROM worlds",
        "REPLACE INTO \"Worlds\" VALUES (9, '', '', 0, x'', '', '')",
        "UPDATE meta SET value = 9",
        "DELETE FROM turnwheel_works",
        "INSERT INTO turnwheel_values VALUES (x'', x'', x'')",
        "DROP TRIGGER labels_new",
        "DROP TRIGGER Counts_Gone",
        "DROP INDEX plans_busy",
        "DROP INDEX reminders_due",
        "DROP TABLE counts",
        "ALTER TABLE worlds ADD COLUMN mine",
        "CREATE INDEX mine ON counts (plans)",
        "CREATE TRIGGER mine AFTER INSERT ON plans BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER mine AFTER INSERT ON labels BEGIN SELECT 1; END",
        "CREATE TEMP TABLE plans (id)",
        "CREATE TEMP VIEW journal AS SELECT 1",
        "CREATE TABLE turnwheel_mine (id)",
        "REINDEX plans_wake",
        "ANALYZE labels",
        "INSERT INTO own_by_trigger VALUES (1)",
    ];
    const ALLOWED: &[&str] = &[
        "CREATE TABLE own (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE INDEX own_name ON own (name)",
        "CREATE TABLE own_log (id)",
        "CREATE TRIGGER own_new AFTER INSERT ON own BEGIN INSERT INTO own_log VALUES (new.id); END",
        "CREATE VIEW own_names AS SELECT name FROM own",
        "INSERT INTO own VALUES (1, 'a')",
        "UPDATE own SET name = 'b'",
        "ALTER TABLE own ADD COLUMN more",
        "CREATE TEMP TABLE own_temp AS SELECT * FROM own",
        "DROP TABLE own_temp",
        "ANALYZE own",
        "DROP VIEW own_names",
        "DROP TRIGGER own_new",
        "DROP INDEX own_name",
        "DELETE FROM own",
        "DROP TABLE own",
    ];
    let place = Place::new();
    let book = Book::new(|db| {
        db.execute_batch(
            "CREATE TABLE own_by_trigger (id);
             CREATE TRIGGER own_by AFTER INSERT ON own_by_trigger BEGIN DELETE FROM labels; END;",
        )?;
        let wrong = |sql: &&&str| db.execute_batch(sql).is_ok();
        let taken: Vec<_> = REFUSED.iter().filter(wrong).collect();
        let right = |sql: &&&str| db.execute_batch(sql).is_err();
        let refused: Vec<_> = ALLOWED.iter().filter(right).collect();
        if taken.is_empty() && refused.is_empty() {
            return Ok(7);
        }
        Err(ActionError::new("wrong", format!("taken: {taken:?}, refused: {refused:?}"))
            .and_final())
    });
    let world = book.world(&place.path());
    let view = end(&trigger(&world));
    let step = view.run_step::<Book>().expect("it was planned");
    assert!(step.error.is_none(), "{:?}", step.error);
    assert_eq!(view.output::<Book>().expect("it reads"), 7);
    world.shutdown().expect("it ends in time");
    let objects = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'labels'";
    assert_eq!(number(&place.path(), objects), 1);
}
