//! Nodes: processes that share a store and nothing else. Each has a simulation of its own, so each
//! has its own clock, and can be frozen, killed, cut off, and revived.

mod adoption;
mod children;
mod drains;
mod entities;
mod keys;
mod live;
mod lock_circles;
mod mail;
mod requests;
mod schedules;
mod shares;
mod slots_back;

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_engine::store::{Filter, SLOTS};
use turnwheel_engine::{
    BuildError, ConnectError, MemoryStore, Next, PlanError, PlanHandle, PlanId, PlanResult,
    PlanState, SharedStore, Store, StoreError, TriggerError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_sqlite::SqliteStore;
use turnwheel_testkit::FaultStore;

use crate::common::worlds::Net;
use crate::common::{Piece, Play, Script};
use crate::watched::Base;

const LEASE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// A process with one world.
struct Node {
    world: World,
    script: Script,
    fault: FaultStore,
    deaf: Arc<AtomicBool>,
    /// Time that its clock is behind because it is frozen.
    frozen: Duration,
    /// When it is well again.
    until: Duration,
    /// Since when it is well.
    since: Duration,
    _store: SharedStore,
    sim: Sim,
}

type Trigger = Pin<Box<dyn Future<Output = Result<PlanHandle, TriggerError>>>>;

struct Cluster {
    base: Base,
    net: Net,
    nodes: Vec<Node>,
    made: u64,
    random: u64,
    /// Triggers on their way, with the world that was asked.
    asked: Vec<(u64, Trigger)>,
    /// Whether the store carries requests, and not the net.
    is_by_mail: bool,
    taken: Vec<PlanId>,
    /// Since when each slot has an owner that is no process any more.
    orphaned: Vec<Option<(u64, Duration)>>,
}

impl Cluster {
    fn new(seed: u64, count: usize, is_broken: bool) -> Self {
        let mut cluster = Self {
            base: Base::new(is_broken),
            net: Net::default(),
            nodes: Vec::new(),
            made: 0,
            random: seed,
            asked: Vec::new(),
            is_by_mail: seed % 2 == 0,
            taken: Vec::new(),
            orphaned: vec![None; SLOTS],
        };
        (0..count).for_each(|_| cluster.start());
        cluster
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn start(&mut self) {
        self.start_at(Duration::ZERO);
    }

    /// Starts a node whose clock has gone on for so long.
    fn start_at(&mut self, time: Duration) {
        self.made += 1;
        let (sim, deaf, script) = (Sim::new(self.made), Arc::default(), Script::default());
        sim.advance(time);
        waits(&script);
        let fault = FaultStore::new(self.base.of_node(&deaf));
        let journal = sim.group("journal");
        let store = match self.is_by_mail {
            true => SharedStore::node_on(fault.clone(), &journal, LEASE),
            false => SharedStore::node_in(fault.clone(), &journal, self.net.clone(), LEASE),
        };
        let store = store.expect("it opens");
        let name = format!("node {}", self.made);
        let world = World::builder().name(name).action(Play::new(&script)).action(Piece);
        let world = world.action(children::Leaf).action(children::Crowd);
        let world = world.action(lock_circles::Locked);
        let world = world.group(&sim.group("plans")).seed(self.made << 32);
        let world = passing(&sim, world.join_later(&store)).expect("the world begins");
        let (frozen, since) = (Duration::ZERO, self.base.now());
        let until = since;
        let node = Node { world, script, fault, deaf, frozen, until, since, _store: store, sim };
        self.nodes.push(node);
    }

    fn kill(&mut self, index: usize) {
        let node = self.nodes.swap_remove(index);
        // Messages on the wire to it and from it are lost.
        self.net.cut(&node.world);
        let gone = node.world.id();
        self.asked.retain(|(world, _)| *world != gone);
    }

    /// All clocks go on, but for the frozen ones.
    fn tick(&mut self) {
        self.base.advance(TICK);
        let now = self.base.now();
        for node in &mut self.nodes {
            if node.until <= now && !node.is_well() {
                node.heal(&self.net);
                node.since = now;
            }
            if node.frozen > Duration::ZERO {
                node.frozen += TICK;
            } else {
                node.sim.advance(TICK);
            }
        }
        let mut cx = Context::from_waker(Waker::noop());
        for (world, mut trigger) in std::mem::take(&mut self.asked) {
            match trigger.as_mut().poll(&mut cx) {
                Poll::Ready(Ok(plan)) => self.taken.push(plan.id()),
                Poll::Ready(Err(_refused)) => {}
                Poll::Pending => self.asked.push((world, trigger)),
            }
        }
        self.look_for_orphans();
        self.look_for_lost_entries();
    }

    fn run(&mut self, time: Duration) {
        let end = self.base.now() + time;
        while self.base.now() < end {
            self.tick();
        }
    }

    /// The next owner of a slot finds each entry that is not in the row of its plan.
    fn look_for_lost_entries(&mut self) {
        let mut reader = self.base.memory.reader().expect("a reader");
        let mut heads = BTreeMap::new();
        for entry in reader.journal(0, usize::MAX).expect("it is read") {
            heads.insert(entry.plan, entry.seq);
        }
        let rows = reader.list(&Filter { limit: usize::MAX, ..Filter::default() });
        let rows: BTreeMap<_, _> =
            rows.expect("it lists").iter().map(|row| (row.id, row.head)).collect();
        let found: BTreeMap<_, _> = reader.behind().expect("it is read").into_iter().collect();
        for (plan, head) in heads {
            let is_in_row = rows.get(&plan).is_some_and(|row| *row >= head);
            if !is_in_row && found.get(&plan) != Some(&head) {
                let problem = format!("{plan}: nobody would find its entry {head}");
                self.base.log.lock().expect("no panic here").wrong.push(problem);
            }
        }
    }

    /// A slot whose process is gone has another owner after a lease and a heartbeat.
    fn look_for_orphans(&mut self) {
        let (now, worlds) = (self.base.now(), self.base.worlds());
        let limit = LEASE + LEASE / 4 + 3 * TICK;
        // A node that was not well for some time does not judge others.
        let is_steady =
            |node: &Node| node.is_well() && now.saturating_sub(node.since) > 2 * LEASE + limit;
        let somebody = self.nodes.iter().any(is_steady);
        for slot in 0..SLOTS {
            let owner = worlds.owner(slot);
            let is_there = self.nodes.iter().any(|node| node.world.id() == owner);
            let known = self.orphaned[slot].filter(|known| known.0 == owner);
            self.orphaned[slot] = (!is_there).then(|| known.unwrap_or((owner, now)));
            let Some((_, since)) = self.orphaned[slot].filter(|_| somebody) else { continue };
            if now - since > limit {
                let problem = format!("slot {slot} is of {owner}, which is gone since {since:?}");
                self.base.log.lock().expect("no panic here").wrong.push(problem);
            }
        }
    }

    fn perform(&mut self, index: usize, text: &str) -> PlanId {
        self.trigger(index, text);
        self.run(5 * TICK);
        *self.taken.last().expect("it is taken")
    }

    fn trigger(&mut self, index: usize, text: &str) {
        let world = self.nodes[index].world.clone();
        let id = world.id();
        let trigger = Box::pin(world.trigger::<Piece>(text.to_owned()).into_future());
        self.asked.push((id, trigger));
    }

    /// Something happens.
    fn trouble(&mut self) {
        let count = self.nodes.len() as u64;
        let index = usize::try_from(self.draw(count)).expect("few");
        let long = LEASE.mul_f64(0.25 + self.draw(10) as f64 / 4.0);
        let until = self.base.now() + long;
        match self.draw(8) {
            0 if count > 1 => self.kill(index),
            1 if count < 5 => self.start(),
            2 => self.nodes[index].freeze(until),
            3 => {
                let node = &mut self.nodes[index];
                node.until = until;
                node.fault.fail(StoreError::Failed("cut off".to_owned()));
                node.fault.fail_reads(StoreError::Failed("cut off".to_owned()));
                self.net.cut(&node.world);
            }
            4 => self.nodes[index].is_deaf_until(until),
            5 => {
                let node = &self.nodes[index];
                let step = Duration::from_secs(1_800);
                let wall = node.sim.wall();
                node.sim.set_wall(if long > LEASE { wall + step } else { wall - step });
            }
            6 => {
                let fault = &self.nodes[index].fault;
                fault.lose_answer_at(fault.commits() + 1);
            }
            _ => self.net.cut(&self.nodes[index].world),
        }
    }

    fn rows(&self) -> Vec<(PlanId, PlanState, PlanResult)> {
        let mut reader = self.base.memory.reader().expect("a reader");
        let rows = reader.list(&Filter { limit: usize::MAX, ..Filter::default() });
        let rows = rows.expect("it lists").into_iter();
        rows.map(|row| (row.id, row.state, row.result)).collect()
    }

    fn wrong(&self) -> Vec<String> {
        self.base.log.lock().expect("no panic here").wrong.clone()
    }
}

impl Node {
    fn is_well(&self) -> bool {
        self.until <= self.since
    }

    fn freeze(&mut self, until: Duration) {
        if self.frozen == Duration::ZERO {
            self.frozen = Duration::from_nanos(1);
        }
        self.until = until;
    }

    fn is_deaf_until(&mut self, until: Duration) {
        self.deaf.store(true, Ordering::Relaxed);
        self.until = until;
    }

    fn heal(&mut self, net: &Net) {
        self.fault.heal();
        self.deaf.store(false, Ordering::Relaxed);
        net.join(&self.world);
        self.until = Duration::ZERO;
        let behind = std::mem::take(&mut self.frozen);
        if self.world.id() % 2 == 0 {
            // The clock of a stopped process goes on; that of a frozen machine stands still.
            self.sim.clock().advance(behind);
        }
    }
}

/// The part «w» waits for its own event, and «s» for one that nobody sends.
fn waits(script: &Script) {
    script.on("s", |step| Ok(step.wait_for_event("nothing")));
    script.on("w", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        step.event_after(Duration::from_secs(2), &1)?;
        Ok(step.wait_for_event("its time"))
    });
}

fn passing<F: Future>(sim: &Sim, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    for _ in 0..10_000 {
        match sim.block_on(future.as_mut()) {
            Ok(output) => return output,
            Err(stuck) => assert!(sim.advance_to_next_timer(), "nothing will happen: {stuck}"),
        }
    }
    panic!("nothing happens for a long time");
}

/// The end of a run with troubles.
struct Ended {
    wrong: Vec<String>,
    /// Entries that were sent under an old epoch.
    refused: usize,
    /// Plans whose triggers were acknowledged.
    taken: usize,
}

fn troubled(seed: u64, count: usize, is_broken: bool) -> Ended {
    let mut cluster = Cluster::new(seed, count, is_broken);
    for round in 0..300 {
        if cluster.draw(4) == 0 {
            let index = usize::try_from(cluster.draw(cluster.nodes.len() as u64)).expect("few");
            cluster.trigger(index, ["a b", "w", "a w b", "a|w"][round % 4]);
        }
        if cluster.draw(12) == 0 {
            cluster.trouble();
        }
        cluster.tick();
        if is_broken && !cluster.wrong().is_empty() {
            break;
        }
    }
    for node in &mut cluster.nodes {
        node.heal(&cluster.net);
        node.since = cluster.base.now();
    }
    let mut wrong = Vec::new();
    for _ in 0..(if is_broken { 0 } else { 600 }) {
        cluster.tick();
        let rows = cluster.rows();
        let is_open =
            |plan: &&PlanId| !rows.contains(&(**plan, PlanState::Stopped, PlanResult::Success));
        wrong = cluster.taken.iter().filter(is_open).map(|plan| format!("{plan}: open")).collect();
        if wrong.is_empty() {
            break;
        }
    }
    wrong.extend(cluster.wrong());
    let refused = cluster.base.log.lock().expect("no panic here").refused;
    Ended { wrong, refused, taken: cluster.taken.len() }
}

#[test]
fn nodes_in_trouble_lose_nothing_and_write_nothing_under_an_old_epoch() {
    // More by command: TURNWHEEL_SEEDS=1000.
    let seeds = std::env::var("TURNWHEEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let (mut refused, mut taken) = (0, 0);
    for seed in 1..=seeds.unwrap_or(8) {
        let count = 2 + usize::try_from(seed % 4).expect("few");
        let ended = troubled(seed, count, false);
        assert!(ended.wrong.is_empty(), "seed {seed}: {:#?}", ended.wrong);
        refused += ended.refused;
        taken += ended.taken;
    }
    assert!(refused > 0, "some wrote too late");
    assert!(taken > 100, "{taken} plans were taken");
}

#[test]
fn a_store_that_looks_at_no_epoch_is_found() {
    let found = (1..=40).any(|seed| !troubled(seed, 3, true).wrong.is_empty());
    assert!(found);
}

#[test]
fn the_plans_of_a_dead_node_go_on_elsewhere_after_a_lease() {
    let mut cluster = Cluster::new(7, 3, false);
    cluster.trigger(0, "a w b");
    cluster.run(Duration::from_secs(1));
    let plan = cluster.taken[0];
    assert_eq!(cluster.rows()[0].1, PlanState::Running);
    cluster.kill(0);
    cluster.run(LEASE + LEASE / 4 + 3 * TICK);
    let worlds = cluster.base.worlds();
    assert_eq!(worlds.rows.len(), 2, "{worlds:?}");
    assert_eq!(worlds.free().len(), 0);
    cluster.run(Duration::from_secs(3));
    assert_eq!(cluster.rows(), [(plan, PlanState::Stopped, PlanResult::Success)]);
    let said: Vec<String> = cluster.nodes.iter().flat_map(|node| node.script.said()).collect();
    assert_eq!(said, ["w", "b", "finalize a", "finalize w", "finalize b"], "«a» was over");
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn a_node_that_was_frozen_for_too_long_writes_nothing_and_comes_back() {
    let mut cluster = Cluster::new(7, 2, false);
    cluster.trigger(0, "a w b");
    cluster.run(Duration::from_secs(1));
    let number = cluster.nodes[0].world.id();
    let until = cluster.base.now() + 3 * LEASE;
    cluster.nodes[0].freeze(until);
    cluster.run(2 * LEASE);
    assert_eq!(cluster.base.worlds().rows.len(), 1, "it is taken for dead");
    cluster.run(2 * LEASE);
    let worlds = cluster.base.worlds();
    let slots = |world| worlds.find(world).map(|row| row.slots.len());
    let others = cluster.nodes[1].world.id();
    assert!(slots(number) > Some(500), "{worlds:?}");
    assert!(slots(others) > Some(500), "{worlds:?}");
    assert_eq!(cluster.rows()[0].1, PlanState::Stopped);
    cluster.trigger(0, "a");
    cluster.run(Duration::from_secs(1));
    let done = |row: &(PlanId, PlanState, PlanResult)| row.2 == PlanResult::Success;
    assert_eq!(cluster.rows().iter().filter(|row| done(row)).count(), 2);
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn a_node_that_does_not_reach_the_store_refuses_new_plans_within_its_lease() {
    let mut cluster = Cluster::new(7, 2, false);
    cluster.run(Duration::from_secs(1));
    cluster.nodes[0].fault.fail_reads(StoreError::Failed("cut off".to_owned()));
    let before = cluster.nodes[0].fault.commits();
    cluster.run(LEASE);
    cluster.trigger(0, "a");
    cluster.run(TICK);
    assert!(cluster.asked.is_empty() && cluster.taken.is_empty(), "it is refused");
    assert_eq!(cluster.nodes[0].fault.commits(), before, "it did not try");
}

#[test]
fn a_plan_of_a_node_to_which_nothing_leads_is_told_with_its_owner() {
    let mut cluster = Cluster::new(7, 1, false);
    cluster.trigger(0, "w");
    cluster.run(Duration::from_secs(1));
    // The second node has no way to the first.
    cluster.net = Net::default();
    cluster.start();
    let (plan, owner) = (cluster.taken[0], cluster.nodes[0].world.id());
    assert_eq!(cluster.nodes[1].world.owner_of(plan), Some(owner), "it is under way there");
    let plan = cluster.nodes[1].world.plan(plan);
    let (mut finished, mut view) =
        (Box::pin(plan.finished().into_future()), Box::pin(plan.view().into_future()));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(
        finished.as_mut().poll(&mut cx).is_pending() && view.as_mut().poll(&mut cx).is_pending()
    );
    cluster.nodes[0].script.on("w", |step| Ok(step.wait_for_event("nobody")));
    cluster.run(3 * LEASE);
    let Poll::Ready(Err(error)) = finished.as_mut().poll(&mut cx) else { panic!("it is silent") };
    let PlanError::Connect { error, .. } = error else { panic!("{error}") };
    assert!(matches!(error, ConnectError::Unreachable { world, .. } if world == owner), "{error}");
    let Poll::Ready(Ok(view)) = view.as_mut().poll(&mut cx) else { panic!("the store has it") };
    assert_eq!(view.state, PlanState::Running);
}

#[test]
fn requests_reach_another_node_by_the_store() {
    let mut cluster = Cluster::new(8, 2, false);
    assert!(cluster.is_by_mail);
    let plans: Vec<PlanId> = ["w", "b"].into_iter().map(|text| cluster.perform(0, text)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    for plan in plans {
        let plan = cluster.nodes[1].world.plan(plan);
        let mut finished = Box::pin(plan.finished().into_future());
        assert!(finished.as_mut().poll(&mut cx).is_pending());
        cluster.run(Duration::from_secs(4));
        let Poll::Ready(Ok(view)) = finished.as_mut().poll(&mut cx) else { panic!("it is silent") };
        assert_eq!(view.result(), PlanResult::Success);
    }
    // The node that is asked runs nothing itself.
    assert_eq!(cluster.nodes[1].script.said(), [""; 0]);
    assert_eq!(cluster.net.carried(), [""; 0]);
}

#[test]
fn slots_come_to_equal_shares_when_nodes_come() {
    let mut cluster = Cluster::new(7, 1, false);
    for count in 2..=4 {
        cluster.start();
        cluster.run(Duration::from_secs(10));
        let worlds = cluster.base.worlds();
        let counts: Vec<usize> = worlds.rows.iter().map(|row| row.slots.len()).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(
            counts.len() == count && most.zip(least).is_some_and(|(m, l)| m - l <= 2),
            "{counts:?}"
        );
    }
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn a_store_of_one_process_takes_no_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::new(folder.path().join("plans.db"));
    let refused = SharedStore::node(store, LEASE).expect_err("it is for one process");
    assert!(matches!(refused, BuildError::OneProcess(_)), "{refused}");
    let refused = SharedStore::node(MemoryStore::new(), TICK / 2).expect_err("too short");
    assert!(matches!(refused, BuildError::LeaseTooShort { .. }), "{refused}");
}
