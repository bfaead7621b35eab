//! The same for many plans at once: what would be touched, what was, and what not and why.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use turnwheel_engine::store::{Filter, Order};
use turnwheel_engine::{
    Action, ActionError, BulkOrder, BulkOutcome, BulkProgress, BulkReport, Next, PlanHandle,
    PlanResult, PlanState, RunAsync, RunsAsync, Singleton, StepContext, Time,
};

use crate::common::*;

fn oldest() -> Filter {
    Filter { order: Order::OldestFirst, limit: 1, ..Filter::default() }
}

fn dry(theatre: &Theatre, filter: Filter, order: BulkOrder) -> BulkReport {
    let report = theatre.world.bulk(filter).dry_run(order);
    theatre.sim.block_on(report).expect("it ends").expect("the store is there")
}

fn run(theatre: &Theatre, filter: Filter, order: BulkOrder) -> BulkReport {
    let report = theatre.world.bulk(filter).run(order, "ann");
    theatre.sim.block_on(report).expect("it ends").expect("the store is there")
}

/// What became of each plan, in a word or with the reason.
fn told(report: &BulkReport) -> Vec<String> {
    let word = |outcome: &BulkOutcome| match outcome {
        BulkOutcome::Would => "would".to_owned(),
        BulkOutcome::Done => "done".to_owned(),
        BulkOutcome::Left { why } => why.clone(),
        other => format!("{other:?}"),
    };
    report.plans.iter().map(|plan| word(&plan.outcome)).collect()
}

/// A plan that is over, one that is paused, one that waits.
fn three(theatre: &Theatre) -> [PlanHandle; 3] {
    theatre.script.on("bad", |step| {
        step.output = (step.attempt()).into();
        Err(error("pause"))
    });
    theatre.script.on("wait", |_| Ok(Next::suspend("a word")));
    let plans = ["good", "bad needs", "wait"].map(|text| theatre.perform(text));
    theatre.sim.run_until_idle();
    plans
}

#[test]
fn a_dry_run_tells_what_would_be_touched_and_changes_nothing() {
    let theatre = Theatre::new();
    let plans = three(&theatre);
    let before: Vec<_> = plans.iter().map(|plan| theatre.settle(plan).history.clone()).collect();
    let over = "it is over";
    for order in [BulkOrder::Cancel, BulkOrder::CancelNow, BulkOrder::Halt] {
        assert_eq!(told(&dry(&theatre, oldest(), order)), [over, "would", "would"]);
    }
    let paused = "only a paused plan can be resumed";
    assert_eq!(told(&dry(&theatre, oldest(), BulkOrder::Resume)), [paused, "would", paused]);
    let paused = "only a paused plan can have its failed steps skipped";
    assert_eq!(told(&dry(&theatre, oldest(), BulkOrder::Skip)), [paused, "would", paused]);
    let report = dry(&theatre, oldest(), BulkOrder::Retry);
    assert_eq!((report.touched(), report.left(), report.failed()), (1, 2, 0));
    let is_over = "only a plan that is over can be deleted";
    assert_eq!(told(&dry(&theatre, oldest(), BulkOrder::Delete)), ["would", is_over, is_over]);
    let after: Vec<_> = plans.iter().map(|plan| theatre.settle(plan).history.clone()).collect();
    assert_eq!(before, after);
}

#[test]
fn each_order_does_what_its_dry_run_said() {
    let orders = [
        BulkOrder::Cancel,
        BulkOrder::CancelNow,
        BulkOrder::Resume,
        BulkOrder::Skip,
        BulkOrder::Retry,
        BulkOrder::Halt,
        BulkOrder::Delete,
    ];
    for order in orders {
        let theatre = Theatre::new();
        three(&theatre);
        let said = told(&dry(&theatre, oldest(), order));
        let done = told(&run(&theatre, oldest(), order));
        let expected: Vec<String> = said.iter().map(|word| word.replace("would", "done")).collect();
        assert_eq!(done, expected, "{order:?}");
        theatre.sim.run_until_idle();
        // What was done is durable, and is not there to be done again.
        let theatre = theatre.crash();
        let again = dry(&theatre, oldest(), order).touched();
        let fails_again = matches!(order, BulkOrder::Resume | BulkOrder::Retry);
        assert_eq!(again, usize::from(fails_again), "{order:?}");
    }
}

