//! A dropped handle ends or leaves its timer, subscription, link or place, as the table «Handles» says.

use std::collections::hash_map::RandomState;
use std::collections::HashSet;
use std::convert::Infallible;
use std::error::Error;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_actors::{Actor, Address, Context, Handler, System, Timing, Topic, TopicOverflow};
use turnwheel_channel::Channel;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Late, Mailbox, SubmitErrorKind};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    fn taken(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with it"))
    }
}

impl Actor for Log {
    type Error = Infallible;
}

#[derive(Clone)]
struct Note(u32);

impl Handler<Note> for Log {
    type Reply = ();

    fn handle(&mut self, Note(value): Note, _: &mut Context<'_, Self>) {
        self.0.lock().expect("nobody panics with it").push(value);
    }
}

/// Arms timers of each kind and drops their handles.
struct Arm;

impl Handler<Arm> for Log {
    type Reply = ();

    fn handle(&mut self, _: Arm, cx: &mut Context<'_, Self>) {
        drop(cx.tell_after(SECOND, Note(1)).expect("there is room"));
        drop(cx.tell_every(SECOND, Late::Skip, || Note(2)).expect("there is room"));
        drop(cx.timer(Timing::every(SECOND), || Note(3)).expect("there is room"));
    }
}

fn log(sim: &Sim) -> Result<(Address<Log>, Log), Box<dyn Error>> {
    let log = Log::default();
    let address = System::new(&sim.group("cpu")).spawn(log.clone())?;
    Ok((address, log))
}

#[test]
fn dropped_handles_of_timers_cancel_nothing() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let (address, log) = log(&sim)?;
        address.tell(Arm)?;
        drop(address.tell_after(SECOND, Note(4))?);
        sim.advance(SECOND);
        let mut first = log.taken();
        first.sort_unstable();
        assert_eq!(first, [1, 2, 3, 4], "seed {seed}");
        sim.advance(SECOND);
        let mut second = log.taken();
        second.sort_unstable();
        assert_eq!(second, [2, 3], "seed {seed}");
    }
    Ok(())
}

#[test]
fn dropped_handle_of_a_stream_detaches_nothing() -> Outcome {
    let sim = Sim::fifo();
    let (address, log) = log(&sim)?;
    let channel = Channel::bounded(4);
    drop(address.attach_channel(&channel)?);
    channel.send(Note(1))?;
    sim.run_until_idle();
    channel.send(Note(2))?;
    sim.run_until_idle();
    assert_eq!(log.taken(), [1, 2]);
    Ok(())
}

#[test]
fn dropped_number_of_a_subscription_ends_nothing() -> Outcome {
    let sim = Sim::fifo();
    let (address, log) = log(&sim)?;
    let topic = Topic::new();
    let _ = topic.subscribe(address.recipient(), TopicOverflow::Reject);
    assert_eq!(topic.publish(&Note(1)).delivered, 1);
    sim.run_until_idle();
    assert_eq!((log.taken(), topic.subscribers()), (vec![1], 1));
    Ok(())
}

#[test]
fn dropped_link_holds() -> Outcome {
    let sim = Sim::fifo();
    let ((one, _), (other, _)) = (log(&sim)?, log(&sim)?);
    drop(one.link(&other));
    one.kill().detach();
    sim.run_until_idle();
    assert!(other.phase().is_over(), "it ends with the one that it is linked to");
    Ok(())
}

#[test]
fn dropped_place_goes_back_to_the_mailbox() -> Outcome {
    let sim = Sim::fifo();
    let log = Log::default();
    let system = System::new(&sim.group("cpu"));
    let address = system.actor(log.clone()).mailbox(Mailbox::bounded(1)).spawn()?;
    sim.run_until_idle();
    let full = |address: &Address<Log>| address.tell(Note(9)).map_err(|error| error.kind);
    let place = sim.block_on(address.reserve())??;
    assert_eq!(full(&address), Err(SubmitErrorKind::Full));
    drop(place);
    address.tell(Note(1))?;
    sim.run_until_idle();
    let place = sim.block_on(address.recipient::<Note, _>().reserve())??;
    assert_eq!(full(&address), Err(SubmitErrorKind::Full));
    drop(place);
    address.tell(Note(2))?;
    sim.run_until_idle();
    assert_eq!(log.taken(), [1, 2]);
    Ok(())
}

#[test]
fn addresses_of_an_actor_are_one_key() -> Outcome {
    let sim = Sim::fifo();
    let ((one, _), (other, _)) = (log(&sim)?, log(&sim)?);
    let hasher = RandomState::new();
    assert_eq!(hasher.hash_one(&one), hasher.hash_one(one.clone()));
    let addresses: HashSet<_> = [one.clone(), one, other].into_iter().collect();
    assert_eq!(addresses.len(), 2);
    Ok(())
}
