//! Live events of all nodes: a commit that is late, listeners that are slow, many of them, and
//! nodes that are killed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched, What};
use turnwheel_engine::{
    Input, PlanId, PlanResult, PlanState, SharedStore, Store, StoreError, TriggerError,
    TriggerOptions, World,
};
use turnwheel_runtime::completion::block_on;

use super::{finished, has_owners, trigger, until, Client, Process, LONG_LEASE, PATIENCE};
use crate::server::{name, sql, start, store_of, url};
use crate::worlds::{check, Add, Chain, Runs};

/// Listeners at a time.
const MANY: usize = 100;

/// Seconds of the lease of a node that writes nothing by itself during a test.
const CALM_LEASE: u64 = 3_600;

/// Plans of a test.
const PLANS: u64 = 60;

/// A connection that keeps its transaction.
struct Session {
    runtime: Runtime,
    client: tokio_postgres::Client,
}

impl Session {
    fn open(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let base = url.split('?').next().expect("a text has a beginning").to_owned();
        let client = runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&base, NoTls).await.expect("a server");
            tokio::spawn(connection);
            client
        });
        Self { runtime, client }
    }

    fn run(&self, text: &str) {
        self.runtime.block_on(self.client.batch_execute(text)).expect("a statement");
    }
}

/// A node in this process.
struct Node {
    world: World,
    store: SharedStore,
}

impl Node {
    fn new(url: &str, name: &str) -> Self {
        Self::with_lease(url, name, LONG_LEASE)
    }

    fn with_lease(url: &str, name: &str, seconds: u64) -> Self {
        let store = SharedStore::node(store_of(url), Duration::from_secs(seconds));
        let store = store.expect("it opens");
        let builder = World::builder().name(name).action(Add(Runs::default())).action(Chain);
        Self { world: builder.join(&store).expect("it joins"), store }
    }

    fn watch(&self, filter: WatchFilter) -> Watch {
        let mut watch = self.world.watch(filter.all_nodes());
        block_on(pin!(poll_fn(|cx| watch.poll_listening(cx)))).expect("no worker of a group");
        watch
    }

    fn end(self) {
        self.world.shutdown().expect("it ends");
        self.store.close().expect("it ends");
    }
}

