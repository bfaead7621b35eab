//! Nodes are replaced one after the other while a client triggers plans: nothing fails, is lost, or
//! runs twice. And a node that is killed: what is due there goes on elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnwheel_engine::{PlanHandle, PlanResult};

use super::{
    check_epochs, has_owners, runs, trigger_until, until, Client, Listen, Process, LONG_LEASE,
    NODES, PATIENCE,
};
use crate::server::{name, sql, start};
use crate::worlds::{check, check_chains, Chain};

/// Plans under way at a time.
const UNDER_WAY: usize = 16;

/// Waits until each of the nodes has its share.
fn are_shared(client: &Client) {
    until("slots are shared", || {
        let worlds = client.world.worlds();
        let shares = worlds.iter().filter(|world| world.slots > 1_024 / NODES - 64);
        shares.count() == NODES
    });
}

#[test]
fn a_rolling_restart_fails_no_request_and_runs_no_step_twice() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node =
        |name: &str| Process::start(&url, &effects, name, [LONG_LEASE, 0]).expect("it joins");
    let mut nodes: Vec<Process> = ["a", "b", "c"].map(node).into();
    let client = Client::new(&url, LONG_LEASE);
    are_shared(&client);
    let is_over = AtomicBool::new(false);
    let mut plans: Vec<PlanHandle> = Vec::new();
    let mut longest = Duration::ZERO;
    std::thread::scope(|scope| {
        let (client, is_over) = (&client, &is_over);
        let replacing = scope.spawn(move || {
            for _ in 0..NODES {
                let victim = nodes.remove(0);
                let (name, begun) = (victim.name.clone(), Instant::now());
                victim.end();
                eprintln!("{name} has ended after {:?}", begun.elapsed());
                nodes.push(node(&name));
                are_shared(client);
            }
            is_over.store(true, Ordering::SeqCst);
            nodes
        });
        while !is_over.load(Ordering::SeqCst) || plans.len() < UNDER_WAY {
            let number = plans.len() as u64;
            let begun = Instant::now();
            let plan = client.world.trigger_once::<Chain>(format!("chain {number}"), number);
            plans.push(plan.wait().expect("no trigger fails"));
            longest = longest.max(begun.elapsed());
            // At most so many are under way.
            if let Some(number) = plans.len().checked_sub(UNDER_WAY) {
                check(&plans[number].finished().wait().expect("no wait fails"), number as u64);
            }
        }
        for (number, plan) in plans.iter().enumerate() {
            check(&plan.finished().wait().expect("no wait fails"), number as u64);
        }
        let nodes = replacing.join().expect("no panic");
        nodes.into_iter().for_each(Process::end);
    });
    client.end();
    check_chains(&url);
    check_epochs(&url);
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let kept = sql(&url, &format!("SELECT count(*) FROM {schema}.plans"));
    assert_eq!(kept, [plans.len().to_string()], "a key has one plan");
    let runs = runs(&effects);
    assert_eq!(runs.len(), plans.len() * 10, "each step has run");
    let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    eprintln!("{} plans, the longest trigger took {longest:?}", plans.len());
}

#[test]
fn a_node_drains_by_the_word_of_another_while_its_plans_wait_for_events() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node =
        |name: &str| Process::start(&url, &effects, name, [LONG_LEASE, 0]).expect("it joins");
    let nodes: Vec<Process> = ["a", "b", "c"].map(node).into();
    let client = Client::new(&url, LONG_LEASE);
    are_shared(&client);
    let plans: Vec<PlanHandle> =
        (0..12).map(|_| client.world.trigger::<Listen>(()).wait().expect("it is taken")).collect();
    let gone = nodes[1].world;
    assert!(client.world.drain_node(gone).wait().expect("the store works"));
    until("the node has no slot", || {
        let worlds = client.world.worlds();
        worlds.iter().any(|world| world.id == gone && world.slots == 0 && world.is_draining())
    });
    assert!(has_owners(&client));
    for plan in &plans {
        assert_ne!(client.world.owner_of(plan.id()), Some(gone));
        let view = plan.view().wait().expect("its new owner answers");
        let step = view.steps.last().expect("it waits").id;
        let told = client.world.event(plan.id(), step, None, &"on");
        told.wait().expect("no worker waits").expect("it is taken");
        assert_eq!(plan.finished().wait().expect("it ends").result(), PlanResult::Success);
    }
    client.end();
    nodes.into_iter().for_each(Process::end);
    check_epochs(&url);
}

#[test]
fn plans_of_a_killed_node_go_on_after_its_lease() {
    const LEASE: u64 = 3;
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node = |name: &str| Process::start(&url, &effects, name, [LEASE, 0]).expect("it joins");
    let mut nodes: Vec<Process> = ["a", "b", "c"].map(node).into();
    let client = Client::new(&url, LEASE);
    are_shared(&client);
    let listen = |number| trigger_until::<Listen>(&client.world, format!("listen {number}"), ());
    let plans: Vec<PlanHandle> = (0..9).map(listen).collect();
    let killed = nodes.remove(0);
    let gone = killed.world;
    let of_it = |plan: &&PlanHandle| client.world.owner_of(plan.id()) == Some(gone);
    let orphans: Vec<&PlanHandle> = plans.iter().filter(of_it).collect();
    assert!(!orphans.is_empty(), "nodes take turns");
    let steps: Vec<_> = orphans
        .iter()
        .map(|plan| plan.view().wait().expect("it answers").steps.last().expect("it waits").id)
        .collect();
    let begun = Instant::now();
    killed.kill();
    for (plan, step) in orphans.iter().zip(steps) {
        // With an id: it may be sent again, and is taken once.
        let told = client.world.event(plan.id(), step, Some("1"), &"on");
        told.wait().expect("no worker waits").expect("its next owner takes it");
        assert_eq!(plan.finished().wait().expect("it ends").result(), PlanResult::Success);
    }
    eprintln!("plans of a killed node went on {:?} after it", begun.elapsed());
    assert!(begun.elapsed() < PATIENCE);
    client.end();
    nodes.into_iter().for_each(Process::end);
    check_epochs(&url);
}
