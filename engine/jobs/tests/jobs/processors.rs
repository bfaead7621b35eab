//! Processors of outputs: their order, what they leave, and their failures.

use turnwheel_jobs::{JobSpec, LaunchState, Settings};

use super::common::{job, set, Stage};

/// A job whose output goes through processors with these settings.
fn processed(processors: &[(&str, &[(&str, &str)])]) -> JobSpec {
    job("wordy", "@manually", |spec| {
        set(spec, "says", "hello");
        for (name, settings) in processors {
            let of = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let settings: Settings = settings.iter().map(of).collect();
            spec.processors.insert((*name).to_owned(), settings);
        }
    })
}

/// The output of one run, and the note of its row.
fn outcome(stage: &Stage, spec: JobSpec) -> (String, String) {
    stage.put(spec);
    stage.wait(stage.jobs.run("wordy", "ann", false)).expect("it goes well");
    stage.sim.run_until_idle();
    let launch = stage.history("wordy").pop().expect("it goes well");
    assert_eq!(launch.state, LaunchState::Succeeded);
    let run = launch.runs.last().expect("it goes well");
    assert_eq!(run.output_bytes, 5, "it counts what the executor wrote");
    assert!(!run.is_cut, "a note is no cut");
    (stage.block(stage.jobs.output(run)).expect("it goes well"), run.note.clone())
}

#[test]
fn outputs_are_forwarded_or_replaced_by_a_note() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let kept = outcome(&stage, processed(&[("ink", &[("forward", "true")])]));
    assert_eq!(kept, ("hello".to_owned(), String::new()));
    let replaced = outcome(&stage, processed(&[("ink", &[])]));
    assert_eq!(replaced, ("note of ink".to_owned(), String::new()));
}

#[test]
fn processors_go_by_order_and_then_by_name() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    outcome(&stage, processed(&[("ink", &[("order", "2")]), ("paper", &[("order", "1")])]));
    let seen = std::mem::take(&mut *stage.note.seen.lock().unwrap());
    assert_eq!(seen, [("paper", "hello".to_owned()), ("ink", "note of paper".to_owned())]);
    outcome(&stage, processed(&[("paper", &[]), ("ink", &[("forward", "true")])]));
    let seen = std::mem::take(&mut *stage.note.seen.lock().unwrap());
    assert_eq!(seen, [("ink", "hello".to_owned()), ("paper", "hello".to_owned())]);
}

#[test]
fn a_failing_or_unknown_processor_is_a_note_and_keeps_the_output() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    let spec = processed(&[("ink", &[("broken", "yes")]), ("slack", &[("channel", "ops")])]);
    let (output, note) = outcome(&stage, spec);
    assert_eq!(output, "hello");
    assert!(note.contains("processor ink: it is down"), "{note}");
    assert!(note.contains("processor slack: there is no such processor here"), "{note}");
}

#[test]
fn settings_of_processors_are_checked() {
    let stage = Stage::at("2026-01-01T00:00:00Z");
    for (name, value, problem) in [
        ("forward", "perhaps", "ink: forward: «perhaps» is neither true nor false"),
        ("order", "first", "ink: order: «first» is no whole number"),
        ("colour", "red", "ink: colour: no such setting"),
    ] {
        let error = stage.refused(processed(&[("ink", &[(name, value)])]));
        assert!(error.contains(problem), "{error}");
    }
}
