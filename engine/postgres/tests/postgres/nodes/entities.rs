//! Entities of several processes, which are killed, stopped for longer than their lease, and ended, while a
//! client calls them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::{EntityContext, RemoteMessage, StoreError, Stored};
use turnwheel_actors::{
    Actor, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, System,
};
use turnwheel_engine::World;
use turnwheel_runtime::Group;

use super::{harmed, has_owners, until, Client, Process, LONG_LEASE, NODES};
use crate::server::{name, sql, start};

/// Begin of the names of nodes that have entities.
pub(super) const NAMED: &str = "counts ";

/// Keys that are counted.
const KEYS: u64 = 48;

/// Threads that call.
const CALLERS: u64 = 4;

/// Kills, stops and orderly ends of processes, one of each.
const HARMS: u64 = 3;

/// Time that a call may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Time that a thread of a busy machine may need to notice the end of a call.
const SPARE: Duration = Duration::from_secs(2);

/// A number that is kept in the store.
struct Counter(Option<Stored<i64>>);

impl Actor for Counter {
    type Error = StoreError;
}

impl Entity for Counter {
    type Key = u64;
    const NAME: &'static str = "counter";

    fn create(_: &u64) -> Self {
        Self(None)
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        self.0 = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

/// Adds one; the new value, or whether it may have been written although that has failed.
#[derive(Debug, Serialize, Deserialize)]
struct Add;

impl RemoteMessage for Add {
    const NAME: &'static str = "add";
}

impl AsyncHandler<Add> for Counter {
    type Reply = Result<i64, bool>;

    async fn handle(&mut self, _: Add, _: AsyncContext<Self>) -> Self::Reply {
        let value = self.0.as_mut().expect("it was activated");
        let is_refused = |error: &StoreError| {
            matches!(error, StoreError::Conflict { .. } | StoreError::Fenced { .. })
        };
        value.update(|value| *value += 1).await.map_err(|error| !is_refused(&error))?;
        Ok(**value)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Get;

impl RemoteMessage for Get {
    const NAME: &'static str = "get";
    const IS_REPEATABLE: bool = true;
}

impl Handler<Get> for Counter {
    type Reply = i64;

    fn handle(&mut self, _: Get, _: &mut Context<'_, Self>) -> i64 {
        **self.0.as_ref().expect("it was activated")
    }
}

pub(super) fn serve(world: &World, group: &Group) -> Entities {
    let builder = Entities::builder(&System::new(group));
    world.entities(
        builder.remote::<Counter>(|counter| counter.message::<Add, _>().message::<Get, _>()),
    )
}

/// Ends the callers when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What the callers of one key were told.
#[derive(Debug, Default)]
struct Count {
    values: BTreeSet<i64>,
    unknown: i64,
    not_done: u64,
    longest: Duration,
}

/// Adds one to a key, and notes what was told. Whether it was answered.
fn add(entities: &Entities, key: u64, count: &mut Count) -> bool {
    let begun = Instant::now();
    let told = entities.get::<Counter>(key).ask_within(Add, LIMIT).wait();
    count.longest = count.longest.max(begun.elapsed());
    let is_answered = matches!(told, Ok(Ok(_)));
    match told {
        Ok(Ok(value)) => assert!(count.values.insert(value), "{key}: {value} is of two writes"),
        Ok(Err(false)) | Err(AskError::NotOwner { .. }) => count.not_done += 1,
        Err(AskError::Remote(error)) if !error.may_have_been_done() => count.not_done += 1,
        Ok(Err(true)) | Err(AskError::Remote(_) | AskError::TimedOut(_)) => count.unknown += 1,
        Err(other) => panic!("{key}: {other}"),
    }
    is_answered
}

/// Compares what callers were told with what their owners answer, and with what is stored.
fn check(url: &str, entities: &Entities, counts: impl Iterator<Item = (u64, Count)>) {
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let (mut done, mut unknown, mut not_done, mut longest) = (0, 0, 0, Duration::ZERO);
    for (key, count) in counts {
        let value = entities.get::<Counter>(key).ask_within(Get, LIMIT).wait();
        let value = value.expect("its owner answers");
        let acknowledged = i64::try_from(count.values.len()).expect("few");
        let possible = acknowledged..=acknowledged + count.unknown;
        assert!(possible.contains(&value), "{key} is {value}, and should be in {possible:?}");
        assert!(count.values.last() <= Some(&value), "{key} is {value}: {:?}", count.values);
        let text = format!(
            "SELECT convert_from(bytes, 'UTF8') FROM {schema}.states
             WHERE entity = 'counter' AND key = '{key}'"
        );
        let kept = sql(url, &text);
        assert_eq!(kept.first().map_or("0", |kept| kept), value.to_string(), "{key}: {kept:?}");
        (done, unknown) = (done + acknowledged, unknown + count.unknown);
        (not_done, longest) = (not_done + count.not_done, longest.max(count.longest));
    }
    eprintln!("{done} done, {unknown} unknown, {not_done} not done; a call took up to {longest:?}");
    assert!(longest < LIMIT + SPARE, "a call took {longest:?}");
}

#[test]
fn increments_survive_the_ends_and_stops_of_their_nodes_and_none_is_doubled() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node =
        |name: &str| Process::start(&url, &effects, name, [LONG_LEASE, 0]).expect("it joins");
    let mut nodes: Vec<Process> =
        ["one", "two", "three"].map(|name| node(&format!("{NAMED}{name}"))).into();
    assert_eq!(nodes.len(), NODES);
    let client = Client::new(&url, LONG_LEASE);
    let group = Group::builder("asks").workers(1).build().expect("threads");
    let entities = serve(&client.world, &group);
    until("every slot has an owner", || has_owners(&client));
    let begun = Instant::now();

    // Each key has an activation before the first node goes.
    let (is_over, called, answered) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let counts: Vec<Vec<(u64, Count)>> = std::thread::scope(|scope| {
        let (client, entities, is_over) = (&client, &entities, &is_over);
        let (called, answered) = (&called, &answered);
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                scope.spawn(move || {
                    let own = (caller..KEYS).step_by(CALLERS as usize);
                    let mut counts: Vec<_> = own.map(|key| (key, Count::default())).collect();
                    for round in 0.. {
                        for (key, count) in &mut counts {
                            if add(entities, *key, count) {
                                answered.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                        if round == 0 {
                            called.fetch_add(1, Ordering::SeqCst);
                        }
                        if is_over.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                    counts
                })
            })
            .collect();
        let over = Over(is_over);
        until("each key was called", || called.load(Ordering::SeqCst) == CALLERS);
        for harm in 0..HARMS {
            let victim = nodes.remove(0);
            nodes.push(harmed(client, victim, harm, &node));
            until("every slot has an owner", || has_owners(client));
            let before = answered.load(Ordering::SeqCst);
            until("calls are answered again", || answered.load(Ordering::SeqCst) >= before + KEYS);
        }
        eprintln!("{HARMS} nodes went within {:?}", begun.elapsed());
        drop(over);
        callers.into_iter().map(|caller| caller.join().expect("no panic")).collect()
    });
    check(&url, &entities, counts.into_iter().flatten());
    nodes.into_iter().for_each(Process::end);
    client.end();
    group.shutdown().expect("it ends");
}
