//! Answers: given by hand, by others, late, never, and by handlers that panic.

use std::convert::Infallible;
use std::error::Error;

use turnwheel_actors::{
    Actor, Address, AskError, AsyncContext, AsyncHandler, Context, Directive, Handler,
    InterleavedHandler, ReplyHandler, ReplyTo, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Failure, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

/// Treatment of a question by the front desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Answer,
    Keep,
    Drop,
    Refuse,
    Forward,
    Panic,
}

struct Desk {
    kept: Vec<ReplyTo<u32>>,
    next: Option<Address<Desk>>,
}

impl Actor for Desk {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

struct Question(Manner);

impl ReplyHandler<Question> for Desk {
    type Reply = u32;

    fn handle(
        &mut self,
        Question(manner): Question,
        reply: ReplyTo<u32>,
        _: &mut Context<'_, Self>,
    ) {
        match manner {
            Manner::Answer => reply.send(1),
            Manner::Keep => self.kept.push(reply),
            Manner::Drop => drop(reply),
            Manner::Refuse => reply.fail(Failure::message("not today")),
            Manner::Forward => {
                let next = self.next.as_ref().expect("the test gave it one");
                // The caller gets an error, too.
                let _ = next.forward(Question(Manner::Answer), reply);
            }
            Manner::Panic => panic!("on purpose"),
        }
    }
}

/// Answers the kept questions.
struct Release(u32);

impl Handler<Release> for Desk {
    type Reply = usize;

    fn handle(&mut self, Release(answer): Release, _: &mut Context<'_, Self>) -> usize {
        self.kept.drain(..).map(|reply| reply.send(answer)).count()
    }
}

/// Panics in a plain handler, or in a future.
struct Burst;
struct SlowBurst;

impl Handler<Burst> for Desk {
    type Reply = ();

    fn handle(&mut self, _: Burst, _: &mut Context<'_, Self>) {
        panic!("plainly");
    }
}

impl AsyncHandler<SlowBurst> for Desk {
    type Reply = ();

    async fn handle(&mut self, _: SlowBurst, cx: AsyncContext<Self>) {
        cx.sleep(std::time::Duration::from_secs(1)).await.expect("there is room for a timer");
        panic!("slowly");
    }
}

fn desk(system: &System, next: Option<&Address<Desk>>) -> Result<Address<Desk>, Box<dyn Error>> {
    Ok(system.spawn(Desk { kept: Vec::new(), next: next.cloned() })?)
}

#[test]
fn an_answer_may_come_at_once_later_or_from_another() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        let second = desk(&system, None)?;
        let first = desk(&system, Some(&second))?;
        assert_eq!(sim.block_on(first.ask(Question(Manner::Answer)))??, 1);
        assert_eq!(sim.block_on(first.ask(Question(Manner::Forward)))??, 1);
        let kept = first.ask(Question(Manner::Keep));
        sim.run_until_idle();
        assert_eq!(sim.block_on(first.ask(Release(9)))??, 1);
        assert_eq!(sim.block_on(kept)??, 9);
        first.tell(Question(Manner::Keep))?;
        assert_eq!(sim.block_on(first.ask(Release(9)))??, 1, "of a tell it goes nowhere");
    }
    Ok(())
}

fn unanswered<M>(answer: Result<u32, AskError<M>>) -> Failure {
    match answer {
        Err(AskError::Unanswered(failure)) => failure,
        other => panic!("not unanswered: {other:?}"),
    }
}

#[test]
fn whoever_gets_no_answer_is_told_at_once_and_why() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let second = desk(&system, None)?;
    let first = desk(&system, Some(&second))?;
    let dropped = sim.block_on(first.ask(Question(Manner::Drop)))?;
    assert!(unanswered(dropped).is_closed());
    let refused = sim.block_on(first.ask(Question(Manner::Refuse)))?;
    assert_eq!(unanswered(refused).to_string(), "not today");
    let kept = first.ask(Question(Manner::Keep));
    sim.run_until_idle();
    sim.wait(second.close())?;
    let forwarded = sim.block_on(first.ask(Question(Manner::Forward)))?;
    assert!(unanswered(forwarded).is_closed(), "the next one has closed");
    assert!(sim.wait(first.kill()).is_err());
    assert!(unanswered(sim.block_on(kept)?).is_closed(), "dropped with the actor");
    Ok(())
}

