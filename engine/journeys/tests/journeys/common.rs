//! A simulated server with journeys whose messages are noted.

use std::collections::BTreeMap;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use serde_json::{json, Map, Value};
use turnwheel_engine::{MemoryStore, Store, Time, World};
use turnwheel_journeys::{
    Asking, Channels, Event, JourneyError, Journeys, JourneysOptions, Message, Taken, UserView,
};
use turnwheel_runtime::sim::{Sim, SimBuilder};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Time for what takes a moment on a machine that does nothing else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The platform of the reference's walk-through.
pub(crate) const P: &str = "P";

/// Kind of the events of the walk-through.
pub(crate) const KEYWORD: &str = "keyword reply";

/// Messages that a channel was given: key and element, in their order, with repetitions.
pub(crate) type Sent = Arc<Mutex<Vec<(String, String)>>>;

/// A simulated server.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) world: World,
    pub(crate) journeys: Journeys,
    pub(crate) sent: Sent,
    events: Mutex<u64>,
}

/// Types of the elements of T-005, by id.
const KINDS: &str = "Start Line Action Line Trigger Line End Line TriggerCase Line Rule Line \
    End Line RuleCase Line Action Line End Line TriggerCase Line End";

/// The definition of T-005 and T-006, in the ancestor's JSON.
pub(crate) fn ancestor() -> Value {
    let wiring: [(u64, &[u64]); 20] = [
        (0, &[1]),
        (1, &[2]),
        (2, &[3]),
        (3, &[4]),
        (4, &[5, 7, 19]),
        (5, &[6]),
        (7, &[8]),
        (8, &[9]),
        (9, &[10]),
        (10, &[11, 13]),
        (11, &[12]),
        (13, &[14]),
        (14, &[15]),
        (15, &[16]),
        (16, &[17]),
        (17, &[18]),
        (19, &[20]),
        (20, &[21]),
        (21, &[22]),
        (22, &[]),
    ];
    let after: BTreeMap<u64, &[u64]> = wiring.into_iter().collect();
    let before = |id: u64| -> Vec<u64> {
        after.iter().filter(|(_, to)| to.contains(&id)).map(|(from, _)| *from).collect()
    };
    let rules = |id: u64| match id {
        0 => json!([{ "event": KEYWORD, "contains": "开始" }]),
        4 => json!([{ "event": KEYWORD }]),
        7 => json!([{ "equals": "1" }]),
        19 => json!([{ "equals": "2" }]),
        13 => json!([{ "if": ".user.followed_by == \"scan\"" }]),
        _ => json!([]),
    };
    let extensions = |id: u64| match id {
        0 => json!({ "settings": { "platform": P }, "colour": "green" }),
        4 => json!({ "wait": "P1D" }),
        2 | 16 => json!({ "send": { "channel": "chat", "with": { "text": format!("M{id}") } } }),
        _ => json!({}),
    };
    let element = |(id, kind): (u64, &str)| {
        json!({
            "id": id, "workFlowId": "wf 1", "type": kind, "incomings": before(id),
            "outgoings": after.get(&id).copied().unwrap_or_default(),
            "properties": rules(id), "extensions": extensions(id), "x": id * 10,
        })
    };
    (0..).zip(KINDS.split_whitespace()).map(element).collect()
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::over(MemoryStore::new(), 7)
    }

    /// With the journey of the walk-through, and its user u who has followed by scanning.
    pub(crate) fn walk_through() -> Self {
        let stage = Self::new();
        stage.put(&ancestor().to_string());
        stage.scanned("u");
        stage
    }

    pub(crate) fn over(store: impl Store, seed: u64) -> Self {
        Self::with(store, seed, Sent::default())
    }

    pub(crate) fn with(store: impl Store, seed: u64, sent: Sent) -> Self {
        Self::on(Sim::builder().seed(seed), store, sent)
    }

    /// Without random choices: tasks run in the order in which they became ready.
    pub(crate) fn in_order(store: impl Store) -> Self {
        Self::on(Sim::builder().fifo().workers(1), store, Sent::default())
    }

    fn on(sim: SimBuilder, store: impl Store, sent: Sent) -> Self {
        let wall: Time = "2026-01-05T12:00:00Z".parse().expect("a time");
        let sim = sim.wall(SystemTime::from(wall)).build();
        let builder = World::builder().seed(1);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
        let journeys = open(&sim, &world, &sent, true);
        Self { sim, world, journeys, sent, events: Mutex::new(0) }
    }

    /// Other journeys over the same store, as on another node.
    pub(crate) fn second(&self, has_timers: bool) -> Journeys {
        open(&self.sim, &self.world, &self.sent, has_timers)
    }

    /// Ends the journeys, lets time pass, and opens them again.
    pub(crate) fn outage(&mut self, length: Duration) {
        self.journeys.end();
        self.sim.run_until_idle();
        self.sim.advance(length);
        self.journeys = open(&self.sim, &self.world, &self.sent, true);
        self.sim.run_until_idle();
    }

    pub(crate) fn put(&self, text: &str) {
        let put = self.sim.block_on(self.journeys.put(text, "test")).expect("it ends");
        put.unwrap_or_else(|error| panic!("the journey is taken:\n{error}"));
    }

    pub(crate) fn wait<T>(&self, asked: Asking<T>) -> Result<T, JourneyError> {
        self.sim.block_on(asked).expect("it ends").expect("the journeys are there")
    }

    pub(crate) fn set(&self, user: &str, attributes: Value) {
        let Value::Object(attributes) = attributes else { panic!("attributes are an object") };
        self.wait(self.journeys.set_user(P, user, attributes, None)).expect("they are taken");
    }

    pub(crate) fn scanned(&self, user: &str) {
        self.set(user, json!({ "followed_by": "scan" }));
    }

    pub(crate) fn event(&self, user: &str, kind: &str, data: Value) -> Event {
        let mut events = self.events.lock().expect("no panic before");
        *events += 1;
        Event::new(P, user, format!("e{events}"), kind).data(data)
    }

    pub(crate) fn say(&self, user: &str, text: &str) -> Taken {
        self.happen(user, KEYWORD, json!({ "text": text }))
    }

    pub(crate) fn happen(&self, user: &str, kind: &str, data: Value) -> Taken {
        let taken = self.wait(self.journeys.event(self.event(user, kind, data)));
        self.sim.run_until_idle();
        taken.expect("it is taken")
    }

    pub(crate) fn user(&self, user: &str) -> UserView {
        self.wait(self.journeys.user(P, user)).expect("it is read")
    }

    /// Elements whose messages were sent, in their order.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.sim.run_until_idle();
        let sent = self.sent.lock().expect("no panic before");
        sent.iter().map(|(_, element)| element.clone()).collect()
    }

    /// Trigger, number and due time of each wait.
    pub(crate) fn waits(&self, user: &str) -> Vec<(String, u64, Option<String>)> {
        let waits = self.user(user).passes.into_iter().flat_map(|pass| pass.waits);
        waits.map(|it| (it.element, it.wait, it.due.map(|due| due.to_string()))).collect()
    }
}

