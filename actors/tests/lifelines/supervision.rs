//! Supervisors: order, strategies, limits, pauses, escalation, and factories that misbehave.

#![expect(clippy::result_large_err, reason = "a refused spawn gives the actor back")]

use std::convert::Infallible;
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::supervise::{
    ChildError, ChildRef, EscalatedFailure, ListChildren, RestartKind, StartChild, StopChild,
};
use turnwheel_actors::{
    Actor, Address, ChildSpec, Context, Exit, Handler, Restart, Strategy, Supervisor, System,
    TimerError, Timing,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Backoff, Failure, Group, Late, Phase};

type Outcome = Result<(), Box<dyn Error>>;

const SEEDS: u64 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// The events, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn add(&self, what: &str, name: &str) {
        self.0.lock().push(format!("{what} {name}"));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

struct Worker {
    name: &'static str,
    journal: Journal,
}

impl Actor for Worker {
    type Error = Infallible;

    fn starting(&mut self, _: &mut Context<'_, Self>) -> Result<(), Infallible> {
        self.journal.add("start", self.name);
        Ok(())
    }

    fn ended(&mut self, exit: &Exit) {
        self.journal.add(if exit.is_failure() { "fail" } else { "close" }, self.name);
    }
}

/// Fails the worker, or ends it in order.
struct Crash;
struct Leave;

impl Handler<Crash> for Worker {
    type Reply = ();

    fn handle(&mut self, _: Crash, cx: &mut Context<'_, Self>) {
        cx.fail(Failure::message("on purpose"));
    }
}

impl Handler<Leave> for Worker {
    type Reply = ();

    fn handle(&mut self, _: Leave, cx: &mut Context<'_, Self>) {
        cx.close();
    }
}

fn worker(name: &'static str, journal: &Journal) -> ChildSpec<Worker> {
    let journal = journal.clone();
    ChildSpec::new(name, move |system| system.spawn(Worker { name, journal: journal.clone() }))
}

/// Three workers under one supervisor, started.
struct Family {
    sim: Sim,
    journal: Journal,
    supervisor: Address<Supervisor>,
    children: Vec<ChildRef<Worker>>,
}

impl Family {
    fn new(seed: u64, strategy: Strategy, policy: Restart) -> Result<Self, Box<dyn Error>> {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let journal = Journal::default();
        let mut supervisor = Supervisor::new(strategy).restart(policy);
        let mut children = Vec::new();
        for name in ["a", "b", "c"] {
            let spec = worker(name, &journal);
            children.push(spec.current());
            supervisor = supervisor.child(spec);
        }
        let supervisor = system.spawn(supervisor)?;
        sim.block_on(supervisor.started())??;
        assert_eq!(journal.take(), ["start a", "start b", "start c"]);
        Ok(Self { sim, journal, supervisor, children })
    }

    fn address(&self, at: usize) -> Address<Worker> {
        self.children[at].get().expect("the child is there")
    }
}

#[test]
fn each_strategy_restarts_whom_it_says_in_order() -> Outcome {
    let expected: [(Strategy, &[&str]); 3] = [
        (Strategy::OneForOne, &["fail b", "start b"]),
        (Strategy::AllForOne, &["fail b", "close c", "close a", "start a", "start b", "start c"]),
        (Strategy::RestForOne, &["fail b", "close c", "start b", "start c"]),
    ];
    for seed in 0..SEEDS {
        for (strategy, journal) in expected {
            let family = Family::new(seed, strategy, Restart::default())?;
            let before = family.address(1);
            before.tell(Crash)?;
            family.sim.run_until_idle();
            assert_eq!(family.journal.take(), journal, "{strategy:?}, seed {seed}");
            assert!(before != family.address(1), "a fresh actor");
            family.sim.block_on(family.supervisor.close())??;
            assert_eq!(family.journal.take(), ["close c", "close b", "close a"]);
        }
    }
    Ok(())
}

