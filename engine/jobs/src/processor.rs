//! Processors: they take the output of an attempt that is over, one after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use turnwheel_engine::Time;

use crate::executor::{Done, Work};
use crate::spec::Settings;

/// Place of a processor among those of its job; those with the same go by name.
const ORDER: &str = "order";

/// Whether the output goes on as it is, instead of the processor's note.
const FORWARD: &str = "forward";

/// An attempt that is over, as a processor gets it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Processed<'a> {
    /// The attempt.
    pub work: &'a Work,
    /// Its outcome, with the output as the processor before has left it.
    pub done: &'a Done,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Time,
}

/// A place for outputs of jobs, such as a log or a collector. Calls may block for seconds at most:
/// the end of the attempt is stored after them.
pub trait Processor: Send + Sync + fmt::Debug + 'static {
    /// Checks settings before a job with them is stored; those of the order are checked already.
    ///
    /// # Errors
    ///
    /// The settings cannot work: which one, what is wrong, and what to do.
    fn check(&self, settings: &Settings) -> Result<(), String>;

    /// Takes the output. Returns the note that replaces it unless it is forwarded.
    ///
    /// # Errors
    ///
    /// The output was not taken. It stays with the run, whose row says why.
    fn process(&self, processed: &Processed<'_>, settings: &Settings) -> Result<String, String>;
}

/// The processors of a node, by name.
pub(crate) type Processors = BTreeMap<String, Arc<dyn Processor>>;

/// Reads a truth value as Dkron does; an empty one is false.
fn is_on(settings: &Settings, name: &str) -> Result<bool, String> {
    let text = settings.get(name).map_or("", |text| text.trim());
    match text.to_ascii_lowercase().as_str() {
        "" | "false" | "f" | "0" => Ok(false),
        "true" | "t" | "1" => Ok(true),
        _ => Err(format!("{name}: «{text}» is neither true nor false")),
    }
}

fn order_of(settings: &Settings) -> Result<i64, String> {
    match settings.get(ORDER).map_or("", |text| text.trim()) {
        "" => Ok(0),
        text => text.parse().map_err(|_| format!("{ORDER}: «{text}» is no whole number")),
    }
}

/// Checks the processors of a job. Names that are not known here are taken: another node may have
/// them, and a backup names them.
pub(crate) fn check(known: &Processors, wanted: &BTreeMap<String, Settings>) -> Result<(), String> {
    for (name, settings) in wanted {
        let told = |problem: String| format!("{name}: {problem}");
        is_on(settings, FORWARD).map_err(told)?;
        order_of(settings).map_err(told)?;
        if let Some(processor) = known.get(name) {
            let mut own = settings.clone();
            own.retain(|name, _| name != FORWARD && name != ORDER);
            processor.check(&own).map_err(told)?;
        }
    }
    Ok(())
}

/// Gives an output to the processors of its job, in their order. Returns what went wrong; an output
/// that was not taken stays as it is.
pub(crate) fn process(
    known: &Processors,
    work: &Work,
    done: &mut Done,
    started_at: Time,
    ended_at: Time,
) -> Vec<String> {
    let mut wanted: Vec<(&String, &Settings)> = work.processors.iter().collect();
    // Stable: equal ones stay by name.
    wanted.sort_by_key(|(_, settings)| order_of(settings).unwrap_or(0));
    let mut problems = Vec::new();
    for (name, settings) in wanted {
        let taken = match known.get(name) {
            Some(processor) => {
                let processed = Processed { work, done, started_at, ended_at };
                processor.process(&processed, settings)
            }
            None => {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                Err(format!("there is no such processor here; there are: {}", names.join(", ")))
            }
        };
        match taken {
            Ok(note) if !is_on(settings, FORWARD).unwrap_or(false) => done.output = note,
            Ok(_) => {}
            Err(problem) => problems.push(format!("processor {name}: {problem}")),
        }
    }
    problems
}
