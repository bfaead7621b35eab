//! Live events of all nodes at any of them, and cursors that go on at another one.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched, What};
use turnwheel_engine::{PlanId, PlanState, StoreError};

use super::keys::wait;
use super::{Cluster, LEASE};
use crate::common::Piece;

/// A listener at a node for all of them, after a place.
fn watch(cluster: &Cluster, index: usize, after: Cursor) -> Watch {
    cluster.nodes[index].world.watch(WatchFilter::new().all_nodes().after(after))
}

/// Takes what has come.
fn take(watch: &mut Watch, told: &mut Vec<Happening>) {
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(next) = pin!(watch.next()).poll(&mut cx) {
        match next {
            Some(Ok(Watched::Happened(happening))) => told.push(*happening),
            other => panic!("{other:?}"),
        }
    }
}

/// The same, and the errors of entries that cannot be understood.
fn take_what_is_whole(watch: &mut Watch, told: &mut Vec<Happening>) -> Vec<StoreError> {
    let (mut cx, mut errors) = (Context::from_waker(Waker::noop()), Vec::new());
    while let Poll::Ready(next) = pin!(watch.next()).poll(&mut cx) {
        match next {
            Some(Ok(Watched::Happened(happening))) => told.push(*happening),
            Some(Err(error)) if error.is_unreadable() => errors.push(error),
            other => panic!("{other:?}"),
        }
    }
    errors
}

fn newest(cluster: &mut Cluster, at: usize) -> Cursor {
    let world = cluster.nodes[at].world.clone();
    wait(cluster, world.newest_cursor()).expect("it is read")
}

fn undecodable() -> StoreError {
    StoreError::Undecodable { key: "k".to_owned(), problem: "it is away".to_owned() }
}

/// The plans that have stopped, each told once and in the order of its states.
fn stopped(told: &[Happening]) -> Vec<PlanId> {
    assert!(told.is_sorted_by(|one, next| one.cursor < next.cursor), "{told:#?}");
    let mut states: BTreeMap<PlanId, PlanState> = BTreeMap::new();
    for happening in told {
        let What::Plan { from, to, .. } = happening.what else { continue };
        assert_eq!(states.insert(happening.plan, to), from, "{happening}");
    }
    let over = states.into_iter().filter(|(_, state)| *state == PlanState::Stopped);
    over.map(|(plan, _)| plan).collect()
}

#[test]
fn plans_of_all_nodes_are_told_once_at_each_of_them_and_after_a_kill_at_another_one() {
    let mut cluster = Cluster::new(8, 3, false);
    cluster.run(3 * LEASE);
    let mut watches: Vec<Watch> = (0..3).map(|at| watch(&cluster, at, Cursor::START)).collect();
    let mut told = vec![Vec::new(); 3];
    for round in 0..30 {
        cluster.trigger(round % cluster.nodes.len(), "a w b");
        for _ in 0..3 {
            cluster.tick();
            for (watch, told) in watches.iter_mut().zip(&mut told) {
                take(watch, told);
            }
        }
        if round == 15 {
            // The listener goes on at another node, with its cursor.
            assert!(!told[0].is_empty());
            cluster.kill(0);
            let last = told[0].last().map_or(Cursor::START, |last: &Happening| last.cursor);
            watches[0] = watch(&cluster, 1, last);
        }
    }
    cluster.run(4 * LEASE);
    for (watch, told) in watches.iter_mut().zip(&mut told) {
        take(watch, told);
    }
    let ended = stopped(&told[1]);
    assert!(ended.len() >= cluster.taken.len(), "{} of {}", ended.len(), cluster.taken.len());
    let missing: Vec<_> = cluster.taken.iter().filter(|plan| !ended.contains(plan)).collect();
    assert_eq!(missing, [] as [&PlanId; 0]);
    assert!(told[0] == told[1], "{} and {}", told[0].len(), told[1].len());
    assert!(told[1] == told[2], "{} and {}", told[1].len(), told[2].len());
    // The same as what the store tells of all that was.
    let mut again = watch(&cluster, 0, Cursor::START);
    let mut all = Vec::new();
    for _ in 0..50 {
        cluster.tick();
        take(&mut again, &mut all);
    }
    assert!(all == told[1], "{} and {}", all.len(), told[1].len());
}

#[test]
fn listener_for_one_process_is_not_told_of_others() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let mut own: Vec<Watch> =
        cluster.nodes.iter().map(|node| node.world.watch(WatchFilter::new())).collect();
    let mut told = vec![Vec::new(); 2];
    for round in 0..10 {
        cluster.trigger(round % 2, "a");
    }
    cluster.run(2 * LEASE);
    for (watch, told) in own.iter_mut().zip(&mut told) {
        take(watch, told);
    }
    let [one, two] = [0, 1].map(|at: usize| stopped(&told[at]));
    assert_eq!(one.len() + two.len(), 10);
    assert!(one.iter().all(|plan| !two.contains(plan)));
}

