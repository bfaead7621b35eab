//! How a world is doing: counts, rates, what waits and since when, events that nobody took.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use turnwheel_engine::limits::{DEAD_LETTERS, DEAD_LETTER_BYTES, ROWS_BEHIND};
use turnwheel_engine::{Next, PlanId, Stats, StepId, Waiting};

use crate::common::{error, step_of, Piece, Theatre};

fn stats(theatre: &Theatre) -> Stats {
    theatre.sim.block_on(theatre.world.stats()).expect("it ends").expect("the world is there")
}

#[test]
fn a_world_counts_what_becomes_durable() {
    let theatre = Theatre::new();
    let none = stats(&theatre);
    assert_eq!((none.journal.plans_begun, none.journal.entries, none.dead_letters), (0, 0, 0));
    theatre.script.on("bob", |_| Err(error("pause")));
    theatre.script.on("cid", |_| Err(error("fail")));
    for piece in ["ann", "ann|eve", "bob", "cid"] {
        let plan = theatre.perform(piece);
        theatre.finished(&plan);
    }
    let now = stats(&theatre);
    let journal = &now.journal;
    assert_eq!((journal.plans_begun, journal.plans_ended, journal.plans_failed), (4, 3, 1));
    assert_eq!((journal.pauses, journal.failures), (1, 2));
    assert_eq!((journal.steps, journal.calls), (6, 8), "a run and a finalize step a part");
    assert!(journal.steps_per_s > 0.0 && journal.plans_per_s > 0.0);
    assert!(journal.bytes > 0 && journal.commits >= journal.commit_us.count);
    assert!(journal.commit_us.count > 0 && journal.commit_us.p99 >= journal.commit_us.p50);
    assert_eq!(journal.entries_waiting, 0);
    assert_eq!(now.queues[0].running, 0);
    // What is over is no rate any more; the counts stay.
    theatre.sim.advance(Duration::from_secs(60));
    let later = stats(&theatre);
    assert_eq!((later.journal.steps_per_s, later.journal.steps), (0.0, 6));
    assert_eq!(later.journal.rows_behind, 0, "rows follow when nothing else happens");
    let json = serde_json::to_value(&later).expect("it is data");
    assert_eq!(
        (json["plans_begun"].as_u64(), json["queues"][0]["waiting"].as_u64()),
        (Some(4), Some(0))
    );
}

#[test]
fn what_waits_longest_is_known_for_each_reason() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Ok(Next::suspend("a call")));
    theatre.script.on("bob", |_| Err(error("pause")));
    let first = theatre.perform("ann");
    theatre.settle(&first);
    theatre.sim.advance(Duration::from_secs(9));
    for piece in ["ann", "bob"] {
        let plan = theatre.perform(piece);
        theatre.settle(&plan);
    }
    let waiting = theatre.sim.block_on(theatre.world.waiting()).unwrap().unwrap();
    let lines: Vec<_> = waiting.iter().map(|group| (group.waiting, group.plans)).collect();
    assert_eq!(lines, [(Waiting::Event, 2), (Waiting::Decision, 1)]);
    let (oldest, since) = waiting[0].oldest.expect("there is one");
    assert_eq!((oldest, since), (first.id(), theatre.settle(&first).created.at));
    assert_eq!(waiting[0].text, "a call");
}