#[test]
fn the_kind_says_after_which_end_a_child_is_made_anew() -> Outcome {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let journal = Journal::default();
        let kinds = [
            ("permanent", RestartKind::Permanent, true, true),
            ("transient", RestartKind::Transient, false, true),
            ("temporary", RestartKind::Temporary, false, false),
        ];
        for (name, kind, after_close, after_failure) in kinds {
            for (crash, again) in [(false, after_close), (true, after_failure)] {
                let spec = worker(name, &journal).kind(kind);
                let child = spec.current();
                let supervisor = Supervisor::new(Strategy::OneForOne).child(spec);
                let supervisor = system.spawn(supervisor)?;
                sim.block_on(supervisor.started())??;
                let first = child.get().ok_or("started")?;
                if crash {
                    first.tell(Crash)?;
                } else {
                    first.tell(Leave)?;
                }
                sim.run_until_idle();
                assert_eq!(child.get().is_some(), again, "{name}, crash {crash}");
                let listed = sim.block_on(supervisor.ask(ListChildren))??;
                assert_eq!(listed.is_empty(), kind == RestartKind::Temporary);
                if let Some(info) = listed.first() {
                    assert_eq!(info.restarts, u64::from(again));
                    assert_eq!(info.phase.is_some(), again);
                }
                sim.block_on(supervisor.close())??;
            }
        }
    }
    Ok(())
}

fn escalated(failure: &Failure) -> &EscalatedFailure {
    failure.downcast_ref().unwrap_or_else(|| panic!("not an escalation: {failure}"))
}

#[test]
fn too_many_restarts_end_the_siblings_and_escalate() -> Outcome {
    for seed in 0..SEEDS {
        let family = Family::new(seed, Strategy::OneForOne, Restart::limited(2, SECOND))?;
        for _ in 0..2 {
            family.address(1).tell(Crash)?;
            family.sim.run_until_idle();
        }
        assert_eq!(family.supervisor.phase(), Phase::Started);
        family.journal.take();
        family.address(1).tell(Crash)?;
        let failure = family.sim.block_on(family.supervisor.closed())?.expect_err("it gave up");
        let escalated = escalated(&failure);
        assert_eq!(escalated.child, "b");
        assert!(!escalated.is_first_start && escalated.exit.is_failure());
        assert_eq!(family.journal.take(), ["fail b", "close c", "close a"]);
    }
    Ok(())
}

#[test]
fn restarts_of_long_ago_are_not_counted() -> Outcome {
    let family = Family::new(1, Strategy::OneForOne, Restart::limited(1, SECOND))?;
    for _ in 0..20 {
        family.address(0).tell(Crash)?;
        family.sim.advance(SECOND);
    }
    assert_eq!(family.supervisor.phase(), Phase::Started);
    Ok(())
}

#[test]
fn a_child_in_its_pause_does_not_keep_the_others_waiting() -> Outcome {
    for seed in 0..SEEDS {
        let policy = Restart::endless().backoff(Backoff::exponential(SECOND, 60 * SECOND));
        let family = Family::new(seed, Strategy::OneForOne, policy)?;
        family.address(0).tell(Crash)?;
        family.sim.advance(SECOND / 2);
        assert!(family.children[0].get().is_none(), "it pauses");
        family.address(1).tell(Crash)?;
        family.sim.advance(SECOND * 6 / 10);
        assert!(family.children[0].get().is_some(), "its second is over");
        assert!(family.children[1].get().is_none());
        family.sim.advance(SECOND / 2);
        assert!(family.children[1].get().is_some());
        // The second pause of a child is longer.
        family.address(0).tell(Crash)?;
        family.sim.advance(SECOND * 15 / 10);
        assert!(family.children[0].get().is_none());
        family.sim.advance(SECOND);
        assert!(family.children[0].get().is_some());
    }
    Ok(())
}

#[test]
fn closing_during_a_pause_does_not_wait_for_it() -> Outcome {
    let policy = Restart::endless().backoff(Backoff::constant(3_600 * SECOND));
    let family = Family::new(3, Strategy::RestForOne, policy)?;
    family.address(1).tell(Crash)?;
    family.sim.run_until_idle();
    family.journal.take();
    let closed = family.supervisor.close();
    family.sim.run_until_idle();
    assert!(closed.is_done(), "no time has passed");
    assert_eq!(family.journal.take(), ["close a"]);
    Ok(())
}

