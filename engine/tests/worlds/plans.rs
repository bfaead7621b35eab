//! What plans have beside their steps when their owner changes: schedules, locks, sub-plans, queues.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_engine::schedule::{Expected, ScheduleView};
use turnwheel_engine::store::{Filter, PlanRow};
use turnwheel_engine::{
    Action, ActionError, BulkOrder, Cause, MemoryStore, Next, PlanError, PlanHandle, PlanId,
    PlanResult, PlanState, Queue, RunAsync, RunsAsync, ScheduleError, Singleton, StepContext,
    Store, TriggerError, World,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion};
use turnwheel_sqlite::SqliteStore;

use crate::common::calendar::{every, launches, set_clock, HOUR};
use crate::common::worlds::Stage;
use crate::common::{part, step_of, Piece, Play, Script};

fn over_both(test: impl Fn(Stage)) {
    test(Stage::over(MemoryStore::new()));
    let folder = tempfile::tempdir().expect("a folder");
    let store: Box<dyn Store> = Box::new(SqliteStore::new(folder.path().join("plans.db")));
    test(Stage::over(Arc::<dyn Store>::from(store)));
}

/// All plans with this label, the oldest first.
fn plans(stage: &Stage, world: &World, label: &str) -> Vec<PlanRow> {
    let filter = Filter { limit: 1_000, ..Filter::default() };
    let mut rows = stage.passing(world.list(filter)).expect("the store is there");
    rows.retain(|row| *row.label == *label);
    rows.reverse();
    rows
}

#[test]
fn schedules_launch_each_time_once_whichever_world_serves_them() {
    over_both(|stage| {
        set_clock(&stage.sim, "2026-03-01T00:20:00Z");
        let (first, on_first) = stage.executor("first");
        let (second, on_second) = stage.executor("second");
        let client = stage.client("client");
        let put = client.schedules().put(every("hourly", HOUR, "a"));
        stage.passing(put).unwrap().unwrap();
        stage.sim.advance(2 * HOUR);
        // It is said to be dead, and does not know: it goes on.
        stage.net.cut(&first);
        assert!(stage.invalidate(&second, &first));
        stage.sim.advance(2 * HOUR);
        let (third, on_third) = stage.executor("third");
        assert!(stage.passing(second.terminate(Duration::from_secs(1))).unwrap());
        stage.sim.advance(2 * HOUR);
        let times = ["01:00", "02:00", "03:00", "04:00", "05:00", "06:00"];
        let view = stage.passing(third.schedules().get("hourly")).unwrap().unwrap();
        assert_eq!(launches(&view), times.map(|time| format!("{time} launched")));
        assert_eq!(view.counts.launched, 6);
        let launched = plans(&stage, &client, "piece");
        assert_eq!(launched.len(), 6, "one plan for each time");
        assert!(launched.iter().all(|row| row.result == PlanResult::Success));
        let said: Vec<String> =
            [on_first, on_second, on_third].iter().flat_map(Script::said).collect();
        assert_eq!(said.iter().filter(|line| *line == "a").count(), 6, "{said:?}");
    });
}

#[test]
fn plans_of_all_worlds_are_deleted_by_whichever_world_is_asked() {
    over_both(|stage| {
        let (first, _said) = stage.executor("first");
        let (second, _said) = stage.executor("second");
        for number in 0..8 {
            let world = if number % 2 == 0 { &first } else { &second };
            let plan = stage.passing(world.trigger::<Piece>("a".to_owned())).unwrap();
            stage.passing(plan.finished()).expect("it ends");
        }
        let client = stage.client("client");
        for asked in [&second, &client] {
            let four = NonZeroUsize::new(4).expect("it is not 0");
            let bulk = asked.bulk(Filter::default()).plans_max(four);
            let report = stage.passing(bulk.run(BulkOrder::Delete, "eva")).expect("it is done");
            assert_eq!((report.touched(), report.left(), report.failed()), (4, 0, 0), "{report:?}");
        }
        assert!(plans(&stage, &client, "piece").is_empty());
    });
}

fn is_edited(error: &ScheduleError) -> bool {
    matches!(error, ScheduleError::Edited { .. })
}

