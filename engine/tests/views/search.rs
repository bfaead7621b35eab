//! Plans are found again: by labels that people give and change, by why they wait, and counted.

use std::time::Duration;

use turnwheel_engine::limits::{LABELS_MAX, LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX};
use turnwheel_engine::store::{Filter, Order, PlanRow};
use turnwheel_engine::{
    Delay, MemoryStore, Next, PlanError, PlanHandle, PlanResult, PlanState, TriggerError,
    TriggerOptions, Waiting, World,
};

use crate::common::*;

fn perform(theatre: &Theatre, options: TriggerOptions, text: &str) -> PlanHandle {
    let triggering = theatre.world.trigger_with::<Piece>(options, text.to_owned());
    theatre.sim.block_on(triggering).expect("it ends").expect("it is taken")
}

fn rows(theatre: &Theatre, filter: Filter) -> Vec<PlanRow> {
    theatre.sim.block_on(theatre.world.list(filter)).expect("it ends").expect("it lists")
}

fn having(name: &str, value: Option<&str>) -> Filter {
    let labels = vec![(name.to_owned(), value.map(str::to_owned))];
    Filter { labels, ..Filter::default() }
}

#[test]
fn a_plan_is_found_by_its_labels_also_when_they_change_and_after_a_crash() {
    let theatre = Theatre::new();
    let options = TriggerOptions::new().label("customer", "Ann").tag("urgent").by("the shop");
    let plan = perform(&theatre, options, "a");
    perform(&theatre, TriggerOptions::new().label("customer", "Bob"), "b");
    theatre.finished(&plan);
    let found = rows(&theatre, having("customer", Some("Ann")));
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [plan.id()]);
    assert_eq!((&*found[0].action, &*found[0].by), ("piece", "the shop"));
    assert_eq!(rows(&theatre, having("customer", None)).len(), 2);

    // It is over, and changes its labels all the same.
    theatre.done(plan.label("customer", "Eve", "the clerk")).unwrap();
    theatre.done(plan.remove_label("urgent", "the clerk")).unwrap();
    let theatre = theatre.crash();
    let plan = theatre.world.plan(plan.id());
    let view = theatre.settle(&plan);
    assert_eq!((view.labels.len(), view.labels["customer"].as_str()), (1, "Eve"));
    let told = view.history.iter().filter(|line| line.text == "labels changed by the clerk");
    assert_eq!(told.count(), 2);
    assert!(rows(&theatre, having("customer", Some("Ann"))).is_empty());
    assert!(rows(&theatre, having("urgent", None)).is_empty());
    assert_eq!(rows(&theatre, having("customer", Some("Eve"))).len(), 1);
    assert_eq!(theatre.world.present(&view).labels, [("customer".to_owned(), "Eve".to_owned())]);
    // What is as it should be is not written again.
    theatre.done(plan.label("customer", "Eve", "nobody")).unwrap();
    theatre.done(plan.remove_label("urgent", "nobody")).unwrap();
    assert_eq!(theatre.settle(&plan).history, view.history);
}

#[test]
fn labels_beyond_the_limits_are_refused_and_named() {
    let theatre = Theatre::new();
    let trigger = |options: TriggerOptions| {
        let triggering = theatre.world.trigger_with::<Piece>(options, "a".to_owned());
        theatre.sim.block_on(triggering).unwrap()
    };
    let refused = |options: TriggerOptions, expected: &str| match trigger(options) {
        Err(TriggerError::Label(problem)) => assert!(problem.contains(expected), "{problem}"),
        other => panic!("{other:?}"),
    };
    let new = TriggerOptions::new;
    refused(new().label("", "x"), "empty");
    refused(new().tag("n".repeat(LABEL_NAME_BYTES_MAX + 1)), "the name of the label «nnn");
    refused(
        new().label("size", "v".repeat(LABEL_VALUE_BYTES_MAX + 1)),
        "the value of the label «size»",
    );
    let full = (0..LABELS_MAX).fold(new(), |options, number| options.tag(format!("tag {number}")));
    refused(full.clone().tag("one more"), "65 labels are given, and 64 are the limit");
    let plan = trigger(full).unwrap();
    let error = theatre.done(plan.label("one more", "", "ann")).unwrap_err();
    assert!(
        matches!(&error, PlanError::State { problem, .. } if problem.contains("64")),
        "{error}"
    );
    theatre.done(plan.remove_label("tag 0", "ann")).unwrap();
    theatre.done(plan.label("one more", "", "ann")).unwrap();
    let error = theatre.done(plan.label("", "x", "ann")).unwrap_err();
    assert!(matches!(error, PlanError::Refused { .. }), "{error}");
    assert_eq!(rows(&theatre, Filter::default()).len(), 1, "what was refused is not there");
}

