//! Work that is divided over nodes by keys: due states, holds, and requests for the owner of a key.

use std::collections::BTreeSet;
use std::future::{Future, IntoFuture};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_actors::entity::StoreError;
use turnwheel_engine::store::{slot_of_key, StateScan};
use turnwheel_engine::{ConnectError, Payload, StateWrite, Time};

use super::{Cluster, LEASE};

const JOBS: &str = "jobs";

/// Runs the cluster until a future is ready.
pub(super) fn wait<F: Future>(cluster: &mut Cluster, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        cluster.tick();
    }
    panic!("nothing happens for a long time");
}

/// Has a node write states that are due, for all nodes.
fn write(cluster: &mut Cluster, keys: &[String]) {
    let states = cluster.nodes[0].world.timed_states();
    for key in keys {
        let states = states.clone();
        let key = key.clone();
        let due = Some(Time(1));
        let saved =
            async move { states.save(JOBS, &key, (Some(key.clone().into_bytes()), due), 0).await };
        wait(cluster, saved).expect("it is written");
    }
}

fn due(cluster: &mut Cluster, index: usize, limit: usize) -> Vec<String> {
    let world = cluster.nodes[index].world.clone();
    let read = async move {
        let (states, slots) = (world.timed_states(), world.own_slots());
        states.list_in(&slots, JOBS, StateScan::Due(Time(2)), limit).await
    };
    let rows = wait(cluster, read).expect("it is read");
    rows.into_iter().map(|row| row.key).collect()
}

#[test]
fn each_due_state_is_seen_by_the_one_node_that_owns_its_key() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(3 * LEASE);
    let keys: Vec<String> = (0..120).map(|number| format!("key {number:03}")).collect();
    write(&mut cluster, &keys);
    let mut seen = BTreeSet::new();
    for index in 0..3 {
        let own = due(&mut cluster, index, 1_000);
        assert!(own.len() > 20, "a node has its share: {own:?}");
        for key in &own {
            let world = &cluster.nodes[index].world;
            assert!(world.hold_of_key(key).is_some_and(|hold| hold.slot == slot_of_key(key)));
            assert_eq!(world.owner_of_key(key).map(|owner| owner.id), Some(world.id()));
            assert!(seen.insert(key.clone()), "{key} has two owners");
        }
        // A page is full although most of what is due belongs to others.
        assert_eq!(due(&mut cluster, index, 7), own[..7]);
    }
    assert_eq!(seen.len(), keys.len());
    cluster.kill(0);
    cluster.run(2 * LEASE);
    let left: usize = (0..2).map(|index| due(&mut cluster, index, 1_000).len()).sum();
    assert_eq!(left, keys.len(), "others do what was due at the node that is gone");
}

#[test]
fn a_node_that_has_lost_a_slot_writes_nothing_under_its_hold() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(LEASE);
    let world = cluster.nodes[1].world.clone();
    let mut keys = (0..).map(|number| format!("key {number}"));
    let key = keys.find(|key| world.hold_of_key(key).is_some()).expect("some key");
    let hold = world.hold_of_key(&key).expect("it is its own");
    assert!(hold.epoch > 1, "{hold:?}: writes without a hold have that");
    let (states, of) = (world.timed_states(), key.clone());
    let held = {
        let (states, of) = (states.clone(), of.clone());
        async move { states.save_held(hold, JOBS, &of, (Some(b"1".to_vec()), None), 0).await }
    };
    assert_eq!(wait(&mut cluster, held).expect("it owns the slot"), 1);
    let changed = world.slots_changed();
    let until = cluster.base.now() + 2 * LEASE;
    cluster.nodes[1].freeze(until);
    cluster.run(3 * LEASE);
    let late = async move {
        let (name, bytes) = (JOBS.to_owned(), Some(b"2".to_vec()));
        let write =
            StateWrite { name, key: of.clone(), bytes, due: None, expected: 1, hold: Some(hold) };
        let together = states.save_all(vec![write]).await.map(|mut all| all.remove(0));
        let alone = states.save_held(hold, JOBS, &of, (Some(b"2".to_vec()), None), 1).await;
        [alone, together.expect("it is answered")]
    };
    for refused in wait(&mut cluster, late) {
        let refused = refused.expect_err("another node has the slot");
        let StoreError::Fenced { epoch, newest, .. } = refused else { panic!("{refused}") };
        assert!(epoch == hold.epoch && epoch < newest, "{hold:?}: {epoch}, {newest}");
    }
    wait(&mut cluster, changed).expect("it was told of the change");
    // The version that the owner sees is that of the one write.
    let (states, of) = (cluster.nodes[0].world.timed_states(), key.clone());
    let kept = wait(&mut cluster, async move { states.load(JOBS, &of).await }).expect("it is read");
    assert_eq!((kept.bytes.as_deref(), kept.version), (Some(&b"1"[..]), 1));
}

#[test]
fn a_request_for_a_key_is_taken_by_its_owner_wherever_that_is() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(LEASE);
    for node in &cluster.nodes {
        let me = node.world.id();
        node.world.serve_keys(JOBS, move |key, request| {
            Box::pin(async move {
                let asked: String = request.read().map_err(|error| error.to_string())?;
                if asked == "fail" {
                    return Err(format!("{key} is refused"));
                }
                Payload::of(&(me, asked)).map_err(|error| error.to_string())
            })
        });
    }
    let asks = cluster.nodes[1].world.clone();
    let payload = |text: &str| Payload::of(text).expect("a text");
    let mut owners = BTreeSet::new();
    for number in 0..12 {
        let key = format!("key {number}");
        let owner = asks.owner_of_key(&key).expect("it has one").id;
        let asked = asks.ask_key_owner(JOBS, &key, payload("run")).into_future();
        let answer = wait(&mut cluster, asked).expect("it is answered");
        assert_eq!(answer.read::<(u64, String)>().expect("a pair"), (owner, "run".to_owned()));
        owners.insert(owner);
        let refused = asks.ask_key_owner(JOBS, &key, payload("fail")).into_future();
        let refused = wait(&mut cluster, refused).expect_err("the service refuses it");
        assert_eq!(refused, ConnectError::Refused(format!("{key} is refused")));
    }
    assert_eq!(owners.len(), 2);
    // While the owner is gone the caller is told within a lease, and the next owner answers.
    let dead = cluster.nodes[0].world.id();
    let key = (0..).map(|number| format!("key {number}"));
    let key = key.into_iter().find(|key| asks.owner_of_key(key).is_some_and(|it| it.id == dead));
    let key = key.expect("some key");
    cluster.kill(0);
    let begun = cluster.base.now();
    let asked = asks.ask_key_owner(JOBS, &key, payload("run")).into_future();
    let told = wait(&mut cluster, asked).expect_err("its owner is gone");
    assert!(matches!(told, ConnectError::Gone { world } if world == dead), "{told}");
    assert!(cluster.base.now() - begun < 2 * LEASE, "{:?}", cluster.base.now() - begun);
    cluster.run(Duration::from_secs(1));
    let asked = asks.ask_key_owner(JOBS, &key, payload("run")).into_future();
    let answer = wait(&mut cluster, asked).expect("the other one has the key");
    assert_eq!(answer.read::<(u64, String)>().expect("a pair").0, asks.id());
    let unknown = asks.ask_key_owner("nothing", &key, payload("run")).into_future();
    let refused = wait(&mut cluster, unknown).expect_err("nobody serves it");
    assert!(refused.to_string().contains("does not serve nothing"), "{refused}");
}
