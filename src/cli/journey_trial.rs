//! Definitions of journeys that are tried: on recorded events, or by hand. Nothing is stored.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use serde_json::json;
use turnwheel::engine::Time;
use turnwheel::journeys::{DryRun, Event, Recording, TriedProblem};

use super::check::text_of;
use super::exit::Exit;
use super::journey::{definition, parsed};
use super::journey_look::lines;
use super::paint::{print, print_json, table, Paint};
use super::settings::Settings;

pub(super) const SIMULATE_HELP: &str = "\
Each line of standard input is something that happens to the user «you»:
  event KIND [JSON]   an event with its data
  user JSON           the attributes are these from now on
  wait TIME           time passes, such as P1D or PT2H
After each line the moves, the messages and the place of the user are printed. Time begins at
2026-01-01T00:00:00Z.

Examples:
  printf 'event customer.created {\"consent\": true}\\nwait P3D\\n' |
      turnwheel journey simulate onboarding.yaml";

/// The user of a simulation.
const YOU: &str = "you";

/// When a simulation begins.
const BEGIN: &str = "2026-01-01T00:00:00Z";

pub(super) fn dry_run(
    settings: &Settings,
    (file, events): (&PathBuf, &PathBuf),
    users: Option<&PathBuf>,
    until: Option<&str>,
    is_json: bool,
) -> Result<(), Exit> {
    let definition = definition(settings, file)?;
    let mut recording = Recording::new(parsed("events", &text_of(events)?)?);
    if let Some(users) = users {
        recording.users = parsed("--users", &text_of(users)?)?;
    }
    recording.until = until.map(str::to_owned);
    let tried = recording.on(&definition).map_err(Exit::usage)?;
    if is_json {
        return print_json(&json!(tried));
    }
    let row = |it: &turnwheel::journeys::TriedMove| {
        let moved = &it.moved;
        let (path, problem) = (moved.path.join(" "), moved.problem.clone().unwrap_or_default());
        vec![moved.at.to_string(), it.user.clone(), moved.cause.to_owned(), path, problem]
    };
    let rows: Vec<Vec<String>> = tried.moved.iter().map(row).collect();
    print(&table(
        Paint::stdout(settings.colour()),
        &["time", "user", "cause", "path", "problem"],
        &rows,
    ))?;
    let problem = |it: &TriedProblem| format!("{} {}: {}\n", it.at, it.user, it.problem);
    print(&tried.problems.iter().map(problem).collect::<String>())
}

/// The user's walk so far. Each line goes on from the one before it, so what has happened stays.
struct Story {
    run: DryRun,
    platform: String,
    /// Number of events so far.
    events: u64,
    now: Time,
}

pub(super) fn simulate(settings: &Settings, file: &Path) -> Result<(), Exit> {
    let definition = definition(settings, file)?;
    let now = BEGIN.parse().map_err(|error| Exit::failed(format!("{BEGIN}: {error}")))?;
    let platform = definition.settings.platform.clone();
    let mut story = Story { run: DryRun::new(&definition), platform, events: 0, now };
    for line in io::stdin().lock().lines() {
        let line = line.map_err(Exit::failed)?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        story.happens(line)?;
        print(&story.told(line)?)?;
    }
    Ok(())
}

impl Story {
    fn happens(&mut self, line: &str) -> Result<(), Exit> {
        let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match verb {
            "event" => {
                let (kind, data) = rest.split_once(char::is_whitespace).unwrap_or((rest, "null"));
                let event = Event::new(&self.platform, YOU, self.events.to_string(), kind);
                let event = event.source("simulate").data(parsed("the data of the event", data)?);
                self.run.event(self.now, event).map_err(Exit::usage)?;
                self.events += 1;
            }
            "user" => {
                let attributes = parsed("the attributes", rest)?;
                self.run.user(&self.platform, YOU, attributes).map_err(Exit::usage)?;
            }
            "wait" => {
                let length = turnwheel::journeys::duration(rest).map_err(Exit::usage)?;
                self.now = self.now.after(length);
            }
            _ => {
                let problem = format!("«{line}»: a line begins with event, user or wait");
                return Err(Exit::usage(problem));
            }
        }
        Ok(())
    }

    /// Changes by a line, and where the user is then.
    fn told(&mut self, line: &str) -> Result<String, Exit> {
        let mut text = format!("> {line}\n");
        for (_, moved) in self.run.until(self.now).map_err(Exit::usage)? {
            text.push_str(&format!("  {} {}: {}\n", moved.at, moved.cause, moved.path.join(" ")));
            if let Some(problem) = &moved.problem {
                text.push_str(&format!("    {problem}\n"));
            }
        }
        for it in self.run.problems() {
            text.push_str(&format!("  {}: {}\n", it.at, it.problem));
        }
        for it in self.run.messages() {
            let message = &it.message;
            text.push_str(&format!(
                "  {} {} sends through {}: {}\n",
                it.at, message.element, it.channel, message.body
            ));
        }
        for user in self.run.users() {
            lines(&json!(user.passes))
                .iter()
                .for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        Ok(text)
    }
}