#[test]
fn a_panic_is_told_to_its_caller_with_its_text() -> Outcome {
    let sim = Sim::fifo();
    let desk = desk(&System::new(&sim.group("cpu")), None)?;
    let by_hand = desk.ask(Question(Manner::Panic));
    let plain = desk.ask(Burst);
    let slow = desk.ask(SlowBurst);
    let after = desk.ask(Question(Manner::Answer));
    sim.run_until_idle();
    sim.advance(std::time::Duration::from_secs(1));
    assert!(matches!(unanswered(sim.block_on(by_hand)?), Failure::Panicked(_)));
    for (answer, expected) in
        [(sim.block_on(plain)?.err(), "plainly"), (sim.block_on(slow)?.err().map(again), "slowly")]
    {
        let Some(AskError::Unanswered(Failure::Panicked(text))) = answer else {
            panic!("another error: {answer:?}");
        };
        assert_eq!(&*text, expected);
    }
    assert_eq!(sim.block_on(after)??, 1, "it goes on with its state");
    assert_eq!(sim.failures().len(), 3);
    Ok(())
}

/// The same error for another message.
fn again<M, N>(error: AskError<M>) -> AskError<N> {
    match error {
        AskError::Unanswered(failure) => AskError::Unanswered(failure),
        other => panic!("not unanswered: {other:?}"),
    }
}

/// Asks the next actor on behalf of a waiting caller.
struct OnBehalf(Address<Root>);

impl ReplyHandler<OnBehalf> for Desk {
    type Reply = Vec<String>;

    fn handle(
        &mut self,
        OnBehalf(root): OnBehalf,
        reply: ReplyTo<Vec<String>>,
        cx: &mut Context<'_, Self>,
    ) {
        let asked = root.ask(Ping);
        cx.pipe(asked, move |answer| Piped(answer, reply));
    }
}

struct Piped(Result<(), AskError<Ping>>, ReplyTo<Vec<String>>);

impl Handler<Piped> for Desk {
    type Reply = ();

    fn handle(&mut self, Piped(answer, reply): Piped, _: &mut Context<'_, Self>) {
        match answer {
            Err(AskError::Cycle { chain, message }) => {
                assert!(message.is_some(), "it comes back");
                reply.send(chain);
            }
            other => panic!("no cycle: {other:?}"),
        }
    }
}

/// The waiting caller.
struct Root;

impl Actor for Root {
    type Error = Infallible;
}

struct Ping;

impl Handler<Ping> for Root {
    type Reply = ();

    fn handle(&mut self, _: Ping, _: &mut Context<'_, Self>) {}
}

struct Begin(Address<Desk>);

impl AsyncHandler<Begin> for Root {
    type Reply = Vec<String>;

    async fn handle(&mut self, Begin(desk): Begin, cx: AsyncContext<Self>) -> Vec<String> {
        let myself = cx.myself().clone();
        desk.ask(OnBehalf(myself)).await.expect("the desk answers")
    }
}

#[test]
fn a_cycle_is_found_through_an_actor_that_answers_later() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let desk = system.actor(Desk { kept: Vec::new(), next: None }).name("desk").spawn()?;
    let root = system.actor(Root).name("root").spawn()?;
    let chain = sim.block_on(root.ask(Begin(desk)))??;
    assert_eq!(chain, ["root", "root"], "those that wait, and whom they would wait for");
    Ok(())
}

