//! Actions of which one plan may be under way: who has the lock, who waits, and when it is free.

use std::time::Duration;

use turnwheel_engine::store::Filter;
use turnwheel_engine::{
    Action, ActionError, Cause, Finalize, Finalizes, Next, PlanHandle, PlanId, PlanResult,
    PlanState, PlanView, Planner, Run, RunAsync, Runs, RunsAsync, Singleton, StepContext,
    TriggerError, World, WorldBuilder,
};
use turnwheel_sqlite::SqliteStore;

use crate::common::Theatre;

/// Waits for an event that says whether it goes well. Which kind of singleton it is, `K` says.
struct Solo<const K: usize>;

const REJECT: usize = 0;
const OTHER: usize = 1;
const WAIT: usize = 2;
const REPLACE: usize = 3;
const KEYED: usize = 4;

impl<const K: usize> Action for Solo<K> {
    const NAME: &'static str = ["reject", "other", "wait", "replace", "keyed"][K];
    type Input = String;
    type Output = ();
    type Phases = (RunsAsync, Finalizes);

    fn singleton(&self) -> Option<Singleton<String>> {
        Some(match K {
            WAIT => Singleton::new().wait(),
            REPLACE => Singleton::new().replace(),
            KEYED => Singleton::keyed(|key: &String| key.clone()),
            _ => Singleton::new(),
        })
    }
}

impl<const K: usize> RunAsync for Solo<K> {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.event::<bool>()? {
            None => Ok(Next::suspend("an event")),
            Some(true) => Ok(Next::Done),
            Some(false) => Err(ActionError::new("bad", "it went wrong")),
        }
    }
}

impl<const K: usize> Finalize for Solo<K> {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

/// A singleton without steps of its own.
struct OnlyPlans;

impl Action for OnlyPlans {
    const NAME: &'static str = "only-plans";
    type Input = bool;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, waits: bool) -> Result<(), ActionError> {
        if waits {
            planner.plan_action::<Solo<OTHER>>(String::new())?;
        }
        Ok(())
    }

    fn singleton(&self) -> Option<Singleton<bool>> {
        Some(Singleton::new())
    }
}

/// Plans one singleton twice, and waits beside another.
struct Pair;

impl Action for Pair {
    const NAME: &'static str = "pair";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        planner.plan_action::<Solo<WAIT>>("one".to_owned())?;
        planner.plan_action::<Solo<WAIT>>("two".to_owned())?;
        planner.plan_action::<Solo<REPLACE>>("three".to_owned())?;
        Ok(())
    }
}

fn actions(builder: WorldBuilder) -> WorldBuilder {
    builder
        .action(Solo::<REJECT>)
        .action(Solo::<OTHER>)
        .action(Solo::<WAIT>)
        .action(Solo::<REPLACE>)
        .action(Solo::<KEYED>)
        .action(OnlyPlans)
        .action(Pair)
}

fn theatre() -> Theatre {
    Theatre::with(|_| {}, actions)
}

fn try_trigger<A: Action>(theatre: &Theatre, input: A::Input) -> Result<PlanHandle, TriggerError> {
    theatre.sim.block_on(theatre.world.trigger::<A>(input)).expect("it ends")
}

fn trigger<const K: usize>(theatre: &Theatre, key: &str) -> PlanHandle {
    try_trigger::<Solo<K>>(theatre, key.to_owned()).expect("the plan is taken")
}

/// Sends the plan's only run step what it waits for.
fn end(theatre: &Theatre, plan: &PlanHandle, is_good: bool) -> PlanView {
    let view = theatre.settle(plan);
    let step = view.actions.iter().find_map(|action| action.run_step).expect("it runs");
    theatre.done(theatre.world.event(plan.id(), step, None, &is_good)).expect("it is taken");
    theatre.finished(plan)
}

/// The lock's name with who has it.
fn held(theatre: &Theatre) -> Vec<(String, Option<PlanId>)> {
    theatre.sim.run_until_idle();
    theatre.world.locks().into_iter().map(|lock| (lock.name, lock.holder)).collect()
}

fn state(theatre: &Theatre, plan: &PlanHandle) -> PlanState {
    theatre.settle(plan).state
}

#[test]
fn a_lock_is_held_until_the_plan_is_stopped_whatever_its_phases() {
    // F-170 D-059 D-060 D-061 D-151
    let theatre = theatre();
    let plan = try_trigger::<OnlyPlans>(&theatre, true).unwrap();
    let names = ["only-plans", "other"].map(|name| (name.to_owned(), Some(plan.id())));
    assert_eq!(held(&theatre), names);
    assert_eq!(end(&theatre, &plan, true).result(), PlanResult::Success);
    assert!(held(&theatre).is_empty());
    // One that is over in the commit in which it begins.
    let plan = try_trigger::<OnlyPlans>(&theatre, false).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    assert!(held(&theatre).is_empty());
    // While it is suspended, also when it has left memory.
    let plan = trigger::<REJECT>(&theatre, "");
    theatre.sim.advance(Duration::from_secs(600));
    assert_eq!(held(&theatre), [("reject".to_owned(), Some(plan.id()))]);
    assert_eq!(end(&theatre, &plan, true).result(), PlanResult::Success);
    assert!(held(&theatre).is_empty());
}

