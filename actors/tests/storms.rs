//! Many threads at once on real workers: every call ends once, readers and writers keep their rules.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use turnwheel_actors::{
    Access, Actor, ActorTimer, Address, Admits, AskError, AsyncContext, AsyncHandler, Context,
    Handler, InterleavedHandler, ReplyHandler, ReplyTo, System, TimerError, Timing,
};
use turnwheel_runtime::{Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const THREADS: u64 = 4;
const CALLS: u64 = 500;

/// A cell that counts the jobs inside it.
#[derive(Default)]
struct Register {
    value: u64,
    readers: u32,
    is_written: bool,
}

impl Actor for Register {
    type Error = Infallible;
}

/// Reads twice with a pause between; the value must not change.
struct Read;

impl InterleavedHandler<Read> for Register {
    type Reply = u64;
    const ADMITS: Admits = Admits::Readers;

    fn handle(
        &mut self,
        _: Read,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = u64> + Send + 'static {
        assert!(!self.is_written, "a reader began beside a writer");
        self.readers += 1;
        let (myself, before) = (cx.myself(), self.value);
        async move {
            let after = myself.ask(Leave).await.expect("it passes");
            assert_eq!(before, after, "a writer came in between");
            after
        }
    }
}

/// Ends a read.
struct Leave;

impl Handler<Leave> for Register {
    type Reply = u64;
    const ACCESS: Access = Access::Always;

    fn handle(&mut self, _: Leave, _: &mut Context<'_, Self>) -> u64 {
        self.readers -= 1;
        self.value
    }
}

struct Write;

impl Handler<Write> for Register {
    type Reply = u64;

    fn handle(&mut self, _: Write, _: &mut Context<'_, Self>) -> u64 {
        assert_eq!(self.readers, 0, "a writer came in beside readers");
        self.value += 1;
        self.value
    }
}

/// Writes in two steps with a pause between.
struct LongWrite;

impl AsyncHandler<LongWrite> for Register {
    type Reply = u64;

    async fn handle(&mut self, _: LongWrite, cx: AsyncContext<Self>) -> u64 {
        assert_eq!(self.readers, 0, "a writer came in beside readers");
        self.is_written = true;
        cx.sleep(Duration::from_micros(1)).await.expect("there is room for a timer");
        self.is_written = false;
        self.value += 1;
        self.value
    }
}

struct Value;

impl Handler<Value> for Register {
    type Reply = u64;

    fn handle(&mut self, _: Value, _: &mut Context<'_, Self>) -> u64 {
        self.value
    }
}

#[test]
fn readers_and_writers_of_many_threads_keep_their_rules() -> Outcome {
    let group = Group::builder("readers").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let register = system.spawn(Register::default())?;
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let register = register.clone();
            std::thread::spawn(move || -> Result<u64, String> {
                let mut written = 0;
                for call in 0..CALLS {
                    let kind = (call + thread) % 8;
                    let answered = match kind {
                        0 => register.ask(Write).wait().map_err(|error| error.to_string()),
                        1 => register.ask(LongWrite).wait().map_err(|error| error.to_string()),
                        _ => register.ask(Read).wait().map_err(|error| error.to_string()),
                    };
                    answered?;
                    written += u64::from(kind < 2);
                }
                Ok(written)
            })
        })
        .collect();
    let mut written = 0;
    for thread in threads {
        written += thread.join().map_err(|_| "a thread panicked")??;
    }
    assert_eq!(register.ask(Value).wait()?, written);
    assert_eq!(system.dead_letters(), 0);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

/// Counts its answers.
#[derive(Default)]
struct Echo(u64);

impl Actor for Echo {
    type Error = Infallible;
}

struct Say(u64);

impl Handler<Say> for Echo {
    type Reply = u64;

    fn handle(&mut self, Say(number): Say, _: &mut Context<'_, Self>) -> u64 {
        self.0 += 1;
        number
    }
}

struct Count;

impl Handler<Count> for Echo {
    type Reply = u64;

    fn handle(&mut self, _: Count, _: &mut Context<'_, Self>) -> u64 {
        self.0
    }
}

#[test]
fn calls_whose_deadlines_race_with_their_answers_end_once_with_one_of_them() -> Outcome {
    let group = Group::builder("races").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let echo = system.spawn(Echo::default())?;
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let echo = echo.clone();
            std::thread::spawn(move || -> Result<(u64, u64), String> {
                let (mut answered, mut late) = (0, 0);
                for call in 0..CALLS {
                    let number = thread * CALLS + call;
                    let limit = Duration::from_micros(call % 40);
                    match echo.ask_within(Say(number), limit).wait() {
                        Ok(said) if said == number => answered += 1,
                        Ok(said) => return Err(format!("asked {number}, answered {said}")),
                        Err(AskError::TimedOut(_)) => late += 1,
                        Err(error) => return Err(error.to_string()),
                    }
                }
                Ok((answered, late))
            })
        })
        .collect();
    let (mut answered, mut late) = (0, 0);
    for thread in threads {
        let counted = thread.join().map_err(|_| "a thread panicked")??;
        answered += counted.0;
        late += counted.1;
    }
    assert_eq!(answered + late, THREADS * CALLS);
    let handled = echo.ask(Count).wait()?;
    assert!(handled >= answered, "{answered} were answered, {handled} handled");
    assert_eq!(handled + system.dead_letters(), THREADS * CALLS, "the rest came too late");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