/// The next thing that a listener is told.
fn told(watch: &mut Watch) -> Result<Watched, StoreError> {
    let mut cx = Context::from_waker(Waker::noop());
    let (_never, timer) = channel::<()>();
    let begun = Instant::now();
    loop {
        if let Poll::Ready(next) = pin!(watch.next()).poll(&mut cx) {
            return next.expect("it goes on");
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is told for {PATIENCE:?}");
        let _elapsed = timer.recv_timeout(Duration::from_millis(5));
    }
}

fn next(watch: &mut Watch) -> Happening {
    match told(watch) {
        Ok(Watched::Happened(happening)) => *happening,
        other => panic!("{other:?}"),
    }
}

/// What happens until so many plans have stopped.
pub(crate) fn until_stopped(watch: &mut Watch, count: usize) -> Vec<Happening> {
    let (mut told, mut ended) = (Vec::new(), 0);
    while ended < count {
        let happening = next(watch);
        ended += usize::from(happening.plan_state() == Some(PlanState::Stopped));
        told.push(happening);
    }
    told
}

/// Each is told once, and each plan in the order of its states.
pub(crate) fn check_order(told: &[Happening]) {
    let mut states: BTreeMap<PlanId, PlanState> = BTreeMap::new();
    for pair in told.windows(2) {
        assert!(pair[0].cursor < pair[1].cursor, "{} and {}", pair[0], pair[1]);
    }
    for happening in told {
        let What::Plan { from, to, .. } = happening.what else { continue };
        assert_eq!(states.insert(happening.plan, to), from, "{happening}");
    }
}

fn cursors(told: &[Happening]) -> Vec<Cursor> {
    told.iter().map(|happening| happening.cursor).collect()
}

/// A plan whose first commit lasts until the lock 7 is free, after it has taken its place.
fn late_commits(schema: &str, plan: &str) -> String {
    format!(
        "CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF position('{plan}'::bytea IN NEW.records) > 0 THEN
                PERFORM pg_advisory_xact_lock_shared(7);
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER late AFTER INSERT ON {schema}.journal
            FOR EACH ROW EXECUTE FUNCTION {schema}.wait()"
    )
}

/// The same as long as the table `gate` has a row, which outlives a crash of the database.
fn gated_commits(schema: &str, plan: &str) -> String {
    format!(
        "CREATE TABLE {schema}.gate (held integer);
        INSERT INTO {schema}.gate VALUES (1);
        CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            WHILE position('{plan}'::bytea IN NEW.records) > 0
                AND EXISTS (SELECT FROM {schema}.gate) LOOP PERFORM pg_sleep(0.05);
            END LOOP;
            RETURN NULL;
        END $$;
        CREATE TRIGGER late AFTER INSERT ON {schema}.journal
            FOR EACH ROW EXECUTE FUNCTION {schema}.wait()"
    )
}

#[test]
fn entry_of_a_late_commit_is_told_before_those_that_became_visible_earlier() {
    let server = start(&[]);
    let schema = name();
    let url = format!("{}?schema={schema}", server.url("postgres"));
    let (one, two) = (Node::new(&url, "one"), Node::new(&url, "two"));
    until("both have slots", || one.world.worlds().iter().all(|world| world.slots > 0));
    let mut watches = [one.watch(WatchFilter::new()), two.watch(WatchFilter::new())];
    // Others than writers of the store: they hold up nothing, as long as they last.
    let foreign = Session::open(&url);
    foreign
        .run("BEGIN; CREATE TABLE public.other (a integer); INSERT INTO public.other VALUES (1)");
    let holder = Session::open(&url);
    holder.run(&late_commits(&schema, "a-late-one"));
    holder.run("SELECT pg_advisory_lock(7)");
    let options = TriggerOptions::new().by("a-late-one");
    let late = one.world.trigger_with::<Chain>(options, 1);
    let late = std::thread::spawn(move || late.wait().expect("it is taken"));
    let waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    until("its commit has a place and lasts", || sql(&url, waits) == ["1"]);
    let store = store_of(&url);
    let mut reader = store.reader().expect("a reader");
    let mut under_way = || reader.newest().expect("it reads").under_way;
    let one_lasts = RefCell::new(|| under_way().len() == 1);
    until("the reader names the one that lasts", || one_lasts.borrow_mut()());
    let quick = two.world.trigger::<Chain>(2).wait().expect("it is taken");
    check(&finished(&quick), 2);
    // The other node's entries are in the journal, behind a place that is open.
    let seen = sql(&url, &format!("SELECT count(*) FROM {schema}.journal"));
    assert!(seen[0].parse::<u64>().expect("a number") > 3, "{seen:?}");
    let mut cx = Context::from_waker(Waker::noop());
    let (_never, timer) = channel::<()>();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        for watch in &mut watches {
            let now = pin!(watch.next()).poll(&mut cx);
            assert!(now.is_pending(), "{now:?}");
        }
        let _elapsed = timer.recv_timeout(Duration::from_millis(20));
    }
    holder.run("SELECT pg_advisory_unlock(7)");
    let late = late.join().expect("no panic");
    check(&finished(&late), 1);
    let told = watches.each_mut().map(|watch| until_stopped(watch, 2));
    told.iter().for_each(|told| check_order(told));
    assert_eq!(cursors(&told[0]), cursors(&told[1]));
    assert_eq!(told[0][0].plan, late.id(), "its place is the first one");
    assert!(told[0].iter().any(|happening| happening.plan == quick.id()));
    let mut again = two.watch(WatchFilter::new().after(Cursor::START));
    assert_eq!(cursors(&until_stopped(&mut again, 2)), cursors(&told[0]));
    let none_is_left = RefCell::new(|| under_way().is_empty());
    until("no write is under way", || none_is_left.borrow_mut()());
    foreign.run("ROLLBACK");
    one.end();
    two.end();
}

