//! One receiver that hangs does not hold up messages for others.

use std::collections::BTreeSet;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;

use serde_json::json;
use turnwheel_engine::{MemoryStore, World};
use turnwheel_journeys::{Channel, Channels, Event, Journeys, JourneysOptions, Message, Unsent};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::Group;

use super::common::{P, PATIENCE};

/// Journeys of which each sends a message to whom the event names, and waits.
const TEXT: &str = "
journey: NAME
platform: P
elements:
  go: { start: { on: NAME }, then: tell }
  tell: { send: { channel: post, with: { to: '${ .event.data }' } }, then: wait }
  wait: { wait: { on: never }, then: end }
";

/// More than all threads of a pool.
const HANGING: usize = 300;

/// Sends at once, but for a receiver that does not answer before it is let go.
struct Post {
    sent: Mutex<Sender<(String, String)>>,
    hangs: Mutex<Receiver<()>>,
}

impl Channel for Post {
    fn send(&self, message: &Message) -> Result<(), Unsent> {
        let to = self.receiver(message);
        if to == "hangs" {
            let _ended = self.hangs.lock().expect("no panic before").recv();
        }
        let sent = self.sent.lock().expect("no panic before").send((to, message.key.clone()));
        sent.map_err(|error| Unsent::Never(error.to_string()))
    }

    fn receiver(&self, message: &Message) -> String {
        message.body["to"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn messages_of_one_receiver_leave_while_more_than_all_threads_wait_for_another() {
    let (sent, of_all) = channel();
    let (let_go, hangs) = channel::<()>();
    let world = World::builder().build(MemoryStore::new()).expect("the world begins");
    let group = Group::builder("journeys").workers(2).build().expect("it begins");
    let post = Post { sent: Mutex::new(sent), hangs: Mutex::new(hangs) };
    let options = JourneysOptions::new(Channels::new().with("post", post));
    let journeys = block_on(Journeys::open(&world, &group, options));
    let journeys = journeys.expect("it ends").expect("they are read");
    for name in ["one", "two"] {
        let put = block_on(journeys.put(&TEXT.replace("NAME", name), "test"));
        put.expect("it ends").expect("it is taken");
    }
    let tell = |user: &str, kind: &str, to: &str| {
        let event = Event::new(P, user, kind, kind).data(json!(to));
        journeys.event(event).wait().expect("it ends").expect("it is taken");
    };
    (0..HANGING).for_each(|user| tell(&format!("u{user}"), "one", "hangs"));
    tell("other", "one", "good");
    let first = of_all.recv_timeout(PATIENCE).expect("it does not wait for the others");
    assert_eq!(first, ("good".to_owned(), "P/other/1/1/1".to_owned()));
    // The first message of this user hangs, and the one of another pass does not wait for it.
    tell("u0", "two", "good");
    let second = of_all.recv_timeout(PATIENCE).expect("it does not wait for the others");
    assert_eq!(second, ("good".to_owned(), "P/u0/2/2/1".to_owned()));
    drop(let_go);
    let late = (0..HANGING).map(|_| of_all.recv_timeout(PATIENCE).expect("each leaves").1);
    assert_eq!(late.collect::<BTreeSet<String>>().len(), HANGING, "each message has its key once");
    journeys.end();
    world.shutdown().expect("it ends");
    group.shutdown().expect("it ends");
    assert!(of_all.try_recv().is_err(), "none is sent again");
}
