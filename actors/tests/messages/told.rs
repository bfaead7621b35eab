//! Sending: order, answers, refusals that give the message back, deadlines, dead letters.

use std::convert::Infallible;
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use turnwheel_actors::{
    Actor, AskError, AsyncContext, AsyncHandler, Context, DeadLetterReason, Handler,
    InterleavedHandler, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completion, Group, Mailbox, Pinning, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

#[derive(Default)]
struct Log(Vec<u32>);

impl Actor for Log {
    type Error = Infallible;
}

struct Note(u32);

impl Handler<Note> for Log {
    type Reply = usize;

    fn handle(&mut self, Note(value): Note, _: &mut Context<'_, Self>) -> usize {
        self.0.push(value);
        self.0.len()
    }
}

struct All;

impl Handler<All> for Log {
    type Reply = Vec<u32>;

    fn handle(&mut self, _: All, _: &mut Context<'_, Self>) -> Vec<u32> {
        self.0.clone()
    }
}

/// Waits for a completion, then notes a value.
struct NoteAfter(Completion<()>, u32);

impl AsyncHandler<NoteAfter> for Log {
    type Reply = usize;

    async fn handle(&mut self, NoteAfter(gate, value): NoteAfter, _: AsyncContext<Self>) -> usize {
        gate.await.expect("the test opens the gate");
        self.0.push(value);
        self.0.len()
    }
}

/// As `NoteAfter`, with others in between.
struct NoteBeside(Completion<()>, u32);

impl InterleavedHandler<NoteBeside> for Log {
    type Reply = usize;

    fn handle(
        &mut self,
        NoteBeside(gate, value): NoteBeside,
        cx: &mut Context<'_, Self>,
    ) -> impl std::future::Future<Output = usize> + Send + 'static {
        let myself = cx.myself();
        async move {
            gate.await.expect("the test opens the gate");
            myself.ask(Note(value)).await.expect("the actor lives")
        }
    }
}

fn group(workers: usize) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("messages").workers(workers).pinning(Pinning::None).build()?)
}

#[test]
fn messages_of_one_sender_are_handled_in_order_and_answered() -> Outcome {
    for workers in [1, 2, 4] {
        let group = group(workers)?;
        let log = System::new(&group).spawn(Log::default())?;
        for value in 0..100 {
            log.tell(Note(value))?;
        }
        assert_eq!(log.ask(Note(100)).wait()?, 101);
        assert_eq!(log.ask(All).wait()?, (0..=100).collect::<Vec<_>>());
        log.close().wait()?;
        assert!(group.shutdown()?.is_clean());
    }
    Ok(())
}

#[test]
fn an_exclusive_handler_keeps_others_out_and_an_interleaved_one_does_not() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let log = System::new(&sim.group("sim")).spawn(Log::default())?;
        let (open, gate) = turnwheel_runtime::completion::completion();
        let mut slow = log.ask(NoteAfter(gate, 1));
        log.tell(Note(2))?;
        sim.run_until_idle();
        assert!(pending(&mut slow), "it waits for the gate");
        open.complete(()).map_err(|_| "completed twice")?;
        sim.run_until_idle();
        let mut all = log.ask(All);
        sim.run_until_idle();
        assert_eq!(ready(&mut all)?, [1, 2], "turn-based");

        let (open, gate) = turnwheel_runtime::completion::completion();
        let mut slow = log.ask(NoteBeside(gate, 3));
        log.tell(Note(4))?;
        sim.run_until_idle();
        open.complete(()).map_err(|_| "completed twice")?;
        sim.run_until_idle();
        assert_eq!(ready(&mut slow)?, 4);
        let mut all = log.ask(All);
        sim.run_until_idle();
        assert_eq!(ready(&mut all)?, [1, 2, 4, 3], "reentrant");
    }
    Ok(())
}

fn pending<F: std::future::Future + Unpin>(future: &mut F) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut cx).is_pending()
}

fn ready<M, R>(ask: &mut turnwheel_actors::Ask<M, R>) -> Result<R, AskError<M>> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(ask).poll(&mut cx) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("no answer yet"),
    }
}

use std::future::Future;

