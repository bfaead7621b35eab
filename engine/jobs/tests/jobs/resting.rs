//! Jobs at rest: those whose next time is far take little memory, and are as others for everybody.

use turnwheel_engine::Time;
use turnwheel_jobs::{After, Missed, On};

use super::common::{job, set, time, Stage, HOUR, MINUTE, SECOND};

#[test]
fn jobs_at_rest_are_listed_edited_launched_and_removed() {
    let stage = Stage::at("2026-01-01T10:00:30Z");
    for (name, schedule) in
        [("d", "@manually"), ("b", "@daily"), ("a", "@minutely"), ("c", "@daily")]
    {
        stage.put(job(name, schedule, |_| ()));
    }
    let after = After::new("b", On::Success);
    stage.put(job("child", "", |spec| spec.after = vec![after]));
    stage.sim.advance(10 * MINUTE);
    let list = stage.wait(stage.jobs.list()).unwrap();
    let names: Vec<&str> = list.iter().map(|view| view.spec.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "child", "d"]);
    assert_eq!(list[1].next, Some(time("2026-01-02T00:00:00Z")));
    assert_eq!(list[1].dependants, ["child"]);
    let page = stage.wait(stage.jobs.page("a", 2)).unwrap();
    let names: Vec<&str> = page.iter().map(|view| view.spec.name.as_str()).collect();
    assert_eq!(names, ["b", "c"]);
    // An edit, a launch by hand with its dependant, and a removal.
    let view = stage.put(job("c", "@hourly", |_| ()));
    assert_eq!((view.revision, view.next), (2, Some(time("2026-01-01T11:00:00Z"))));
    stage.wait(stage.jobs.run("b", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    assert_eq!((stage.rows("b").len(), stage.rows("child").len()), (1, 1));
    stage.wait(stage.jobs.remove("d")).unwrap();
    assert!(stage.wait(stage.jobs.get("d")).is_err());
    assert!(stage.wait(stage.jobs.remove("b")).is_err(), "it has a dependant");
    // Their times come.
    stage.sim.advance(14 * HOUR);
    assert_eq!(stage.rows("b").len(), 2);
    assert_eq!(stage.rows("child").len(), 2);
    assert_eq!(stage.rows("c").len(), 14);
}

#[test]
fn stored_next_times_are_trusted_at_the_start_and_checked_later() {
    let mut stage = Stage::at("2026-01-01T10:00:30Z");
    stage.put(job("daily", "0 0 12 * * *", |_| ()));
    stage.put(job("hourly", "@hourly", |spec| spec.missed = Missed::None));
    stage.put(job("never", "@manually", |_| ()));
    stage.put(job("once", "@manually", |spec| spec.ephemeral = true));
    stage.put(job("long", "@daily", |spec| set(spec, "takes", "2h")));
    stage.wait(stage.jobs.run("long", "ann", false)).unwrap();
    stage.sim.advance(MINUTE);
    stage.reading = 0;
    stage.outage(3 * HOUR + MINUTE);
    stage.sim.advance(SECOND);
    assert_eq!(stage.rows("hourly"), ["11:00:00 missed", "12:00:00 missed", "13:00:00 missed"]);
    assert_eq!(stage.rows("daily"), ["12:00:00 succeeded"], "the latest is made up for");
    let long = stage.history("long");
    assert!(long[0].ended_at.is_some(), "its run went on: {long:?}");
    assert_eq!(stage.wait(stage.jobs.list()).unwrap().len(), 5);
    stage.wait(stage.jobs.run("once", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    assert!(stage.wait(stage.jobs.get("once")).is_err(), "it went with its success");
    stage.outage(SECOND);
    stage.sim.advance(HOUR);
    assert_eq!(stage.rows("hourly").last().map(String::as_str), Some("14:00:00 succeeded"));
    assert_eq!(stage.get("never").next, None);
}

#[test]
fn rules_of_a_zone_that_have_changed_are_found_after_the_start() {
    let mut stage = Stage::at("2026-01-01T10:00:30Z");
    stage.put(job("local", "0 0 20 * * *", |_| ()));
    stage.sim.advance(SECOND);
    // The zone of jobs that name none is another one now: the stored time is later than the next.
    (stage.reading, stage.zone) = (0, "Asia/Tokyo");
    stage.outage(SECOND);
    stage.sim.advance(MINUTE);
    assert_eq!(stage.get("local").next, Some(time("2026-01-01T11:00:00Z")));
    stage.sim.advance(HOUR);
    assert_eq!(stage.rows("local"), ["11:00:00 succeeded"]);
    let _end: Time = stage.get("local").last.and_then(|last| last.ended_at).expect("it is over");
}
