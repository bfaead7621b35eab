//! The test kit: stages, probes, seeds, leaks, and histories checked against a model.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use turnwheel_actors::{
    messages, Actor, Address, AsyncContext, Callee, Context, DeadLetterReason, Recipient,
};
use turnwheel_actors_testkit::{
    self as testkit, linearize, History, Operation, Stage, Unexplained, OPERATIONS_MAX, PATIENCE,
};
use turnwheel_runtime::{Late, Mailbox};

type Outcome = Result<(), Box<dyn Error>>;

/// A number that is kept well, or badly.
#[derive(Actor, Default)]
struct Register {
    value: u64,
}

const PAUSE: Duration = Duration::from_millis(1);

#[messages]
impl Register {
    #[message]
    fn write(&mut self, value: u64) -> u64 {
        std::mem::replace(&mut self.value, value)
    }

    #[message]
    fn read(&self) -> u64 {
        self.value
    }

    #[message]
    async fn add(&mut self, by: u64, cx: AsyncContext<Self>) -> u64 {
        let seen = self.value;
        let _ = cx.sleep(PAUSE).await;
        self.value = seen + by;
        seen
    }

    /// The planted bug: another addition comes between reading and writing.
    #[message(interleaved)]
    fn add_badly(
        &mut self,
        by: u64,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = u64> + Send {
        let (myself, seen) = (cx.myself(), self.value);
        async move {
            let _ = myself.system().group().sleep(PAUSE).await;
            let _ = myself.write(seen + by).await;
            seen
        }
    }
}

/// The message of a failed assertion.
fn panic_of(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it does not fail");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a panic with a text")).to_owned(),
    }
}

#[test]
fn a_call_is_answered_in_virtual_time() {
    let stage = Stage::new(1);
    let register = stage.spawn(Register::default());
    assert_eq!(stage.answer(register.add(2)), 0);
    assert_eq!(stage.now(), PAUSE);
    assert_eq!(stage.answer(register.read()), 2);
    assert_eq!(stage.now(), PAUSE);
}

#[test]
fn waiting_ends_with_its_limit_and_at_once_when_nothing_is_left() -> Outcome {
    let stage = Stage::new(1);
    let never = std::future::pending::<()>();
    assert!(stage.wait(never).is_err());
    let second = stage.group().sleep(Duration::from_secs(1));
    assert!(stage.wait_within(second, Duration::from_millis(999)).is_err());
    let late = stage.group().sleep(PATIENCE * 2);
    assert!(stage.wait(late).is_err());

    let ticking = stage.spawn(Register::default());
    let ask = ticking
        .with(|_, cx| cx.tell_every(PATIENCE / 10, Late::Skip, || Write { value: 1 }).is_ok());
    assert!(stage.wait(ask)??);
    let now = stage.now();
    assert!(stage.wait(std::future::pending::<()>()).is_err(), "timers alone do not keep it");
    assert_eq!(stage.now() - now, PATIENCE);
    Ok(())
}

#[test]
fn an_answer_that_does_not_come_fails_the_test_with_the_reason() {
    let stage = Stage::new(1);
    let register = stage.spawn(Register::default());
    let text = panic_of(|| {
        stage.answer(register.with(|_, _| panic!("out of order")));
    });
    assert!(text.contains("out of order"), "{text}");
    assert!(panic_of(|| stage.assert_no_failures()).contains("out of order"));
}

/// Passes a number on, to one or to the other.
#[derive(Actor)]
struct Sorter {
    even: Recipient<u64>,
    odd: Recipient<u64>,
    judge: Callee<u64, bool>,
}

#[messages]
impl Sorter {
    #[message]
    async fn sort(&mut self, number: u64, after: Duration, cx: AsyncContext<Self>) {
        let _ = cx.sleep(after).await;
        let is_even = self.judge.ask(number).await.expect("the judge answers");
        let chosen = if is_even { &self.even } else { &self.odd };
        chosen.tell(number).expect("the probe lives");
    }
}

#[test]
fn probes_record_answer_and_expect() -> Outcome {
    for seed in 0..20 {
        let stage = Stage::new(seed);
        let (even, odd) = (stage.probe::<u64>("even"), stage.probe::<u64>("odd"));
        let judge = stage.probe_answering("judge", |number: &u64| number % 2 == 0);
        let sorter = stage.spawn(Sorter {
            even: even.recipient(),
            odd: odd.recipient(),
            judge: judge.callee(),
        });
        for number in [2, 3, 4, 6, 8] {
            sorter.tell(Sort { number, after: Duration::ZERO })?;
        }
        even.expect(|number| *number == 2);
        odd.expect(|number| *number == 3);
        odd.expect_none();
        assert_eq!(even.next(), Some(4));
        assert_eq!(even.take(), [6, 8]);
        assert_eq!(judge.take(), [2, 3, 4, 6, 8]);

        let hour = Duration::from_secs(3600);
        sorter.tell(Sort { number: 10, after: hour })?;
        sorter.tell(Sort { number: 12, after: hour })?;
        even.expect_none_within(hour - PAUSE);
        assert_eq!(even.expect_within(PAUSE, |number| *number == 10), 10);
        even.find_within(hour, |number| *number == 12);
    }
    Ok(())
}

