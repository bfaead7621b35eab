//! Ways to send besides `tell`: urgent, later, with a promised place, waiting off the workers, by
//! recipients that do not know the actor.

use std::convert::Infallible;
use std::error::Error;
use std::mem::size_of;
use std::sync::{mpsc, Arc};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::{
    Actor, Address, Callee, Context, DeadLetter, Handler, Recipient, RequestContext, System,
    WeakAddress,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Group, Mailbox, Overflow, Phase, Pinning, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Log(Vec<(u32, Option<String>)>);

impl Actor for Log {
    type Error = Infallible;
}

struct Note(u32);

impl Handler<Note> for Log {
    type Reply = usize;

    fn handle(&mut self, Note(value): Note, _: &mut Context<'_, Self>) -> usize {
        self.0.push((value, RequestContext::current().get("user").map(str::to_owned)));
        self.0.len()
    }
}

struct All;

impl Handler<All> for Log {
    type Reply = Vec<u32>;

    fn handle(&mut self, _: All, _: &mut Context<'_, Self>) -> Vec<u32> {
        self.0.iter().map(|(value, _)| *value).collect()
    }
}

struct Users;

impl Handler<Users> for Log {
    type Reply = Vec<Option<String>>;

    fn handle(&mut self, _: Users, _: &mut Context<'_, Self>) -> Vec<Option<String>> {
        self.0.iter().map(|(_, user)| user.clone()).collect()
    }
}

/// Holds the actor's turn until the test lets it go.
struct Hold(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Handler<Hold> for Log {
    type Reply = ();

    fn handle(&mut self, Hold(begun, go): Hold, _: &mut Context<'_, Self>) {
        begun.send(()).expect("the test listens");
        go.recv_timeout(PATIENCE).expect("the test lets go");
    }
}

fn hold(log: &Address<Log>) -> Result<mpsc::Sender<()>, Box<dyn Error>> {
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    log.tell_wait(Hold(begun, may_go), PATIENCE)?;
    has_begun.recv_timeout(PATIENCE)?;
    Ok(go)
}

#[test]
fn an_urgent_message_is_handled_before_all_that_is_queued() -> Outcome {
    let group = Group::builder("urgent").workers(2).pinning(Pinning::None).build()?;
    let log = System::new(&group).spawn(Log::default())?;
    let go = hold(&log)?;
    for value in 0..100 {
        log.tell(Note(value))?;
    }
    log.tell_urgent(Note(1_000))?;
    log.tell_urgent(Note(1_001))?;
    go.send(())?;
    let seen = log.ask(All).wait()?;
    assert_eq!((seen[0], seen[1], seen[2], seen.len()), (1_000, 1_001, 0, 102));
    log.close().wait()?;
    let refused = log.tell_urgent(Note(5)).expect_err("closed");
    assert_eq!((refused.kind, refused.message.0), (SubmitErrorKind::Closed, 5));
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_delayed_message_comes_at_its_time_with_its_context_unless_it_is_cancelled() -> Outcome {
    let sim = Sim::new(5);
    let log = System::new(&sim.group("cpu")).spawn(Log::default())?;
    let request = RequestContext::new().with("user", "ada");
    let first = request.scope(|| log.tell_after(Duration::from_secs(2), Note(1)))?;
    let second = log.tell_after(Duration::from_secs(1), Note(2))?;
    let third = log.tell_after(Duration::from_secs(3), Note(3))?;
    sim.advance(Duration::from_millis(999));
    assert!(sim.block_on(log.ask(All))??.is_empty());
    sim.advance(Duration::from_millis(1));
    assert_eq!(sim.block_on(log.ask(All))??, [2]);
    assert!(!second.is_pending() && !second.cancel(), "sent already");
    assert!(third.is_pending() && third.cancel() && !third.cancel());
    sim.advance(Duration::from_secs(5));
    assert_eq!(sim.block_on(log.ask(All))??, [2, 1]);
    assert!(!first.is_pending());
    assert_eq!(sim.block_on(log.ask(Users))??, [None, Some("ada".to_owned())]);
    Ok(())
}

#[test]
fn a_delayed_message_to_an_actor_that_has_closed_is_a_dead_letter() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let log = system.spawn(Log::default())?;
    log.tell_after(Duration::from_secs(1), Note(1))?;
    sim.wait(log.close())?;
    sim.advance(Duration::from_secs(2));
    assert_eq!(system.dead_letters(), 1);
    Ok(())
}

#[test]
fn a_delayed_message_keeps_its_actor_reachable() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let log = system.spawn(Log::default())?;
    let closed = log.closed();
    let delayed = log.tell_after(Duration::from_secs(1), Note(1))?;
    drop((log, delayed));
    sim.run_until_idle();
    assert!(!closed.is_done());
    sim.advance(Duration::from_secs(1));
    sim.wait(closed)?;
    assert_eq!(system.dead_letters(), 0);
    Ok(())
}

#[test]
fn a_promised_place_is_kept_and_comes_back_when_it_is_not_used() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let log = system.actor(Log::default()).mailbox(Mailbox::bounded(1)).spawn()?;
    sim.run_until_idle();
    let place = sim.block_on(log.reserve())??;
    assert_eq!(log.tell(Note(1)).map_err(|error| error.kind), Err(SubmitErrorKind::Full));
    place.tell(Note(2))?;
    sim.run_until_idle();
    let unused = sim.block_on(log.reserve())??;
    drop(unused);
    log.tell(Note(3))?;
    sim.run_until_idle();
    assert_eq!(sim.block_on(log.ask(All))??, [2, 3]);
    Ok(())
}