#[test]
fn a_refused_message_comes_back_and_is_a_dead_letter() -> Outcome {
    let group = group(1)?;
    let (tell, told) = mpsc::channel();
    let system = System::builder(&group)
        .on_dead_letter(move |letter| tell.send(letter.clone()).expect("the test listens"))
        .build();
    let log = system.actor(Log::default()).name("small").mailbox(Mailbox::bounded(1)).spawn()?;
    let (open, gate) = turnwheel_runtime::completion::completion();
    let slow = log.ask(NoteAfter(gate, 1));
    while log.queue_len() > 0 {
        std::thread::yield_now();
    }
    log.tell(Note(2))?;
    let refused = log.tell(Note(3)).expect_err("one place, taken");
    assert_eq!((refused.kind, refused.message.0), (SubmitErrorKind::Full, 3));
    let asked = log.ask(Note(4)).wait().expect_err("as above");
    assert!(asked.is_full());
    assert_eq!(asked.into_message().map(|note| note.0), Some(4));
    open.complete(()).map_err(|_| "completed twice")?;
    assert_eq!(slow.wait()?, 1);
    log.close().wait()?;
    let refused = log.tell(Note(5)).expect_err("closed");
    assert_eq!((refused.kind, refused.message.0), (SubmitErrorKind::Closed, 5));
    let letters: Vec<_> = told.try_iter().collect();
    assert_eq!(letters.len(), 3);
    assert_eq!(system.dead_letters(), 3);
    assert_eq!(letters[0].recipient, "small");
    assert_eq!(letters[0].reason, DeadLetterReason::Refused(SubmitErrorKind::Full));
    assert!(letters[0].message.ends_with("Note"));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_call_times_out_and_says_where_the_time_went() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let log = system.spawn(Log::default())?;
    let (open, gate) = turnwheel_runtime::completion::completion();
    let mut running = log.ask_within(NoteAfter(gate, 1), Duration::from_millis(10));
    let mut queued = log.ask_within(Note(2), Duration::from_millis(20));
    sim.run_until_idle();
    assert!(pending(&mut running) && pending(&mut queued));
    sim.advance(Duration::from_millis(30));
    let AskError::TimedOut(spent) = ready(&mut running).expect_err("too late") else {
        panic!("another error");
    };
    assert_eq!(spent.running, Some(Duration::from_millis(10) - spent.queued));
    let AskError::TimedOut(spent) = ready(&mut queued).expect_err("too late") else {
        panic!("another error");
    };
    assert_eq!((spent.queued, spent.running), (Duration::from_millis(20), None));
    open.complete(()).map_err(|_| "completed twice")?;
    sim.run_until_idle();
    let mut all = log.ask(All);
    sim.run_until_idle();
    assert_eq!(ready(&mut all)?, [1], "what nobody waits for any more is not begun");
    assert_eq!(system.dead_letters(), 1);
    Ok(())
}

#[test]
fn what_is_queued_when_an_actor_stops_is_a_dead_letter_and_its_caller_is_told() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let log = system.spawn(Log::default())?;
    let (_open, gate) = turnwheel_runtime::completion::completion();
    let mut slow = log.ask(NoteAfter(gate, 1));
    sim.run_until_idle();
    let mut asked = log.ask(Note(2));
    log.tell(Note(3))?;
    let closed = log.stop();
    sim.run_until_idle();
    assert!(closed.is_done());
    assert!(ready(&mut slow).expect_err("stopped").is_closed());
    assert!(ready(&mut asked).expect_err("stopped").is_closed());
    assert_eq!(system.dead_letters(), 2, "what was begun is none");
    Ok(())
}

/// Asks the next in the list for the rest of it.
struct Relay(Vec<turnwheel_actors::Address<Node>>);

struct Node;

impl Actor for Node {
    type Error = Infallible;
}

impl AsyncHandler<Relay> for Node {
    type Reply = Result<usize, Vec<String>>;

    async fn handle(&mut self, Relay(mut rest): Relay, _: AsyncContext<Self>) -> Self::Reply {
        let Some(next) = rest.pop() else { return Ok(0) };
        match next.ask(Relay(rest)).await {
            Ok(answer) => answer.map(|depth| depth + 1),
            Err(AskError::Cycle { chain, .. }) => Err(chain),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_call_cycle_of_any_length_is_told_at_once_and_names_the_chain() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("sim"));
    let nodes = ["a", "b", "c", "d", "e"].map(|name| system.actor(Node).name(name).spawn());
    let nodes = nodes.into_iter().collect::<Result<Vec<_>, _>>()?;
    for length in 1..=5 {
        // The last asks the first: a, b, .., a.
        let mut route = vec![nodes[0].clone()];
        route.extend(nodes[1..length].iter().rev().cloned());
        let mut asked = nodes[0].ask(Relay(route));
        sim.run_until_idle();
        let chain = ready(&mut asked)?.expect_err("a cycle");
        let mut expected: Vec<_> = nodes[..length].iter().map(|node| node.name()).collect();
        expected.push("a".to_owned());
        assert_eq!(chain, expected);
    }
    let route = nodes[1..].iter().rev().cloned().collect();
    let mut asked = nodes[0].ask(Relay(route));
    sim.run_until_idle();
    assert_eq!(ready(&mut asked)?, Ok(4), "no cycle");
    Ok(())
}
