//! One schedule for people.

use std::fmt::Write as _;

use serde_json::Value;
use turnwheel::api::{CatchUpSpec, LaunchInfo, OverlapSpec, ScheduleInfo, TimingSpec};

use super::paint::{one_line, table, Paint};
use super::span;

/// Launches that are shown: the newest.
const LAUNCHES: usize = 10;

/// When a schedule launches, what it starts, what became of its launches.
pub(crate) fn text(paint: Paint, schedule: &ScheduleInfo) -> String {
    let mut text = String::new();
    let mut line = |name: &str, said: String| {
        if !said.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {}", paint.dim(&format!("{name:<10}")), one_line(&said));
        }
    };
    let spec = &schedule.spec;
    line("schedule", schedule.name.clone());
    line("when", when(&spec.timing));
    let paused = schedule.paused.as_ref();
    line("paused", paused.map(|it| format!("by {} {}", it.by, it.why)).unwrap_or_default());
    line("next", schedule.next.as_deref().map(span::shown).unwrap_or_default());
    line("problem", schedule.problem.clone().unwrap_or_default());
    let (starts, input) = started(&spec.action, &spec.input);
    line("starts", starts);
    line("input", input);
    line("overlap", overlap(spec.overlap).to_owned());
    line("missed", catch_up(spec.catch_up));
    let jitter = std::time::Duration::from_millis(spec.jitter_ms);
    let is_late = spec.jitter_ms > 0;
    line("jitter", if is_late { format!("up to {}", span::long(jitter)) } else { String::new() });
    let counts = format!(
        "{} launched, {} skipped, {} missed, {} failed",
        schedule.launched, schedule.skipped, schedule.missed, schedule.failed
    );
    line("so far", counts);
    line("running", schedule.running.join(" "));
    if !schedule.history.is_empty() {
        let newest = schedule.history.iter().rev().take(LAUNCHES);
        let rows: Vec<Vec<String>> = newest.map(launch).collect();
        text.push('\n');
        text.push_str(&table(paint, &["planned", "why", "outcome", "plan"], &rows));
    }
    text
}

/// When a schedule launches, for people.
pub(crate) fn when(timing: &TimingSpec) -> String {
    let length = |ms: &u64| {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        let fits = units.into_iter().find(|(unit, _)| *ms >= *unit && ms % unit == 0);
        fits.map_or_else(|| format!("{ms}ms"), |(unit, name)| format!("{}{name}", ms / unit))
    };
    match timing {
        TimingSpec::Cron { pattern, zone } => format!("{pattern} {zone}"),
        TimingSpec::Every { period_ms, .. } => format!("every {}", length(period_ms)),
        TimingSpec::At(time) => format!("once at {time}"),
        TimingSpec::Manual {} => "only by hand".to_owned(),
        TimingSpec::After { pause_ms } => format!("{} after its end", length(pause_ms)),
    }
}

/// The flow or action, and the input that the user gave: not how a flow keeps it.
fn started(action: &str, input: &Value) -> (String, String) {
    let own = |input: &Value| if input.is_null() { String::new() } else { input.to_string() };
    match input.get("flow").and_then(Value::as_str) {
        Some(flow) if action == "flow" => (flow.to_owned(), own(&input["input"])),
        _ => (action.to_owned(), own(input)),
    }
}

fn overlap(policy: OverlapSpec) -> &'static str {
    match policy {
        OverlapSpec::Allow => "a launch begins beside those that run",
        OverlapSpec::Forbid => "a launch is skipped while the one before runs",
        OverlapSpec::Replace => "a launch cancels the one before",
        OverlapSpec::Queue => "a launch waits for the one before",
    }
}

fn catch_up(policy: CatchUpSpec) -> String {
    match policy {
        CatchUpSpec::None => "times are left out".to_owned(),
        CatchUpSpec::Latest => "one launch makes up for all times".to_owned(),
        CatchUpSpec::All { window_ms } => {
            let window = std::time::Duration::from_millis(window_ms);
            format!("times within {} are launched", span::long(window))
        }
    }
}

fn launch(launch: &LaunchInfo) -> Vec<String> {
    let outcome = match &launch.why {
        Some(why) => format!("{}: {why}", launch.outcome),
        None => launch.outcome.clone(),
    };
    vec![
        span::shown(&launch.planned),
        launch.occasion.replace('_', " "),
        one_line(&outcome),
        launch.plan.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_input_of_a_flow_is_what_was_given() {
        let kept =
            json!({ "definition": "9b77", "flow": "shop/mail:1.0.0", "input": {"to": "ann"} });
        let shown = |flow: &str, input: &str| (flow.to_owned(), input.to_owned());
        assert_eq!(started("flow", &kept), shown("shop/mail:1.0.0", "{\"to\":\"ann\"}"));
        assert_eq!(started("echo", &json!({"a": 1})), shown("echo", "{\"a\":1}"));
        assert_eq!(started("echo", &Value::Null), shown("echo", ""));
    }
}
