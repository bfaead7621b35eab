//! Concurrency keys over several nodes.

use super::*;

/// The times in which the runs of some jobs worked, the earliest first.
fn works(cluster: &mut Cluster, names: &[&str]) -> Vec<(Time, Time, String)> {
    let mut works = Vec::new();
    for name in names {
        for launch in cluster.history(0, name) {
            assert_eq!(launch.state, LaunchState::Succeeded, "{name}: {}", launch.reason);
            works.extend(launch.runs.into_iter().map(|run| {
                let began = run.started_at.expect("it has begun");
                (began, run.ended_at.expect("it is over"), run.node)
            }));
        }
    }
    works.sort();
    works
}

#[test]
fn runs_with_one_key_work_one_at_a_time_over_all_nodes() {
    let mut cluster = Cluster::new(31, &["", "", ""]);
    for name in ["everywhere", "again"] {
        let keyed = job(name, "@manually", |spec| {
            (spec.nodes, spec.concurrency_key) = (Some(Nodes::All), "backup".to_owned());
            set(spec, "takes", "4s");
        });
        cluster.put(0, keyed);
    }
    for name in ["everywhere", "again"] {
        let asked = cluster.processes[1].jobs.run(name, "ann", false);
        cluster.done(asked).expect("it is launched");
    }
    cluster.run(60 * SECOND);
    let works = works(&mut cluster, &["everywhere", "again"]);
    let mut nodes: Vec<&String> = works.iter().map(|(.., node)| node).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!((works.len(), nodes.len()), (6, 3));
    for pair in works.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two at once: {pair:?}");
    }
}

#[test]
fn a_key_goes_on_when_the_node_that_has_it_dies() {
    let mut cluster = Cluster::new(32, &["disk=a", "disk=b", "disk=b"]);
    for (name, disk) in [("first", "a"), ("second", "b")] {
        let keyed = job(name, "@manually", |spec| {
            spec.concurrency_key = "backup".to_owned();
            spec.targets.insert("disk".to_owned(), disk.to_owned());
            set(spec, "takes", "20s");
        });
        cluster.put(1, keyed);
        let asked = cluster.processes[1].jobs.run(name, "ann", false);
        cluster.done(asked).expect("it is launched");
        cluster.run(SECOND);
    }
    assert_eq!(cluster.begun().len(), 1, "the second one waits");
    cluster.kill(0);
    cluster.run(60 * SECOND);
    let second = cluster.history(0, "second").remove(0);
    assert_eq!(second.state, LaunchState::Succeeded, "{}", second.reason);
}
