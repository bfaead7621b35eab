//! Users over nodes: processes that share a store and nothing else, each with a simulation and so a
//! clock of its own. Events come in at any of them, and any of them dies or stands still.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use serde_json::{json, Value};
use turnwheel_engine::{MemoryStore, SharedStore, StoreError, Time, World};
use turnwheel_journeys::{Definition, Event, JourneyError, Journeys, Taken, UserView};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use super::common::{ancestor, last_path, options, Sent, KEYWORD, P, SECOND};
use super::trouble::{check_user, says};

const LEASE: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// A node that is gone is replaced, and what was due at it is done, within this time.
const AFTER_DEATH: Duration = Duration::from_millis(4_500);

struct Node {
    journeys: Journeys,
    fault: FaultStore,
    is_frozen: bool,
    _world: World,
    _store: SharedStore,
    sim: Sim,
}

struct Nodes {
    memory: MemoryStore,
    us: Arc<AtomicU64>,
    nodes: Vec<Node>,
    sent: Sent,
    made: u64,
}

/// The definition of the walk-through, with a wait of 20 seconds.
fn text() -> String {
    let mut elements = ancestor();
    elements[4]["extensions"]["wait"] = json!("PT20S");
    elements.to_string()
}

/// Waits for what needs timers of one node.
fn passing<F: Future>(sim: &Sim, future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        match sim.block_on(future.as_mut()) {
            Ok(output) => return output,
            Err(stuck) => assert!(sim.advance_to_next_timer(), "nothing will happen: {stuck}"),
        }
    }
    panic!("nothing happens for a long time");
}

impl Nodes {
    fn new(count: usize, seed: u64) -> Self {
        let us = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&us);
        let memory = MemoryStore::new().with_clock(move || Time(clock.load(Ordering::Relaxed)));
        let made = seed * 100;
        let mut nodes = Self { memory, us, nodes: Vec::new(), sent: Sent::default(), made };
        (0..count).for_each(|_| nodes.start());
        nodes.run(2 * LEASE);
        nodes
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.us.load(Ordering::Relaxed))
    }

    fn start(&mut self) {
        self.made += 1;
        let begin: Time = "2026-01-05T12:00:00Z".parse().expect("a time");
        let wall = SystemTime::from(begin) + self.now();
        let sim = Sim::builder().seed(self.made).wall(wall).build();
        let fault = FaultStore::new(self.memory.clone());
        let store = SharedStore::node_on(fault.clone(), &sim.group("journal"), LEASE);
        let store = store.expect("it opens");
        let world = World::builder().name(format!("node {}", self.made));
        let world = world.group(&sim.group("plans")).seed(self.made << 32);
        let world = passing(&sim, world.join_later(&store)).expect("the world begins");
        let group = sim.group("journeys");
        let opened = passing(&sim, Journeys::open(&world, &group, options(&self.sent)));
        let journeys = opened.expect("they are read");
        self.nodes.push(Node {
            journeys,
            fault,
            is_frozen: false,
            _world: world,
            _store: store,
            sim,
        });
    }

    /// A process ends: what it had in memory is gone, its connections with it.
    fn kill(&mut self, index: usize) {
        drop(self.nodes.remove(index));
    }

    fn tick(&mut self) {
        let us = u64::try_from(TICK.as_micros()).expect("little");
        self.us.fetch_add(us, Ordering::Relaxed);
        for node in self.nodes.iter().filter(|node| !node.is_frozen) {
            node.sim.advance(TICK);
            node.sim.run_until_idle();
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.tick();
        }
    }

    /// Lets all nodes work until it is answered, or some time is over.
    fn wait<T>(&mut self, asked: impl Future<Output = T>, limit: Duration) -> Option<T> {
        let (mut asked, end) = (pin!(asked), self.now() + limit);
        loop {
            let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(answer) = polled {
                return Some(answer);
            }
            if self.now() >= end {
                return None;
            }
            self.tick();
        }
    }

    /// Asks one node after the other until the event is taken.
    fn insist(&mut self, first: usize, event: &Event) -> Taken {
        for turn in 0..20 {
            let index = (first + turn) % self.nodes.len();
            let asked = self.nodes[index].journeys.event(event.clone());
            match self.wait(asked, 3 * SECOND) {
                Some(Ok(Ok(taken))) => return taken,
                Some(Ok(Err(JourneyError::Failed(_))) | Err(_)) | None => {}
                Some(Ok(Err(other))) => panic!("{other}"),
            }
        }
        panic!("{event:?} is never taken");
    }

    fn put(&mut self, index: usize, text: &str) {
        let journeys = self.nodes[index].journeys.clone();
        let text = text.to_owned();
        let put: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(async move { journeys.put(&text, "test").await });
        self.wait(put, 9 * SECOND).expect("it ends").expect("it is taken");
    }

    fn user(&mut self, index: usize, user: &str) -> UserView {
        let asked = self.nodes[index].journeys.user(P, user);
        self.wait(asked, 9 * SECOND).expect("it ends").expect("it answers").expect("it is read")
    }

    fn scanned(&mut self, index: usize, user: &str) {
        let Value::Object(fields) = json!({ "followed_by": "scan" }) else { return };
        let asked = self.nodes[index].journeys.set_user(P, user, fields, None);
        let set = self.wait(asked, 9 * SECOND).expect("it ends").expect("it answers");
        set.expect("they are taken");
    }

    /// Keys of messages, each as often as it left.
    fn keys(&self) -> Vec<String> {
        let sent = self.sent.lock().expect("no panic before");
        sent.iter().map(|(key, _)| key.clone()).collect()
    }
}