#[test]
fn waiting_for_a_place_is_for_plain_threads_only() -> Outcome {
    let group = Group::builder("wait").workers(1).pinning(Pinning::None).build()?;
    let log = System::new(&group).actor(Log::default()).mailbox(Mailbox::bounded(1)).spawn()?;
    let go = hold(&log)?;
    log.tell(Note(1))?;
    let late = log.tell_wait(Note(2), Duration::from_millis(10)).expect_err("nothing moves");
    assert_eq!((late.kind, late.message.0), (SubmitErrorKind::TimedOut, 2));
    go.send(())?;
    log.tell_wait(Note(3), PATIENCE)?;
    let other = log.clone();
    let go = hold(&log)?;
    log.tell_wait(Note(4), PATIENCE)?;
    // On a worker of another group: this one's worker is held.
    let second = Group::builder("second").workers(1).pinning(Pinning::None).build()?;
    let refused = second
        .spawn(())?
        .call(move |(), _| other.tell_wait(Note(5), PATIENCE).map_err(|error| error.kind))
        .wait()?;
    assert_eq!(refused, Err(SubmitErrorKind::OnWorker));
    go.send(())?;
    log.close().wait()?;
    assert!(group.shutdown()?.is_clean());
    assert!(second.shutdown()?.is_clean());
    Ok(())
}

/// Another type of actor that takes the same message.
#[derive(Default)]
struct Sum(u32);

impl Actor for Sum {
    type Error = Infallible;
}

impl Handler<Note> for Sum {
    type Reply = usize;

    fn handle(&mut self, Note(value): Note, _: &mut Context<'_, Self>) -> usize {
        self.0 += value;
        self.0 as usize
    }
}

#[test]
fn recipients_of_different_actors_stand_in_one_list() -> Outcome {
    let sim = Sim::new(9);
    let system = System::new(&sim.group("cpu"));
    let log = system.actor(Log::default()).name("log").spawn()?;
    let sum = system.spawn(Sum::default())?;
    let recipients: Vec<Recipient<Note>> = vec![log.recipient(), sum.recipient()];
    for recipient in &recipients {
        recipient.tell(Note(3))?;
        recipient.clone().tell_urgent(Note(4))?;
    }
    let callees: Vec<Callee<Note, usize>> = vec![log.callee(), sum.callee()];
    let mut answers = Vec::new();
    for callee in &callees {
        answers.push(sim.block_on(callee.ask(Note(5)))??);
    }
    assert_eq!(answers, [3, 12]);
    assert_eq!(recipients[0].name(), "log");
    let closed = log.closed();
    drop(log);
    sim.run_until_idle();
    assert!(!closed.is_done(), "a recipient keeps its actor alive");
    drop((recipients, callees));
    sim.wait(closed)?;
    Ok(())
}

