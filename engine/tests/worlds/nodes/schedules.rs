//! Schedules over nodes: each is served by the owner of its slot.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_engine::schedule::ScheduleView;
use turnwheel_engine::store::{slot_of_schedule, ScheduleWrite, Store, Swap};
use turnwheel_engine::{PlanState, Schedule};

use super::keys::wait;
use super::{Cluster, Piece};

const COUNT: usize = 24;

fn name(number: usize) -> String {
    format!("tick {number:02}")
}

/// Puts the schedules, each by another node than the one before.
fn put_all(cluster: &mut Cluster) {
    for number in 0..COUNT {
        let every = Schedule::every(name(number), Duration::from_secs(5));
        let every = every.action::<Piece>(&"a".to_owned()).expect("it is complete");
        let at = number % cluster.nodes.len();
        let put = cluster.nodes[at].world.schedules().put(every);
        wait(cluster, put).expect("it is answered").expect("it is put");
    }
}

/// The nodes that serve schedules.
fn servers(cluster: &Cluster) -> BTreeSet<u64> {
    let worlds = cluster.base.worlds();
    (0..COUNT).map(|number| worlds.owner(slot_of_schedule(&name(number)))).collect()
}

fn list(cluster: &mut Cluster, at: usize) -> Vec<ScheduleView> {
    let listed = cluster.nodes[at].world.schedules().list("", 100);
    wait(cluster, listed).expect("it is answered").expect("it is listed")
}

/// Each node lists all of them, and each launch has one plan.
fn check(cluster: &mut Cluster, least: u64) {
    for at in 0..cluster.nodes.len() {
        let views = list(cluster, at);
        let names: Vec<String> = views.iter().map(|view| view.name.clone()).collect();
        assert_eq!(names, (0..COUNT).map(name).collect::<Vec<_>>(), "at node {at}");
        let few = views.iter().find(|view| view.counts.launched < least);
        assert_eq!(few, None, "at least {least}");
    }
    let views = list(cluster, 0);
    let launched: u64 = views.iter().map(|view| view.counts.launched).sum();
    assert_eq!(cluster.rows().len() as u64, launched, "a plan for each launch");
}

#[test]
fn each_node_launches_the_schedules_of_its_slots_also_after_slots_have_moved() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(Duration::from_secs(5));
    put_all(&mut cluster);
    assert_eq!(servers(&cluster).len(), 2, "both nodes serve some");
    cluster.run(Duration::from_secs(22));
    check(&mut cluster, 4);
    // It has the time of the others.
    let behind = cluster.nodes[0].since;
    cluster.start_at(cluster.base.now() - behind);
    cluster.run(Duration::from_secs(20));
    assert_eq!(servers(&cluster).len(), 3, "slots with schedules have moved to the new node");
    check(&mut cluster, 8);
    assert_eq!(cluster.wrong(), [""; 0]);
}

#[test]
fn schedules_of_a_node_that_is_killed_at_a_fire_go_on_and_none_is_launched_twice() {
    for millis in [0, 1, 40, 400] {
        let mut cluster = Cluster::new(8, 3, false);
        cluster.run(Duration::from_secs(5));
        put_all(&mut cluster);
        assert_eq!(servers(&cluster).len(), 3, "all nodes serve some");
        cluster.run(Duration::from_secs(10));
        // The next fires are around the next whole five seconds after they were put.
        cluster.run(Duration::from_millis(millis));
        cluster.kill(1);
        cluster.run(Duration::from_secs(20));
        assert_eq!(servers(&cluster).len(), 2);
        check(&mut cluster, 4);
        assert_eq!(cluster.wrong(), [""; 0]);
    }
}

#[test]
fn schedules_are_served_at_any_node_and_launch_each_time_once() {
    let mut cluster = Cluster::new(8, 2, false);
    let tick = Schedule::every("tick", Duration::from_secs(5)).action::<Piece>(&"w".to_owned());
    let put = cluster.nodes[1].world.schedules().put(tick.expect("it is complete"));
    let view = wait(&mut cluster, put).expect("it is answered").expect("it is put");
    assert_eq!(view.name, "tick");
    cluster.run(Duration::from_secs(21));
    let before = cluster.rows().len();
    assert!((3..6).contains(&before), "the owner of its slot launches: {before}");
    let owner = cluster.base.worlds().owner(slot_of_schedule("tick"));
    let at = cluster.nodes.iter().position(|node| node.world.id() == owner).expect("a node");
    cluster.kill(at);
    cluster.run(Duration::from_secs(30));
    let views = list(&mut cluster, 0);
    let launched = usize::try_from(views[0].counts.launched).expect("few");
    assert_eq!(cluster.rows().len(), launched, "a plan for each");
    assert!(launched >= before + 4, "the other node goes on: {launched}");
}

/// Writes bytes that are no schedule over one, under the epoch of its owner.
fn damage(cluster: &Cluster, name: &str) {
    let store = cluster.base.of_node(&Arc::default());
    let row = store.reader().expect("it opens").schedule(name).expect("it is read");
    let row = row.expect("it is there");
    let epoch = cluster.base.worlds().owners()[slot_of_schedule(name)].epoch;
    let (name, from, data) = (row.name, row.version, Some(vec![0xde, 0xad]));
    let write = ScheduleWrite { name, from, data, epoch };
    let swaps = store.open().expect("it opens").write_schedules(&[write]);
    assert_eq!(swaps.expect("it is written"), [Swap::Done]);
}

#[test]
fn new_owner_of_a_damaged_schedule_lists_it_and_goes_on_with_plans_and_all_others() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(Duration::from_secs(5));
    put_all(&mut cluster);
    super::adoption::trigger(&mut cluster, "w", 4);
    let gone = cluster.nodes[0].world.id();
    let is_of_it = |name: &String| cluster.base.worlds().owner(slot_of_schedule(name)) == gone;
    let damaged = (0..COUNT).map(name).find(is_of_it).expect("it serves some");
    damage(&cluster, &damaged);
    let taken = cluster.taken.clone();
    cluster.kill(0);
    cluster.run(Duration::from_secs(20));
    let rows = cluster.rows();
    let is_over = |plan| rows.iter().any(|row| row.0 == plan && row.1 == PlanState::Stopped);
    assert!(taken.into_iter().all(is_over), "plans of the node that is gone go on");
    let views = list(&mut cluster, 0);
    assert_eq!(views.len(), COUNT);
    for view in views {
        let is_damaged = view.problem.is_some_and(|problem| problem.contains("cannot be read"));
        assert_eq!(is_damaged, view.name == damaged, "{}", view.name);
        assert_eq!(view.counts.launched == 0, is_damaged, "{}", view.name);
    }
}
