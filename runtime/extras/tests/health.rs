//! Health: the worst of the children, listeners called on change only, a tree with a cause, checks
//! in time.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use turnwheel_extras::health::{
    HealthComponent, HealthError, HealthMonitor, HealthReport, HealthStatus, Listening,
};
use turnwheel_runtime::time::ManualClock;
use turnwheel_runtime::{Failure, Group, Pinning};
use HealthStatus::{Dead, Healthy, Unhealthy};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn group() -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("t").workers(1).pinning(Pinning::None).build()?)
}

/// Reports that the listeners of a monitor receive.
struct Told {
    reports: mpsc::Receiver<HealthReport>,
    _listening: Listening,
}

impl Told {
    fn new(monitor: &HealthMonitor) -> Result<Self, Failure> {
        let (told, reports) = mpsc::channel();
        let listening = monitor.listen(move |report| {
            // At the end of a test the receiver is gone.
            let _ = told.send(report.clone());
        })?;
        Ok(Self { reports, _listening: listening })
    }

    fn next(&self) -> Result<HealthReport, mpsc::RecvTimeoutError> {
        self.reports.recv_timeout(PATIENCE)
    }
}

#[test]
fn an_expected_component_is_unhealthy_until_it_is_registered() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    assert_eq!(monitor.report().to_string(), "top: unhealthy (nothing is registered yet)");
    monitor.expect("disk");
    assert_eq!(monitor.status(), Unhealthy);
    let text = "top: unhealthy\n  disk: unhealthy (expected, but not registered yet)";
    assert_eq!(monitor.report().to_string(), text);
    monitor.register(&HealthComponent::healthy("disk"))?;
    assert_eq!(monitor.status(), Healthy);
    // Expecting a registered component changes nothing.
    monitor.expect("disk");
    assert_eq!(monitor.status(), Healthy);
    monitor.remove("disk");
    assert_eq!(monitor.status(), Healthy, "nothing is left to be ill");
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_monitor_follows_its_component() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let told = Told::new(&monitor)?;
    let disk = HealthComponent::healthy("disk");
    monitor.register(&disk)?;
    assert_eq!(told.next()?.status, Healthy);
    assert!(disk.fail("slow"));
    assert_eq!(monitor.status(), Unhealthy);
    assert_eq!(told.next()?.status, Unhealthy);
    assert!(disk.recover());
    assert_eq!(told.next()?.status, Healthy);
    assert!(disk.die("gone"));
    assert_eq!(told.next()?.status, Dead);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_monitor_is_as_bad_as_the_worst_of_its_components() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let (one, two) = (HealthComponent::healthy("one"), HealthComponent::healthy("two"));
    monitor.register(&one)?;
    monitor.register(&two)?;
    assert_eq!(monitor.status(), Healthy);
    one.fail("slow");
    assert_eq!(monitor.status(), Unhealthy);
    two.fail("slow");
    one.recover();
    assert_eq!(monitor.status(), Unhealthy);
    two.recover();
    assert_eq!(monitor.status(), Healthy);
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_removed_component_counts_no_more_and_at_once() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let told = Told::new(&monitor)?;
    let (one, two) = (HealthComponent::healthy("one"), HealthComponent::healthy("two"));
    monitor.register(&one)?;
    monitor.register(&two)?;
    assert_eq!(told.next()?.status, Healthy);
    two.fail("slow");
    assert_eq!(told.next()?.status, Unhealthy);
    assert!(monitor.remove("two"));
    assert_eq!(monitor.status(), Healthy);
    assert_eq!(told.next()?.status, Healthy);
    assert!(!monitor.remove("two"), "it is gone already");
    two.die("gone");
    assert_eq!(monitor.status(), Healthy);
    one.fail("slow");
    assert_eq!(told.next()?.status, Unhealthy, "nothing was told of the removed one");
    group.shutdown()?;
    Ok(())
}

#[test]
fn the_dead_are_worse_than_the_unhealthy_and_stay_dead() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let (one, two) = (HealthComponent::healthy("one"), HealthComponent::healthy("two"));
    monitor.register(&one)?;
    monitor.register(&two)?;
    one.fail("slow");
    two.die("gone");
    assert_eq!(monitor.status(), Dead);
    one.recover();
    assert_eq!(monitor.status(), Dead);
    assert!(!two.recover() && !two.fail("slow") && !two.die("again"));
    assert_eq!(monitor.status(), Dead);
    // A new one takes its place.
    monitor.register(&HealthComponent::healthy("two"))?;
    assert_eq!(monitor.status(), Healthy);
    group.shutdown()?;
    Ok(())
}