/// As after a loss of power: the place of a commit that was under way is given out again.
#[test]
fn entry_whose_place_was_given_out_before_a_crash_of_the_database_is_told() {
    // Uncommitted writes do not get to disk by the work of others.
    let server = start(&[
        "wal_writer_delay = 10s",
        "wal_level = minimal",
        "max_wal_senders = 0",
        "full_page_writes = off",
        "autovacuum = off",
    ]);
    let schema = name();
    let url = format!("{}?schema={schema}", server.url("postgres"));
    // A heartbeat would write to disk which places were given out.
    let node = Node::with_lease(&url, "one", CALM_LEASE);
    until("it has slots", || node.world.worlds().iter().all(|world| world.slots > 0));
    let mut watch = node.watch(WatchFilter::new());
    check(&finished(&trigger(&node.world, 1)), 1);
    let before = until_stopped(&mut watch, 1);
    let rows = format!("SELECT count(*) FROM {schema}.plans WHERE state = 'stopped'");
    until("its row is written", || sql(&url, &rows) == ["1"]);
    sql(&url, &gated_commits(&schema, "a-late-one"));
    // Full pages of the log go to disk by themselves: the next one is empty. Numbers of places are
    // on disk ahead of their use, but for those after a checkpoint.
    sql(&url, "SELECT pg_switch_wal()");
    sql(&url, "CHECKPOINT");
    let trigger_late = || {
        let options = TriggerOptions::new().by("a-late-one");
        let late = node.world.trigger_with::<Chain>(options, 2);
        std::thread::spawn(move || late.wait())
    };
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let is_held = || until("its commit has a place and lasts", || sql(&url, waits) == ["1"]);
    // Two looks: the first one may have begun before.
    let looks = || {
        for _ in 0..2 {
            let now = sql(&url, "SELECT clock_timestamp()").remove(0);
            let looked = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle'
                    AND query LIKE '%pg_locks%' AND query_start > '{now}'"
            );
            until("the feed has looked", || sql(&url, &looked) == ["1"]);
        }
    };
    let lost = trigger_late();
    is_held();
    let place = sql(&url, &format!("SELECT last_value FROM {schema}.place")).remove(0);
    looks();
    server.stop().expect("it stops");
    server.resume().expect("it starts");
    let lost = lost.join().expect("no panic").map(|plan| plan.id());
    assert!(matches!(lost, Err(TriggerError::Store(_))), "{lost:?}");
    let late = trigger_late();
    is_held();
    looks();
    sql(&url, &format!("DELETE FROM {schema}.gate"));
    let late = late.join().expect("no panic").expect("it is taken");
    check(&finished(&late), 2);
    let told = until_stopped(&mut watch, 1);
    let first = format!("SELECT min(seq) FROM {schema}.journal WHERE plan = '{}'", late.id());
    assert_eq!(sql(&url, &first), [&*place], "its place is given out again");
    assert_eq!(told[0].cursor.seq.to_string(), place, "its first entry is told");
    let all: Vec<Happening> = before.into_iter().chain(told).collect();
    check_order(&all);
    let mut again = node.watch(WatchFilter::new().after(Cursor::START));
    assert_eq!(cursors(&until_stopped(&mut again, 2)), cursors(&all));
    node.end();
}

#[test]
fn plans_of_killed_nodes_are_told_once_and_cursors_go_on_at_other_nodes() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node =
        |name: &str| Process::start(&url, &effects, name, [LONG_LEASE, 0]).expect("it joins");
    let mut nodes: Vec<Process> = ["a", "b", "c"].map(node).into();
    let client = Client::new(&url, LONG_LEASE);
    let mine = Node::new(&url, "mine");
    until("every slot has an owner", || has_owners(&client));
    let mut watch = mine.watch(WatchFilter::new().after(Cursor::START));
    let count = usize::try_from(PLANS).expect("few");
    let told = std::thread::scope(|scope| {
        let watching = scope.spawn(|| until_stopped(&mut watch, count));
        let mut plans = Vec::new();
        for number in 0..PLANS {
            plans.push((number, trigger(&client.world, number)));
            if number == PLANS / 2 {
                nodes.remove(0).kill();
            }
        }
        plans.iter().for_each(|(number, plan)| check(&finished(plan), *number));
        watching.join().expect("no panic")
    });
    check_order(&told);
    drop(watch);
    // The cursor of one world goes on in another one, wherever it is.
    let other = Node::new(&url, "other");
    for place in [0, told.len() / 3, told.len() - 2] {
        let after = told[place].cursor;
        let rest = &told[place + 1..];
        let ended = |told: &[Happening]| {
            told.iter().filter(|it| it.plan_state() == Some(PlanState::Stopped)).count()
        };
        let mut watch = other.watch(WatchFilter::new().after(after));
        assert_eq!(cursors(&until_stopped(&mut watch, ended(rest))), cursors(rest));
    }
    other.end();
    mine.end();
    nodes.into_iter().for_each(Process::end);
    client.end();
}

#[test]
fn many_listeners_and_slow_ones_are_told_the_same() {
    let url = url();
    let (one, two) = (Node::new(&url, "one"), Node::new(&url, "two"));
    until("both have slots", || one.world.worlds().iter().all(|world| world.slots > 0));
    let mut many: Vec<Watch> = (0..MANY).map(|_| two.watch(WatchFilter::new())).collect();
    let mut slow = two.watch(WatchFilter::new().buffer(4));
    let mut catching_up = one.watch(WatchFilter::new().buffer(4).catching_up());
    for number in 0..20 {
        let world = if number % 2 == 0 { &one.world } else { &two.world };
        check(&finished(&trigger(world, number)), number);
    }
    let told = until_stopped(&mut many[0], 20);
    check_order(&told);
    for watch in &mut many[1..] {
        assert_eq!(cursors(&until_stopped(watch, 20)), cursors(&told));
    }
    assert_eq!(cursors(&until_stopped(&mut catching_up, 20)), cursors(&told));
    let missed = self::told(&mut slow).expect("it reads");
    let Watched::Missed { entries, .. } = missed else { panic!("{missed:?}") };
    assert!(entries > 20, "{entries}");
    slow.catch_up();
    assert_eq!(cursors(&until_stopped(&mut slow, 20)), cursors(&told));
    one.end();
    two.end();
}

