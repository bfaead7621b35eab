//! Admission of messages while futures of the actor's handlers wait: readers and writers, call
//! chains, messages that always pass; no message is lost or left waiting.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use turnwheel_actors::{
    Access, Actor, Address, Admits, Ask, AskError, AsyncContext, AsyncHandler, Context,
    DeadLetterReason, Directive, Handler, InterleavedHandler, Restart, System, WAITING_MAX,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Backoff, Completer, Completion, Failure};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

/// A document that notes in which order its messages began and ended.
#[derive(Default)]
struct Document {
    log: Vec<String>,
}

impl Actor for Document {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

/// Reads until the test completes it.
struct Read(&'static str, Completion<()>);

impl InterleavedHandler<Read> for Document {
    type Reply = ();
    const ADMITS: Admits = Admits::Readers;

    fn handle(
        &mut self,
        Read(name, gate): Read,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.log.push(format!("{name} begins"));
        let myself = cx.myself();
        async move {
            if gate.await.is_err() {
                panic!("on purpose");
            }
            let ends = format!("{name} ends");
            // Refused once the actor closes: it takes nothing new, not even from itself.
            let _ = myself.ask(Note(ends)).await;
        }
    }
}

/// Passes everything, so that a future can write down its end.
struct Note(String);

impl Handler<Note> for Document {
    type Reply = ();
    const ACCESS: Access = Access::Always;

    fn handle(&mut self, Note(what): Note, _: &mut Context<'_, Self>) {
        self.log.push(what);
    }
}

struct Look(&'static str);

impl Handler<Look> for Document {
    type Reply = ();
    const ACCESS: Access = Access::Read;

    fn handle(&mut self, Look(name): Look, _: &mut Context<'_, Self>) {
        self.log.push(name.to_owned());
    }
}

struct Write(&'static str);

impl Handler<Write> for Document {
    type Reply = ();

    fn handle(&mut self, Write(name): Write, _: &mut Context<'_, Self>) {
        self.log.push(name.to_owned());
    }
}

/// A writer whose future borrows the document.
struct LongWrite(&'static str, Completion<()>);

impl AsyncHandler<LongWrite> for Document {
    type Reply = ();

    async fn handle(&mut self, LongWrite(name, gate): LongWrite, _: AsyncContext<Self>) {
        self.log.push(format!("{name} begins"));
        gate.await.expect("the test opens the gate");
        self.log.push(format!("{name} ends"));
    }
}

struct Log;

impl Handler<Log> for Document {
    type Reply = Vec<String>;
    const ACCESS: Access = Access::Always;

    fn handle(&mut self, _: Log, _: &mut Context<'_, Self>) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

fn gate() -> (Completer<()>, Completion<()>) {
    completion()
}

fn open(gate: &Completer<()>) -> Outcome {
    gate.complete(()).map_err(|_| "opened twice".into())
}

fn log(sim: &Sim, document: &Address<Document>) -> Result<Vec<String>, Box<dyn Error>> {
    sim.run_until_idle();
    Ok(sim.block_on(document.ask(Log))??)
}

#[test]
fn readers_run_beside_each_other_and_a_waiting_writer_is_passed_by_no_later_reader() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let document = System::new(&sim.group("cpu")).spawn(Document::default())?;
        let (first, until_first) = gate();
        let (second, until_second) = gate();
        document.tell(Read("one", until_first))?;
        document.tell(Read("two", until_second))?;
        document.tell(Look("three"))?;
        document.tell(Write("writer"))?;
        document.tell(Look("four"))?;
        document.tell(Write("last"))?;
        document.tell(Look("five"))?;
        assert_eq!(log(&sim, &document)?, ["one begins", "two begins", "three"], "seed {seed}");
        open(&second)?;
        assert_eq!(log(&sim, &document)?, ["two ends"], "a reader is left; seed {seed}");
        open(&first)?;
        let rest = ["one ends", "writer", "four", "last", "five"];
        assert_eq!(log(&sim, &document)?, rest, "in the order sent; seed {seed}");
    }
    Ok(())
}

#[test]
fn a_writer_with_a_future_of_its_own_comes_after_the_readers_and_before_what_follows() -> Outcome {
    let sim = Sim::fifo();
    let document = System::new(&sim.group("cpu")).spawn(Document::default())?;
    let (reading, until_read) = gate();
    let (writing, until_written) = gate();
    document.tell(Read("reader", until_read))?;
    document.tell(LongWrite("writer", until_written))?;
    document.tell(Look("look"))?;
    document.tell(Write("write"))?;
    assert_eq!(log(&sim, &document)?, ["reader begins"]);
    open(&reading)?;
    sim.run_until_idle();
    let mut logged = document.ask(Log);
    sim.run_until_idle();
    assert!(pending(&mut logged), "an exclusive future keeps out also what always passes");
    open(&writing)?;
    let expected =
        ["reader begins", "reader ends", "writer begins", "writer ends", "look", "write"];
    let seen = sim.block_on(logged)??;
    assert_eq!(seen, expected[1..]);
    Ok(())
}

fn pending<F: Future + Unpin>(future: &mut F) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut cx).is_pending()
}

#[test]
fn a_reader_that_panics_tells_its_caller_and_lets_the_writer_in() -> Outcome {
    let sim = Sim::fifo();
    let document = System::new(&sim.group("cpu")).spawn(Document::default())?;
    let (reading, until_read) = gate();
    let asked = document.ask(Read("reader", until_read));
    document.tell(Write("writer"))?;
    assert_eq!(log(&sim, &document)?, ["reader begins"]);
    reading.fail(Failure::Cancelled).map_err(|_| "completed twice")?;
    let failed = sim.block_on(asked)?.expect_err("it panics");
    let AskError::Unanswered(Failure::Panicked(text)) = failed else { panic!("another error") };
    assert_eq!(&*text, "on purpose");
    assert_eq!(log(&sim, &document)?, ["writer"]);
    Ok(())
}

#[test]
fn an_actor_that_closes_in_order_handles_what_waits_for_its_readers() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let document = system.spawn(Document::default())?;
        let (reading, until_read) = gate();
        let (writing, until_written) = gate();
        document.tell(Read("reader", until_read))?;
        let first = document.ask(Write("writer"));
        let second = document.ask(LongWrite("long", until_written));
        let third = document.ask(Write("last"));
        let closed = document.close();
        sim.run_until_idle();
        open(&reading)?;
        sim.run_until_idle();
        open(&writing)?;
        sim.block_on(first)??;
        sim.block_on(second)??;
        sim.block_on(third)??;
        sim.wait(closed)?;
        assert_eq!(system.dead_letters(), 1, "the reader's last note; seed {seed}");
    }
    Ok(())
}

#[test]
fn more_than_so_many_waiting_messages_are_refused_and_counted() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let (letters, dead) = std::sync::mpsc::channel();
    let system = System::builder(&group)
        .on_dead_letter(move |letter| letters.send(letter.reason).expect("the test listens"))
        .build();
    let document = system.spawn(Document::default())?;
    let (reading, until_read) = gate();
    document.tell(Read("reader", until_read))?;
    for _ in 0..WAITING_MAX {
        document.tell(Write("writer"))?;
    }
    document.tell(Write("one too many"))?;
    let asked = document.ask(Write("two too many"));
    sim.run_until_idle();
    assert!(matches!(sim.block_on(asked)?, Err(AskError::Unanswered(Failure::Refused(_)))));
    assert_eq!(dead.try_iter().collect::<Vec<_>>(), [DeadLetterReason::TooManyWaiting; 2]);
    open(&reading)?;
    assert_eq!(log(&sim, &document)?.len(), 2 + WAITING_MAX);
    Ok(())
}

