//! Turns: messages of a turn come after it and in order; awaited results come back into the actor;
//! blocking work runs elsewhere.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, Ask, AsyncContext, AsyncHandler, Context, Handler, InterleavedHandler,
    RequestContext, System,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{current_task, Completion, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);
const SEEDS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(40);

fn group(name: &str, workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder(name).workers(workers).pinning(Pinning::None).build()?)
}

fn task_name() -> Option<String> {
    current_task().map(|task| task.name())
}

/// Counts, and logs the handled messages.
#[derive(Default)]
struct Diary {
    value: u64,
    lines: Vec<String>,
}

impl Actor for Diary {
    type Error = Infallible;
}

// O-T001, O-T002
#[test]
fn closures_from_outside_run_in_their_order_and_their_results_come_back() -> Outcome {
    let group = group("closures", 2)?;
    let diary = System::new(&group).spawn(Diary::default())?;
    let plus = diary.with(|diary, cx| {
        diary.value += 5;
        (cx.name().to_owned(), task_name())
    });
    let times = diary.with(|diary, _| {
        diary.value *= 3;
        diary.value
    });
    let (own, current) = plus.wait()?;
    assert_eq!(current, Some(own), "it runs in the actor");
    assert_eq!(times.wait()?, 15);
    group.shutdown()?;
    Ok(())
}

// O-T004
#[test]
fn closures_that_block_for_outside_work_all_finish_and_delay_their_own_actor_only() -> Outcome {
    let (slow, quick) = (group("slow", 1)?, group("quick", 1)?);
    let blocking = System::new(&slow).spawn(Diary::default())?;
    let other = System::new(&quick).spawn(Diary::default())?;
    let (begun, has_begun) = mpsc::channel();
    let mut releases = Vec::new();
    let mut asked = Vec::new();
    for number in 0..10_u64 {
        let (release, released) = mpsc::channel::<()>();
        releases.push(release);
        let (group, begun) = (slow.clone(), begun.clone());
        asked.push(blocking.with(move |diary, _| {
            let (tell, told) = mpsc::channel();
            let outside = move || {
                let _ = released.recv();
                let _ = tell.send(number);
            };
            let work = group.run_blocking(outside, None);
            begun.send(number).expect("the test lives");
            diary.value += told.recv().expect("the outside work answers");
            drop(work);
            diary.value
        }));
    }
    for (number, release) in (0..10).zip(releases) {
        assert_eq!(has_begun.recv_timeout(PATIENCE)?, number, "one after the other");
        // One blocks; another group is not delayed.
        assert_eq!(other.with(|_, _| 7).wait()?, 7);
        release.send(())?;
    }
    let sums = asked.into_iter().map(Ask::wait).collect::<Result<Vec<_>, _>>()?;
    assert_eq!(sums, [0, 1, 3, 6, 10, 15, 21, 28, 36, 45]);
    slow.shutdown()?;
    quick.shutdown()?;
    Ok(())
}

/// Reads, waits, writes.
struct ReadPauseWrite;

impl AsyncHandler<ReadPauseWrite> for Diary {
    type Reply = ();

    async fn handle(&mut self, _: ReadPauseWrite, cx: AsyncContext<Self>) {
        let read = self.value;
        cx.sleep(SECOND).await.expect("there is room for a timer");
        self.value = read + 1;
    }
}

// O-T005
#[test]
fn what_one_turn_starts_runs_one_after_the_other_and_loses_no_update() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let diary = stage.spawn(Diary::default());
        let started = diary.with(|_, cx| {
            for _ in 0..10 {
                cx.tell_self(ReadPauseWrite).expect("there is room in the mailbox");
            }
        });
        stage.answer(started);
        stage.advance(SECOND * 11);
        assert_eq!(stage.answer(diary.with(|diary, _| diary.value)), 10, "seed {seed}");
    }
    Ok(())
}