/// The schedule as one of two edits has made it; the other one is refused.
fn one_of(
    one: Result<ScheduleView, ScheduleError>,
    other: Result<ScheduleView, ScheduleError>,
) -> ScheduleView {
    match (one, other) {
        (Ok(view), Err(error)) | (Err(error), Ok(view)) if is_edited(&error) => view,
        both => panic!("one of both is made: {both:?}"),
    }
}

#[test]
fn of_two_edits_of_the_same_state_of_a_schedule_one_is_made_whichever_worlds_take_them() {
    over_both(|stage| {
        set_clock(&stage.sim, "2026-03-01T00:20:00Z");
        let (first, _) = stage.executor("first");
        let (second, _) = stage.executor("second");
        let put = |world: &World, state: Expected, hours: u32| {
            world.schedules().expecting(state).put(every("shared", HOUR * hours, "a"))
        };
        let absent = put(&second, Expected::Absent, 1);
        let made = stage.passing(absent).unwrap().unwrap();
        let absent = stage.passing(put(&first, Expected::Absent, 1)).unwrap();
        let error = absent.expect_err("it is there").to_string();
        assert!(error.contains("«shared» exists"), "{error}");
        let state = || Expected::Revisions(vec![made.revision()]);
        let at_once = [put(&second, state(), 2), put(&first, state(), 3)];
        let [of_second, of_first] = at_once.map(|put| stage.passing(put).unwrap());
        let view = one_of(of_first, of_second);
        assert_ne!(view.revision(), made.revision());
        // Launches do not change the revision, a pause does.
        stage.sim.advance(7 * HOUR);
        let later = stage.passing(first.schedules().get("shared")).unwrap().unwrap();
        assert!(later.counts.launched > 0, "{later:?}");
        assert_eq!(later.revision(), view.revision());
        let state = |view: &ScheduleView| Expected::Revisions(vec![view.revision()]);
        let of = |world: &World, view: &ScheduleView| {
            stage
                .passing(world.schedules().expecting(state(view)).pause("shared", "eva", ""))
                .unwrap()
        };
        assert!(is_edited(&of(&second, &made).expect_err("an old state")));
        let paused = of(&second, &view).unwrap();
        let remove = |view: &ScheduleView| {
            stage.passing(second.schedules().expecting(state(view)).remove("shared")).unwrap()
        };
        assert!(is_edited(&remove(&view).expect_err("it is paused by now")));
        // The one that has served them is said to be dead, and does not know: the other one reads
        // them before it answers.
        stage.net.cut(&first);
        assert!(stage.invalidate(&second, &first));
        let at_once = [put(&second, state(&paused), 5), put(&first, state(&paused), 4)];
        let [of_second, of_first] = at_once.map(|put| stage.passing(put).unwrap());
        let last = one_of(of_first, of_second);
        let shown = stage.passing(second.schedules().get("shared")).unwrap().unwrap();
        assert_eq!((&shown.timing, shown.revision()), (&last.timing, last.revision()));
        assert!(is_edited(&remove(&paused).expect_err("it was put since")));
        remove(&last).unwrap();
    });
}

/// Waits for an event; one at a time, and others wait (`true`) or are refused.
struct Solo<const WAITS: bool>;

impl<const WAITS: bool> Action for Solo<WAITS> {
    const NAME: &'static str = if WAITS { "waits" } else { "rejects" };
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(if WAITS { Singleton::new().wait() } else { Singleton::new() })
    }
}

impl<const WAITS: bool> RunAsync for Solo<WAITS> {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(match step.event::<bool>()? {
            None => Next::suspend("an event"),
            Some(_) => Next::Done,
        })
    }
}

/// Sends the only step of a plan what it waits for.
fn send(stage: &Stage, by: &World, plan: PlanId) {
    let view = stage.view(&by.plan(plan));
    let step = view.actions.iter().find_map(|action| action.run_step).expect("it runs");
    stage.passing(by.event(plan, step, None, &true)).expect("it ends").expect("it is taken");
}