#[test]
fn the_report_leads_to_the_very_issue() -> Outcome {
    let group = group()?;
    let top = HealthMonitor::start(&group, "top")?;
    let middle = HealthMonitor::start(&group, "middle")?;
    let (fine, dead) = (HealthComponent::healthy("a"), HealthComponent::healthy("b"));
    middle.register(&fine)?;
    middle.register(&dead)?;
    top.register(&middle)?;
    top.register(&HealthComponent::starting("slow"))?;
    let failure = Failure::message("the head has crashed");
    dead.die(failure.clone());
    let own = dead.report().issue.ok_or("no issue")?;
    let report = top.report();
    let way: Vec<_> = report.cause().iter().map(|report| &*report.name).collect();
    assert_eq!(way, ["top", "middle", "b"]);
    let issue = report.root_issue().ok_or("no issue")?;
    assert!(Arc::ptr_eq(issue, &own), "the very object");
    assert!(issue.failure.as_ref().is_some_and(|found| found.same_as(&failure)));
    assert_eq!(issue.to_string(), "the head has crashed");
    assert!(fine.report().cause().is_empty());
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_failing_leaf_makes_everything_above_unhealthy_and_nothing_below() -> Outcome {
    const DEPTH: usize = 6;
    let group = group()?;
    let names = ["m0", "m1", "m2", "m3", "m4", "m5"];
    let start = |name: &&str| HealthMonitor::start(&group, name);
    let monitors = names.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let leaves: Vec<_> = (0..DEPTH).map(|_| HealthComponent::healthy("leaf")).collect();
    for depth in 0..DEPTH {
        monitors[depth].register(&leaves[depth])?;
        if depth > 0 {
            monitors[depth - 1].register(&monitors[depth])?;
        }
    }
    assert_eq!(monitors[0].status(), Healthy);
    let told = Told::new(&monitors[0])?;
    for (failing, leaf) in leaves.iter().enumerate() {
        leaf.fail("broken");
        for (depth, monitor) in monitors.iter().enumerate() {
            let expected = if depth <= failing { Unhealthy } else { Healthy };
            assert_eq!(monitor.status(), expected, "m{depth} while the leaf of m{failing} fails");
        }
        let report = told.next()?;
        assert_eq!(report.status, Unhealthy);
        let way: Vec<_> = names[1..=failing].iter().copied().chain(["leaf"]).collect();
        assert_eq!(report.find(&way).ok_or("no such leaf")?.status, Unhealthy);
        assert!(report.find(&["m2"]).is_none(), "the report is a tree");
        leaf.recover();
        assert_eq!(told.next()?.status, Healthy);
    }
    group.shutdown()?;
    Ok(())
}

#[test]
fn listeners_are_told_of_changes_only_and_no_more_once_dropped() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let (one, two) = (HealthComponent::starting("one"), HealthComponent::starting("two"));
    monitor.register(&one)?;
    monitor.register(&two)?;
    let gone = Told::new(&monitor)?;
    let told = Told::new(&monitor)?;
    drop(gone._listening);
    one.fail("another reason");
    one.recover();
    two.recover();
    assert_eq!(told.next()?.status, Healthy, "the first change of all");
    one.recover();
    two.fail("slow");
    one.fail("slow");
    assert_eq!(told.next()?.status, Unhealthy);
    two.recover();
    one.recover();
    assert_eq!(told.next()?.status, Healthy);
    group.shutdown()?;
    assert!(told.reports.try_recv().is_err());
    assert!(gone.reports.recv().is_err(), "dropped before anything changed");
    Ok(())
}

#[test]
fn a_panicking_listener_hurts_nobody() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let panics = monitor.listen(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("a listener");
    })?;
    let told = Told::new(&monitor)?;
    let disk = HealthComponent::healthy("disk");
    monitor.register(&disk)?;
    assert_eq!(told.next()?.status, Healthy);
    disk.fail("slow");
    assert_eq!(told.next()?.status, Unhealthy);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    drop(panics);
    group.shutdown()?;
    Ok(())
}

