//! A listener is told what became durable, in order, once, and can go on where it was.

use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use turnwheel_engine::picture::PlanHistory;
use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched, What};
use turnwheel_engine::{
    MemoryStore, Next, PlanError, PlanHandle, PlanId, PlanState, Retention, StepId, StepState,
    StoreError, World,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::{error, step_of, Piece, Play, Script, Theatre};

/// What has come so far.
fn taken(theatre: &Theatre, watch: &mut Watch) -> Vec<Watched> {
    let mut all = Vec::new();
    loop {
        theatre.sim.run_until_idle();
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut *watch).poll_next(&mut cx) {
            Poll::Ready(Some(next)) => all.push(next.expect("the store is well")),
            Poll::Ready(None) => return all,
            Poll::Pending => {
                theatre.sim.run_until_idle();
                // What was read meanwhile is there now; if there is nothing it waits for a plan.
                match Pin::new(&mut *watch).poll_next(&mut cx) {
                    Poll::Ready(Some(next)) => all.push(next.expect("the store is well")),
                    _ => return all,
                }
            }
        }
    }
}

fn happened(theatre: &Theatre, watch: &mut Watch) -> Vec<Happening> {
    let told = taken(theatre, watch).into_iter().map(|watched| match watched {
        Watched::Happened(happening) => *happening,
        other => panic!("nothing was left out: {other:?}"),
    });
    told.collect()
}

/// In a few words.
fn short(happening: &Happening) -> String {
    let by = happening.by.as_ref().map_or(String::new(), |by| format!(" by {by}"));
    match &happening.what {
        What::Plan { from, to, .. } => {
            format!("plan {}->{}{by}", from.map_or("", PlanState::name), to.name())
        }
        What::Step { step, from, to, .. } => {
            format!("{step} {}->{}{by}", from.name(), to.name())
        }
        What::Event { step, .. } => format!("event {step}{by}"),
        What::Cancel { .. } => format!("cancel{by}"),
        _ => format!("note{by}"),
    }
}

#[test]
fn a_listener_is_told_each_change_with_who_and_why() {
    let theatre = Theatre::new();
    let mut watch = theatre.world.watch(WatchFilter::new());
    assert!(taken(&theatre, &mut watch).is_empty());
    theatre.script.on("ann", |_| Err(error("pause")));
    let plan = theatre.perform("ann");
    theatre.finished(&plan);
    theatre.script.on("ann", |_| Ok(Next::Done));
    theatre.done(plan.resume("eve")).expect("it is paused");
    theatre.finished(&plan);
    let all = happened(&theatre, &mut watch);
    let lines: Vec<String> = all.iter().map(short).collect();
    assert_eq!(
        lines,
        [
            "plan ->pending by trigger",
            "plan pending->planning",
            "plan planning->planned",
            "plan planned->running",
            "3 pending->running",
            "3 running->error",
            "plan running->paused",
            "plan paused->running by eve",
            "3 error->running",
            "3 running->success",
            "4 pending->running",
            "4 running->success",
            "plan running->stopped",
        ]
    );
    assert_eq!(all[5].why, "pause me");
    assert!(all.windows(2).all(|pair| pair[0].cursor < pair[1].cursor), "{all:?}");
    assert!(all.iter().all(|one| one.plan == plan.id() && one.label == "piece"));
    assert!(all[7].to_string().contains("is running: resumed, by eve"), "{}", all[7]);
    let json = serde_json::to_value(&all[5]).expect("it is data");
    assert_eq!((json["what"].as_str(), json["to"].as_str()), (Some("step"), Some("error")));
}

/// Asks for the history of a plan in the moment in which its listener is woken.
struct AsksAtOnce {
    plan: PlanHandle,
    asked: Mutex<Option<Asked>>,
}

type Asked = Pin<Box<dyn Future<Output = Result<PlanHistory, PlanError>> + Send>>;

impl Wake for AsksAtOnce {
    fn wake(self: Arc<Self>) {
        let mut asked: Asked = Box::pin(self.plan.history());
        let first = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending(), "the history is read from the store");
        *self.asked.lock().expect("one at a time") = Some(asked);
    }
}

