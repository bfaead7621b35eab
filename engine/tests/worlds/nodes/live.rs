//! Live events of all nodes at any of them, and cursors that go on at another one.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched, What};
use turnwheel_engine::{PlanId, PlanState};

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
    let newest = |cluster: &mut Cluster, at: usize| {
        let world = cluster.nodes[at].world.clone();
        wait(cluster, world.newest_cursor()).expect("it is read")
    };
    let last = newest(&mut cluster, 0);
    assert!(last > Cursor::START);
    assert!(newest(&mut cluster, 1) >= last);
}
