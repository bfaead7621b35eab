//! Notifications: which events, how often, with what text, and what a failing one stops.

use turnwheel_jobs::{Event, JobSpec, LaunchState, Missed, Notify, Overlap, Settings, Span};

use super::common::{job, set, Stage, HOUR, MINUTE, SECOND};

const ALL: [Event; 7] = [
    Event::Start,
    Event::Success,
    Event::Failure,
    Event::Recovery,
    Event::Late,
    Event::Missed,
    Event::Skipped,
];

/// A job whose events go to a webhook.
fn told(name: &str, schedule: &str, on: &[Event]) -> JobSpec {
    job(name, schedule, |spec| {
        let (on, webhook) = (on.to_vec(), "https://hook.example".to_owned());
        let body = "{{.Event}} {{.JobName}} {{.Launch}}".to_owned();
        spec.notify.push(Notify { on, webhook, body, ..Notify::default() });
    })
}

/// The bodies that were sent.
fn sent(stage: &Stage) -> Vec<String> {
    let messages = std::mem::take(&mut *stage.post.sent.lock().expect("no panic"));
    messages.into_iter().map(|message| message.body).collect()
}

fn run(stage: &Stage, name: &str) {
    stage.wait(stage.jobs.run(name, "ann", false)).expect("it is launched");
    stage.sim.advance(MINUTE);
}

#[test]
fn a_run_is_told_of_before_and_after_once_each() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("backup", "@manually", &ALL);
    set(&mut spec, "takes", "30s");
    stage.put(spec);
    stage.wait(stage.jobs.run("backup", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    assert_eq!(sent(&stage), ["start backup 1"]);
    stage.sim.advance(MINUTE);
    assert_eq!(sent(&stage), ["success backup 1"]);
}

#[test]
fn attempts_are_told_of_at_their_begin_and_launches_at_their_end() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("flaky", "@manually", &ALL);
    spec.retries = 1;
    set(&mut spec, "fails", "9");
    stage.put(spec.clone());
    run(&stage, "flaky");
    let mut first = sent(&stage);
    first.sort();
    assert_eq!(first, ["failure flaky 1", "start flaky 1", "start flaky 1"]);
    spec.config = Settings::new();
    stage.put(spec);
    run(&stage, "flaky");
    let mut second = sent(&stage);
    second.sort();
    assert_eq!(second, ["recovery flaky 2", "start flaky 2", "success flaky 2"]);
    run(&stage, "flaky");
    assert!(!sent(&stage).contains(&"recovery flaky 3".to_owned()));
}

#[test]
fn failures_alone_can_be_asked_for() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(told("fine", "@manually", &[Event::Failure]));
    run(&stage, "fine");
    assert!(sent(&stage).is_empty());
    // A launch without a node is a failure, too.
    let mut spec = told("far", "@manually", &[Event::Failure]);
    spec.targets.insert("region".to_owned(), "us".to_owned());
    stage.put(spec);
    run(&stage, "far");
    assert_eq!(sent(&stage), ["failure far 1"]);
}

#[test]
fn late_missed_and_skipped_launches_are_told_of() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    stage.put(told("none", "@hourly", &ALL[4..]));
    let mut spec = told("busy", "@every 1m", &[Event::Skipped]);
    spec.overlap = Overlap::Forbid;
    set(&mut spec, "takes", "90s");
    stage.put(spec);
    stage.sim.advance(2 * MINUTE + SECOND);
    assert_eq!(sent(&stage), ["skipped busy 2"]);
    stage.wait(stage.jobs.remove("busy")).unwrap();
    stage.outage(2 * HOUR + 10 * MINUTE);
    let mut all = sent(&stage);
    all.sort();
    assert_eq!(all, ["late none 2", "missed none 1"]);
    let mut spec = told("none", "@hourly", &ALL[4..]);
    spec.missed = Missed::None;
    stage.put(spec);
    stage.outage(HOUR);
    assert_eq!(sent(&stage), ["missed none 3"]);
}

#[test]
fn a_failing_notification_is_tried_again_and_stops_nothing() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("parent", "@manually", &[Event::Success]);
    spec.notify[0].webhook = "nowhere".to_owned();
    spec.ephemeral = true;
    stage.put(spec);
    stage.put(job("child", "", |spec| {
        let job = "parent".to_owned();
        spec.after.push(turnwheel_jobs::After::new(job, Default::default()));
    }));
    stage.wait(stage.jobs.run("parent", "ann", false)).unwrap();
    stage.sim.run_until_idle();
    assert_eq!(stage.history("child")[0].state, LaunchState::Succeeded);
    assert!(stage.wait(stage.jobs.get("parent")).is_err(), "it was for one success");
    assert_eq!(*stage.post.refused.lock().unwrap(), 1);
    stage.sim.advance(HOUR);
    let tried = *stage.post.refused.lock().unwrap();
    assert_eq!(tried, turnwheel_jobs::limits::NOTICE_ATTEMPTS, "an end to it");
}