/// The walk-through with T-050, T-055 and T-058: the first node dies after each of its commits in turn.
#[test]
fn steps_are_served_by_three_nodes_whichever_write_is_the_last_of_one() {
    let definition = Definition::read(&text(), "wf").expect("it is read");
    for last in 0..8 {
        let case = format!("killed at commit {last}");
        let mut nodes = Nodes::new(3, last);
        nodes.put(2, &text());
        nodes.scanned(1, "u");
        let fault = nodes.nodes[0].fault.clone();
        let commit = fault.commits() + last + 1;
        // From here on nothing is written any more: as if the process had ended.
        (0..500).for_each(|later| {
            fault.fail_at(commit + later, StoreError::Failed("the process is gone".to_owned()));
        });
        let script = [says("u", "e1", "开始"), says("v", "e2", "开始")];
        let mut answered = Vec::new();
        for event in &script {
            let asked = nodes.nodes[0].journeys.event(event.clone());
            let answer = nodes.wait(asked, SECOND);
            answered.push(matches!(answer, Some(Ok(Ok(_)))));
        }
        nodes.kill(0);
        for (event, was_answered) in script.iter().zip(answered) {
            let taken = nodes.insist(1, event);
            assert!(taken.is_repeated || !was_answered, "{case}: what was answered is durable");
        }
        nodes.insist(0, &says("u", "e3", "1"));
        let repeated = nodes.insist(1, &says("u", "e3", "1"));
        assert!(repeated.is_repeated, "{case}");
        nodes.run(20 * SECOND + AFTER_DEATH);
        for (name, end) in [("u", "18"), ("v", "6")] {
            let user = nodes.user(1, name);
            check_user(&definition, &user, &case);
            assert_eq!((user.passes.len(), user.ended.len()), (0, 1), "{case}: {user:?}");
            let path = &user.ended[0].moves[1].path;
            assert_eq!(path.last().map(String::as_str), Some(end), "{case}");
        }
        let keys: BTreeSet<String> = nodes.keys().into_iter().collect();
        assert_eq!(keys.len(), 3, "{case}: {:?}", nodes.keys());
    }
}

/// T-058: the node that has taken up a message dies before it notes that it was sent.
#[test]
fn message_that_a_dead_node_had_taken_up_leaves_soon_after_its_lease() {
    for dead in 0..3 {
        let mut nodes = Nodes::new(3, 30 + dead as u64);
        nodes.put(2, &text());
        let fault = nodes.nodes[dead].fault.clone();
        // The step is the next commit of this node; what comes after it is lost.
        let commit = fault.commits() + 2;
        (0..500).for_each(|later| {
            fault.fail_at(commit + later, StoreError::Failed("the process is gone".to_owned()));
        });
        let asked = nodes.nodes[dead].journeys.event(says("u", "e1", "开始"));
        let taken = nodes.wait(asked, SECOND).expect("it ends").expect("it answers");
        assert_eq!(taken.expect("it is durable").moved.len(), 1);
        let before = nodes.keys();
        nodes.kill(dead);
        nodes.run(AFTER_DEATH);
        let keys = nodes.keys();
        assert_eq!(
            keys.len(),
            before.len() + 1,
            "node {dead}: it is sent by another one: {keys:?}"
        );
        assert!(keys.iter().all(|key| *key == keys[0]), "with its key: {keys:?}");
        assert!(nodes.user(0, "u").outbox.is_empty());
    }
}

