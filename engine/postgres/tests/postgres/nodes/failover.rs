//! The database fails over to a synchronous standby while nodes run plans.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use turnwheel_postgres::LocalServer;

use super::{
    check_epochs, finished, has_owners, runs, trigger, until, Client, Process, LONG_LEASE,
};
use crate::server::{name, sql, start};
use crate::worlds::{check, check_chains, Chain};

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

#[test]
fn nothing_that_was_acknowledged_is_lost_when_a_synchronous_standby_takes_over() {
    let (primary, standby) = pair();
    let schema = name();
    // Both servers are named; the one that takes writes is used.
    let socket = |server: &LocalServer| {
        let url = server.url("postgres");
        url.split(['@', '/']).nth(3).expect("it has a socket").to_owned()
    };
    let hosts = [&primary, &standby].map(socket).join(",");
    let url = format!("postgres://turnwheel@{hosts}/postgres?schema={schema}");
    let folder = tempfile::tempdir().expect("a folder");
    let effects = folder.path().join("effects");
    let node =
        |name: &str| Process::start(&url, &effects, name, [LONG_LEASE, 0]).expect("it joins");
    let nodes = ["a", "b", "c"].map(node);
    let client = Client::new(&url, LONG_LEASE);
    until("every slot has an owner", || has_owners(&client));

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
