//! Plans that would wait for one another for ever: over sub-plans and the locks of singletons.

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Next, PlanHandle, PlanId, PlanResult, PlanState, RunAsync,
    RunsAsync, Singleton, StepContext, WorldBuilder,
};

use crate::common::Theatre;

/// Which lock it needs, if any, and what it does: asks for the next one of its line, or waits for an event
/// before it does.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Link {
    lock: String,
    waits: bool,
    below: Vec<Link>,
}

/// A link whose lock is that of its name: `K` tells those with a lock from those without.
struct Node<const K: usize>;

const FREE: usize = 0;
const LOCKED: usize = 1;

impl<const K: usize> Action for Node<K> {
    const NAME: &'static str = ["free", "locked"][K];
    type Input = Link;
    type Output = u32;
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<Link>> {
        (K == LOCKED).then(|| Singleton::keyed(|link: &Link| link.lock.clone()).wait())
    }
}

impl<const K: usize> RunAsync for Node<K> {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::SubPlans {
            step.output = step.sub_plans().failed;
            return Ok(Next::Done);
        }
        if step.input.waits && !step.has_event() {
            return Ok(Next::suspend("an event"));
        }
        if step.input.below.is_empty() {
            return Ok(Next::Done);
        }
        for link in step.input.below.clone() {
            if link.lock.is_empty() {
                step.trigger::<Node<FREE>>(&link)?;
            } else {
                step.trigger::<Node<LOCKED>>(&link)?;
            }
        }
        Ok(Next::suspend("those below"))
    }
}

fn link(lock: &str, below: Vec<Link>) -> Link {
    Link { lock: lock.to_owned(), waits: false, below }
}

fn theatre() -> Theatre {
    let actions = |world: WorldBuilder| world.action(Node::<FREE>).action(Node::<LOCKED>);
    Theatre::with(|_| {}, actions)
}

fn trigger(theatre: &Theatre, link: Link) -> PlanHandle {
    let triggering = theatre.world.trigger::<Node<LOCKED>>(link);
    theatre.sim.block_on(triggering).expect("it ends").expect("the plan is taken")
}

fn child_of(theatre: &Theatre, plan: &PlanHandle) -> PlanId {
    let filter = turnwheel_engine::store::Filter { caller: Some(plan.id()), ..Default::default() };
    let rows =
        theatre.sim.block_on(theatre.world.list(filter)).expect("it ends").expect("it reads");
    rows.first().expect("it has asked for one").id
}

#[test]
fn a_plan_two_levels_down_that_needs_the_lock_of_its_ancestor_ends_with_the_chain() {
    let theatre = theatre();
    let plan = trigger(&theatre, link("a", vec![link("", vec![link("a", vec![])])]));
    let view = theatre.finished(&plan);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
    let middle = theatre.world.plan(child_of(&theatre, &plan));
    assert_eq!(
        theatre.finished(&middle).output::<Node<FREE>>().unwrap(),
        1,
        "one below has failed"
    );
    let lowest = theatre.world.plan(child_of(&theatre, &middle));
    let error = theatre.finished(&lowest).planning_error.clone().unwrap();
    assert_eq!(error.kind, "deadlock");
    let chain = format!(
        "plan {} waits for the lock «locked: a», which plan {} has, and plan {1} waits for plan {0}",
        lowest.id(),
        plan.id()
    );
    assert!(error.message.contains(&chain), "{error}");
    assert!(theatre.world.locks().is_empty());
}

#[test]
fn two_lines_that_need_each_others_locks_come_through_but_for_one_plan() {
    let theatre = theatre();
    let line = |own: &str, other: &str| Link {
        waits: true,
        ..link(own, vec![link("", vec![link(other, vec![])])])
    };
    let plans = [trigger(&theatre, line("a", "b")), trigger(&theatre, line("b", "a"))];
    for plan in &plans {
        let step = theatre.settle(plan).run_step::<Node<LOCKED>>().unwrap().id;
        theatre.done(theatre.world.event(plan.id(), step, None, &())).unwrap();
    }
    let mut failed = 0;
    for plan in &plans {
        assert_eq!(theatre.finished(plan).result(), PlanResult::Success);
        let middle = theatre.world.plan(child_of(&theatre, plan));
        let lowest = theatre.world.plan(child_of(&theatre, &middle));
        if let Some(error) = &theatre.finished(&lowest).planning_error {
            failed += 1;
            for plan in &plans {
                assert!(error.message.contains(&plan.id().to_string()), "{error}");
            }
        }
    }
    assert_eq!(failed, 1, "the one that would have closed the circle");
    assert!(theatre.world.locks().is_empty());
}

#[test]
fn many_below_one_plan_that_need_one_lock_wait_for_one_another_and_come_through() {
    let theatre = theatre();
    let below = (0..200).map(|_| link("b", vec![])).collect();
    let view = theatre.finished(&trigger(&theatre, link("a", below)));
    assert_eq!((view.result(), view.output::<Node<LOCKED>>().unwrap()), (PlanResult::Success, 0));
}

#[test]
fn a_circle_is_found_also_when_those_that_wait_were_read_after_a_crash() {
    let theatre = theatre();
    let line =
        |own: &str, other: &str| Link { waits: true, ..link(own, vec![link(other, vec![])]) };
    let plans = [trigger(&theatre, line("a", "b")), trigger(&theatre, line("b", "a"))];
    let step = theatre.settle(&plans[0]).run_step::<Node<LOCKED>>().unwrap().id;
    theatre.done(theatre.world.event(plans[0].id(), step, None, &())).unwrap();
    theatre.settle(&plans[0]);
    let ids = plans.each_ref().map(PlanHandle::id);
    drop(plans);
    // Ids of a seed are told apart by the time.
    theatre.sim.advance(std::time::Duration::from_secs(1));
    let actions = |world: WorldBuilder| world.action(Node::<FREE>).action(Node::<LOCKED>);
    let theatre = theatre.crash_with(|_| {}, actions);
    theatre.sim.run_until_idle();
    theatre.done(theatre.world.event(ids[1], step, None, &())).unwrap();
    let ends = ids.map(|id| {
        let view = theatre.finished(&theatre.world.plan(id));
        (view.result(), view.output::<Node<LOCKED>>().unwrap())
    });
    assert_eq!(ends, [(PlanResult::Success, 0), (PlanResult::Success, 1)]);
}