#[test]
fn probes_are_asked_at_every_check_and_the_first_is_early() -> Outcome {
    let clock = ManualClock::new();
    let builder = Group::builder("t").workers(1).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let told = Told::new(&monitor)?;
    let (asked, questions) = mpsc::channel();
    let mut number = 0;
    monitor.probe("disk", move || {
        number += 1;
        // At the end of the test the receiver is gone.
        let _ = asked.send(number);
        assert_ne!(number, 3, "a panic is a failure of the probe");
        if number % 2 == 0 {
            Err(Failure::message("slow"))
        } else {
            Ok(())
        }
    })?;
    assert_eq!(questions.recv_timeout(PATIENCE)?, 1);
    assert_eq!(told.next()?.status, Healthy);
    let seconds = Duration::from_secs;
    // A fifth of a minute, then each minute.
    for (wait, number, status) in
        [(12, 2, Some(Unhealthy)), (60, 3, None), (60, 4, None), (60, 5, Some(Healthy))]
    {
        clock.advance(seconds(wait) - Duration::from_nanos(1));
        assert!(questions.try_recv().is_err(), "not early");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(questions.recv_timeout(PATIENCE)?, number);
        if let Some(status) = status {
            assert_eq!(told.next()?.status, status);
        }
        // The next check is armed when this one has ended: behind it in the task's turn.
        drop(Told::new(&monitor)?);
        settle(&group)?;
    }
    assert!(monitor.remove("disk"));
    group.shutdown()?;
    assert!(questions.recv().is_err(), "a removed probe is asked no more");
    Ok(())
}

/// Waits until the only worker has run all jobs queued before.
fn settle(group: &Group) -> Outcome {
    for _ in 0..4 {
        group.spawn(())?.call(|(), _| ()).wait()?;
    }
    Ok(())
}

#[test]
fn a_short_interval_is_checked_in_time() -> Outcome {
    let clock = ManualClock::new();
    let builder = Group::builder("t").workers(1).pinning(Pinning::None);
    let group = builder.clock(Arc::new(clock.clone())).build()?;
    let second = Duration::from_secs(1);
    let monitor = HealthMonitor::start_with_interval(&group, "top", second)?;
    let (asked, questions) = mpsc::channel();
    monitor.probe("disk", move || {
        let _ = asked.send(());
        Ok(())
    })?;
    questions.recv_timeout(PATIENCE)?;
    clock.advance(second);
    questions.recv_timeout(PATIENCE)?;
    group.shutdown()?;
    Ok(())
}

#[test]
fn a_tree_has_no_cycles() -> Outcome {
    let group = group()?;
    let one = HealthMonitor::start(&group, "one")?;
    let two = HealthMonitor::start(&group, "two")?;
    one.register(&two)?;
    assert_eq!(two.register(&one), Err(HealthError::Cycle("one".into(), "two".into())));
    assert_eq!(one.register(&one), Err(HealthError::Cycle("one".into(), "one".into())));
    assert_eq!(one.status(), Unhealthy);
    two.register(&HealthComponent::healthy("leaf"))?;
    assert_eq!(one.status(), Healthy);
    group.shutdown()?;
    Ok(())
}

#[test]
fn reports_outlive_the_group_and_listeners_are_refused_then() -> Outcome {
    let group = group()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let disk = HealthComponent::healthy("disk");
    monitor.register(&disk)?;
    group.shutdown()?;
    disk.fail("slow");
    assert_eq!(monitor.status(), Unhealthy);
    assert!(monitor.listen(|_| ()).is_err());
    assert!(HealthMonitor::start(&group, "late").is_err());
    Ok(())
}

#[test]
fn a_dropped_monitor_ends_its_task() -> Outcome {
    let group = group()?;
    let disk = HealthComponent::healthy("disk");
    let monitor = HealthMonitor::start(&group, "top")?;
    monitor.register(&disk)?;
    drop(monitor);
    disk.fail("nobody looks");
    let report = group.shutdown()?;
    assert!(report.is_clean());
    assert!(group.tasks().is_empty());
    Ok(())
}

#[test]
fn components_report_from_many_threads() -> Outcome {
    let group = Group::builder("t").workers(2).pinning(Pinning::None).build()?;
    let monitor = HealthMonitor::start(&group, "top")?;
    let told = Told::new(&monitor)?;
    let names: Vec<_> = (0..4).map(|index| format!("c{index}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            let component = HealthComponent::starting(name);
            monitor.register(&component).expect("no cycle");
            scope.spawn(move || {
                for _ in 0..1_000 {
                    component.recover();
                    component.fail("slow");
                }
                component.recover();
            });
        }
        for _ in 0..1_000 {
            drop(monitor.report());
        }
    });
    assert_eq!(monitor.status(), Healthy);
    // The last change is reported, whatever happened to the ones before it.
    let end = HealthComponent::healthy("end");
    monitor.register(&end)?;
    end.die("gone");
    while told.next()?.status != Dead {}
    group.shutdown()?;
    Ok(())
}