/// An actor that asks its way through others, and takes calls of its own chain meanwhile.
struct Clerk {
    log: Vec<&'static str>,
}

impl Actor for Clerk {
    type Error = Infallible;
}

/// Asks the next clerk for its `what`.
struct Pass(Address<Clerk>, &'static str);

impl InterleavedHandler<Pass> for Clerk {
    type Reply = Result<Vec<&'static str>, String>;
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Pass(next, what): Pass,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = Self::Reply> + Send + 'static {
        self.log.push("passes on");
        let myself = cx.myself();
        async move {
            let answered = next.ask(ComeBack(myself, what)).await;
            answered.map_err(|error| error.to_string())?
        }
    }
}

/// Asks the clerk back.
struct ComeBack(Address<Clerk>, &'static str);

impl AsyncHandler<ComeBack> for Clerk {
    type Reply = Result<Vec<&'static str>, String>;

    async fn handle(
        &mut self,
        ComeBack(first, what): ComeBack,
        _: AsyncContext<Self>,
    ) -> Self::Reply {
        first.ask(Enter(what)).await.map_err(|error| error.to_string())
    }
}

struct Enter(&'static str);

impl Handler<Enter> for Clerk {
    type Reply = Vec<&'static str>;

    fn handle(&mut self, Enter(what): Enter, _: &mut Context<'_, Self>) -> Vec<&'static str> {
        self.log.push(what);
        self.log.clone()
    }
}

#[test]
fn a_call_that_comes_back_enters_and_others_wait_until_the_chain_is_done() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let first = system.spawn(Clerk { log: Vec::new() })?;
        let second = system.spawn(Clerk { log: Vec::new() })?;
        let chain = first.ask(Pass(second, "comes back"));
        let stranger = first.ask(Enter("stranger"));
        let seen = sim.block_on(chain)??;
        assert_eq!(seen?, ["passes on", "comes back"], "seed {seed}");
        let seen = sim.block_on(stranger)??;
        assert_eq!(seen, ["passes on", "comes back", "stranger"], "seed {seed}");
    }
    Ok(())
}

#[test]
fn two_chains_that_wait_for_each_other_end_with_the_deadline() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let system = System::builder(&group).ask_limit(SECOND).build();
    let first = system.spawn(Clerk { log: Vec::new() })?;
    let second = system.spawn(Clerk { log: Vec::new() })?;
    let one: Ask<_, _> = first.ask(ComeBack(second.clone(), "one"));
    let two = second.ask(ComeBack(first, "two"));
    sim.run_until_idle();
    sim.advance(std::time::Duration::from_secs(2));
    let one = sim.block_on(one)?;
    let two = sim.block_on(two)?;
    let timed_out = |answer: &Result<Result<Vec<&str>, String>, AskError<ComeBack>>| match answer {
        Err(error) => error.is_timed_out(),
        Ok(Err(text)) => text.contains("no answer in time"),
        Ok(Ok(_)) => false,
    };
    assert!(timed_out(&one) && timed_out(&two));
    Ok(())
}