#[test]
fn a_history_that_is_read_when_a_listener_is_told_has_what_it_was_told() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |step| {
        Ok(if step.event::<u32>()?.is_some() { Next::Done } else { Next::suspend("a call") })
    });
    let plan = theatre.perform("ann");
    let step = step_of(&theatre.settle(&plan), "ann");
    let mut watch = theatre.world.watch(WatchFilter::new());
    assert!(taken(&theatre, &mut watch).is_empty());
    let asks = Arc::new(AsksAtOnce { plan: plan.clone(), asked: Mutex::default() });
    let waker = Waker::from(Arc::clone(&asks));
    assert!(Pin::new(&mut watch).poll_next(&mut Context::from_waker(&waker)).is_pending());
    theatre.done(theatre.world.event(plan.id(), step, None, &1_u32)).expect("it waits");
    let asked = asks.asked.lock().expect("one at a time").take().expect("the listener was woken");
    let history = theatre.sim.block_on(asked).expect("it ends").expect("it is there");
    let told = &happened(&theatre, &mut watch)[0];
    assert!(history.happenings.iter().any(|one| one.cursor == told.cursor), "{told} is not in it");
}

#[test]
fn what_is_read_from_the_store_is_what_was_told_live() {
    let theatre = Theatre::new();
    let mut live = theatre.world.watch(WatchFilter::new());
    theatre.script.on("bob", |step| {
        if step.event::<u32>().is_ok_and(|event| event.is_some()) {
            return Ok(Next::Done);
        }
        step.event_after(Duration::from_secs(5), &1_u32)?;
        Ok(Next::suspend("a call"))
    });
    let plans = [theatre.perform("ann bob"), theatre.perform("bob|cid")];
    theatre.sim.advance(Duration::from_secs(5));
    for plan in &plans {
        theatre.finished(plan);
    }
    let live = happened(&theatre, &mut live);
    let mut all = theatre.world.watch(WatchFilter::new().after(Cursor::START));
    assert_eq!(happened(&theatre, &mut all), live);
    // From each place the rest comes, also in the middle of an entry and after a restart.
    let theatre = theatre.crash();
    for (index, from) in live.iter().enumerate() {
        let mut rest = theatre.world.watch(WatchFilter::new().after(from.cursor));
        assert_eq!(happened(&theatre, &mut rest), live[index + 1..], "after {}", from.cursor);
    }
}

#[test]
fn a_listener_that_comes_later_is_told_what_comes_then() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Ok(Next::suspend("a call")));
    let plan = theatre.perform("ann");
    let view = theatre.settle(&plan);
    let mut watch = theatre.world.watch(WatchFilter::new());
    assert!(taken(&theatre, &mut watch).is_empty());
    theatre.script.on("ann", |_| Ok(Next::Done));
    theatre.done(theatre.world.event(plan.id(), step_of(&view, "ann"), Some("one"), &1)).unwrap();
    theatre.finished(&plan);
    let all = happened(&theatre, &mut watch);
    assert_eq!(short(&all[0]), "event 3");
    assert_eq!(short(&all[1]), "3 suspended->running");
    assert_eq!(all[1].why, "an event");
    assert_eq!(all.last().and_then(Happening::plan_state), Some(PlanState::Stopped));
}

#[test]
fn a_slow_listener_is_told_how_much_it_missed_and_catches_up() {
    let theatre = Theatre::new();
    let mut slow = theatre.world.watch(WatchFilter::new().buffer(3));
    let mut patient = theatre.world.watch(WatchFilter::new().buffer(1).catching_up());
    let mut quick = theatre.world.watch(WatchFilter::new());
    assert!(taken(&theatre, &mut slow).is_empty() && taken(&theatre, &mut patient).is_empty());
    assert!(taken(&theatre, &mut quick).is_empty());
    for _ in 0..4 {
        let plan = theatre.perform("ann bob");
        theatre.finished(&plan);
    }
    let all = happened(&theatre, &mut quick);
    assert_eq!(happened(&theatre, &mut patient), all, "it has gone to the store by itself");
    let told = taken(&theatre, &mut slow);
    let Watched::Missed { entries, after, until } = told[0] else { panic!("{told:?}") };
    let last = all.last().expect("there was something").cursor.seq;
    assert_eq!((entries, until.seq), (last - after.seq - 3, last - 3));
    assert!(told[1..].iter().all(|next| matches!(next, Watched::Happened(_))));
    // It goes back for the rest.
    slow.catch_up();
    assert_eq!(happened(&theatre, &mut slow), all);
    assert_eq!(slow.cursor(), Cursor::from(last));
}