/// The paths of an answer: each as its elements.
pub(crate) fn paths(taken: &Taken) -> Vec<String> {
    taken.moved.iter().map(|moved| moved.path.join(" ")).collect()
}

/// The last segment of the pass that ended last.
pub(crate) fn last_path(user: &UserView) -> String {
    let pass = user.ended.last().expect("a pass is over");
    pass.moves.last().expect("it moved").path.join(" ")
}

pub(crate) fn open(sim: &Sim, world: &World, sent: &Sent, has_timers: bool) -> Journeys {
    let options = options(sent);
    open_with(sim, world, if has_timers { options } else { options.at_rest() })
}

pub(crate) fn open_with(sim: &Sim, world: &World, options: JourneysOptions) -> Journeys {
    let group = sim.group("journeys");
    let opened = Journeys::open(world, &group, options);
    sim.block_on(opened).expect("it ends").expect("they are read")
}

/// With a channel that notes what it sends.
pub(crate) fn options(sent: &Sent) -> JourneysOptions {
    let noted = Arc::clone(sent);
    let chat = move |message: &Message| {
        let note = (message.key.clone(), message.element.clone());
        noted.lock().expect("no panic before").push(note);
        Ok(())
    };
    JourneysOptions::new(Channels::new().with("chat", chat))
}

pub(crate) fn attributes(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

/// Two futures, under way at once.
pub(crate) async fn both<A, B>(
    one: impl Future<Output = A>,
    two: impl Future<Output = B>,
) -> (A, B) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    let (mut left, mut right) = (None, None);
    poll_fn(|cx| {
        if left.is_none() {
            if let Poll::Ready(done) = one.as_mut().poll(cx) {
                left = Some(done);
            }
        }
        if right.is_none() {
            if let Poll::Ready(done) = two.as_mut().poll(cx) {
                right = Some(done);
            }
        }
        if left.is_some() && right.is_some() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    (left.expect("it has ended"), right.expect("it has ended"))
}