#[test]
fn plans_that_an_order_is_not_for_keep_it_from_no_other_however_many_they_are() {
    let theatre = Theatre::new();
    for _ in 0..300 {
        let piece = theatre.world.trigger::<Piece>("a".to_owned());
        theatre.sim.block_on(piece).unwrap().unwrap();
    }
    theatre.sim.run_until_idle();
    let [_, _, wait] = three(&theatre);
    let two = NonZeroUsize::new(2).unwrap();
    for order in [BulkOrder::Pause, BulkOrder::Cancel] {
        let bulk = theatre.world.bulk(oldest()).plans_max(two);
        let report = theatre.sim.block_on(bulk.run(order, "eva")).unwrap().unwrap();
        let expected = if order == BulkOrder::Pause { 1 } else { 2 };
        assert_eq!((report.touched(), report.left(), report.has_more), (expected, 2, false));
    }
    assert_eq!(theatre.settle(&wait).result(), PlanResult::Cancelled);
}

#[test]
fn failed_steps_are_skipped_or_begin_again_in_one_go() {
    let theatre = Theatre::new();
    let [_, bad, _] = three(&theatre);
    theatre.script.said();
    assert_eq!(run(&theatre, oldest(), BulkOrder::Retry).touched(), 1);
    let view = theatre.finished(&bad);
    assert_eq!(
        (view.state, theatre.script.said().join(" ")),
        (PlanState::Paused, "bad".to_owned())
    );
    assert_eq!(run(&theatre, oldest(), BulkOrder::Skip).touched(), 1);
    let view = theatre.finished(&bad);
    assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Warning));
    assert_eq!(states(&view), "skipped success");
    assert!(view.history.iter().any(|line| line.text.contains("by ann")), "{:?}", view.history);
}

#[test]
fn deleted_plans_are_gone_with_their_keys_and_those_that_are_needed_stay() {
    let theatre = Theatre::new();
    let plans: Vec<PlanHandle> = (0..150)
        .map(|number| {
            let piece = theatre.world.trigger_once::<Piece>(format!("{number}"), "a".to_owned());
            theatre.sim.block_on(piece).unwrap().unwrap()
        })
        .collect();
    theatre.sim.run_until_idle();
    let few = Filter { before: Some(plans[100].id()), ..oldest() };
    let report = run(&theatre, few, BulkOrder::Delete);
    assert_eq!((report.touched(), report.plans.len(), report.has_more), (100, 100, false));
    let all = Filter { limit: 1_000, ..Filter::default() };
    assert_eq!(theatre.sim.block_on(theatre.world.list(all)).unwrap().unwrap().len(), 50);
    let find = |key: &str| theatre.sim.block_on(theatre.world.find(key)).unwrap().unwrap();
    assert!(find("99").is_none() && find("100").is_some());
    assert!(theatre.sim.block_on(plans[0].view()).unwrap().is_err(), "there is no such plan");
}

#[test]
fn a_bulk_takes_no_more_than_it_may_and_tells_how_far_it_is() {
    let theatre = Theatre::new();
    theatre.script.on("wait", |_| Ok(Next::suspend("a word")));
    let plans: Vec<PlanHandle> = (0..600).map(|_| theatre.perform("wait")).collect();
    theatre.sim.run_until_idle();
    let seen: Arc<Mutex<Vec<BulkProgress>>> = Arc::default();
    let log = Arc::clone(&seen);
    let max = NonZeroUsize::new(500).unwrap();
    let bulk = theatre.world.bulk(oldest()).plans_max(max).at_once(7);
    let bulk = bulk.on_progress(move |progress| log.lock().unwrap().push(progress));
    let report = theatre.sim.block_on(bulk.run(BulkOrder::Cancel, "ann")).unwrap().unwrap();
    assert_eq!((report.touched(), report.has_more), (500, true));
    let seen = seen.lock().unwrap();
    let expected: Vec<BulkProgress> =
        (1..=500).map(|done| BulkProgress { done, total: 500 }).collect();
    assert_eq!(*seen, expected);
    assert_eq!(theatre.finished(&plans[499]).result(), PlanResult::Cancelled);
    assert_eq!(theatre.settle(&plans[500]).state, PlanState::Running);
    assert_eq!(
        run(&theatre, oldest(), BulkOrder::Halt).touched(),
        100,
        "the rest, with a page of one"
    );
}