#[test]
fn slow_listener_for_all_nodes_is_told_what_it_missed_and_catches_up() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let filter = || WatchFilter::new().all_nodes();
    let mut slow = cluster.nodes[0].world.watch(filter().buffer(2));
    let mut catching_up = cluster.nodes[0].world.watch(filter().buffer(2).catching_up());
    let mut fast = cluster.nodes[1].world.watch(filter());
    let (mut of_fast, mut caught) = (Vec::new(), Vec::new());
    cluster.run(Duration::from_secs(1));
    take(&mut fast, &mut of_fast);
    take(&mut catching_up, &mut caught);
    for round in 0..12 {
        cluster.trigger(round % 2, "a b");
        cluster.run(Duration::from_millis(300));
        take(&mut fast, &mut of_fast);
    }
    cluster.run(LEASE);
    take(&mut fast, &mut of_fast);
    let first = wait(&mut cluster, slow.next()).expect("it goes on").expect("it reads");
    let Watched::Missed { entries, .. } = first else { panic!("{first:?}") };
    assert!(entries > 20, "{entries}");
    slow.catch_up();
    let mut of_slow = Vec::new();
    for _ in 0..50 {
        cluster.tick();
        take(&mut slow, &mut of_slow);
        take(&mut catching_up, &mut caught);
    }
    assert_eq!(stopped(&of_fast).len(), 12);
    assert!(of_slow == of_fast, "{} and {}", of_slow.len(), of_fast.len());
    assert!(caught == of_fast, "{} and {}", caught.len(), of_fast.len());
}

#[test]
fn cursor_beyond_the_journal_is_recognised_at_any_node() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let triggered = cluster.nodes[0].world.trigger::<Piece>("a".to_owned());
    wait(&mut cluster, triggered.into_future()).expect("it is taken");
    cluster.run(LEASE);
    let last = newest(&mut cluster, 0);
    assert!(last > Cursor::START);
    assert_eq!(newest(&mut cluster, 1), last);
    let beyond = Cursor::from(last.seq + 1);
    assert!(beyond > newest(&mut cluster, 0) && beyond > newest(&mut cluster, 1));
    // The other node writes the entry with this place.
    let triggered = cluster.nodes[1].world.trigger::<Piece>("a".to_owned());
    wait(&mut cluster, triggered.into_future()).expect("it is taken");
    assert!(beyond <= newest(&mut cluster, 0) && beyond <= newest(&mut cluster, 1));
}

#[test]
fn listeners_that_go_before_a_first_place_is_known_are_not_looked_for() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let looks = |cluster: &mut Cluster| {
        let before = cluster.nodes[0].fault.looks();
        cluster.run(Duration::from_secs(5));
        cluster.nodes[0].fault.looks() - before
    };
    assert_eq!(looks(&mut cluster), 0, "nobody listens");
    cluster.nodes[0].fault.fail_looks(StoreError::Failed("no answer".to_owned()));
    let watches: Vec<Watch> = (0..100).map(|_| watch(&cluster, 0, Cursor::START)).collect();
    let watched = looks(&mut cluster);
    assert!((3..=6).contains(&watched), "one a second for all: {watched}");
    drop(watches);
    cluster.run(Duration::from_secs(2));
    assert_eq!(looks(&mut cluster), 0, "they are gone");
    // The next one begins anew.
    cluster.nodes[0].fault.heal();
    let (mut live, mut told) = (watch(&cluster, 0, Cursor::START), Vec::new());
    let plan = cluster.perform(1, "a");
    cluster.run(LEASE);
    take(&mut live, &mut told);
    assert_eq!(stopped(&told), [plan]);
}

#[test]
fn entry_that_cannot_be_understood_is_left_out_and_others_are_told() {
    let too_new = StoreError::TooNew { store: "of a plan".to_owned(), found: 9, known: 1 };
    for error in [StoreError::Corrupt("a flipped bit".to_owned()), too_new, undecodable()] {
        let mut cluster = Cluster::new(8, 2, false);
        cluster.run(3 * LEASE);
        let (mut live, mut told) = (watch(&cluster, 0, Cursor::START), Vec::new());
        cluster.run(LEASE);
        take(&mut live, &mut told);
        let place = newest(&mut cluster, 0).seq + 1;
        cluster.nodes[0].fault.damage(place, error.clone());
        let damaged = cluster.perform(1, "a");
        let whole = cluster.perform(1, "b");
        let mut errors = Vec::new();
        for _ in 0..20 {
            cluster.run(Duration::from_secs(1));
            errors.extend(take_what_is_whole(&mut live, &mut told));
        }
        assert_eq!(stopped(&told), [whole], "{error}");
        assert!(told.iter().all(|happening| happening.plan != damaged), "{error}");
        // Later entries of the plan are not understood without this one.
        assert!(errors.iter().any(|it| it.to_string() == error.to_string()), "{errors:?}");
        let (mut again, mut from_store) = (watch(&cluster, 0, Cursor::START), Vec::new());
        for _ in 0..10 {
            cluster.tick();
            let _damaged = take_what_is_whole(&mut again, &mut from_store);
        }
        assert_eq!(from_store, told, "{error}");
    }
}

#[test]
fn entry_is_told_when_the_key_that_decodes_it_comes_back_after_some_seconds() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(3 * LEASE);
    let (mut live, mut told) = (watch(&cluster, 0, Cursor::START), Vec::new());
    cluster.run(LEASE);
    take(&mut live, &mut told);
    let place = newest(&mut cluster, 0).seq + 1;
    cluster.nodes[0].fault.damage(place, undecodable());
    let plans = [cluster.perform(1, "a"), cluster.perform(1, "b")];
    cluster.run(Duration::from_secs(5));
    take(&mut live, &mut told);
    assert_eq!(told, [], "nothing is left out yet");
    cluster.nodes[0].fault.heal();
    cluster.run(Duration::from_secs(2));
    take(&mut live, &mut told);
    assert_eq!(told.first().map(|first| first.cursor.seq), Some(place));
    let mut ended = stopped(&told);
    ended.sort_unstable();
    let mut all = plans.to_vec();
    all.sort_unstable();
    assert_eq!(ended, all);
}