#[test]
fn notifications_outlive_a_restart_and_are_begun_once() {
    let mut stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("slow", "@manually", &[Event::Success]);
    set(&mut spec, "takes", "60s");
    stage.put(spec);
    stage.wait(stage.jobs.run("slow", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.outage(2 * MINUTE);
    stage.sim.run_until_idle();
    assert_eq!(sent(&stage), ["success slow 1"]);
    // The record of the job may still have the event.
    stage.outage(SECOND);
    stage.sim.run_until_idle();
    assert!(sent(&stage).is_empty());
}

#[test]
fn templates_have_the_variables_of_dkron() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("wordy", "@manually", &[Event::Success]);
    spec.owner_email = "ann@example.org".to_owned();
    let names = "{{.JobName}}|{{.ReportingNode}}|{{ .NodeName }}|{{.Success}}|{{.StartTime}}|";
    spec.notify[0].body = format!("{names}{{{{.FinishedAt}}}}|{{{{.Output | json}}}}");
    let mail = vec!["owner".to_owned(), "ops@example.org".to_owned()];
    let (on, subject) = (vec![Event::Success], "{{.JobName}}\n{{.State}}".to_owned());
    spec.notify.push(Notify { on, mail, subject, ..Notify::default() });
    set(&mut spec, "says", "line \"1\"\nline 2");
    stage.put(spec);
    run(&stage, "wordy");
    let messages = stage.post.sent.lock().unwrap().clone();
    let hook = messages.iter().find(|message| !message.webhook.is_empty()).expect("a webhook");
    let time = "2026-01-01T00:00:00Z";
    let expected = format!("wordy|here|here|true|{time}|{time}|\"line \\\"1\\\"\\nline 2\"");
    assert_eq!(hook.body, expected);
    let mail = messages.iter().find(|message| message.webhook.is_empty()).expect("a mail");
    assert_eq!(mail.mail, ["ann@example.org", "ops@example.org"]);
    assert_eq!(mail.subject, "wordy succeeded");
    for part in ["Executed: wordy", "Success: true", "line \"1\"", "[Node]: here"] {
        assert!(mail.body.contains(part), "{part}: {}", mail.body);
    }
}

#[test]
fn wrong_notifications_are_refused() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let refused = |edit: &dyn Fn(&mut Notify)| {
        let mut spec = told("bad", "@manually", &[Event::Failure]);
        edit(&mut spec.notify[0]);
        stage.refused(spec)
    };
    for (error, problem) in [
        (refused(&|notify| notify.on.clear()), "name the events"),
        (refused(&|notify| notify.webhook.clear()), "either webhook, an address, or mail"),
        (refused(&|notify| notify.body = "{{.Nme}}".to_owned()), "«.Nme» is no variable"),
        (refused(&|notify| notify.body = "{{.Output".to_owned()), "is not closed"),
        (refused(&|notify| notify.body = "{{.Output|html}}".to_owned()), "«html» is no filter"),
        (refused(&|notify| notify.headers.push("x".to_owned())), "no colon"),
        (refused(&|notify| notify.webhook = "ftp://x".to_owned()), "no such way"),
    ] {
        assert!(error.contains("notify") && error.contains(problem), "{problem}: {error}");
    }
}

#[test]
fn a_passed_deadline_is_a_failure() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("slow", "@manually", &ALL[1..]);
    spec.deadline = Some(Span::seconds(5));
    set(&mut spec, "takes", "30s");
    stage.put(spec.clone());
    run(&stage, "slow");
    assert_eq!(sent(&stage), ["failure slow 1"]);
    // Also in the pause before a retry.
    (spec.retries, spec.config) = (3, Settings::new());
    set(&mut spec, "fails", "9");
    spec.backoff.first = Span::seconds(30);
    stage.put(spec.clone());
    run(&stage, "slow");
    assert_eq!(sent(&stage), ["failure slow 2"]);
    spec.config = Settings::new();
    stage.put(spec);
    run(&stage, "slow");
    let mut last = sent(&stage);
    last.sort();
    assert_eq!(last, ["recovery slow 3", "success slow 3"]);
}

#[test]
fn a_cancel_between_a_failure_and_a_success_keeps_the_recovery() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let mut spec = told("flaky", "@manually", &[Event::Failure, Event::Recovery]);
    set(&mut spec, "fails", "9");
    stage.put(spec.clone());
    run(&stage, "flaky");
    spec.config = Settings::new();
    set(&mut spec, "takes", "30s");
    stage.put(spec);
    stage.wait(stage.jobs.run("flaky", "ann", false)).unwrap();
    stage.sim.advance(SECOND);
    stage.wait(stage.jobs.cancel("flaky", 2, "bob")).unwrap();
    stage.sim.run_until_idle();
    assert_eq!(stage.get("flaky").status, Some(LaunchState::Cancelled));
    run(&stage, "flaky");
    assert_eq!(sent(&stage), ["failure flaky 1", "recovery flaky 3"]);
    run(&stage, "flaky");
    assert!(sent(&stage).is_empty());
}

#[test]
fn a_start_is_told_of_when_the_attempt_begins_with_that_time() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    for name in ["first", "second"] {
        let mut spec = told(name, "@manually", &[Event::Start]);
        spec.concurrency_key = "disk".to_owned();
        spec.notify[0].body = "{{.Event}} {{.JobName}} {{.StartTime}}".to_owned();
        set(&mut spec, "takes", "60s");
        stage.put(spec);
        stage.wait(stage.jobs.run(name, "ann", false)).unwrap();
        stage.sim.advance(SECOND);
    }
    stage.sim.advance(28 * SECOND);
    assert_eq!(sent(&stage), ["start first 2026-01-01T00:00:00Z"], "the other one waits");
    stage.sim.advance(MINUTE);
    assert_eq!(sent(&stage), ["start second 2026-01-01T00:01:00Z"]);
}