#[test]
fn children_come_and_go_while_it_runs() -> Outcome {
    for seed in 0..SEEDS {
        let family = Family::new(seed, Strategy::OneForOne, Restart::default())?;
        let Family { sim, journal, supervisor, children } = &family;
        let spec = worker("d", journal);
        let child = spec.current();
        sim.block_on(supervisor.ask(StartChild::new(spec)))???;
        assert!(child.get().is_some());
        let taken = sim.block_on(supervisor.ask(StartChild::new(worker("d", journal))))??;
        assert!(matches!(taken, Err(ChildError::NameTaken)));
        sim.block_on(supervisor.ask(StopChild("b".to_owned())))???;
        assert!(children[1].get().is_none());
        let unknown = sim.block_on(supervisor.ask(StopChild("b".to_owned())))??;
        assert!(matches!(unknown, Err(ChildError::Unknown)));
        assert_eq!(journal.take(), ["start d", "close b"]);
        // A child that came later is one like the others.
        child.get().ok_or("there")?.tell(Crash)?;
        sim.run_until_idle();
        assert_eq!(journal.take(), ["fail d", "start d"]);
        sim.block_on(supervisor.close())??;
        assert_eq!(journal.take(), ["close d", "close c", "close a"]);
    }
    Ok(())
}

#[test]
fn a_dynamic_child_that_does_not_start_is_forgotten() -> Outcome {
    let family = Family::new(5, Strategy::AllForOne, Restart::default())?;
    let Family { sim, supervisor, journal, .. } = &family;
    let spec = ChildSpec::<Worker>::new("bad", |_| panic!("no worker today"));
    let started = sim.block_on(supervisor.ask(StartChild::new(spec)))??;
    let Err(ChildError::NotStarted(failure)) = started else {
        return Err(format!("it has started: {started:?}").into());
    };
    assert!(failure.to_string().contains("no worker today"));
    assert_eq!(sim.block_on(supervisor.ask(ListChildren))??.len(), 3);
    assert!(journal.take().is_empty(), "nobody else is concerned");
    Ok(())
}

#[test]
fn a_first_start_that_fails_ends_those_before_it() -> Outcome {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let journal = Journal::default();
        let supervisor = Supervisor::new(Strategy::OneForOne)
            .child(worker("a", &journal))
            .child(worker("b", &journal))
            .child(ChildSpec::<Worker>::new("bad", |_| panic!("never")))
            .child(worker("c", &journal));
        let supervisor = system.spawn(supervisor)?;
        let failure = sim.block_on(supervisor.started())?.expect_err("a child is missing");
        assert!(escalated(&failure).is_first_start);
        sim.run_until_idle();
        assert_eq!(journal.take(), ["start a", "start b", "close b", "close a"]);
    }
    Ok(())
}

#[test]
fn two_children_of_one_name_are_refused() -> Outcome {
    let sim = Sim::new(1);
    let system = System::new(&sim.group("cpu"));
    let journal = Journal::default();
    let twins = Supervisor::new(Strategy::OneForOne)
        .child(worker("a", &journal))
        .child(worker("a", &journal));
    let failure = sim.block_on(system.spawn(twins)?.closed())?.expect_err("it does not start");
    assert_eq!(escalated(&failure).child, "a");
    assert!(journal.take().is_empty());
    Ok(())
}

#[test]
fn a_factory_that_panics_on_restart_is_tried_until_the_limit() -> Outcome {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let journal = Journal::default();
        let made = Arc::new(AtomicU32::new(0));
        let (count, notes) = (Arc::clone(&made), journal.clone());
        let spec = ChildSpec::new("bad", move |system: &System| {
            assert!(count.fetch_add(1, Ordering::Relaxed) == 0, "only once");
            system.spawn(Worker { name: "bad", journal: notes.clone() })
        });
        let child = spec.current();
        let supervisor = Supervisor::new(Strategy::OneForOne)
            .restart(Restart::limited(4, SECOND))
            .child(worker("a", &journal))
            .child(spec);
        let supervisor = system.spawn(supervisor)?;
        sim.block_on(supervisor.started())??;
        child.get().ok_or("started")?.tell(Crash)?;
        let failure = sim.block_on(supervisor.closed())?.expect_err("it gave up");
        assert!(!escalated(&failure).is_first_start);
        assert_eq!(made.load(Ordering::Relaxed), 5, "the first and four restarts");
    }
    Ok(())
}

