//! Children of a supervisor that fail while others wait for their start.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::supervise::{ChildRef, StopChild};
use turnwheel_actors::{
    Actor, Address, ChildSpec, Context, Exit, Handler, Restart, Strategy, Supervisor, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Backoff, Failure};

use crate::nodes::{Journal, OnPurpose, Outcome, SECOND, SEEDS};

/// A child that does not start as often as its name is in a list.
struct Worker {
    name: &'static str,
    journal: Journal,
    failing: Arc<Mutex<Vec<&'static str>>>,
}

impl Actor for Worker {
    type Error = OnPurpose;

    fn starting(&mut self, _: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        let mut failing = self.failing.lock();
        let at = failing.iter().position(|name| *name == self.name);
        let begun = at.map_or(Ok(()), |at| {
            failing.remove(at);
            Err(OnPurpose)
        });
        self.journal.add(format!("{} {}", if begun.is_ok() { "start" } else { "stay" }, self.name));
        begun
    }

    fn ended(&mut self, exit: &Exit) {
        self.journal.add(format!(
            "{} {}",
            if exit.is_failure() { "fail" } else { "close" },
            self.name
        ));
    }
}

struct Crash;

impl Handler<Crash> for Worker {
    type Reply = ();

    fn handle(&mut self, _: Crash, cx: &mut Context<'_, Self>) {
        cx.fail(Failure::message("on purpose"));
    }
}

/// Three workers under one supervisor, started.
struct Family {
    sim: Sim,
    journal: Journal,
    failing: Arc<Mutex<Vec<&'static str>>>,
    supervisor: Address<Supervisor>,
    children: Vec<ChildRef<Worker>>,
}

impl Family {
    fn new(
        seed: u64,
        strategy: Strategy,
        pauses: Backoff,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let (journal, failing) = (Journal::default(), Arc::<Mutex<Vec<_>>>::default());
        let mut supervisor = Supervisor::new(strategy).restart(Restart::default().backoff(pauses));
        let mut children = Vec::new();
        for name in ["a", "b", "c"] {
            let (journal, failing) = (journal.clone(), Arc::clone(&failing));
            let spec = ChildSpec::new(name, move |system| {
                let (journal, failing) = (journal.clone(), Arc::clone(&failing));
                system.spawn(Worker { name, journal, failing })
            });
            children.push(spec.current());
            supervisor = supervisor.child(spec);
        }
        let supervisor = system.spawn(supervisor)?;
        sim.block_on(supervisor.started())??;
        journal.take();
        Ok(Self { sim, journal, failing, supervisor, children })
    }

    fn crash(&self, at: usize) -> Outcome {
        self.children[at].get().ok_or("the child is there")?.tell(Crash)?;
        Ok(())
    }
}

#[test]
fn who_waits_for_its_start_still_comes_after_one_that_does_not_start() -> Outcome {
    for seed in 0..SEEDS {
        for pause in [Duration::ZERO, SECOND] {
            let family = Family::new(seed, Strategy::AllForOne, Backoff::constant(pause))?;
            family.failing.lock().push("b");
            family.crash(0)?;
            family.sim.advance(10 * SECOND);
            let expected = [
                "fail a", "close c", "close b", "start a", "stay b", "fail b", "close a",
                "start a", "start b", "start c",
            ];
            assert_eq!(family.journal.take(), expected, "seed {seed}, {pause:?}");
            let family = Family::new(seed, Strategy::RestForOne, Backoff::constant(pause))?;
            family.failing.lock().extend(["b", "b"]);
            family.crash(1)?;
            family.sim.advance(10 * SECOND);
            let expected =
                ["fail b", "close c", "stay b", "fail b", "stay b", "fail b", "start b", "start c"];
            assert_eq!(family.journal.take(), expected, "seed {seed}, {pause:?}");
        }
    }
    Ok(())
}

#[test]
fn one_that_ends_in_the_pause_of_a_later_one_starts_before_it() -> Outcome {
    for seed in 0..SEEDS {
        let pauses = Backoff::exponential(2 * SECOND, 60 * SECOND);
        let family = Family::new(seed, Strategy::RestForOne, pauses)?;
        family.crash(1)?;
        family.sim.advance(SECOND);
        assert_eq!(family.journal.take(), ["fail b", "close c"]);
        family.crash(0)?;
        // The pause of «b» is over, that of «a» is not.
        family.sim.advance(3 * SECOND / 2);
        assert_eq!(family.journal.take(), ["fail a"], "seed {seed}");
        family.sim.advance(SECOND);
        assert_eq!(family.journal.take(), ["start a", "start b", "start c"], "seed {seed}");
        // The second pause of «b» is longer than that of «c», which nevertheless starts after it.
        family.crash(1)?;
        family.sim.advance(Duration::from_millis(3_900));
        assert_eq!(family.journal.take(), ["fail b", "close c"]);
        family.sim.advance(SECOND);
        assert_eq!(family.journal.take(), ["start b", "start c"], "seed {seed}");
        family.sim.block_on(family.supervisor.close())??;
        assert_eq!(family.journal.take(), ["close c", "close b", "close a"]);
    }
    Ok(())
}

#[test]
fn one_that_is_stopped_in_a_pause_does_not_start_and_the_others_do() -> Outcome {
    for seed in 0..SEEDS {
        let family = Family::new(seed, Strategy::AllForOne, Backoff::constant(SECOND))?;
        family.crash(2)?;
        family.sim.advance(SECOND / 2);
        assert_eq!(family.journal.take(), ["fail c", "close b", "close a"]);
        family.sim.block_on(family.supervisor.ask(StopChild("b".to_owned())))???;
        family.sim.advance(SECOND);
        assert_eq!(family.journal.take(), ["start a", "start c"], "seed {seed}");
    }
    Ok(())
}