/// Logs a line, and sends itself the rest of its chain.
struct Line(&'static str, u32);

impl Handler<Line> for Diary {
    type Reply = ();

    fn handle(&mut self, Line(chain, number): Line, cx: &mut Context<'_, Self>) {
        self.lines.push(format!("{chain}{number}"));
        if number < 3 {
            cx.tell_self(Line(chain, number + 1)).expect("there is room in the mailbox");
        }
        self.lines.push(format!("{chain}{number} ends"));
    }
}

// O-T006
#[test]
fn a_turn_ends_before_anything_it_made_begins_and_two_chains_keep_their_order() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let diary = stage.spawn(Diary::default());
        stage.answer(diary.with(|diary, cx| {
            diary.lines.push("begins".to_owned());
            cx.tell_self(Line("a", 1)).expect("there is room in the mailbox");
            // Ready at once, and still not before the end of this turn.
            cx.pipe(std::future::ready(()), |()| Line("b", 1));
            diary.lines.push("ends".to_owned());
        }));
        stage.run();
        let lines = stage.answer(diary.with(|diary, _| std::mem::take(&mut diary.lines)));
        assert_eq!(lines[..2], ["begins", "ends"], "seed {seed}");
        for pair in lines[2..].chunks(2) {
            assert_eq!(pair[1], format!("{} ends", pair[0]), "seed {seed}: {lines:?}");
        }
        for chain in ["a", "b"] {
            let of_chain = |line: &&String| line.starts_with(chain) && !line.ends_with("ends");
            let own: Vec<_> = lines[2..].iter().filter(of_chain).cloned().collect();
            assert_eq!(own, [1, 2, 3].map(|number| format!("{chain}{number}")), "seed {seed}");
        }
    }
    Ok(())
}

/// Sends work to the blocking pool and continues with its result.
struct Outside(mpsc::Sender<[Option<String>; 2]>);

struct Joined(Option<String>, mpsc::Sender<[Option<String>; 2]>);

impl Handler<Outside> for Diary {
    type Reply = ();

    fn handle(&mut self, Outside(tell): Outside, cx: &mut Context<'_, Self>) {
        let user = || RequestContext::current().get("user").map(str::to_owned);
        assert_eq!(user().as_deref(), Some("ada"));
        let block = move || {
            assert!(user().is_none(), "the request is not ambient elsewhere");
            task_name()
        };
        cx.run_blocking(block, None, |outside| Joined(outside.expect("it ran"), tell));
    }
}

impl Handler<Joined> for Diary {
    type Reply = ();

    fn handle(&mut self, Joined(outside, tell): Joined, _: &mut Context<'_, Self>) {
        assert_eq!(RequestContext::current().get("user"), Some("ada"));
        tell.send([outside, task_name()]).expect("the test lives");
    }
}

// O-T010
#[test]
fn work_for_the_blocking_pool_runs_outside_and_what_joins_it_inside() -> Outcome {
    let group = group("outside", 1)?;
    let diary = System::new(&group).actor(Diary::default()).name("diary").spawn()?;
    let (tell, told) = mpsc::channel();
    RequestContext::new().with("user", "ada").scope(|| diary.tell(Outside(tell)))?;
    assert_eq!(told.recv_timeout(PATIENCE)?, [None, Some("diary".to_owned())]);
    group.shutdown()?;
    Ok(())
}

/// Says in which task it is before and after a pause, also in a nested call.
struct WhereAmI;

impl AsyncHandler<WhereAmI> for Diary {
    type Reply = Vec<Option<String>>;

    async fn handle(&mut self, _: WhereAmI, cx: AsyncContext<Self>) -> Self::Reply {
        async fn nested(cx: &AsyncContext<Diary>) -> Option<String> {
            cx.sleep(SECOND).await.expect("there is room for a timer");
            task_name()
        }
        let mut places = vec![task_name()];
        cx.sleep(SECOND).await.expect("there is room for a timer");
        places.push(task_name());
        places.push(nested(&cx).await);
        places.push(task_name());
        places
    }
}

// O-T011
#[test]
fn after_a_pause_a_handler_is_back_in_its_actor_also_in_a_nested_call() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let diary = stage.system().actor(Diary::default()).name("diary").spawn()?;
        let asked = RequestContext::new().with("user", "ada").scope(|| diary.ask(WhereAmI));
        assert_eq!(stage.answer(asked), vec![Some("diary".to_owned()); 4], "seed {seed}");
        assert!(current_task().is_none(), "the asker is where it was");
        assert!(RequestContext::current().is_empty());
    }
    Ok(())
}

/// Waits until the test completes it; other messages may come in between.
struct Held(Completion<()>, u32);

impl InterleavedHandler<Held> for Diary {
    type Reply = u32;

    fn handle(
        &mut self,
        Held(go, number): Held,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = u32> + Send + 'static {
        self.value += 1;
        async move {
            go.await.expect("the test lets go");
            number
        }
    }
}

type Answers = Vec<Option<Result<u32, String>>>;

/// Asks another for each of these, and waits for the first answer or for all.
struct Several {
    of: Address<Diary>,
    gates: Vec<Completion<()>>,
    limit: Duration,
    waits_for_all: bool,
}

impl AsyncHandler<Several> for Diary {
    type Reply = Answers;

