//! Schedules of slots that a node loses and gains back, and requests that come meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnwheel_engine::schedule::{Expected, Overlap};
use turnwheel_engine::store::{
    slot_of_schedule, ScheduleRow, ScheduleWrite, Store as _, Swap, WorldsWrite,
};
use turnwheel_engine::{Schedule, StoreError};

use super::keys::wait;
use super::{Cluster, Piece, LEASE};

const NAME: &str = "tick";
const HOUR: Duration = Duration::from_secs(3_600);

/// Two nodes, and which of them has the slot of the schedule.
fn two() -> (Cluster, usize) {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(2 * LEASE);
    let at = owner(&cluster);
    (cluster, at)
}

fn owner(cluster: &Cluster) -> usize {
    let owner = cluster.base.worlds().owner(slot_of_schedule(NAME));
    cluster.nodes.iter().position(|node| node.world.id() == owner).expect("a node")
}

/// Gives the slot of the schedule to a node, and another one back: both have as many as before. The
/// nodes learn it by their next heartbeats.
fn give(cluster: &Cluster, to: usize) {
    let (worlds, slot) = (cluster.base.worlds(), slot_of_schedule(NAME));
    let (from, to) = (worlds.owner(slot), cluster.nodes[to].world.id());
    assert_ne!(from, to, "it moves");
    let row = |world| worlds.find(world).expect("it is there").clone();
    let (mut old, mut new) = (row(from), row(to));
    old.slots.remove(slot);
    new.slots.add(slot);
    let other = new.slots.iter().rfind(|other| *other != slot).expect("it has some");
    new.slots.remove(other);
    old.slots.add(other);
    let write = WorldsWrite { from: worlds.version, put: vec![old, new], gone: vec![] };
    let mut writer = cluster.base.memory.open().expect("it opens");
    assert_eq!(writer.write_worlds(&write).expect("it is written"), Swap::Done);
}

fn row(cluster: &Cluster, name: &str) -> Option<ScheduleRow> {
    let mut reader = cluster.base.memory.reader().expect("a reader");
    reader.schedule(name).expect("it is read")
}

/// Changes a schedule in the store as the owner of its slot does.
fn write(cluster: &Cluster, name: &str, data: Option<Vec<u8>>) {
    let (worlds, slot) = (cluster.base.worlds(), slot_of_schedule(name));
    let from = row(cluster, name).map_or(0, |row| row.version);
    let epoch = worlds.owners()[slot].epoch;
    let write = ScheduleWrite { name: name.to_owned(), from, data, epoch };
    let mut writer = cluster.base.memory.open().expect("it opens");
    assert_eq!(writer.write_schedules(&[write]).expect("it is written"), [Swap::Done]);
}

/// A name whose slot is that of the schedule.
fn twin(text: &str) -> String {
    let slot = slot_of_schedule(NAME);
    let names = (0..).map(|number| format!("{text} {number}"));
    names.into_iter().find(|name| slot_of_schedule(name) == slot).expect("some")
}

fn put(cluster: &mut Cluster, at: usize, name: &str, every: Duration) {
    let every = Schedule::every(name, every).overlap(Overlap::Allow);
    let put = every.action::<Piece>(&"a".to_owned()).expect("it is complete");
    let put = cluster.nodes[at].world.schedules().put(put);
    wait(cluster, put).expect("it is answered").expect("it is put");
}

fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    matches!(Pin::new(future).poll(&mut cx), Poll::Pending)
}

/// The names of the schedules as a node lists them.
fn listed(cluster: &mut Cluster, at: usize) -> Vec<String> {
    let listed = cluster.nodes[at].world.schedules().list("", 9);
    let views = wait(cluster, listed).expect("it is answered").expect("it is listed");
    views.into_iter().map(|view| view.name).collect()
}