#[test]
fn a_second_one_fails_in_planning_and_names_the_first() {
    // F-170 D-062 S-25
    let theatre = theatre();
    let first = trigger::<REJECT>(&theatre, "");
    let error = try_trigger::<Solo<REJECT>>(&theatre, String::new()).expect_err("it is active");
    let TriggerError::Planning { plan, error } = error else { panic!("{error}") };
    assert_eq!(error.kind, "already_active");
    assert!(error.message.contains(&first.id().to_string()), "{error}");
    let view = theatre.settle(&theatre.world.plan(plan));
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Error));
    // Another action has another lock.
    let other = trigger::<OTHER>(&theatre, "");
    assert_eq!(state(&theatre, &other), PlanState::Running);
    assert_eq!(end(&theatre, &first, true).result(), PlanResult::Success);
    assert!(try_trigger::<Solo<REJECT>>(&theatre, String::new()).is_ok());
}

#[test]
fn a_paused_plan_has_no_lock_and_needs_it_again_to_go_on() {
    // D-062 D-152
    let theatre = theatre();
    let first = trigger::<REJECT>(&theatre, "");
    assert_eq!(end(&theatre, &first, false).state, PlanState::Paused);
    assert!(held(&theatre).is_empty());
    let third = trigger::<REJECT>(&theatre, "");
    let problem = theatre.done(first.resume("ann")).expect_err("the third has the lock");
    assert!(problem.to_string().contains("already active"), "{problem}");
    assert!(theatre.done(first.revert("ann")).is_err());
    let view = theatre.settle(&first);
    assert_eq!((view.state, view.result()), (PlanState::Paused, PlanResult::Error));
    assert_eq!(end(&theatre, &third, true).result(), PlanResult::Success);
    theatre.done(first.resume("ann")).unwrap();
    assert_eq!(held(&theatre), [("reject".to_owned(), Some(first.id()))]);
    assert_eq!(end(&theatre, &first, true).result(), PlanResult::Success);
    assert!(held(&theatre).is_empty());
}

#[test]
fn of_several_that_come_at_once_one_begins() {
    let theatre = theatre();
    // None of them is durable when the others ask.
    let all: Vec<_> =
        (0..5).map(|_| theatre.world.trigger::<Solo<REJECT>>(String::new())).collect();
    let all: Vec<_> = all.into_iter().map(|one| theatre.sim.block_on(one).unwrap()).collect();
    assert_eq!(all.iter().filter(|one| one.is_ok()).count(), 1);
    let waiting: Vec<_> =
        (0..3).map(|_| theatre.world.trigger::<Solo<WAIT>>(String::new())).collect();
    let waiting = waiting.into_iter().map(|one| theatre.sim.block_on(one).unwrap().unwrap());
    let waiting: Vec<_> = waiting.collect();
    for count in [1, 2, 3] {
        let states: Vec<_> = waiting.iter().map(|plan| state(&theatre, plan)).collect();
        let is = |wanted| states.iter().filter(|state| **state == wanted).count();
        assert_eq!((is(PlanState::Running), is(PlanState::Stopped)), (1, count - 1), "{states:?}");
        let next = states.iter().position(|state| *state == PlanState::Running).unwrap();
        end(&theatre, &waiting[next], true);
    }
    // Two that are paused are resumed at once.
    theatre.sim.run_until_idle();
    let first = trigger::<OTHER>(&theatre, "");
    end(&theatre, &first, false);
    let second = trigger::<OTHER>(&theatre, "");
    end(&theatre, &second, false);
    let both = [first.resume("ann"), second.resume("ann")];
    let both = both.map(|done| theatre.done(done).is_ok());
    assert_eq!(both.iter().filter(|is_ok| **is_ok).count(), 1, "{both:?}");
    let states = [state(&theatre, &first), state(&theatre, &second)];
    let wanted = both.map(|is_ok| if is_ok { PlanState::Running } else { PlanState::Paused });
    assert_eq!(states, wanted);
}

#[test]
fn those_that_wait_come_in_their_order_and_some_give_up() {
    let theatre = theatre();
    let plans: Vec<_> = (0..4).map(|_| trigger::<WAIT>(&theatre, "")).collect();
    assert_eq!(held(&theatre), [("wait".to_owned(), Some(plans[0].id()))]);
    let waiting = &theatre.world.locks()[0].waiting;
    assert_eq!(*waiting, [1, 2, 3].map(|n: usize| plans[n].id()));
    let view = theatre.settle(&plans[1]);
    let waits_for = format!("the lock «wait», which plan {} has", plans[0].id());
    assert_eq!((view.state, view.waits_for()), (PlanState::Planned, waits_for));
    theatre.done(plans[1].cancel("ann")).unwrap();
    assert_eq!(theatre.finished(&plans[1]).result(), PlanResult::Cancelled);
    end(&theatre, &plans[0], true);
    assert_eq!(held(&theatre), [("wait".to_owned(), Some(plans[2].id()))]);
    let waits_for = format!("the lock «wait», which plan {} has", plans[2].id());
    assert_eq!(theatre.settle(&plans[3]).waits_for(), waits_for);
    let rows = theatre.sim.block_on(theatre.world.list(Filter::default())).unwrap().unwrap();
    let row = rows.into_iter().find(|row| row.id == plans[3].id()).unwrap();
    assert_eq!(row.waits_for, waits_for, "the row was written when another plan had it");
    // One that is paused lets the next one go on, and one that is halted as well.
    end(&theatre, &plans[2], false);
    assert_eq!(held(&theatre), [("wait".to_owned(), Some(plans[3].id()))]);
    theatre.done(plans[3].halt("ann")).unwrap();
    assert!(held(&theatre).is_empty());
}