#[test]
fn idle_node_looks_for_events_only_while_somebody_listens() {
    let server = start(&[]);
    let schema = name();
    let url = format!("{}?schema={schema}", server.url("postgres"));
    let node = Node::new(&url, "one");
    until("it has slots", || node.world.worlds().iter().all(|world| world.slots > 0));
    // Each look finds the newest entry by this index, and what else reads it is rare.
    let looks = || {
        let text = format!("SELECT pg_stat_get_numscans('{schema}.journal_pkey'::regclass)");
        sql(&url, &text)[0].parse::<u64>().expect("a number")
    };
    let during = |seconds: u64| {
        let (_never, timer) = channel::<()>();
        let before = looks();
        let _elapsed = timer.recv_timeout(Duration::from_secs(seconds));
        looks() - before
    };
    until("the start is over", || during(3) == 0);
    let watch = node.watch(WatchFilter::new());
    until("looks are counted", || during(2) > 2);
    let watched = during(6);
    assert!((12..=30).contains(&watched), "{watched} looks in six seconds");
    drop(watch);
    until("nobody looks any more", || during(3) == 0);
    node.end();
}

#[test]
fn entry_that_lacks_its_large_value_is_left_out_and_others_are_told() {
    let server = start(&[]);
    let schema = name();
    let url = format!("{}?schema={schema}", server.url("postgres"));
    let (one, two) = (Node::new(&url, "one"), Node::new(&url, "two"));
    until("both have slots", || one.world.worlds().iter().all(|world| world.slots > 0));
    let mut live = two.watch(WatchFilter::new());
    sql(
        &url,
        &format!(
            "CREATE FUNCTION {schema}.lose() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RETURN NULL; END $$;
            CREATE TRIGGER lost BEFORE INSERT ON {schema}.large_values
                FOR EACH ROW EXECUTE FUNCTION {schema}.lose()"
        ),
    );
    let large: Vec<Input<u64>> = (0..40_000).map(Input::from).collect();
    let damaged = one.world.trigger::<Add>(large).wait().expect("it is taken");
    assert_eq!(finished(&damaged).result(), PlanResult::Success, "it is whole in memory");
    let whole = trigger(&one.world, 5);
    check(&finished(&whole), 5);
    let after_it = |watch: &mut Watch| {
        let (mut of_whole, mut wrong) = (Vec::new(), Vec::new());
        loop {
            match told(watch) {
                Ok(Watched::Happened(it)) if it.plan == whole.id() => {
                    let is_over = it.plan_state() == Some(PlanState::Stopped);
                    of_whole.push(*it);
                    if is_over {
                        return (of_whole, wrong);
                    }
                }
                Ok(_) => {}
                Err(error @ StoreError::Corrupt(_)) => wrong.push(error.to_string()),
                Err(error) => panic!("{error}"),
            }
        }
    };
    let (of_whole, wrong) = after_it(&mut live);
    check_order(&of_whole);
    assert!(!wrong.is_empty(), "what follows the entry is not understood without it");
    let mut again = two.watch(WatchFilter::new().after(Cursor::START));
    let (from_store, wrong) = after_it(&mut again);
    assert_eq!(cursors(&from_store), cursors(&of_whole));
    assert!(wrong.iter().any(|wrong| wrong.contains(&damaged.id().to_string())), "{wrong:?}");
    one.end();
    two.end();
}

/// As after a fail-over to a standby that lacked the last commits.
#[test]
fn listeners_end_when_the_database_lacks_entries_that_they_were_told() {
    let server = start(&[]);
    let schema = name();
    let url = format!("{}?schema={schema}", server.url("postgres"));
    let node = Node::new(&url, "one");
    until("it has slots", || node.world.worlds().iter().all(|world| world.slots > 0));
    let mut watch = node.watch(WatchFilter::new());
    check(&finished(&trigger(&node.world, 1)), 1);
    let last = until_stopped(&mut watch, 1).pop().expect("it has ended").cursor;
    sql(
        &url,
        &format!("DELETE FROM {schema}.journal WHERE seq > 1; SELECT setval('{schema}.place', 1)"),
    );
    let ended = |watch: &mut Watch| {
        let next = pin!(watch.next()).poll(&mut Context::from_waker(Waker::noop()));
        matches!(next, Poll::Ready(None))
    };
    let watch = RefCell::new(watch);
    until("the stream ends", || ended(&mut watch.borrow_mut()));
    let newest = block_on(pin!(node.world.newest_cursor())).expect("no worker of a group");
    assert!(newest.expect("it reads") < last, "its place is recognised as one that is not there");
    node.end();
}
