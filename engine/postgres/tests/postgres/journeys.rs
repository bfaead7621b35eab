//! Users of journeys over PostgreSQL: the process ends after each commit in turn, and the next one
//! goes on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use turnwheel_engine::{StoreError, World};
use turnwheel_journeys::{Channels, Event, Journeys, JourneysOptions, Message, Taken, UserView};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::{Group, Pinning};
use turnwheel_testkit::FaultStore;

use crate::server::{store_of, url};

const TEXT: &str = "
journey: onboarding
platform: shop
elements:
  go: { start: { on: joined }, then: hello }
  hello: { send: { channel: note }, then: order }
  order:
    wait: { on: paid, for: PT1S }
    lines: [{ if: .event.data > 9, then: thanks }]
    otherwise: end
  thanks: { send: { channel: note }, then: end }
";

/// Commits of the journeys from the first event on.
const COMMITS: u64 = 8;

/// Time for something that takes seconds on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

type Sent = Arc<Mutex<Vec<String>>>;

struct Process {
    world: World,
    journeys: Journeys,
    group: Group,
}

impl Process {
    fn over(store: FaultStore, sent: &Sent) -> Self {
        let group = Group::builder("journeys").workers(1).pinning(Pinning::None).build();
        let group = group.expect("threads");
        let world = World::builder().build(store).expect("it opens");
        let noted = Arc::clone(sent);
        let note = move |message: &Message| {
            noted.lock().expect("no panic before").push(message.key.clone());
            Ok(())
        };
        let options = JourneysOptions::new(Channels::new().with_direct("note", note));
        let opened = block_on(Journeys::open(&world, &group, options));
        Self { world, journeys: opened.expect("it ends").expect("they are read"), group }
    }

    fn take(&self, event: &Event) -> Option<Taken> {
        self.journeys.event(event.clone()).wait().ok()?.ok()
    }

    fn user(&self, user: &str) -> UserView {
        let asked = self.journeys.user("shop", user).wait();
        asked.expect("it answers").expect("it is read")
    }

    /// What is in memory is gone; the store has what it has.
    fn end(self) {
        self.journeys.end();
        let _ended = self.world.shutdown();
        self.group.shutdown().expect("threads end");
    }
}

fn event(user: &str, id: &str, kind: &str) -> Event {
    Event::new("shop", user, id, kind).data(json!(10))
}

#[test]
fn each_step_of_a_journey_happens_once_whichever_commit_is_the_last_one() {
    for last in 0..COMMITS {
        let case = format!("killed at commit {last}");
        let (url, sent) = (url(), Sent::default());
        let store = FaultStore::new(store_of(&url));
        let one = Process::over(store.clone(), &sent);
        let put = block_on(one.journeys.put(TEXT, "test")).expect("it ends");
        put.expect("it is taken");
        // From here on nothing is written any more: as if the process had ended.
        let commit = store.commits() + last + 1;
        (0..10_000).for_each(|later| {
            store.fail_at(commit + later, StoreError::Failed("the process is gone".to_owned()));
        });
        let script =
            [event("u", "1", "joined"), event("v", "1", "joined"), event("u", "2", "paid")];
        let answered: Vec<bool> =
            script.iter().map_while(|event| one.take(event).map(|_| true)).collect();
        one.end();
        let two = Process::over(FaultStore::new(store_of(&url)), &sent);
        for (number, event) in script.iter().enumerate() {
            let taken = two.take(event).expect("it is taken");
            assert!(taken.is_repeated || number >= answered.len(), "{case}: it was durable");
        }
        let until = Instant::now() + PATIENCE;
        for user in ["u", "v"] {
            let view = loop {
                let view = two.user(user);
                if view.passes.is_empty() && view.outbox.is_empty() {
                    break view;
                }
                assert!(Instant::now() < until, "{case}: {view:?}");
                std::thread::yield_now();
            };
            assert_eq!((view.ended.len(), view.lost.len()), (1, 0), "{case}: {view:?}");
            let moves = &view.ended[0].moves;
            assert_eq!(moves.len(), 2, "{case}: {moves:?}");
            assert_eq!(moves[1].path.last().map(String::as_str), Some("end"), "{case}");
        }
        // The answer may come after the time is over: then the default line was the branch.
        let paid = two.user("u").ended[0].moves[1].path.contains(&"thanks".to_owned());
        let sent = sent.lock().expect("no panic before");
        let keys: BTreeSet<&String> = sent.iter().collect();
        assert_eq!(keys.len(), 2 + usize::from(paid), "{case}: {sent:?}");
        two.end();
    }
}