#[test]
fn a_supervisor_that_gives_up_is_made_anew_by_its_own() -> Outcome {
    for seed in 0..SEEDS {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let journal = Journal::default();
        let notes = journal.clone();
        let leaf: Arc<Mutex<Option<ChildRef<Worker>>>> = Arc::default();
        let found = Arc::clone(&leaf);
        let inner = ChildSpec::new("inner", move |system| {
            let spec = worker("leaf", &notes);
            *found.lock() = Some(spec.current());
            let policy = Restart::limited(1, SECOND);
            system.spawn(Supervisor::new(Strategy::OneForOne).restart(policy).child(spec))
        });
        let outer = system.spawn(Supervisor::new(Strategy::OneForOne).child(inner))?;
        sim.block_on(outer.started())??;
        for _ in 0..2 {
            let child = leaf.lock().as_ref().and_then(ChildRef::get).ok_or("there")?;
            child.tell(Crash)?;
            sim.run_until_idle();
        }
        let listed = sim.block_on(outer.ask(ListChildren))??;
        assert_eq!(listed[0].restarts, 1);
        assert!(leaf.lock().as_ref().and_then(ChildRef::get).is_some());
        sim.block_on(outer.close())??;
        let expected =
            ["start leaf", "fail leaf", "start leaf", "fail leaf", "start leaf", "close leaf"];
        assert_eq!(journal.take(), expected);
    }
    Ok(())
}

#[test]
fn a_supervisor_killed_stops_its_children_in_reverse_order() -> Outcome {
    for seed in 0..SEEDS {
        let family = Family::new(seed, Strategy::OneForOne, Restart::default())?;
        family.supervisor.kill().detach();
        family.sim.run_until_idle();
        assert_eq!(family.journal.take(), ["close c", "close b", "close a"]);
    }
    Ok(())
}

#[test]
fn a_storm_of_failures_loses_no_child_on_real_workers() -> Outcome {
    const FAILURES: u64 = 200;
    for workers in [1, 2, 4] {
        let group = Group::builder("storm").workers(workers).build()?;
        let system = System::new(&group);
        let journal = Journal::default();
        let mut supervisor = Supervisor::new(Strategy::OneForOne).restart(Restart::endless());
        let names = ["a", "b", "c", "d"];
        let mut children = Vec::new();
        for name in names {
            let spec = worker(name, &journal);
            children.push(spec.current());
            supervisor = supervisor.child(spec);
        }
        let supervisor = system.spawn(supervisor)?;
        supervisor.started().wait()?;
        for _ in 0..FAILURES {
            for child in &children {
                // A child that is being restarted is left alone.
                let Some(address) = child.get() else { continue };
                // It may have ended since; then this one is refused.
                let _ = address.tell(Crash);
            }
        }
        supervisor.close().wait()?;
        let journal = journal.take();
        for name in names {
            let count = |what: &str| {
                journal.iter().filter(|entry| **entry == format!("{what} {name}")).count()
            };
            assert!(count("fail") > 0, "the storm was one");
            assert_eq!(count("start"), count("fail") + count("close"), "{name}: each ended once");
        }
        group.shutdown()?;
    }
    Ok(())
}

/// Arms each kind of timer when it starts.
struct Clockwork(Journal);

impl Actor for Clockwork {
    type Error = TimerError;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), TimerError> {
        cx.timer(Timing::every(SECOND), || Tick("timer"))?;
        cx.tell_every(SECOND, Late::Skip, || Tick("every"))?;
        cx.tell_after(3 * SECOND, Tick("after"))?;
        Ok(())
    }
}

struct Tick(&'static str);

impl Handler<Tick> for Clockwork {
    type Reply = ();

    fn handle(&mut self, Tick(which): Tick, _: &mut Context<'_, Self>) {
        self.0.add("tick", which);
        assert_ne!(which, "crash", "as the test wants it");
    }
}

#[test]
fn the_timers_of_a_failed_actor_do_not_tick_in_the_fresh_one() -> Outcome {
    let sim = Sim::fifo();
    let journal = Journal::default();
    let actor = System::new(&sim.group("sim")).actor(Clockwork(journal.clone()));
    let made = journal.clone();
    let actor = actor.restart(Restart::endless(), move || Clockwork(made.clone())).spawn()?;
    for _ in 0..4 {
        sim.advance(SECOND / 2);
        actor.tell(Tick("crash"))?;
    }
    sim.run_until_idle();
    journal.take();
    for seconds in 1..=4 {
        sim.advance(SECOND);
        let mut ticks = journal.take();
        ticks.sort_unstable();
        let all = ["tick after", "tick every", "tick timer"];
        assert_eq!(ticks, all[usize::from(seconds != 3)..], "after {seconds} seconds");
    }
    Ok(())
}