#[test]
fn a_probe_that_expects_something_else_says_what_came() -> Outcome {
    let stage = Stage::new(1);
    let probe = stage.probe::<u64>("listener");
    let text = panic_of(|| assert_eq!(probe.expect(|_| true), 0));
    assert!(text.contains("«listener» has received nothing"), "{text}");
    for number in [11, 12, 13, 14] {
        probe.address().tell(number)?;
    }
    let text = panic_of(|| assert_eq!(probe.expect(|number| *number == 12), 12));
    assert!(text.contains("something else: 11"), "{text}");
    assert!(panic_of(|| probe.expect_none()).contains("received 12"));
    let text = panic_of(|| assert_eq!(probe.find_within(PAUSE, |number| *number == 15), 15));
    assert!(text.contains("[13, 14]"), "{text}");
    Ok(())
}

#[test]
fn who_is_left_is_named_and_probes_do_not_count() -> Outcome {
    let stage = Stage::new(1);
    let _probe = stage.probe::<u64>("probe");
    let kept = stage.system().actor(Register::default()).name("the forgotten").spawn()?;
    let dropped = stage.spawn(Register::default());
    drop(dropped);
    let left = stage.left();
    assert_eq!(left.len(), 1, "{left:?}");
    let text = panic_of(|| stage.assert_empty());
    assert!(text.contains("actors are left") && text.contains("«the forgotten»"), "{text}");
    drop(kept);
    stage.assert_empty();
    Ok(())
}

#[test]
fn dead_letters_are_kept() -> Outcome {
    let stage = Stage::fifo();
    let register =
        stage.system().actor(Register::default()).mailbox(Mailbox::bounded(1)).spawn()?;
    register.tell(Read)?;
    assert!(register.tell(Read).is_err());
    let letters = stage.dead_letters();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].message.ends_with("Read"));
    assert!(matches!(letters[0].reason, DeadLetterReason::Refused(_)));
    Ok(())
}

#[test]
fn seeds_are_tried_until_one_fails_and_that_one_fails_again() {
    let found = testkit::find(0..100, |stage| {
        assert_eq!(race(stage), 2, "the order is not the expected one");
    });
    let found = found.expect("no seed has another order");
    assert!(testkit::find([found.seed], |stage| assert_eq!(race(stage), 2)).is_some());
    assert!((0..100).any(|seed| race(&Stage::new(seed)) == 2), "every seed fails");
}

#[test]
fn exploring_comes_to_every_order() {
    let mut results = BTreeSet::new();
    let explored = testkit::explore(1_000, |stage| {
        results.insert(race(stage));
    });
    assert!(explored.is_complete && explored.runs > 1, "{explored:?}");
    assert_eq!(results, BTreeSet::from([1, 2]));
}

/// Two actors write; the last one wins.
fn race(stage: &Stage<'_>) -> u64 {
    let register = stage.spawn(Register::default());
    let mut writers = Vec::new();
    for value in [1, 2] {
        let (writer, register) = (stage.spawn(Register::default()), register.clone());
        let written = writer.with(move |_, _| register.tell(Write { value }).is_ok());
        writers.push((writer, written));
    }
    stage.run();
    stage.answer(register.read())
}

/// Some callers of some keys, each with its calls one after the other, and their recorded history.
fn callers(stage: &Stage<'_>, ask: Ask) -> History<u64, u64, u64> {
    let history = History::new();
    let registers: Vec<_> = (0..2).map(|_| stage.spawn(Register::default())).collect();
    let callers: Vec<_> = (0..4)
        .map(|_| stage.spawn(Caller { registers: registers.clone(), history: history.clone() }))
        .collect();
    let calls: Vec<_> = callers.iter().map(|caller| caller.run(3, ask)).collect();
    calls.into_iter().for_each(|call| stage.answer(call));
    drop((callers, registers));
    stage.assert_empty();
    history
}

type Ask = fn(&Address<Register>, &History<u64, u64, u64>, u64) -> Seen;
type Seen = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Actor)]
struct Caller {
    registers: Vec<Address<Register>>,
    history: History<u64, u64, u64>,
}

#[messages]
impl Caller {
    #[message]
    async fn run(&mut self, rounds: u64, ask: Ask) {
        for _ in 0..rounds {
            for (key, register) in (0..).zip(&self.registers) {
                ask(register, &self.history, key).await;
            }
        }
    }
}

fn well(register: &Address<Register>, history: &History<u64, u64, u64>, key: u64) -> Seen {
    let call = history.ask(key, 1, || register.add(1));
    Box::pin(async { drop(call.await) })
}

fn badly(register: &Address<Register>, history: &History<u64, u64, u64>, key: u64) -> Seen {
    let call = history.ask(key, 1, || register.add_badly(1));
    Box::pin(async { drop(call.await) })
}

/// The model: the value before, and the value after.
fn adding(value: &u64, by: &u64) -> (u64, u64) {
    (value + by, *value)
}