#[test]
fn a_new_one_replaces_those_before_it() {
    let theatre = theatre();
    let plans: Vec<_> = (0..3)
        .map(|_| {
            let plan = trigger::<REPLACE>(&theatre, "");
            theatre.sim.run_until_idle();
            plan
        })
        .collect();
    for old in &plans[..2] {
        assert_eq!(theatre.finished(old).result(), PlanResult::Cancelled);
    }
    assert_eq!(held(&theatre), [("replace".to_owned(), Some(plans[2].id()))]);
    assert_eq!(end(&theatre, &plans[2], true).result(), PlanResult::Success);
}

#[test]
fn a_plan_takes_all_of_its_locks_or_none() {
    let theatre = theatre();
    let first = trigger::<WAIT>(&theatre, "");
    let pair = try_trigger::<Pair>(&theatre, ()).unwrap();
    assert_eq!(state(&theatre, &pair), PlanState::Planned);
    assert_eq!(held(&theatre)[1], ("wait".to_owned(), Some(first.id())));
    end(&theatre, &first, true);
    let both = ["replace", "wait"].map(|name| (name.to_owned(), Some(pair.id())));
    assert_eq!(held(&theatre), both);
    theatre.done(pair.cancel("ann")).unwrap();
    assert!(held(&theatre).is_empty());
}

#[test]
fn keys_are_locks_of_their_own() {
    let theatre = theatre();
    let (a, b) = (trigger::<KEYED>(&theatre, "a"), trigger::<KEYED>(&theatre, "b"));
    let names = [("keyed: a".to_owned(), Some(a.id())), ("keyed: b".to_owned(), Some(b.id()))];
    assert_eq!(held(&theatre), names);
    assert!(try_trigger::<Solo<KEYED>>(&theatre, "a".to_owned()).is_err());
}

#[test]
fn locks_and_those_that_wait_survive_a_crash() {
    let theatre = theatre();
    let first = trigger::<WAIT>(&theatre, "").id();
    let second = trigger::<WAIT>(&theatre, "").id();
    let other = trigger::<REJECT>(&theatre, "").id();
    theatre.sim.run_until_idle();
    let theatre = theatre.crash_with(|_| {}, actions);
    let names = [("reject".to_owned(), Some(other)), ("wait".to_owned(), Some(first))];
    assert_eq!(held(&theatre), names);
    assert!(try_trigger::<Solo<REJECT>>(&theatre, String::new()).is_err());
    end(&theatre, &theatre.world.plan(first), true);
    assert_eq!(state(&theatre, &theatre.world.plan(second)), PlanState::Running);
    assert_eq!(end(&theatre, &theatre.world.plan(second), true).result(), PlanResult::Success);
}

/// Asks for a plan of its own kind, which would wait for it.
struct Nested;

impl Action for Nested {
    const NAME: &'static str = "nested";
    type Input = ();
    type Output = u32;
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new().wait())
    }
}

impl RunAsync for Nested {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() != Cause::SubPlans {
            step.trigger::<Self>(&())?;
            return Ok(Next::suspend("one like it"));
        }
        step.output = step.sub_plans().failed;
        Ok(Next::Done)
    }
}

#[test]
fn a_plan_does_not_wait_for_the_one_that_waits_for_it() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Nested));
    let plan = try_trigger::<Nested>(&theatre, ()).unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.result(), PlanResult::Success);
    assert_eq!(view.output::<Nested>().unwrap(), 1, "the other one has failed in planning");
}

/// Blocks nobody and ends at once.
struct Quick;

impl Action for Quick {
    const NAME: &'static str = "quick";
    type Input = ();
    type Output = ();
    type Phases = Runs;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new().wait())
    }
}

impl Run for Quick {
    fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Ok(Next::Done)
    }
}

#[test]
fn many_that_wait_all_come_through_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::builder().action(Quick);
    let world = world.build(SqliteStore::new(folder.path().join("plans.db"))).unwrap();
    let plans: Vec<_> = (0..50).map(|_| world.trigger::<Quick>(())).collect();
    for plan in plans {
        let view = plan.wait().unwrap().finished().wait().unwrap();
        assert_eq!(view.result(), PlanResult::Success);
    }
    assert!(world.locks().is_empty());
    world.shutdown().unwrap();
}