#[test]
fn a_plan_that_is_taken_over_keeps_its_lock_and_those_that_wait_their_turn() {
    over_both(|stage| {
        let solo = |name: &str| {
            let add = |world: turnwheel_engine::WorldBuilder| {
                world.action(Solo::<true>).action(Solo::<false>)
            };
            stage.executor_with(name, |_| {}, add).0
        };
        let (first, second) = (solo("first"), solo("second"));
        let trigger = |world: &World| {
            // Their turn goes by when they were made; within a millisecond, by chance.
            stage.sim.advance(Duration::from_millis(5));
            let plan = stage.passing(world.trigger::<Solo<true>>(())).unwrap();
            stage.sim.run_until_idle();
            plan.id()
        };
        let waits = [trigger(&first), trigger(&first), trigger(&second)];
        let alone = stage.passing(first.trigger::<Solo<false>>(())).unwrap().id();
        stage.sim.run_until_idle();
        let locks = || -> Vec<(String, Option<PlanId>, Vec<PlanId>)> {
            stage.sim.run_until_idle();
            let locks = second.locks().into_iter();
            locks.map(|lock| (lock.name, lock.holder, lock.waiting)).collect()
        };
        let before = locks();
        assert_eq!(before[0], ("rejects".to_owned(), Some(alone), Vec::new()));
        assert_eq!(before[1], ("waits".to_owned(), Some(waits[0]), waits[1..].to_vec()));
        assert!(stage.invalidate(&second, &first));
        let holders = |locks: &[(String, Option<PlanId>, Vec<PlanId>)]| -> Vec<Option<PlanId>> {
            locks.iter().map(|(_, holder, _)| *holder).collect()
        };
        assert_eq!(holders(&locks()), [Some(alone), Some(waits[0])]);
        let refused = stage.passing(second.trigger::<Solo<false>>(())).unwrap_err();
        assert!(
            matches!(&refused, TriggerError::Planning { error, .. } if error.kind == "already_active"),
            "{refused}"
        );
        let late = trigger(&second);
        let turns: Vec<PlanId> = waits.into_iter().chain([late]).collect();
        for (turn, plan) in turns.iter().enumerate() {
            assert_eq!(holders(&locks())[1], Some(*plan), "it is its turn");
            for next in &turns[turn + 1..] {
                assert_eq!(stage.view(&second.plan(*next)).state, PlanState::Planned);
            }
            send(&stage, &second, *plan);
            let view = stage.finished(&second.plan(*plan));
            assert_eq!(view.result(), PlanResult::Success);
        }
        send(&stage, &second, alone);
        assert_eq!(stage.finished(&second.plan(alone)).result(), PlanResult::Success);
        assert!(locks().is_empty());
    });
}

/// Asks for plans that wait for an event each, and says how many went well.
struct Company;

impl Action for Company {
    const NAME: &'static str = "company";
    type Input = Vec<String>;
    type Output = Option<(u32, u32)>;
    type Phases = RunsAsync;
}

impl RunAsync for Company {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() != Cause::SubPlans {
            for who in std::mem::take(&mut step.input) {
                step.trigger::<Play>(&part(&who))?;
            }
            return Ok(Next::suspend("the company"));
        }
        let counts = step.sub_plans();
        step.output = Some((counts.success, counts.failed));
        Ok(Next::Done)
    }
}

/// The parts suspend until they get an event.
fn suspends(script: &Script) {
    for who in ["x", "y", "z"] {
        script.on(who, |step| {
            Ok(match step.event::<bool>()? {
                None => Next::suspend("an event"),
                Some(_) => Next::Done,
            })
        });
    }
}

#[test]
fn sub_plans_and_who_has_asked_for_them_find_one_another_whoever_owns_them() {
    over_both(|stage| {
        let company = |name: &str| {
            let (world, script) = stage.executor_with(name, |_| {}, |world| world.action(Company));
            suspends(&script);
            world
        };
        let first = company("first");
        let parts = || ["x", "y", "z"].map(str::to_owned).to_vec();
        let parents: Vec<PlanHandle> = (0..4)
            .map(|_| stage.passing(first.trigger::<Company>(parts())).expect("it is taken"))
            .collect();
        stage.sim.run_until_idle();
        let (second, third) = (company("second"), company("third"));
        let children: Vec<Vec<PlanId>> = parents
            .iter()
            .map(|parent| stage.view(parent).sub_plans().map(|(id, _)| id).collect())
            .collect();
        assert!(children.iter().all(|children| children.len() == 3));
        // One child of each ends with its first owner, one after a take-over, one after the next.
        children.iter().for_each(|of| send(&stage, &first, of[0]));
        assert!(stage.invalidate(&third, &first));
        let owner = |plan: PlanId| third.owner_of(plan).expect("somebody has it");
        let is_apart = |(parent, of): (&PlanHandle, &Vec<PlanId>)| {
            of.iter().any(|child| owner(*child) != owner(parent.id()))
        };
        assert!(parents.iter().zip(&children).any(is_apart), "they are dealt to both");
        children.iter().for_each(|of| send(&stage, &second, of[1]));
        assert!(stage.passing(second.terminate(Duration::from_secs(1))).unwrap());
        children.iter().for_each(|of| send(&stage, &third, of[2]));
        for parent in &parents {
            let view = stage.finished(&third.plan(parent.id()));
            assert_eq!(view.result(), PlanResult::Success);
            assert_eq!(view.output::<Company>().unwrap(), Some((3, 0)));
        }
        assert_eq!(plans(&stage, &third, "play").len(), 12, "no child was begun twice");
    });
}

