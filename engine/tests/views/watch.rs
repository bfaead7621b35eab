//! A listener is told what became durable, in order, once, and can go on where it was.

use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use turnwheel_engine::picture::PlanHistory;
use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched, What};
use turnwheel_engine::{MemoryStore, Next, PlanError, PlanHandle, PlanState, StepState, World};

use crate::common::{error, step_of, Piece, Theatre};

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
