//! Where users of journeys are, in words, and how many are where.

use serde_json::{json, Value};
use turnwheel::journeys::Journeys;

use super::exit::Exit;
use super::journey::{ask, blocked, done, string};
use super::paint::{print, print_json, table, Paint};
use super::remote::{encoded, Remote};
use super::settings::Settings;

/// Where a user is, why, since when, and what comes next.
pub(super) fn place(settings: &Settings, platform: &str, user: &str) -> Result<(), Exit> {
    let here = |all: &Journeys, _: &str| Ok(json!(done(all.user(platform, user))?));
    let path = format!("/users/{}/{}", encoded(platform), encoded(user));
    let found = ask(settings, here, |server: &Remote| server.send("GET", &path, None))?;
    let mut text = String::new();
    if found["has_opted_out"] == true {
        text.push_str("the user wants no messages\n");
    }
    for line in lines(&found["passes"]) {
        text.push_str(&line);
        text.push('\n');
    }
    for pass in found["ended"].as_array().into_iter().flatten() {
        let (journey, pass_number) = (string(&pass["journey"]), &pass["pass"]);
        let (ended, why) = (string(&pass["ended"]), string(&pass["why"]));
        text.push_str(&format!("{journey}, pass {pass_number}: over since {ended} ({why})\n"));
    }
    for (list, what) in [("outbox", "waits to be sent, at"), ("lost", "was given up at")] {
        for message in found[list].as_array().into_iter().flatten() {
            let (key, at) = (string(&message["key"]), string(&message["at"]));
            let reason = message["reason"].as_str().map(|reason| format!(": {reason}"));
            text.push_str(&format!("message {key} {what} {at}{}\n", reason.unwrap_or_default()));
        }
    }
    if text.is_empty() {
        text = format!("{platform}/{user} is in no journey\n");
    }
    print(&text)
}

/// Passes under way, each with its last move and its waits.
pub(super) fn lines(passes: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for pass in passes.as_array().into_iter().flatten() {
        let (journey, version) = (string(&pass["journey"]), &pass["version"]);
        let moves = || pass["moves"].as_array().into_iter().flatten();
        let last = moves().rfind(|moved| moved["cause"] != "unmatched");
        let why = last.map_or_else(String::new, |last| {
            let path = last["path"].as_array().into_iter().flatten().map(string);
            let path = path.collect::<Vec<_>>().join(" ");
            let cause = match string(&last["cause"]) {
                "moved" => "a newer version",
                cause => cause,
            };
            format!(", by {cause} at {}: {path}", string(&last["at"]))
        });
        lines.push(format!("{journey}, version {version}, pass {}{why}", pass["pass"]));
        if let Some(failed) = moves().rfind(|moved| moved["problem"].is_string()) {
            let (at, problem) = (string(&failed["at"]), string(&failed["problem"]));
            lines.push(format!("  a problem at {at}: {problem}"));
        }
        for wait in pass["waits"].as_array().into_iter().flatten() {
            let (element, since) = (string(&wait["element"]), string(&wait["since"]));
            let on = wait["on"].as_str().unwrap_or("any event");
            let next = match (wait["due"].as_str(), wait["otherwise"].as_str()) {
                (Some(due), Some(otherwise)) => format!("; at {due} it goes to {otherwise}"),
                (Some(due), None) => format!("; at {due} it is over"),
                (None, _) => "; without an end".to_owned(),
            };
            lines.push(format!("  waits at {element} for {on} since {since}{next}"));
        }
    }
    lines
}

/// Users at each element.
pub(super) fn counts(settings: &Settings, name: &str, is_json: bool) -> Result<(), Exit> {
    let here = |all: &Journeys, _: &str| Ok(json!(blocked(all.counts(name))?));
    let path = format!("/journeys/{}/counts", encoded(name));
    let found = ask(settings, here, |server: &Remote| server.send("GET", &path, None))?;
    if is_json {
        return print_json(&found);
    }
    let row = |element: &Value| {
        let part = element["conversion"].as_f64();
        let part = part.map_or_else(String::new, |part| format!("{:.1} %", part * 100.0));
        let number = |field: &str| element[field].to_string();
        let (id, kind) = (string(&element["element"]).to_owned(), string(&element["kind"]));
        vec![id, kind.to_owned(), number("here"), number("visits"), part, number("dropped")]
    };
    let rows: Vec<Vec<String>> =
        found["elements"].as_array().into_iter().flatten().map(row).collect();
    print(&table(
        Paint::stdout(settings.colour()),
        &["element", "type", "here", "visits", "conversion", "dropped"],
        &rows,
    ))?;
    let part = if found["is_complete"] == true { "" } else { ", not all of the platform" };
    print(&format!(
        "{} users looked at{part}; {} passes under way, {} over\n",
        found["users"], found["under_way"], found["ended"]
    ))
}