#[test]
fn a_recipient_knows_of_the_end() -> Outcome {
    let sim = Sim::fifo();
    let log = System::new(&sim.group("cpu")).spawn(Log::default())?;
    let recipient: Recipient<Note> = log.recipient();
    assert!(!recipient.is_over());
    sim.wait(log.stop())?;
    assert_eq!(log.phase(), Phase::Closed);
    assert!(recipient.is_over());
    assert_eq!(recipient.tell(Note(1)).map_err(|error| error.message.0), Err(1));
    Ok(())
}

#[test]
fn a_weak_address_reaches_its_actor_and_does_not_keep_it() -> Outcome {
    let sim = Sim::new(4);
    let log = System::new(&sim.group("cpu")).spawn(Log::default())?;
    let weak = log.downgrade();
    weak.upgrade().ok_or("it lives")?.tell(Note(1))?;
    assert_eq!(sim.block_on(log.ask(All))??, [1]);
    let closed = log.closed();
    drop(log);
    sim.wait(closed)?;
    assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
    Ok(())
}

/// Sends so many notes to another actor.
struct SendTo(Address<Log>, u32);

impl Handler<SendTo> for Log {
    type Reply = ();

    fn handle(&mut self, SendTo(log, count): SendTo, _: &mut Context<'_, Self>) {
        for value in 0..count {
            log.tell(Note(value)).expect("the oldest makes room");
        }
    }
}

#[test]
fn what_is_pushed_out_of_a_mailbox_is_counted_once_where_its_actor_lives() -> Outcome {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let letters = Arc::<Mutex<Vec<_>>>::default();
    let kept = Arc::clone(&letters);
    let system = System::builder(&group)
        .on_dead_letter(move |letter| kept.lock().push(letter.recipient.clone()))
        .build();
    let (beside, elsewhere) = (System::new(&group), System::new(&sim.group("io")));
    let mailbox = Mailbox::bounded(2).overflow(Overflow::DropOldest);
    let log = system.actor(Log::default()).name("log").mailbox(mailbox).spawn()?;
    let counts = || [&system, &beside, &elsewhere].map(System::dead_letters);
    // From outside, from an actor of another system in the same group, and of one in another group.
    let mut asked: Vec<_> = (0..3).map(|value| log.ask(Note(value))).collect();
    assert_eq!(counts(), [1, 0, 0]);
    let pushed_out = sim.block_on(asked.remove(0))?.expect_err("another took its place");
    assert!(pushed_out.is_closed(), "{pushed_out}");
    for (at, sender) in [&beside, &elsewhere].into_iter().enumerate() {
        sim.block_on(sender.spawn(Log::default())?.ask(SendTo(log.clone(), 4)))??;
        sim.run_until_idle();
        assert_eq!(counts(), [3 + 2 * at as u64, 0, 0]);
    }
    assert!(letters.lock().iter().all(|recipient| recipient == "log"));
    for ask in asked {
        sim.block_on(ask)??;
    }
    // Also messages queued at the end.
    sim.run_until_idle();
    log.tell(Note(1))?;
    log.tell(Note(2))?;
    log.kill();
    sim.run_until_idle();
    assert_eq!(counts(), [7, 0, 0]);
    Ok(())
}

#[test]
fn address_is_one_word_and_keeps_its_system() {
    assert_eq!(size_of::<Option<Address<Log>>>(), size_of::<usize>());
    assert_eq!(size_of::<WeakAddress<Log>>(), size_of::<usize>());
    let sim = Sim::fifo();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let letters = Arc::clone(&seen);
    let hook = move |letter: &DeadLetter| letters.lock().push(letter.recipient.clone());
    // On another group than its system's.
    let system = System::builder(&sim.group("cpu")).on_dead_letter(hook).build();
    let log = system.actor(Log::default()).on(&sim.group("io")).name("log").spawn().expect("runs");
    drop(system);
    assert_eq!(log.system().group().name(), "cpu");
    sim.wait(log.close()).expect("it closes");
    drop(log.tell(Note(1)));
    assert_eq!(*seen.lock(), ["log"]);
}