#[test]
fn an_event_that_nobody_takes_is_a_dead_letter_and_can_be_sent_again() {
    let theatre = Theatre::new();
    let world = &theatre.world;
    // There is no such plan.
    let nobody = PlanId::from_bytes([9; 16]);
    theatre.done(world.event(nobody, StepId(1), Some("lost"), &1)).expect_err("nobody is there");
    // Its step has failed, and takes none.
    theatre.script.on("ann", |_| Err(error("pause")));
    let plan = theatre.perform("ann");
    let view = theatre.finished(&plan);
    let ann = step_of(&view, "ann");
    theatre.done(world.event(plan.id(), ann, Some("early"), &"hello")).expect_err("it has failed");
    let letters = world.dead_letters();
    assert_eq!((letters.total, letters.letters.len(), stats(&theatre).dead_letters), (2, 2, 2));
    let [lost, early] = letters.letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!((lost.plan, lost.id.as_deref()), (nobody, Some("lost")));
    assert_eq!((early.plan, early.step, early.id.as_deref()), (plan.id(), ann, Some("early")));
    assert!(early.reason.contains("error"), "{}", early.reason);
    // It is still refused, and stays one.
    let (lost, early) = (lost.number, early.number);
    let again = |number| theatre.sim.block_on(world.redeliver(number, None)).unwrap();
    again(early).expect_err("it has failed still");
    again(lost).expect_err("nobody is there still");
    assert_eq!(world.dead_letters(), letters);
    // Now it is wanted.
    theatre.script.on("ann", |step| match step.event::<String>()? {
        None => Ok(Next::suspend("a call")),
        Some(said) => {
            step.output = said.into();
            Ok(Next::Done)
        }
    });
    theatre.done(plan.resume("eve")).expect("it is paused");
    theatre.settle(&plan);
    again(early).expect("it waits for one");
    let view = theatre.finished(&plan);
    assert_eq!(
        view.find::<crate::common::Play>().map(|ann| ann.output.to_string()),
        Some("\"hello\"".into())
    );
    let left: Vec<u64> = world.dead_letters().letters.iter().map(|letter| letter.number).collect();
    assert_eq!(left, [lost]);
    again(early).expect_err("it is no dead letter any more");
}

#[test]
fn an_event_that_its_step_has_failed_with_is_taken_once_when_two_deliver_it_again() {
    for id in [Some("it"), None] {
        let theatre = Theatre::new();
        theatre.script.on("ann", |step| match step.event::<String>()? {
            None => Ok(Next::suspend("a call")),
            Some(_) => Err(error("pause")),
        });
        let plan = theatre.perform("ann");
        let ann = step_of(&theatre.settle(&plan), "ann");
        theatre.done(theatre.world.event(plan.id(), ann, id, &"hello")).expect("it is taken");
        theatre.settle(&plan);
        let letter = theatre.world.dead_letters().letters[0].number;
        theatre.script.on("ann", |step| match step.event::<String>()? {
            Some(said) if said == "the end" => Ok(Next::Done),
            said => {
                step.output = [step.output.clone(), said.into()].into();
                Ok(Next::suspend("a call"))
            }
        });
        theatre.done(plan.resume("eve")).expect("it is paused");
        theatre.settle(&plan);
        let mut both = [(); 2].map(|()| theatre.world.redeliver(letter, None));
        let mut cx = Context::from_waker(Waker::noop());
        // Both have found the letter before one of them is answered.
        assert!(both.iter_mut().all(|one| Pin::new(one).poll(&mut cx).is_pending()));
        for one in both {
            theatre.sim.block_on(one).unwrap().expect("it is delivered");
        }
        theatre.done(theatre.world.event(plan.id(), ann, None, &"the end")).expect("it is taken");
        let view = theatre.finished(&plan);
        let output = view.find::<crate::common::Play>().map(|ann| ann.output.to_string());
        assert_eq!(output.unwrap().matches("hello").count(), 1, "{id:?}");
        assert!(theatre.world.dead_letters().letters.is_empty());
    }
}

#[test]
fn what_a_step_leaves_behind_when_it_ends_is_a_dead_letter() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |step| {
        if step.has_event() {
            Ok(Next::Done)
        } else {
            Ok(Next::suspend("a call"))
        }
    });
    let plan = theatre.perform("ann bob");
    let ann = step_of(&theatre.settle(&plan), "ann");
    // Both are durable before the step is called for the first one.
    let sent = ["one", "two"].map(|id| theatre.world.event(plan.id(), ann, Some(id), &1));
    for sent in sent {
        theatre.done(sent).expect("it is taken");
    }
    theatre.finished(&plan);
    let letters = theatre.world.dead_letters();
    assert_eq!(letters.total, 1, "{letters:?}");
    assert_eq!(letters.letters[0].id.as_deref(), Some("two"));
    assert!(letters.letters[0].reason.contains("ended before it took"));
    // A world that comes later knows it, and does not tell of it again.
    theatre.sim.run_until_idle();
    let theatre = theatre.crash();
    theatre.settle(&theatre.world.plan(plan.id()));
    assert_eq!((theatre.world.dead_letters(), stats(&theatre).dead_letters), (letters, 0));
}