/// Messages that a wall has received, and their kinds.
#[derive(Default)]
struct Wall(Vec<&'static str>);

impl Actor for Wall {
    type Error = Infallible;
}

struct Word;
struct SlowWord;

impl Handler<Word> for Wall {
    type Reply = u32;

    fn handle(&mut self, _: Word, _: &mut Context<'_, Self>) -> u32 {
        self.0.push("word");
        1
    }
}

impl AsyncHandler<SlowWord> for Wall {
    type Reply = u32;

    async fn handle(&mut self, _: SlowWord, _: AsyncContext<Self>) -> u32 {
        self.0.push("slow word");
        2
    }
}

/// Lets a wall answer every caller.
struct Usher(Address<Wall>);

impl Actor for Usher {
    type Error = Infallible;
}

impl ReplyHandler<Word> for Usher {
    type Reply = u32;

    fn handle(&mut self, word: Word, reply: ReplyTo<u32>, _: &mut Context<'_, Self>) {
        self.0.forward(word, reply).expect("there is room");
    }
}

impl ReplyHandler<SlowWord> for Usher {
    type Reply = u32;

    fn handle(&mut self, word: SlowWord, reply: ReplyTo<u32>, _: &mut Context<'_, Self>) {
        self.0.forward(word, reply).expect("there is room");
    }
}

#[test]
fn a_message_that_was_told_is_forwarded_like_one_that_was_asked() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let wall = system.spawn(Wall::default())?;
    let usher = system.spawn(Usher(wall.clone()))?;
    usher.tell(Word)?;
    usher.tell(SlowWord)?;
    assert_eq!(sim.block_on(usher.ask(SlowWord))??, 2);
    let came = sim.block_on(wall.with(|wall, _| wall.0.clone()))??;
    assert_eq!(came, ["word", "slow word", "slow word"]);
    assert_eq!(system.dead_letters(), 0);
    Ok(())
}

/// Asks a desk that lets the caller itself answer.
struct AskBack(Address<Desk>);

/// To be forwarded to this one.
struct Back(Address<Wall>);

impl AsyncHandler<AskBack> for Wall {
    type Reply = Result<u32, Vec<String>>;

    async fn handle(&mut self, AskBack(desk): AskBack, cx: AsyncContext<Self>) -> Self::Reply {
        match desk.ask(Back(cx.myself().clone())).await {
            Ok(answer) => Ok(answer),
            Err(AskError::Cycle { chain, .. }) => Err(chain),
            Err(error) => panic!("{error}"),
        }
    }
}

impl ReplyHandler<Back> for Desk {
    type Reply = u32;

    fn handle(&mut self, Back(wall): Back, reply: ReplyTo<u32>, _: &mut Context<'_, Self>) {
        let refused = wall.forward(Word, reply).expect_err("it waits for the answer");
        assert_eq!(refused.kind, SubmitErrorKind::Refused);
    }
}

#[test]
fn a_call_that_is_forwarded_to_whoever_waits_for_it_is_a_cycle_at_once() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let desk = system.spawn(Desk { kept: Vec::new(), next: None })?;
    let wall = system.actor(Wall::default()).name("wall").spawn()?;
    let asked = wall.ask(AskBack(desk.clone()));
    assert_eq!(sim.block_on(asked)??, Err(vec!["wall".to_owned(), "wall".to_owned()]));
    assert_eq!(sim.now(), std::time::Duration::ZERO);
    assert_eq!(system.dead_letters(), 1);
    Ok(())
}

struct FallAtOnce;

impl InterleavedHandler<FallAtOnce> for Desk {
    type Reply = u32;

    fn handle(
        &mut self,
        _: FallAtOnce,
        _: &mut Context<'_, Self>,
    ) -> impl std::future::Future<Output = u32> + Send + 'static {
        assert!(self.kept.len() > 9, "before there is a future");
        std::future::ready(0)
    }
}

// O-T070
#[test]
fn a_panic_before_there_is_a_future_is_told_with_its_text() -> Outcome {
    let sim = Sim::fifo();
    let desk = System::new(&sim.group("cpu")).spawn(Desk { kept: Vec::new(), next: None })?;
    let told = sim.block_on(desk.ask(FallAtOnce))?.expect_err("it panicked");
    assert!(told.to_string().contains("before there is a future"), "{told}");
    Ok(())
}