#[test]
fn a_listener_hears_only_what_it_wants() {
    let theatre = Theatre::new();
    let first = theatre.perform("ann");
    let second = theatre.perform("ann");
    for plan in [&first, &second] {
        theatre.finished(plan);
    }
    let all = || WatchFilter::new().after(Cursor::START);
    let count = |filter: WatchFilter| happened(&theatre, &mut theatre.world.watch(filter)).len();
    let whole = count(all());
    assert_eq!(count(all().plan(first.id())), whole / 2);
    assert_eq!(count(all().plan(first.id()).plan(second.id())), whole);
    assert_eq!(count(all().label("piece")), whole);
    assert_eq!(count(all().label("another")), 0);
    assert_eq!(count(all().plans_only()), 10);
    let steps = happened(&theatre, &mut theatre.world.watch(all().plan(first.id())));
    assert!(steps.iter().any(|one| one.step_state() == Some(StepState::Success)));
}

#[test]
fn code_that_may_block_can_listen_and_the_end_of_the_world_is_heard() {
    let world = World::builder().action(Piece).build(MemoryStore::new()).unwrap();
    let mut watch = world.watch(WatchFilter::new().plans_only());
    let plan = world.trigger::<Piece>(String::new()).wait().unwrap();
    let mut last = None;
    while last != Some(PlanState::Stopped) {
        let Some(Watched::Happened(one)) = watch.wait_next().unwrap() else {
            panic!("it is alive")
        };
        assert_eq!(one.plan, plan.id());
        last = one.plan_state();
    }
    world.shutdown().unwrap();
    assert_eq!(watch.wait_next().unwrap(), None);
    let mut next = pin!(watch.next());
    let ended = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ended, Poll::Ready(None)));
}

/// A world over a store that fails when it is told to, with two plans that wait for a word.
struct Troubled {
    sim: Sim,
    store: FaultStore,
    world: World,
    waiting: Vec<(PlanId, StepId)>,
}

impl Troubled {
    fn new() -> Self {
        let (sim, script) = (Sim::new(7), Script::default());
        let store = FaultStore::new(MemoryStore::new());
        let builder = World::builder().action(Play::new(&script)).action(Piece).seed(1);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store.clone())).expect("it ends");
        let world = world.expect("the world begins");
        script.on("ann", |step| match step.event::<String>()? {
            None => Ok(Next::suspend("a word")),
            Some(_) => Ok(Next::Done),
        });
        let mut waiting = Vec::new();
        for _ in 0..2 {
            let plan = sim.block_on(world.trigger::<Piece>("ann bob".to_owned()));
            let plan = plan.expect("it ends").expect("it is taken");
            sim.run_until_idle();
            let view = sim.block_on(plan.view()).expect("it ends").expect("it is there");
            waiting.push((plan.id(), step_of(&view, "ann")));
        }
        Self { sim, store, world, waiting }
    }

    /// Lets the plans end.
    fn say_the_word(&self) {
        for (plan, step) in &self.waiting {
            let event = self.world.event(*plan, *step, None, &"go on");
            self.sim.block_on(event).expect("it ends").expect("it is there").expect("it is taken");
            self.sim.run_until_idle();
        }
    }

    /// Takes what has come so far, or until the store has failed.
    fn take(&self, watch: &mut Watch, told: &mut Vec<Happening>) -> Result<(), StoreError> {
        let mut pending = 0;
        // It may wait for several reads, one after the other.
        while pending < 100 {
            match Pin::new(&mut *watch).poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(Watched::Happened(happening)))) => {
                    told.push(*happening);
                    pending = 0;
                }
                Poll::Ready(Some(Err(error))) => return Err(error),
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => {
                    pending += 1;
                    self.sim.run_until_idle();
                }
            }
        }
        Ok(())
    }

    /// Entries of the store after a place.
    fn after(&self, place: Cursor) -> Vec<Happening> {
        let mut told = Vec::new();
        let mut watch = self.world.watch(WatchFilter::new().after(place));
        self.take(&mut watch, &mut told).expect("the store is well");
        told
    }
}

