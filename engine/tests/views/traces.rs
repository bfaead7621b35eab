//! A trace goes from the trigger to each step, to sub-plans, and on with what steps send.

use std::sync::{Arc, Mutex};

use turnwheel_actors::{RequestContext, TraceContext};
use turnwheel_engine::{Cause, Next, TriggerOptions};

use crate::common::{Piece, Theatre};

const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_trace_goes_from_the_trigger_to_each_step_and_to_its_sub_plans() {
    let theatre = Theatre::new();
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let see = |seen: &Arc<Mutex<Vec<(String, String)>>>, who: &'static str| {
        let seen = Arc::clone(seen);
        move |trace: Option<&TraceContext>| {
            // What is sent to actors from here carries it.
            assert_eq!(RequestContext::current().trace(), trace);
            let trace = trace.map_or_else(String::new, ToString::to_string);
            seen.lock().expect("no panic here").push((who.to_owned(), trace));
        }
    };
    let ann = see(&seen, "ann");
    theatre.script.on("ann", move |step| {
        if step.cause() == Cause::SubPlans {
            return Ok(Next::Done);
        }
        ann(step.trace());
        step.trigger::<Piece>(&"bob".to_owned())?;
        Ok(Next::suspend("bob"))
    });
    let bob = see(&seen, "bob");
    theatre.script.on("bob", move |step| {
        bob(step.trace());
        Ok(Next::Done)
    });
    let options = TriggerOptions::new().traceparent(HEADER).expect("it is one");
    let triggering = theatre.world.trigger_with::<Piece>(options, "ann".to_owned());
    let plan = theatre.sim.block_on(triggering).unwrap().unwrap();
    let view = theatre.finished(&plan);
    let stored = view.created.trace.as_ref().expect("it is stored");
    assert_eq!(stored.parent, HEADER);
    let seen = seen.lock().unwrap().clone();
    let [(_, ann), (_, bob)] = seen.as_slice() else { panic!("{seen:?}") };
    let [ann, bob]: [TraceContext; 2] = [ann, bob].map(|trace| trace.parse().expect("a trace"));
    let trigger: TraceContext = HEADER.parse().unwrap();
    assert!([&ann, &bob].iter().all(|trace| trace.trace_id() == trigger.trace_id()));
    assert_ne!(ann.parent_id(), trigger.parent_id());
    let child = view.sub_plans().next().expect("it has one").0;
    let child = theatre.settle(&theatre.world.plan(child));
    let by: TraceContext = child.created.trace.as_ref().unwrap().parent.parse().unwrap();
    assert_eq!(by.parent_id(), ann.parent_id(), "the step is the parent of the plan it asked for");
    assert_ne!(bob.parent_id(), ann.parent_id());
}

#[test]
fn a_plan_without_a_given_trace_hands_on_one_of_its_own() {
    let theatre = Theatre::new();
    let seen: Arc<Mutex<Vec<TraceContext>>> = Arc::default();
    let (ann, bob) = (Arc::clone(&seen), Arc::clone(&seen));
    theatre.script.on("ann", move |step| {
        if step.cause() == Cause::SubPlans {
            return Ok(Next::Done);
        }
        ann.lock().expect("no panic here").extend(step.trace().cloned());
        step.trigger::<Piece>(&"bob".to_owned())?;
        Ok(Next::suspend("bob"))
    });
    theatre.script.on("bob", move |step| {
        bob.lock().expect("no panic here").extend(step.trace().cloned());
        Ok(Next::Done)
    });
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    let seen = seen.lock().unwrap().clone();
    let own = view.id.uuid().as_u128();
    assert_eq!(seen.iter().map(TraceContext::trace_id).collect::<Vec<_>>(), [own, own]);
    assert!(seen[0].parent_id() != seen[1].parent_id() && seen[0].is_sampled());
    assert_eq!(view.created.trace, None, "it is not stored");
}

#[test]
fn the_trace_of_a_request_is_taken_up() {
    let theatre = Theatre::new();
    let trace: TraceContext = HEADER.parse().unwrap();
    let request = RequestContext::new().with_trace(trace.with_state("vendor=1"));
    let plan = request.scope(|| theatre.perform("ann"));
    let view = theatre.finished(&plan);
    let stored = view.created.trace.clone().expect("it is stored");
    assert_eq!((stored.parent.as_str(), stored.state.as_deref()), (HEADER, Some("vendor=1")));
    let plan = theatre.perform("ann");
    assert_eq!(theatre.finished(&plan).created.trace, None, "and nothing without one");
}

#[test]
fn a_header_that_is_none_is_refused() {
    for header in ["", "00-0-0-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
        TriggerOptions::new().traceparent(header).expect_err(header);
    }
}