/// Never answers.
#[derive(Default)]
struct Silent(Vec<ReplyTo<()>>);

impl Actor for Silent {
    type Error = Infallible;
}

struct Question;

impl ReplyHandler<Question> for Silent {
    type Reply = ();

    fn handle(&mut self, _: Question, reply: ReplyTo<()>, _: &mut Context<'_, Self>) {
        self.0.push(reply);
    }
}

/// Pipes many calls at once, and says when all have ended.
struct Piper {
    silent: Address<Silent>,
    left: u64,
    done: Option<ReplyTo<()>>,
}

impl Actor for Piper {
    type Error = Infallible;
}

struct PipeAll(u64);

impl ReplyHandler<PipeAll> for Piper {
    type Reply = ();

    fn handle(&mut self, PipeAll(count): PipeAll, reply: ReplyTo<()>, cx: &mut Context<'_, Self>) {
        (self.left, self.done) = (count, Some(reply));
        for call in 0..count {
            let asked = self.silent.ask_within(Question, Duration::from_micros(call * 7 % 3_000));
            cx.pipe(asked, |answer| Ended(answer.is_err_and(|error| error.is_timed_out())));
        }
    }
}

struct Ended(bool);

impl Handler<Ended> for Piper {
    type Reply = ();

    fn handle(&mut self, Ended(is_late): Ended, _: &mut Context<'_, Self>) {
        assert!(is_late, "nobody answers");
        self.left -= 1;
        if let Some(done) = self.done.take_if(|_| self.left == 0) {
            done.send(());
        }
    }
}

#[test]
fn calls_that_are_never_answered_all_end_from_threads_and_from_actors() -> Outcome {
    let group = Group::builder("silence").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let silent = system.spawn(Silent::default())?;
    let pipers: Vec<_> = (0..THREADS)
        .map(|_| system.spawn(Piper { silent: silent.clone(), left: 0, done: None }))
        .collect::<Result<_, _>>()?;
    let piped: Vec<_> = pipers.iter().map(|piper| piper.ask(PipeAll(CALLS))).collect();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let silent = silent.clone();
            std::thread::spawn(move || {
                (0..CALLS / 5).all(|call| {
                    let limit = Duration::from_micros((call * 31 + thread * 7) % 2_000);
                    let ended = silent.ask_within(Question, limit).wait();
                    ended.is_err_and(|error| error.is_timed_out())
                })
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().map_err(|_| "a thread panicked")?);
    }
    for all_ended in piped {
        all_ended.wait()?;
    }
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

/// Counts its ticks, and reports the last ones.
struct Ticking {
    timer: Option<ActorTimer>,
    ticks: u64,
    told: mpsc::Sender<u64>,
}

impl Actor for Ticking {
    type Error = TimerError;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), TimerError> {
        self.timer = Some(cx.timer(Timing::every(Duration::from_micros(20)), || Tick)?);
        Ok(())
    }
}

struct Tick;

impl Handler<Tick> for Ticking {
    type Reply = ();

    fn handle(&mut self, _: Tick, _: &mut Context<'_, Self>) {
        self.ticks += 1;
        // The test may have stopped listening.
        let _ = self.told.send(self.ticks);
    }
}

#[test]
fn changes_of_a_timer_by_many_threads_lose_no_tick() -> Outcome {
    let group = Group::builder("timers").workers(2).pinning(Pinning::None).build()?;
    let (told, ticks) = mpsc::channel();
    let ticking = System::new(&group).spawn(Ticking { timer: None, ticks: 0, told })?;
    let timer = ticking.with(|ticking, _| ticking.timer.clone()).wait()?.ok_or("it is armed")?;
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let timer = timer.clone();
            std::thread::spawn(move || {
                for round in 0..2 * CALLS {
                    let due = Duration::from_micros((number + round) % 40);
                    timer.change(due, Duration::from_micros(20)).expect("it is not over");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    // Paused: when that is done the timer is at rest, and each change makes one tick.
    for _ in 0..CALLS {
        timer.change(Duration::MAX, Duration::MAX)?;
        ticking.with(|_, _| ()).wait()?;
        ticking.with(|_, _| ()).wait()?;
        while ticks.try_recv().is_ok() {}
        timer.change(Duration::ZERO, Duration::MAX)?;
        ticks.recv_timeout(Duration::from_secs(60))?;
    }
    assert!(timer.dispose());
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
