//! Requests that the store carries: how old they are, and one that panics as it is read.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Deserializer, Serialize};
use turnwheel_actors::entity::{RemoteError, RemoteMessage};
use turnwheel_actors::{Actor, AskError, Context, Entities, Entity, Handler, System};
use turnwheel_engine::store::slot_of_entity;

use super::keys::wait;
use super::{Cluster, Node, LEASE};

/// Notes that it was asked.
struct Noter;

impl Actor for Noter {
    type Error = std::convert::Infallible;
}

impl Entity for Noter {
    type Key = u64;
    const NAME: &'static str = "noter";

    fn create(_: &u64) -> Self {
        Self
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Note;

/// Calls of the handler, which the test of late calls looks at.
static NOTED: AtomicUsize = AtomicUsize::new(0);

impl RemoteMessage for Note {
    const NAME: &'static str = "note";
}

impl Handler<Note> for Noter {
    type Reply = ();

    fn handle(&mut self, _: Note, _: &mut Context<'_, Self>) {
        NOTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A message that cannot be read without a panic.
#[derive(Debug, Serialize)]
struct Bad;

impl<'de> Deserialize<'de> for Bad {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("a message of another version");
    }
}

impl RemoteMessage for Bad {
    const NAME: &'static str = "bad";
}

impl Handler<Bad> for Noter {
    type Reply = ();

    fn handle(&mut self, _: Bad, _: &mut Context<'_, Self>) {}
}

/// Answers and notes nothing.
#[derive(Debug, Serialize, Deserialize)]
struct Hello;

impl RemoteMessage for Hello {
    const NAME: &'static str = "hello";
}

impl Handler<Hello> for Noter {
    type Reply = u8;

    fn handle(&mut self, _: Hello, _: &mut Context<'_, Self>) -> u8 {
        7
    }
}

fn serve(node: &Node) -> Entities {
    let system = System::new(&node.sim.group("entities"));
    node.world.entities(Entities::builder(&system).remote::<Noter>(|noter| {
        noter.message::<Note, _>().message::<Bad, _>().message::<Hello, _>()
    }))
}

/// Two nodes whose requests the store carries, entities of both, and a key of the second one.
fn two() -> (Cluster, Entities, Entities, u64) {
    let mut cluster = Cluster::new(8, 2, false);
    assert!(cluster.is_by_mail);
    cluster.run(3 * LEASE);
    let [asks, owns] = [serve(&cluster.nodes[0]), serve(&cluster.nodes[1])];
    let (worlds, owner) = (cluster.base.worlds(), cluster.nodes[1].world.id());
    let is_there = |key: &u64| worlds.owner(slot_of_entity("noter", &key.to_string())) == owner;
    let key = (0..).find(is_there).expect("there are many");
    (cluster, asks, owns, key)
}

#[test]
fn a_call_whose_time_was_over_on_its_way_is_not_begun() {
    let (mut cluster, asks, _owns, key) = two();
    wait(&mut cluster, asks.get::<Noter>(key).ask(Note)).expect("the way is open");
    assert_eq!(NOTED.load(Ordering::Relaxed), 1);
    // The owner stops for less than its lease: nobody else gets its slots.
    let until = cluster.base.now() + LEASE * 6 / 10;
    cluster.nodes[1].freeze(until);
    let asked = asks.get::<Noter>(key).ask_within(Note, LEASE / 5);
    let late = wait(&mut cluster, asked).expect_err("its owner does not run");
    assert!(cluster.base.now() < until, "told while the owner has not read it: {late}");
    cluster.run(2 * LEASE);
    wait(&mut cluster, asks.get::<Noter>(key).ask(Hello)).expect("the owner goes on");
    assert_eq!(NOTED.load(Ordering::Relaxed), 1, "the caller was told its end long ago");
}

#[test]
fn a_request_that_panics_as_it_is_read_is_answered_and_the_next_ones_are_taken() {
    let (mut cluster, asks, _owns, key) = two();
    let bad = wait(&mut cluster, asks.get::<Noter>(key).ask(Bad));
    let Err(AskError::Remote(RemoteError::Refused { reason })) = &bad else { panic!("{bad:?}") };
    assert!(reason.contains("panicked"), "{reason}");
    let good = wait(&mut cluster, asks.get::<Noter>(key).ask(Hello));
    assert_eq!(good.expect("its node reads on"), 7);
}