#[test]
fn schedules_of_a_slot_that_went_and_came_back_in_one_look_are_as_another_node_has_left_them() {
    let (mut cluster, at) = two();
    let (made, removed) = (twin("made"), twin("removed"));
    put(&mut cluster, at, NAME, HOUR);
    put(&mut cluster, at, &removed, Duration::from_secs(2));
    // For its content alone: it goes to the store under the name of the one that is made.
    put(&mut cluster, at, "model", Duration::from_secs(2));
    let data = row(&cluster, "model").expect("it is stored").data;
    cluster.run(Duration::from_secs(3));
    give(&cluster, 1 - at);
    write(&cluster, &made, Some(data));
    write(&cluster, &removed, None);
    give(&cluster, at);
    cluster.run(Duration::from_secs(6));
    assert_eq!(owner(&cluster), at);
    // Nobody has asked for it.
    let version = row(&cluster, &made).expect("it is there").version;
    assert!(version > 3, "it launches by itself: {version}");
    assert!(row(&cluster, &removed).is_none(), "nothing is written of it");
    for node in [at, 1 - at] {
        let wanted = [made.clone(), "model".to_owned(), NAME.to_owned()];
        assert_eq!(listed(&mut cluster, node), wanted);
    }
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn schedules_removed_at_another_node_meanwhile_are_not_listed_by_a_node_that_gains_the_slot_back() {
    let (mut cluster, at) = two();
    let removed = twin("removed");
    put(&mut cluster, at, NAME, HOUR);
    put(&mut cluster, at, &removed, HOUR);
    give(&cluster, 1 - at);
    cluster.run(LEASE);
    let remove = cluster.nodes[at].world.schedules().remove(&removed);
    wait(&mut cluster, remove).expect("it is answered").expect("it is removed");
    give(&cluster, at);
    cluster.run(LEASE);
    assert_eq!(listed(&mut cluster, at), [NAME]);
    let get = cluster.nodes[at].world.schedules().get(&removed);
    let error = wait(&mut cluster, get).expect("it is answered").expect_err("it is removed");
    assert!(error.to_string().contains(&removed), "{error}");
}

/// A node that has gained the slot back and cannot read its schedules: a question and a change are
/// held there.
#[test]
fn requests_that_are_held_go_on_where_the_slot_is_then() {
    for moves_on in [false, true] {
        let (mut cluster, at) = two();
        put(&mut cluster, at, NAME, HOUR);
        give(&cluster, 1 - at);
        cluster.run(LEASE);
        let failed = || StoreError::Failed("cut off".to_owned());
        cluster.nodes[at].fault.fail_reads_of_schedules(failed());
        give(&cluster, at);
        cluster.run(LEASE);
        let schedules = |node: usize| cluster.nodes[node].world.clone();
        let (own, other) = (schedules(at), schedules(1 - at));
        let mut get = own.schedules().get(NAME);
        let mut paused = other.schedules().pause(NAME, "eva", "");
        let mut list = other.schedules().list("", 9);
        cluster.run(LEASE);
        assert!(is_pending(&mut get) && is_pending(&mut paused) && is_pending(&mut list));
        if moves_on {
            // They do not wait for the node that cannot read them.
            give(&cluster, 1 - at);
        } else {
            cluster.nodes[at].fault.heal();
        }
        let view = wait(&mut cluster, get).expect("it is answered").expect("it is there");
        assert_eq!(view.name, NAME);
        let view = wait(&mut cluster, paused).expect("it is answered").expect("it is paused");
        assert!(view.paused.is_some_and(|paused| paused.by == "eva"));
        // A list is of all slots, and the node has got another one that it cannot read either.
        cluster.nodes[at].fault.heal();
        let views = wait(&mut cluster, list).expect("it is answered").expect("it is listed");
        assert_eq!(views.len(), 1);
        assert_eq!(row(&cluster, NAME).map(|row| row.version), Some(2), "paused once");
    }
}

/// A node reads schedules for the slots of a dead one, and has its own under the same epochs.
#[test]
fn a_slot_that_is_kept_is_not_read_again_and_a_change_on_its_way_stays() {
    let (mut cluster, at) = two();
    put(&mut cluster, at, NAME, HOUR);
    let before = cluster.base.worlds().owners()[slot_of_schedule(NAME)];
    let own = cluster.nodes[at].world.clone();
    let other = cluster.nodes[1 - at].world.id();
    cluster.kill(1 - at);
    let fault = cluster.nodes[0].fault.clone();
    fault.fail_reads_of_schedules(StoreError::Failed("cut off".to_owned()));
    // Its answer is lost while the slots of the dead node are taken over.
    let paused = own.schedules().pause(NAME, "eva", "");
    fault.lose_answer_at(fault.commits() + 1);
    cluster.run(2 * LEASE);
    assert!(cluster.base.worlds().find(other).is_none(), "it is taken for dead");
    assert_eq!(cluster.base.worlds().owners()[slot_of_schedule(NAME)], before);
    let view = wait(&mut cluster, paused).expect("it is answered").expect("it is paused");
    assert!(view.paused.is_some());
    let get = own.schedules().get(NAME);
    assert!(wait(&mut cluster, get).expect("it is answered").is_ok(), "it is served");
    fault.heal();
    cluster.run(LEASE);
    let get = own.schedules().get(NAME);
    let view = wait(&mut cluster, get).expect("it is answered").expect("it is there");
    assert!(view.paused.is_some_and(|paused| paused.by == "eva"));
    assert_eq!(row(&cluster, NAME).map(|row| row.version), Some(2), "paused once");
}

/// A change is asked of a node that takes nothing any more, and is killed.
#[test]
fn changes_whose_node_dies_before_it_answers_are_made_by_the_next_owner() {
    let (mut cluster, at) = two();
    put(&mut cluster, at, NAME, HOUR);
    let removed = [twin("first"), twin("second")];
    removed.iter().for_each(|name| put(&mut cluster, at, name, HOUR));
    let until = cluster.base.now() + HOUR;
    cluster.nodes[at].freeze(until);
    let dead = cluster.nodes[at].world.id();
    let other = cluster.nodes[1 - at].world.clone();
    let schedules = || other.schedules();
    let paused = schedules().pause(NAME, "eva", "");
    let launched = schedules().trigger_now(NAME, "eva");
    let every = Schedule::every(twin("new"), HOUR).action::<Piece>(&"a".to_owned());
    let made = schedules().put(every.expect("it is complete"));
    let both = removed.each_ref().map(|name| schedules().remove(name));
    let mut edited = schedules().expecting(Expected::Present).pause(NAME, "ann", "");
    cluster.run(LEASE / 4);
    assert!(is_pending(&mut edited), "nothing is answered");
    // It has made one of the changes, and nobody was told.
    write(&cluster, &removed[0], None);
    cluster.kill(at);
    let plan = wait(&mut cluster, launched).expect("it is answered").expect("it is launched");
    let view = wait(&mut cluster, paused).expect("it is answered").expect("it is paused");
    assert!(view.paused.is_some());
    wait(&mut cluster, made).expect("it is answered").expect("it is made");
    for removal in both {
        wait(&mut cluster, removal).expect("it is answered").expect("it is removed");
    }
    // A change that is for a certain state would find its own change.
    let error = wait(&mut cluster, edited).expect("it is answered").expect_err("nobody knows");
    assert!(error.to_string().contains(&format!("world {dead}")), "{error}");
    cluster.run(LEASE);
    let rows: Vec<_> = cluster.rows().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(rows, [plan], "it is launched once");
    assert_eq!(listed(&mut cluster, 0), [twin("new"), NAME.to_owned()]);
}

/// The table of owners at the node is older than the store's.
#[test]
fn requests_to_a_node_that_does_not_know_of_its_loss_are_done_by_the_next_owner() {
    let (mut cluster, at) = two();
    put(&mut cluster, at, NAME, HOUR);
    give(&cluster, 1 - at);
    let own = cluster.nodes[at].world.clone();
    let paused = own.schedules().pause(NAME, "eva", "");
    let (launched, get) = (own.schedules().trigger_now(NAME, "eva"), own.schedules().get(NAME));
    let view = wait(&mut cluster, paused).expect("it is answered").expect("it is paused");
    assert!(view.paused.is_some());
    let plan = wait(&mut cluster, launched).expect("it is answered").expect("it is launched");
    // Asked behind a change that the store refuses, it is not said to be unknown.
    assert!(wait(&mut cluster, get).expect("it is answered").is_ok());
    cluster.run(LEASE);
    let rows: Vec<_> = cluster.rows().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(rows, [plan], "it is launched once");
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn a_launch_by_hand_that_is_stored_when_the_slot_moves_is_made_once() {
    let (mut cluster, at) = two();
    put(&mut cluster, at, NAME, HOUR);
    let before = row(&cluster, NAME).expect("it is there").version;
    cluster.nodes[at].fault.fail_entries(StoreError::Full("no room".to_owned()));
    let own = cluster.nodes[at].world.clone();
    let mut launched = own.schedules().trigger_now(NAME, "eva");
    cluster.run(LEASE);
    assert!(is_pending(&mut launched), "its plan cannot begin here");
    assert_eq!(row(&cluster, NAME).expect("it is there").version, before + 1, "it is decided");
    give(&cluster, 1 - at);
    let plan = wait(&mut cluster, launched).expect("it is answered").expect("it is launched");
    cluster.nodes[at].fault.heal();
    cluster.run(2 * LEASE);
    let rows: Vec<_> = cluster.rows().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(rows, [plan], "it is launched once");
    let get = own.schedules().get(NAME);
    let view = wait(&mut cluster, get).expect("it is answered").expect("it is there");
    assert_eq!(view.counts.launched, 1);
}
