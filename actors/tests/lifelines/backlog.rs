//! Supervision beside a backlog of messages.

use std::convert::Infallible;
use std::error::Error;

use turnwheel_actors::supervise::{ChildSpec, ListChildren, RestartKind};
use turnwheel_actors::{Actor, Address, Context, Handler, Restart, Strategy, Supervisor, System};
use turnwheel_runtime::sim::Sim;

type Outcome = Result<(), Box<dyn Error>>;

/// Messages in line when a watched actor ends.
const BACKLOG: u32 = 20_000;

#[derive(Default)]
struct Busy {
    steps: u32,
    told_after: Option<u32>,
}

impl Actor for Busy {
    type Error = Infallible;
}

/// Sends itself on until it has received the end.
struct Step;

impl Handler<Step> for Busy {
    type Reply = ();

    fn handle(&mut self, _: Step, cx: &mut Context<'_, Self>) {
        self.steps += 1;
        if self.told_after.is_none() && self.steps < BACKLOG {
            cx.tell_self(Step).expect("there is room");
        }
    }
}

struct Watch(Address<Other>);

impl Handler<Watch> for Busy {
    type Reply = ();

    fn handle(&mut self, Watch(other): Watch, cx: &mut Context<'_, Self>) {
        cx.watch(&other, |_| Gone);
    }
}

struct Gone;

impl Handler<Gone> for Busy {
    type Reply = ();

    fn handle(&mut self, _: Gone, _: &mut Context<'_, Self>) {
        self.told_after = Some(self.steps);
    }
}

struct Other;

impl Actor for Other {
    type Error = Infallible;
}

struct Crash;

impl Handler<Crash> for Other {
    type Reply = ();

    fn handle(&mut self, _: Crash, _: &mut Context<'_, Self>) {
        panic!("on purpose");
    }
}

#[test]
fn watched_end_is_told_before_a_backlog_is_over() -> Outcome {
    for seed in 0..10 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let (busy, other) = (system.spawn(Busy::default())?, system.spawn(Other)?);
        busy.tell(Watch(other.clone()))?;
        sim.run_until_idle();
        busy.tell(Step)?;
        other.kill().detach();
        sim.run_until_idle();
        let told_after = sim.block_on(busy.with(|busy, _| busy.told_after))??;
        assert!(told_after.is_some_and(|steps| steps < BACKLOG), "{told_after:?}, seed {seed}");
    }
    Ok(())
}

#[test]
fn supervisor_restarts_a_child_beside_a_backlog_of_questions() -> Outcome {
    const QUESTIONS: usize = 500;
    for seed in 0..10 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let spec = ChildSpec::new("child", |system: &System| system.spawn(Other))
            .kind(RestartKind::Permanent);
        let child = spec.current();
        let supervisor = Supervisor::new(Strategy::OneForOne).restart(Restart::endless());
        let supervisor = system.spawn(supervisor.child(spec))?;
        sim.block_on(supervisor.started())??;
        let first = child.get().ok_or("started")?;
        first.tell(Crash)?;
        let asked: Vec<_> = (0..QUESTIONS).map(|_| supervisor.ask(ListChildren)).collect();
        sim.run_until_idle();
        for asked in asked {
            assert_eq!(asked.wait().map_err(|error| error.to_string())?.len(), 1);
        }
        let second = child.get().ok_or("restarted")?;
        assert_ne!(first.id(), second.id(), "seed {seed}");
    }
    Ok(())
}