/// Asks for plans that wait for an event each, one after the other.
struct Turns;

impl Action for Turns {
    const NAME: &'static str = "turns";
    type Input = Vec<String>;
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Turns {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            return Ok(Next::Done);
        }
        for who in step.input.clone() {
            step.trigger::<Play>(&part(&who))?;
        }
        step.limit_sub_plans(1);
        Ok(step.wait_for_sub_plans())
    }
}

/// Waits for an event or for turns, whichever comes first; the turns are dropped with it.
struct Race;

impl Action for Race {
    const NAME: &'static str = "race";
    type Input = Vec<String>;
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Race {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.has_event() {
            return Ok(Next::Done);
        }
        let turns = step.input.clone();
        step.ask::<Turns>(0, &turns)?;
        Ok(Next::suspend("turns, or an event"))
    }
}

/// A plan asks for one that is another world's. This is done to it while the request to begin is on
/// its way, and that comes last. Returns the result of the plan that asks, and of the one that it
/// has asked for.
fn told_before_it_begins(
    stage: &Stage,
    order: impl Fn(&World, PlanId) -> Completion<Result<(), PlanError>>,
) -> (PlanResult, PlanResult) {
    let turns = |name: &str| {
        let (world, script) =
            stage.executor_with(name, |_| {}, |world| world.action(Turns).action(Race));
        suspends(&script);
        world
    };
    let first = turns("first");
    let parts = || ["x", "y", "z"].map(str::to_owned).to_vec();
    let parents: Vec<PlanId> = (0..8)
        .map(|_| stage.passing(first.trigger::<Race>(parts())).expect("it is taken").id())
        .collect();
    stage.sim.run_until_idle();
    let (second, third) = (turns("second"), turns("third"));
    assert!(stage.invalidate(&third, &first));
    // Plans ask again for those that they wait for, after a take-over.
    stage.sim.advance(HOUR);
    let owner =
        |plan: PlanId| if third.owner_of(plan) == Some(third.id()) { &third } else { &second };
    let asked = |parent: PlanId| {
        let view = stage.view(&owner(parent).plan(parent));
        view.sub_plans().map(|(id, _)| id).collect::<Vec<_>>()
    };
    let apart = |parent: &PlanId| {
        let is_apart = |child: &PlanId| owner(*parent).id() != owner(*child).id();
        let children = asked(*parent);
        let first = children.iter().skip(1).position(is_apart)?;
        Some((*parent, children[..first + 2].to_vec()))
    };
    let (parent, mut before) = parents.iter().find_map(apart).expect("they are dealt to both");
    let (home, child) = (owner(parent), before.pop().expect("it is apart"));
    let last = before.pop().expect("one comes before it");
    before.iter().for_each(|child| send(stage, home, *child));
    stage.sim.run_until_idle();
    stage.net.hold_next(owner(child), "between plans");
    send(stage, home, last);
    stage.sim.run_until_idle();
    let ordered = order(home, parent);
    stage.passing(ordered).expect("no panic here").expect("it is carried out");
    stage.sim.run_until_idle();
    stage.net.let_go();
    // Before any limit of a request is over.
    stage.sim.run_until_idle();
    stage.sim.advance(Duration::from_secs(10));
    let result = |plan: PlanId| stage.view(&home.plan(plan)).result();
    // The plan that asks would ask again when it is read for the look at it.
    let of_child = result(child);
    (result(parent), of_child)
}

