//! A node takes over slots with many plans: those that wait are not read one by one.

use turnwheel_engine::PlanState;

use super::{Cluster, Duration, LEASE, TICK};

/// Triggers plans at the first node. No time passes, so that their rows stay behind.
pub(super) fn trigger(cluster: &mut Cluster, text: &str, count: usize) {
    for _ in 0..count {
        cluster.trigger(0, text);
        let (_, mut trigger) = cluster.asked.pop().expect("it is on its way");
        let sim = &cluster.nodes[0].sim;
        let plan = sim.block_on(trigger.as_mut()).expect("it is answered").expect("it is taken");
        sim.run_until_idle();
        cluster.taken.push(plan.id());
    }
}

fn stopped(cluster: &Cluster) -> usize {
    let is_over = |row: &&(_, PlanState, _)| row.1 == PlanState::Stopped;
    cluster.rows().iter().filter(is_over).count()
}

#[test]
fn new_owner_reads_due_plans_and_no_others() {
    let mut cluster = Cluster::new(8, 2, false);
    cluster.run(Duration::from_secs(5));
    // Plans with rows, then plans whose rows are behind when their node is gone.
    trigger(&mut cluster, "s", 40);
    trigger(&mut cluster, "w", 2);
    cluster.run(TICK);
    assert_eq!(cluster.rows().len(), 42);
    trigger(&mut cluster, "s", 40);
    trigger(&mut cluster, "w", 2);
    assert_eq!(cluster.rows().len(), 42, "the others have no rows");
    let before = cluster.nodes[1].fault.loads();
    cluster.kill(0);
    cluster.run(LEASE + LEASE / 4 + Duration::from_secs(3));
    let loads = cluster.nodes[0].fault.loads() - before;
    assert_eq!(stopped(&cluster), 4, "due plans have run");
    assert_eq!(cluster.rows().len(), 84, "rows of all plans are there");
    assert!(loads <= 8, "{loads} plans were read for 4 that were due");
    assert_eq!(cluster.wrong(), [""; 0]);
}