#[test]
fn listener_is_told_of_an_entry_when_its_plan_can_be_read_again() {
    let troubled = Troubled::new();
    let (mut live, mut told) = (troubled.world.watch(WatchFilter::new()), Vec::new());
    troubled.take(&mut live, &mut told).expect("the store is well");
    let place = live.cursor();
    troubled.store.fail_reads(StoreError::Failed("no answer".to_owned()));
    troubled.say_the_word();
    for _ in 0..3 {
        let error = troubled.take(&mut live, &mut told).expect_err("it cannot be read");
        assert!(!error.is_unreadable(), "{error}");
    }
    assert_eq!((&told[..], live.cursor()), (&[][..], place));
    troubled.store.heal();
    troubled.take(&mut live, &mut told).expect("the store is well");
    let all = troubled.after(place);
    assert_eq!(all.iter().filter(|it| it.plan_state() == Some(PlanState::Stopped)).count(), 2);
    assert_eq!(told, all);
}

#[test]
fn plan_that_is_removed_before_a_listener_has_read_it_is_no_damage() {
    let troubled = Troubled::new();
    let (mut live, mut told) = (troubled.world.watch(WatchFilter::new()), Vec::new());
    troubled.take(&mut live, &mut told).expect("the store is well");
    troubled.store.fail_reads(StoreError::Failed("no answer".to_owned()));
    troubled.say_the_word();
    troubled.take(&mut live, &mut told).expect_err("it cannot be read");
    troubled.store.heal();
    troubled.sim.advance(Duration::from_secs(1));
    let cleaning = troubled.world.clean(Retention::older_than(Duration::ZERO));
    let cleaned = troubled.sim.block_on(cleaning).expect("it ends").expect("it is clean");
    assert_eq!(cleaned.plans, 2);
    let triggered = troubled.world.trigger::<Piece>("bob".to_owned());
    let next = troubled.sim.block_on(triggered).expect("it ends").expect("it is taken").id();
    troubled.sim.run_until_idle();
    troubled.take(&mut live, &mut told).expect("nothing is damaged");
    assert!(told.iter().all(|happening| happening.plan == next), "{told:?}");
    assert_eq!(told.last().and_then(Happening::plan_state), Some(PlanState::Stopped));
}

#[test]
fn listener_that_reads_from_the_store_is_told_all_whichever_read_fails() {
    let troubled = Troubled::new();
    let mut live = troubled.world.watch(WatchFilter::new());
    troubled.take(&mut live, &mut Vec::new()).expect("the store is well");
    let place = live.cursor();
    troubled.say_the_word();
    let all = troubled.after(place);
    for number in 1.. {
        let error = StoreError::Failed("this once".to_owned());
        troubled.store.fail_read_at(troubled.store.reads() + number, error);
        let mut watch = troubled.world.watch(WatchFilter::new().after(place));
        let (mut told, mut failures) = (Vec::new(), 0);
        while troubled.take(&mut watch, &mut told).is_err() {
            failures += 1;
        }
        assert_eq!(told, all, "read {number}");
        if failures == 0 {
            assert!(number > 3, "a page and the begins of two plans are read");
            return;
        }
    }
}

#[test]
fn a_text_that_is_no_cursor_is_refused_by_name() {
    for text in ["", "1.", ".1", "a", "1.2.3", "-1"] {
        let error = text.parse::<Cursor>().unwrap_err().to_string();
        assert!(error.contains(&format!("«{text}»")), "{error}");
    }
    let cursor = Cursor { seq: 3, nth: 1 };
    assert_eq!(cursor.to_string().parse(), Ok(cursor));
    assert_eq!("3".parse(), Ok(Cursor::from(3)));
}