/// Fails on request, and restarts.
struct Fragile {
    log: std::sync::mpsc::Sender<String>,
    life: u32,
}

impl Actor for Fragile {
    type Error = Infallible;
}

struct Fail(Completion<()>);

impl InterleavedHandler<Fail> for Fragile {
    type Reply = ();
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Fail(gate): Fail,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let life = self.life;
        async move {
            let _ = gate.await;
            panic!("life {life} ends on purpose");
        }
    }
}

/// Says in which life it was handled; zero panics.
struct Say(u32);

impl Handler<Say> for Fragile {
    type Reply = u32;

    fn handle(&mut self, Say(number): Say, _: &mut Context<'_, Self>) -> u32 {
        assert_ne!(number, 0, "on purpose");
        self.log.send(format!("{number} in life {}", self.life)).expect("the test listens");
        self.life
    }
}

#[test]
fn what_waits_is_kept_over_restarts_with_and_without_a_pause() -> Outcome {
    for pause in [None, Some(SECOND)] {
        let sim = Sim::fifo();
        let system = System::new(&sim.group("cpu"));
        let (log, seen) = std::sync::mpsc::channel();
        let mut life = 1;
        let restart = match pause {
            None => Restart::default(),
            Some(pause) => Restart::default().backoff(Backoff::constant(pause).jitter_percent(0)),
        };
        let again = log.clone();
        let fragile = system
            .actor(Fragile { log, life })
            .restart(restart, move || {
                life += 1;
                Fragile { log: again.clone(), life }
            })
            .spawn()?;
        let (failing, until_failed) = gate();
        let failed = fragile.ask(Fail(until_failed));
        let first = fragile.ask(Say(1));
        let bad = fragile.ask(Say(0));
        let last = fragile.ask(Say(2));
        sim.run_until_idle();
        open(&failing)?;
        for _ in 0..5 {
            sim.run_until_idle();
            sim.advance(SECOND);
        }
        for panicked in
            [sim.block_on(failed)?.err().map(|_| ()), sim.block_on(bad)?.err().map(|_| ())]
        {
            assert!(panicked.is_some());
        }
        assert_eq!(sim.block_on(first)??, 2, "pause {pause:?}");
        assert_eq!(sim.block_on(last)??, 3, "pause {pause:?}");
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["1 in life 2", "2 in life 3"]);
        assert_eq!(system.dead_letters(), 0);
    }
    Ok(())
}

#[test]
fn a_writer_that_waits_beyond_its_deadline_makes_way_for_the_readers_behind_it() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let document = system.spawn(Document::default())?;
        let (reading, until_read) = gate();
        let long = document.ask_within(Read("R1", until_read), 100 * SECOND);
        sim.run_until_idle();
        let late = document.ask_within(Write("W1"), 5 * SECOND);
        let told = document.tell(Look("L1"));
        let later = document.ask_within(Write("W2"), 20 * SECOND);
        let last = document.ask_within(Look("L2"), 50 * SECOND);
        sim.advance(4 * SECOND);
        assert_eq!(log(&sim, &document)?, ["R1 begins"], "seed {seed}");
        sim.advance(2 * SECOND);
        assert!(sim.block_on(late)?.is_err_and(|error| error.is_timed_out()));
        assert_eq!(log(&sim, &document)?, ["L1"], "as far as the next writer");
        open(&reading)?;
        sim.run_until_idle();
        assert_eq!(log(&sim, &document)?, ["R1 ends", "W2", "L2"]);
        told?;
        for answer in [sim.block_on(long)?.is_ok(), sim.block_on(later)?.is_ok()] {
            assert!(answer);
        }
        sim.block_on(last)??;
        assert_eq!(system.dead_letters(), 1, "the writer that came too late");
        sim.advance(100 * SECOND);
        assert!(log(&sim, &document)?.is_empty());
    }
    Ok(())
}