#[test]
fn dead_letters_are_kept_over_a_restart_and_bounded() {
    let theatre = Theatre::new();
    let nobody = PlanId::from_bytes([9; 16]);
    let send = |theatre: &Theatre, count: u64| {
        for number in 0..count {
            let sent = theatre.world.event(nobody, StepId(1), None, &number);
            theatre.done(sent).expect_err("nobody is there");
        }
        theatre.sim.run_until_idle();
    };
    let kept = DEAD_LETTERS as u64;
    send(&theatre, 3);
    let theatre = theatre.crash();
    let letters = theatre.world.dead_letters();
    let numbers: Vec<u64> = letters.letters.iter().map(|letter| letter.number).collect();
    assert_eq!((letters.total, numbers.as_slice()), (3, [1, 2, 3].as_slice()));
    assert_eq!((letters.letters[2].payload.as_str(), letters.letters[2].plan), ("2", nobody));
    send(&theatre, kept);
    let theatre = theatre.crash();
    let letters = theatre.world.dead_letters();
    assert_eq!((letters.total, letters.letters.len()), (kept + 3, DEAD_LETTERS));
    assert_eq!(letters.letters[0].number, 4, "those before are forgotten");
    let page = theatre.world.dead_letters_after(10, 2).letters;
    assert_eq!(page.iter().map(|letter| letter.number).collect::<Vec<_>>(), [11, 12]);
    // Nothing large fills the memory.
    let large = "x".repeat(3 << 20);
    for _ in 0..8 {
        let sent = theatre.world.event(nobody, StepId(1), None, &large);
        theatre.done(sent).expect_err("nobody is there");
    }
    theatre.sim.run_until_idle();
    let left = theatre.world.dead_letters();
    assert_eq!(left.letters.len(), DEAD_LETTER_BYTES / large.len());
    let theatre = theatre.crash();
    assert_eq!(theatre.world.dead_letters(), left);
}

#[test]
fn a_letter_that_was_delivered_does_not_come_back_with_the_next_world() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Err(error("pause")));
    let plan = theatre.perform("ann");
    let ann = step_of(&theatre.finished(&plan), "ann");
    let sent = theatre.world.event(plan.id(), ann, None, &"hello");
    theatre.done(sent).expect_err("it has failed");
    theatre.script.on("ann", |_| Ok(Next::suspend("a call")));
    theatre.done(plan.resume("eve")).expect("it is paused");
    theatre.settle(&plan);
    theatre.sim.block_on(theatre.world.redeliver(1, None)).unwrap().expect("it waits for one");
    theatre.sim.run_until_idle();
    drop(plan);
    let theatre = theatre.crash();
    let letters = theatre.world.dead_letters();
    assert_eq!((letters.total, letters.letters.len()), (1, 0));
}

#[test]
fn rows_of_very_many_new_plans_follow_within_a_bound() {
    const PLANS: usize = 8_000;
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Ok(Next::suspend("a call")));
    let begun: Vec<_> =
        (0..PLANS).map(|_| theatre.world.trigger::<Piece>("ann".to_owned())).collect();
    for plan in begun {
        theatre.sim.block_on(plan).expect("it ends").expect("the plan is taken");
    }
    let behind = stats(&theatre).journal.rows_behind;
    assert!(behind < 5 * ROWS_BEHIND as u64, "{behind} rows are behind {PLANS} plans");
}