#[test]
fn a_planted_lost_update_is_caught_as_a_history_without_order() {
    let found = testkit::find(0..100, |stage| {
        callers(stage, badly).assert_linearizable(&0, adding);
    });
    let found = found.expect("no seed finds the bug").to_string();
    assert!(found.contains("no order of the calls to 0"), "{found}");
    testkit::check(0..100, |stage| {
        let history = callers(stage, well);
        assert_eq!(history.len(), 24);
        history.assert_linearizable(&0, adding);
    });
}

#[test]
fn a_call_without_an_answer_may_have_had_its_effect_or_not() -> Outcome {
    for is_effective in [false, true] {
        let history = History::new();
        drop(history.call("key", 10));
        history.call("key", 1).returned(if is_effective { 10 } else { 0 });
        history.call("key", 1).returned(if is_effective { 11 } else { 1 });
        history.check(&0, adding)?;
        history.call("key", 1).returned(20);
        assert!(history.check(&0, adding).is_err());
    }
    let history = History::new();
    history.call("key", 10).refused();
    assert!(history.is_empty());
    history.call("key", 1).returned(10);
    assert!(history.check(&0, adding).is_err(), "a refused call has no effect");
    Ok(())
}

#[test]
fn a_timed_out_call_is_recorded_as_unanswered_and_a_refused_one_not_at_all() {
    let stage = Stage::new(2);
    let history = History::new();
    let register = stage.spawn(Register::default());
    let late = history.ask("key", 1, || register.ask_within(Add { by: 1 }, PAUSE / 2));
    let error = stage.wait(late).expect("it ends").expect_err("it is late");
    assert!(error.is_timed_out());
    let seen = stage.wait(history.ask("key", 1, || register.add(1))).expect("it ends");
    assert_eq!((seen.ok(), history.len()), (Some(1), 2));
    history.assert_linearizable(&0, adding);
    drop(register.close());
    stage.run();
    let refused = history.ask("key", 1, || register.add(1));
    assert!(stage.wait(refused).expect("it ends").is_err());
    assert_eq!(history.len(), 2);
}

fn operation(input: u64, output: u64, called: u64, returned: u64) -> Operation<u64, u64> {
    Operation { input, output: Some(output), called, returned: Some(returned) }
}

#[test]
fn too_many_operations_and_too_many_states_are_said_and_not_searched() {
    let many: Vec<_> = (0..=OPERATIONS_MAX as u64)
        .map(|number| operation(1, number, number * 2, number * 2 + 1))
        .collect();
    assert_eq!(linearize(&many, &0, adding), Err(Unexplained::TooManyOperations));
    let order = linearize(&many[..OPERATIONS_MAX], &0, adding);
    assert_eq!(order, Ok((0..OPERATIONS_MAX).collect()));
    // Each set of these is another state, and the answer of the last fits none.
    let mut wide: Vec<_> = (0..24)
        .map(|bit| Operation { input: 1 << bit, output: None, called: bit, returned: None })
        .collect();
    wide.push(operation(0, u64::MAX, 30, 31));
    assert_eq!(linearize(&wide, &0, adding), Err(Unexplained::TooManyStates));
}

/// Tries every order of the operations, with and without the unanswered ones.
fn by_brute_force(operations: &[Operation<u64, u64>], used: &mut Vec<usize>, value: u64) -> bool {
    let left = || (0..operations.len()).filter(|index| !used.contains(index));
    if left().all(|index| operations[index].output.is_none()) {
        return true;
    }
    // An operation whose answer came before the call must not be left behind.
    let first_answer = left().filter_map(|index| operations[index].returned).min();
    let candidates: Vec<_> = left().collect();
    for index in candidates {
        let Operation { input, output, called, .. } = &operations[index];
        let (next, answer) = adding(&value, input);
        let is_early = first_answer.is_none_or(|answered| *called < answered);
        if is_early && output.is_none_or(|output| output == answer) {
            used.push(index);
            if by_brute_force(operations, used, next) {
                return true;
            }
            used.pop();
        }
    }
    false
}

#[test]
fn small_histories_are_judged_as_by_brute_force() {
    // A linear congruential generator (Knuth, MMIX).
    let mut random = 1_u64;
    let mut below = |limit: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let mut verdicts = HashMap::new();
    for _ in 0..4_000 {
        let count = 1 + below(6);
        let mut times: Vec<u64> = (0..count * 2).collect();
        (1..times.len()).rev().for_each(|last| times.swap(last, below(last as u64 + 1) as usize));
        let operations: Vec<_> = times
            .chunks(2)
            .map(|pair| {
                let is_answered = below(5) > 0;
                Operation {
                    input: 1 + below(2),
                    output: is_answered.then(|| below(count + 1)),
                    called: pair[0].min(pair[1]),
                    returned: is_answered.then_some(pair[0].max(pair[1])),
                }
            })
            .collect();
        let expected = by_brute_force(&operations, &mut Vec::new(), 0);
        let found = linearize(&operations, &0, adding);
        assert_eq!(found.is_ok(), expected, "{operations:?}: {found:?}");
        *verdicts.entry(expected).or_insert(0) += 1;
    }
    assert!(verdicts.values().all(|count| *count > 200), "{verdicts:?}");
}
