//! Blocks of shell: `sh` is a script whose lines must all succeed, `console` shows outputs too.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::blocks::{fits, Block, Fault};
use crate::cargo;
use crate::place::{Ended, Place};

/// How long a look at something that goes on may need until it shows what the page shows.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Verbs that change nothing, so that they can be asked again.
const LOOKS: [&str; 7] = ["list", "show", "tree", "logs", "stats", "export", "schedule list"];

pub(crate) fn is_shell(block: &Block) -> bool {
    matches!(block.language.as_str(), "sh" | "console")
}

/// Whether this host has a program that pages use.
pub(crate) fn has(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// A command with what the page shows of it.
struct Step<'a> {
    line: usize,
    command: String,
    shown: Vec<&'a str>,
    /// The next command asks for the exit code of this one.
    is_asked: bool,
}

/// Runs a block; the folder of the page stays as it leaves it.
pub(crate) fn check(block: &Block, place: &mut Place) -> Vec<Fault> {
    let steps = match block.language.as_str() {
        "console" => console(block),
        _ => script(block),
    };
    let steps = match steps {
        Ok(steps) => steps,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    for step in &steps {
        let checked = cargo::check(&step.command).and_then(|()| run(step, place));
        if let Err(text) = checked {
            faults.push(Fault::new(step.line, text));
        }
    }
    faults
}

/// `$ command`, then its output, and so on.
fn console(block: &Block) -> Result<Vec<Step<'_>>, Fault> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut goes_on = false;
    for (at, line) in block.text.lines().enumerate() {
        let place = block.line + at;
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (None, Some(step)) if goes_on => {
                step.command.push('\n');
                step.command.push_str(line);
            }
            (Some(command), last) => {
                if let Some(last) = last {
                    last.is_asked = command == "echo $?";
                }
                let (command, shown) = (command.to_owned(), Vec::new());
                steps.push(Step { line: place, command, shown, is_asked: false });
            }
            (None, Some(step)) => {
                step.shown.push(line);
                continue;
            }
            (None, None) => return Err(Fault::new(place, "output before the first «$ command»")),
        }
        goes_on = line.ends_with('\\');
    }
    Ok(steps)
}

/// One script; what starts or ends a server, or never ends, stands for itself.
fn script(block: &Block) -> Result<Vec<Step<'_>>, Fault> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let (mut goes_on, mut was_alone) = (false, true);
    for (at, line) in block.text.lines().enumerate() {
        let is_alone = !goes_on && is_special(line);
        if goes_on || !(is_alone || was_alone) {
            let step = steps.last_mut().expect("something goes on");
            step.command.push('\n');
            step.command.push_str(line);
        } else {
            let (command, shown) = (line.to_owned(), Vec::new());
            steps.push(Step { line: block.line + at, command, shown, is_asked: false });
            was_alone = is_alone;
        }
        goes_on = line.ends_with('\\');
    }
    for step in steps.iter_mut().filter(|step| !is_special(&step.command)) {
        step.command = format!("set -e\n{}", step.command);
    }
    Ok(steps)
}

fn is_special(line: &str) -> bool {
    is_serve(line) || is_endless(line) || line.starts_with("kill ")
}

/// Whether a line starts a server: settings may stand before the command.
fn is_serve(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.split_once('=').is_some_and(|(name, _)| name.starts_with("TURNWHEEL_"))
    });
    words.next() == Some("turnwheel") && words.next() == Some("serve") && !line.contains("--help")
}

fn is_endless(line: &str) -> bool {
    line.starts_with("curl -sN ") && !line.contains('|')
}

fn run(step: &Step<'_>, place: &mut Place) -> Result<(), String> {
    let command = step.command.trim();
    if is_serve(command) {
        let said = place.serve(command)?;
        return compare(step, &said);
    }
    match command {
        "kill %1" => return place.stop(Signal::TERM),
        "kill -9 %1" => return place.stop(Signal::KILL),
        _ => {}
    }
    if is_endless(command) {
        let ended = place.endless(command, |text| {
            let lines: Vec<&str> = text.lines().collect();
            !text.is_empty() && (step.shown.is_empty() || fits(&step.shown, &lines))
        });
        return compare(step, &ended.output);
    }
    let begin = Instant::now();
    loop {
        let ended = place.shell(command);
        let outcome = judge(step, &ended);
        let is_look = LOOKS.iter().any(|verb| command.starts_with(&format!("turnwheel {verb}")));
        // Another process works on what is looked at: it may need a moment.
        if outcome.is_err() && is_look && place.is_served() && begin.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
            continue;
        }
        return outcome;
    }
}

fn judge(step: &Step<'_>, ended: &Ended) -> Result<(), String> {
    if ended.status != 0 && !step.is_asked {
        let (status, output) = (ended.status, &ended.output);
        return Err(format!("«{}» has ended with {status}:\n{output}", step.command));
    }
    compare(step, &ended.output)
}

fn compare(step: &Step<'_>, output: &str) -> Result<(), String> {
    let found: Vec<&str> = output.lines().collect();
    if step.shown.iter().all(|line| line.trim().is_empty()) || fits(&step.shown, &found) {
        return Ok(());
    }
    let shown = step.shown.join("\n");
    Err(format!("«{}» shows\n{output}\nand the page shows\n{shown}\n", step.command))
}