#[test]
fn only_named_plans_are_touched_and_missing_ones_are_told() {
    let theatre = Theatre::new();
    let [good, bad, wait] = three(&theatre);
    let nobody = turnwheel_engine::PlanId::from_bytes([7; 16]);
    let named = [wait.id(), nobody, good.id()];
    let bulk = theatre.world.bulk(Filter::default()).only(&named);
    let no_such = "there is no such plan that fits";
    let dry = theatre.sim.block_on(bulk.dry_run(BulkOrder::Cancel)).unwrap().unwrap();
    assert_eq!(told(&dry), ["would", no_such, "it is over"]);
    let done = theatre.sim.block_on(bulk.run(BulkOrder::Cancel, "ann")).unwrap().unwrap();
    assert_eq!(told(&done), ["done", no_such, "it is over"]);
    assert_eq!(theatre.settle(&wait).result(), PlanResult::Cancelled);
    assert_eq!(theatre.settle(&bad).state, PlanState::Paused);
    // The filter holds besides, and the first of too many are taken.
    let paused = Filter { states: vec![PlanState::Paused], ..Filter::default() };
    let ids = [good.id(), bad.id()];
    let bulk = theatre.world.bulk(paused).only(&ids);
    let dry = theatre.sim.block_on(bulk.dry_run(BulkOrder::Cancel)).unwrap().unwrap();
    assert_eq!(told(&dry), [no_such, "would"]);
    let first = bulk.plans_max(NonZeroUsize::new(1).unwrap());
    let dry = theatre.sim.block_on(first.dry_run(BulkOrder::Cancel)).unwrap().unwrap();
    assert_eq!((told(&dry).len(), dry.has_more), (1, true));
}

/// Fails the first time, and then waits; one at a time.
struct Alone;

impl Action for Alone {
    const NAME: &'static str = "alone";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;

    fn singleton(&self) -> Option<Singleton<()>> {
        Some(Singleton::new())
    }
}

impl RunAsync for Alone {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.attempt() == 1 && step.plan_created_at() < Time(946_684_860_000_000) {
            return Err(error("broken"));
        }
        Ok(Next::suspend("a word"))
    }
}

#[test]
fn a_lock_that_another_plan_has_is_told_before_and_by_the_real_run_alike() {
    for order in [BulkOrder::Resume, BulkOrder::Skip, BulkOrder::Retry] {
        let theatre = Theatre::with(|_| {}, |world| world.action(Alone));
        let begin = || {
            let plan = theatre.sim.block_on(theatre.world.trigger::<Alone>(()));
            theatre.settle(&plan.expect("it ends").expect("it is taken"))
        };
        assert_eq!(begin().state, PlanState::Paused);
        theatre.sim.advance(std::time::Duration::from_secs(120));
        let holder = begin();
        assert_eq!(holder.state, PlanState::Running);
        let paused = Filter { states: vec![PlanState::Paused], ..oldest() };
        let would = told(&dry(&theatre, paused.clone(), order));
        assert_eq!(would.len(), 1);
        assert!(would[0].contains(&holder.id.to_string()), "{order:?}: {would:?}");
        assert_eq!(told(&run(&theatre, paused.clone(), order)), would, "{order:?}");
        theatre.done(theatre.world.plan(holder.id).cancel("ann")).unwrap();
        theatre.sim.run_until_idle();
        assert_eq!(told(&dry(&theatre, paused.clone(), order)), ["would"]);
        assert_eq!(told(&run(&theatre, paused, order)), ["done"]);
    }
}