    async fn handle(&mut self, several: Several, _: AsyncContext<Self>) -> Answers {
        let Several { of, gates, limit, waits_for_all } = several;
        let ask = |(gate, number)| Box::pin(of.ask_within(Held(gate, number), limit));
        let mut asked: Vec<_> = gates.into_iter().zip(1..).map(ask).collect();
        let mut answers: Answers = asked.iter().map(|_| None).collect();
        std::future::poll_fn(move |cx| {
            for (ask, answer) in asked.iter_mut().zip(&mut answers) {
                if answer.is_none() {
                    if let Poll::Ready(done) = ask.as_mut().poll(cx) {
                        *answer = Some(done.map_err(|error| error.to_string()));
                    }
                }
            }
            let done = answers.iter().filter(|answer| answer.is_some()).count();
            match done == answers.len() || (done > 0 && !waits_for_all) {
                true => Poll::Ready(std::mem::take(&mut answers)),
                false => Poll::Pending,
            }
        })
        .await
    }
}

// O-T012
#[test]
fn first_and_all_of_several_calls_end_by_an_answer_or_by_their_limit() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (asker, of) = (stage.spawn(Diary::default()), stage.spawn(Diary::default()));
        let several = |limit, waits_for_all| {
            let ((one, first), (two, second)) = (completion(), completion());
            let gates = vec![first, second];
            let call = Several { of: of.clone(), gates, limit, waits_for_all };
            (asker.ask(call), one, two)
        };
        let is_late = |answer: &Option<Result<u32, String>>| {
            answer.as_ref().is_some_and(|answer| answer.as_ref().is_err_and(|e| e.contains("time")))
        };
        // The first one is free.
        let (asked, one, two) = several(60 * SECOND, false);
        stage.run();
        one.complete(()).map_err(|_| "let go twice")?;
        assert_eq!(stage.answer(asked), [Some(Ok(1)), None], "seed {seed}");
        two.complete(()).map_err(|_| "let go twice")?;
        // Both are blocked, and both end with their limit.
        let (asked, _one, _two) = several(SECOND, true);
        stage.run();
        stage.advance(2 * SECOND);
        assert!(stage.answer(asked).iter().all(is_late), "seed {seed}");
        // The limit is over at the start.
        let (asked, _one, _two) = several(Duration::ZERO, true);
        let begun = stage.now();
        assert!(stage.answer(asked).iter().all(is_late), "seed {seed}");
        assert!(stage.now() - begun < SECOND, "seed {seed}");
        // All are blocked, then let go.
        let (asked, one, two) = several(60 * SECOND, true);
        stage.run();
        two.complete(()).map_err(|_| "let go twice")?;
        stage.run();
        one.complete(()).map_err(|_| "let go twice")?;
        assert_eq!(stage.answer(asked), [Some(Ok(1)), Some(Ok(2))], "seed {seed}");
    }
    Ok(())
}

/// Begins something that is to be finished also if the actor is to close.
struct Tidy(Completion<()>);

struct Tidied;

struct Tidier(Arc<Mutex<Vec<&'static str>>>);

impl Tidier {
    fn note(&self, line: &'static str) {
        self.0.lock().expect("nobody panics with it").push(line);
    }
}

impl Actor for Tidier {
    type Error = Infallible;

    fn closing(&mut self, _: &mut Context<'_, Self>) -> Result<(), Infallible> {
        self.note("closing");
        Ok(())
    }
}

impl Handler<Tidy> for Tidier {
    type Reply = ();

    fn handle(&mut self, Tidy(go): Tidy, cx: &mut Context<'_, Self>) {
        cx.pipe(go, |_| Tidied);
    }
}

impl Handler<Tidied> for Tidier {
    type Reply = ();

    fn handle(&mut self, _: Tidied, _: &mut Context<'_, Self>) {
        self.note("tidied");
    }
}

// O-T017
#[test]
fn an_actor_that_is_to_close_runs_its_continuations_to_their_end_first() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let tidier = stage.spawn(Tidier(Arc::clone(&lines)));
        let (go, gate) = completion();
        tidier.tell(Tidy(gate))?;
        let closed = tidier.close();
        stage.run();
        assert!(!closed.is_done() && tidier.tell(Tidied).is_err(), "seed {seed}");
        go.complete(()).map_err(|_| "let go twice")?;
        stage.run();
        assert!(closed.is_done(), "seed {seed}");
        let lines = lines.lock().expect("nobody panics with it");
        assert_eq!(*lines, ["tidied", "closing"], "seed {seed}");
    }
    Ok(())
}