#[test]
fn plans_are_counted_and_found_by_what_they_wait_for() {
    let theatre = Theatre::with(|play| play.attempts = 2, |builder| builder);
    for who in ["event", "event2"] {
        theatre.script.on(who, |_| Ok(Next::suspend("a word")));
    }
    theatre.script.on("timer", |step| {
        step.event_after(Duration::from_secs(1_000), &"late")?;
        Ok(Next::suspend("a moment"))
    });
    theatre.script.on("retry", |_| Err(error("again")));
    theatre.script.on("pause", |_| Err(error("pause").and_final()));
    for who in ["event", "timer", "event2", "retry", "pause", "good"] {
        theatre.perform(who);
    }
    let frozen = theatre.world.delay::<Piece>(turnwheel_engine::Delay::frozen(), "x".to_owned());
    theatre.sim.block_on(frozen).unwrap().unwrap();
    theatre.sim.run_until_idle();
    let counts = theatre.sim.block_on(theatre.world.counts()).unwrap().unwrap();
    let waiting = |waits| counts.waiting(waits);
    assert_eq!((waiting(Waiting::Event), waiting(Waiting::Timer)), (2, 1));
    assert_eq!((waiting(Waiting::Retry), waiting(Waiting::Decision)), (1, 1));
    assert_eq!((waiting(Waiting::Permission), waiting(Waiting::Nothing)), (1, 1));
    assert_eq!((counts.total(), counts.in_state(PlanState::Running)), (7, 4));
    assert_eq!(counts.with_result(PlanResult::Success), 1);
    let filter =
        Filter { waits: vec![Waiting::Event], order: Order::OldestFirst, ..Filter::default() };
    let found = rows(&theatre, filter);
    assert_eq!(found.len(), 2);
    assert!(found[0].id < found[1].id && found.iter().all(|row| row.waits_for == "a word"));
}

#[test]
fn lists_after_a_crash_show_what_was_durable_before_it() {
    let theatre = Theatre::new();
    let plans: Vec<_> = (0..50).map(|_| theatre.perform("a").id()).collect();
    for plan in &plans {
        theatre.finished(&theatre.world.plan(*plan));
    }
    let theatre = theatre.crash();
    // Nothing was done since: the rows may be behind, the list is not.
    let stopped = Filter { states: vec![PlanState::Stopped], ..Filter::default() };
    assert_eq!(rows(&theatre, stopped).len(), plans.len());
    let counts = theatre.sim.block_on(theatre.world.counts()).unwrap().unwrap();
    assert_eq!(counts.with_result(PlanResult::Success), plans.len() as u64);
}

#[test]
fn code_without_await_can_ask_as_well() {
    let world = World::builder().action(Piece).build(MemoryStore::new()).unwrap();
    let listed = world.list(Filter::default()).wait().unwrap();
    assert!(listed.is_empty());
    assert!(world.find("nothing").wait().unwrap().is_none());
    assert_eq!(world.counts().wait().unwrap().total(), 0);
    world.shutdown().unwrap();
}

#[test]
fn what_is_said_when_a_plan_is_triggered_is_said_of_a_delayed_one_too() {
    let theatre = Theatre::new();
    theatre.script.on("a", |_| Ok(Next::suspend("a word")));
    let hour = Duration::from_secs(3_600);
    let options = TriggerOptions::new()
        .key("tonight")
        .label("customer", "Ann")
        .by("the shop")
        .priority(7)
        .deadline(Duration::from_secs(60));
    let delayed = |options: &TriggerOptions| {
        let delay = Delay::by(hour);
        let triggering = theatre.world.delay_with::<Play>(options.clone(), delay, part("a"));
        theatre.sim.block_on(triggering).expect("it ends")
    };
    let plan = delayed(&options).expect("it is taken");
    assert_eq!(delayed(&options).expect("it is known").id(), plan.id(), "the key is taken at once");
    let view = theatre.settle(&plan);
    assert_eq!((view.state, view.created.priority), (PlanState::Scheduled, 7));
    assert_eq!((view.labels["customer"].as_str(), view.created.by.as_str()), ("Ann", "the shop"));
    theatre.sim.advance(hour);
    assert_eq!(theatre.settle(&plan).state, PlanState::Running, "its deadline begins with it");
    theatre.sim.advance(Duration::from_secs(59));
    assert_eq!(theatre.settle(&plan).state, PlanState::Running);
    theatre.sim.advance(Duration::from_secs(1));
    assert_eq!(theatre.finished(&plan).result(), PlanResult::Cancelled);
    // One that has the id of another plan is refused, and changes nothing of it.
    let refused = delayed(&TriggerOptions::new().id(plan.id()));
    assert!(matches!(refused, Err(TriggerError::Exists(id)) if id == plan.id()), "{refused:?}");
    assert_eq!(theatre.settle(&plan).result(), PlanResult::Cancelled);
    let long = "l".repeat(2_000);
    let refused = delayed(&TriggerOptions::new().label("a", long));
    assert!(matches!(refused, Err(TriggerError::Label(_))), "{refused:?}");
}