#[test]
fn sub_plan_that_is_told_to_end_before_it_has_begun_in_another_world_ends() {
    over_both(|stage| {
        let cancelled = told_before_it_begins(&stage, |home, plan| home.plan(plan).cancel("eva"));
        assert_eq!(cancelled, (PlanResult::Cancelled, PlanResult::Cancelled));
    });
}

#[test]
fn sub_plan_that_is_dropped_before_it_has_begun_in_another_world_ends() {
    over_both(|stage| {
        let ends = |home: &World, plan: PlanId| {
            let view = stage.view(&home.plan(plan));
            let step = view.root().and_then(|root| root.run_step).expect("it runs");
            home.event(plan, step, None, &true)
        };
        let dropped = told_before_it_begins(&stage, ends);
        assert_eq!(dropped, (PlanResult::Success, PlanResult::Cancelled));
    });
}

/// Runs in the queue `slow` until the test lets it go.
struct Slow(Arc<Mutex<Vec<Completer<()>>>>);

impl Action for Slow {
    const NAME: &'static str = "slow";
    type Input = ();
    type Output = u32;
    type Phases = RunsAsync;

    fn queue(&self) -> Option<&str> {
        Some("slow")
    }
}

impl RunAsync for Slow {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let (completer, goes_on) = completion();
        self.0.lock().expect("no panic here").push(completer);
        let _ended = goes_on.await;
        step.output = step.attempt();
        Ok(Next::Done)
    }
}

#[test]
fn each_world_has_its_own_places_and_plans_that_come_to_it_wait_for_them() {
    over_both(|stage| {
        let slow = |name: &str| {
            let held = Arc::new(Mutex::new(Vec::new()));
            let action = Slow(Arc::clone(&held));
            let queue = Queue::new("slow").size(1);
            let build = |world: turnwheel_engine::WorldBuilder| world.queue(queue).action(action);
            (stage.executor_with(name, |_| {}, build).0, held)
        };
        let ((first, _held), (second, goes_on)) = (slow("first"), slow("second"));
        let trigger = |world: &World| stage.passing(world.trigger::<Slow>(())).unwrap().id();
        let all = [trigger(&first), trigger(&first), trigger(&second)];
        let status = |world: &World| {
            stage.sim.run_until_idle();
            let queues = world.queues();
            let slow = queues.iter().find(|queue| queue.name == "slow").expect("it is there");
            (slow.running, slow.waiting)
        };
        assert_eq!((status(&first), status(&second)), ((1, 1), (1, 0)));
        assert!(stage.invalidate(&second, &first));
        for waiting in [2, 1, 0] {
            assert_eq!(status(&second), (1, waiting));
            let next = goes_on.lock().unwrap().pop().expect("one runs");
            assert!(goes_on.lock().unwrap().is_empty(), "and one only");
            assert!(next.complete(()).is_ok());
        }
        assert_eq!(status(&second), (0, 0));
        let attempts = all.map(|plan| {
            let view = stage.finished(&second.plan(plan));
            view.output::<Slow>().unwrap()
        });
        assert_eq!(attempts, [2, 1, 1], "only the code that ran was interrupted");
    });
}

#[test]
fn a_dead_letter_is_delivered_again_by_a_world_that_does_not_own_the_plan() {
    let stage = Stage::over(MemoryStore::new());
    let (first, script) = stage.executor("first");
    let client = stage.client("client");
    script.on("a", |step| {
        if step.has_event() {
            return Ok(Next::Done);
        }
        if step.attempt() == 1 {
            return Err(crate::common::error("broken"));
        }
        Ok(Next::suspend("a word"))
    });
    let plan = stage.perform(&first, "a");
    let step = step_of(&stage.view(&plan), "a");
    assert_eq!(stage.view(&plan).state, PlanState::Paused);
    stage.passing(first.event(plan.id(), step, None, &1)).unwrap().expect_err("it has failed");
    let letter = client.dead_letters().letters[0].number;
    stage.passing(client.redeliver(letter, None)).expect_err("it still has");
    assert_eq!(client.dead_letters().letters.len(), 1, "it is not there twice");
    stage.passing(plan.resume("ann")).unwrap().expect("it goes on");
    stage.passing(client.redeliver(letter, None)).expect("its owner takes it");
    assert_eq!(stage.finished(&plan).state, PlanState::Stopped);
    assert!(client.dead_letters().letters.is_empty());
}
