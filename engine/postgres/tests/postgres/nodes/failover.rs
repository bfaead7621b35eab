//! The database fails over to a standby while nodes run plans.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use turnwheel_engine::limits::WATCH_ENTRIES_MAX;
use turnwheel_engine::watch::WatchFilter;
use turnwheel_engine::{PlanId, PlanState, SharedStore, World};
use turnwheel_postgres::LocalServer;
use turnwheel_runtime::completion::block_on;

use super::live::{check_order, until_stopped};
use super::{
    check_epochs, finished, has_owners, runs, trigger, until, Client, Process, LONG_LEASE,
};
use crate::refusals::says;
use crate::server::{name, sql, start, store_of};
use crate::worlds::{check, check_chains, Add, Chain, Runs};

/// Plans that are acknowledged before the primary is lost.
const BEFORE: u64 = 60;
/// Plans under way at a time.
const UNDER_WAY: u64 = 16;

/// A primary whose commits wait for its standby.
fn pair() -> (LocalServer, LocalServer) {
    let primary = start(&[]);
    let standby = primary.standby("second").expect("it follows");
    let url = primary.url("postgres");
    sql(&url, "ALTER SYSTEM SET synchronous_standby_names = 'second'");
    sql(&url, "SELECT pg_reload_conf()");
    let state = "SELECT sync_state FROM pg_stat_replication";
    until("the standby is synchronous", || sql(&url, state) == ["sync"]);
    (primary, standby)
}

/// The URL of a store on two servers: the one that takes writes is used.
fn both(primary: &LocalServer, standby: &LocalServer, schema: &str) -> String {
    let socket = |server: &LocalServer| {
        let url = server.url("postgres");
        url.split(['@', '/']).nth(3).expect("it has a socket").to_owned()
    };
    let hosts = [primary, standby].map(socket).join(",");
    format!("postgres://turnwheel@{hosts}/postgres?schema={schema}")
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_a_synchronous_standby_takes_over() {
    let (primary, standby) = pair();
    let schema = name();
    let url = both(&primary, &standby, &schema);
    let folder = tempfile::tempdir().expect("a folder");
    let effects = folder.path().join("effects");
    let node =
        |name: &str| Process::start(&url, &effects, name, [LONG_LEASE, 0]).expect("it joins");
    let nodes = ["a", "b", "c"].map(node);
    let client = Client::new(&url, LONG_LEASE);
    until("every slot has an owner", || has_owners(&client));
    let mut watch = client.world.watch(WatchFilter::new().all_nodes().buffer(WATCH_ENTRIES_MAX));
    block_on(pin!(poll_fn(|cx| watch.poll_listening(cx)))).expect("no worker of a group");

    let count = AtomicU64::new(0);
    let mut plans = BTreeMap::new();
    let pause = std::thread::scope(|scope| {
        let (primary, standby, count) = (&primary, &standby, &count);
        let harming = scope.spawn(move || {
            until("plans are under way", || count.load(Ordering::SeqCst) > BEFORE);
            let begun = Instant::now();
            primary.stop().expect("it stops");
            standby.promote().expect("it is the primary now");
            // Some more are taken by the new primary.
            let before = count.load(Ordering::SeqCst);
            until("plans go on", || count.load(Ordering::SeqCst) > before + BEFORE);
            begun.elapsed()
        });
        for number in 0.. {
            plans.insert(number, trigger(&client.world, number));
            count.store(number + 1, Ordering::SeqCst);
            if harming.is_finished() {
                break;
            }
            if let Some(number) = number.checked_sub(UNDER_WAY) {
                check(&finished(&plans[&number]), number);
            }
        }
        harming.join().expect("no panic")
    });
    plans.iter().for_each(|(number, plan)| check(&finished(plan), *number));
    let told = until_stopped(&mut watch, plans.len());
    check_order(&told);
    let ended: BTreeSet<PlanId> = told
        .iter()
        .filter(|it| it.plan_state() == Some(PlanState::Stopped))
        .map(|it| it.plan)
        .collect();
    assert_eq!(ended, plans.values().map(|plan| plan.id()).collect(), "each is told");
    drop(watch);
    client.end();
    nodes.into_iter().for_each(Process::end);

    let url = format!("{}?schema={schema}", standby.url("postgres"));
    check_chains(&url);
    check_epochs(&url);
    let kept = sql(&url, &format!("SELECT count(*) FROM {schema}.plans"));
    assert_eq!(kept, [plans.len().to_string()], "a key has one plan");
    let runs = runs(&effects);
    assert_eq!(runs.len(), plans.len() * 10, "each step has run");
    let twice = runs.values().filter(|count| **count > 1).count();
    let most = runs.values().max().copied().unwrap_or_default();
    assert!(most <= 2, "a step has run {most} times");
    eprintln!("{} plans, {twice} steps have run twice, {pause:?} with a fail-over", plans.len());
}

#[test]
fn what_an_asynchronous_standby_lacks_is_told_and_nothing_is_written_behind_it() {
    let primary = start(&[]);
    let standby = primary.standby("second").expect("it follows");
    let url = both(&primary, &standby, &name());
    let lease = Duration::from_secs(1);
    let runs = Runs::default();
    let join = |name: &str| {
        let store = SharedStore::node(store_of(&url), lease).expect("it opens");
        let builder = World::builder().name(name).action(Add(runs.clone())).action(Chain);
        (builder.join(&store).expect("it joins"), store)
    };
    let trigger = |world: &World, number| world.trigger::<Chain>(number).wait();
    let (world, store) = join("one");
    let kept = trigger(&world, 0).expect("it is taken");
    check(&finished(&kept), 0);
    let (primary_url, standby_url) = (primary.url("postgres"), standby.url("postgres"));
    let behind = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn < pg_current_wal_lsn()";
    until("the standby has all", || sql(&primary_url, behind) == ["0"]);
    sql(&standby_url, "ALTER SYSTEM SET primary_conninfo = ''");
    sql(&standby_url, "SELECT pg_reload_conf()");
    let followers = "SELECT count(*) FROM pg_stat_replication";
    until("the standby is cut off", || sql(&primary_url, followers) == ["0"]);
    let lost = trigger(&world, 1).expect("it is taken");
    check(&finished(&lost), 1);

    primary.stop().expect("it stops");
    standby.promote().expect("it is the primary now");
    let refused = RefCell::new(String::new());
    until("it is told", || {
        let error = trigger(&world, 2).map(|plan| plan.id()).expect_err("nothing is taken");
        *refused.borrow_mut() = error.to_string();
        refused.borrow().contains("failed over")
    });
    says(&refused.borrow(), &["lacks the last commits", "start it again", "synchronous"]);
    drop((world, store));

    // As after a restart of the process.
    let (world, store) = join("two");
    until("the slots are its own", || {
        world.worlds().iter().any(|row| row.id == world.id() && row.slots == 1_024)
    });
    check(&finished(&world.plan(kept.id())), 0);
    let gone = world.plan(lost.id()).view().wait().expect_err("the new primary has it not");
    assert!(gone.to_string().contains(&lost.id().to_string()), "{gone}");
    check(&finished(&trigger(&world, 3).expect("it is taken")), 3);
    world.shutdown().expect("it ends");
    store.close().expect("it ends");
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let url = format!("{standby_url}?schema={schema}");
    check_chains(&url);
    check_epochs(&url);
}