/// T-050 to T-052, T-057: the owners of users die or stand still while they wait.
#[test]
fn users_of_a_dead_node_and_of_one_that_stood_still_go_on_once() {
    let definition = Definition::read(&text(), "wf").expect("it is read");
    for is_frozen in [false, true] {
        let mut nodes = Nodes::new(3, 50);
        nodes.put(0, &text());
        let users: Vec<String> = (0..24).map(|user| format!("u{user}")).collect();
        for (number, user) in users.iter().enumerate() {
            nodes.insist(number, &says(user, "e1", "开始"));
        }
        nodes.run(17 * SECOND);
        match is_frozen {
            false => nodes.kill(0),
            true => nodes.nodes[0].is_frozen = true,
        }
        nodes.run(20 * SECOND);
        let waiting: Vec<String> =
            users.iter().filter(|user| !nodes.user(1, user).passes.is_empty()).cloned().collect();
        assert!(waiting.is_empty(), "frozen {is_frozen}: {waiting:?} wait for ever");
        if is_frozen {
            // It goes on with what it had in memory, and its clock behind that of the others.
            nodes.nodes[0].is_frozen = false;
            nodes.run(20 * SECOND);
        }
        for user in &users {
            let view = nodes.user(1, user);
            check_user(&definition, &view, "after a death");
            assert_eq!((view.ended.len(), last_path(&view).as_str()), (1, "4 5 6"), "{user}");
        }
        assert_eq!(nodes.keys().len(), users.len(), "each message left once");
    }
}

/// T-056, T-057, T-081: answers at all nodes and the timer of the owner, at one instant.
#[test]
fn one_of_answers_at_all_nodes_and_the_timer_wins() {
    let definition = Definition::read(&text(), "wf").expect("it is read");
    let (mut answers, mut defaults) = (0, 0);
    for seed in 60..64 {
        let mut nodes = Nodes::new(3, seed);
        nodes.put(0, &text());
        let users: Vec<String> = (0..12).map(|user| format!("u{user}")).collect();
        for (number, user) in users.iter().enumerate() {
            nodes.insist(number, &says(user, "e1", "开始"));
        }
        nodes.run(19 * SECOND);
        // The last ones first: they are before their time, and the first ones behind it.
        for (number, user) in users.iter().enumerate().rev() {
            let event = |id: &str| Event::new(P, user, id, KEYWORD).data(json!({ "text": "2" }));
            let (one, other) = (&nodes.nodes[number % 3], &nodes.nodes[(number + 1) % 3]);
            let _asked = [one.journeys.event(event("a")), other.journeys.event(event("b"))];
            nodes.tick();
        }
        nodes.run(6 * SECOND);
        for user in &users {
            let view = nodes.user(2, user);
            check_user(&definition, &view, "a race");
            assert_eq!((view.ended.len(), view.ended[0].moves.len()), (1, 2), "{seed} {user}");
            match last_path(&view).as_str() {
                "4 19 20 21 22" => answers += 1,
                "4 5 6" => defaults += 1,
                other => panic!("{seed} {user}: {other}"),
            }
        }
    }
    assert!(answers > 0 && defaults > 0, "both win: {answers} answers, {defaults} defaults");
}

/// The commit of a step is made, and its node does not hear of it. Nobody touches the users again.
#[test]
fn message_of_a_commit_without_an_answer_leaves_whoever_has_the_slot_of_its_batch() {
    const USERS: usize = 6;
    let mut nodes = Nodes::new(3, 70);
    nodes.put(0, &text());
    for number in 0..USERS {
        let node = &nodes.nodes[number % 3];
        node.fault.lose_answer_at(node.fault.commits() + 1);
        let asked = node.journeys.event(says(&format!("u{number}"), "e1", "开始"));
        let answer = nodes.wait(asked, SECOND);
        assert!(!matches!(answer, Some(Ok(Ok(_)))), "u{number}: its answer is lost");
    }
    nodes.run(2 * AFTER_DEATH);
    let keys = nodes.keys();
    let users: BTreeSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), users.len()), (USERS, USERS), "each message has left once: {keys:?}");
}
