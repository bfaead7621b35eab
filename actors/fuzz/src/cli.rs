//! The command line.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use turnwheel_fuzz::run::{Twin, TWINS};

/// Parsed command line.
pub(crate) const USAGE: &str = "\
turnwheel-fuzz: random programs over the public API, checked against a model of the contract

  --programs N   how many programs; without it, until --seconds have passed
  --seconds N    for how long; without both, 60 seconds
  --seed S       seed of the first program; each next program has the next seed (0)
  --all          goes on after a violation, and prints one program for each kind of violation
  --replay S     runs the program of this seed alone and prints it
  --file PATH    runs a printed program and shrinks it if it breaks the contract
  --twin NAME    breaks the contract on purpose, and a violation must be found: loses-jobs,
                 mixes-requests, loses-ends, loses-sent, mixes-answers, loses-spread,
                 loses-routed, keeps-children, loses-watches, loses-links, is-early, repeats-on,
                 loses-copies, loses-pooled, loses-children, mixes-items, loses-states,
                 loses-reminders, keeps-keys, loses-attempts, restarts-one";

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) verb: Verb,
    pub(crate) programs: u64,
    pub(crate) limit: Option<Duration>,
    pub(crate) seed: u64,
    pub(crate) goes_on: bool,
    pub(crate) twin: Option<Twin>,
}

/// The forms of a run.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Help,
    /// The parent of a run.
    Watch,
    /// The child of a run.
    Work,
    /// A child for one program, which it reads.
    One,
    Replay {
        seed: u64,
    },
    File {
        path: PathBuf,
    },
}

/// A command line that cannot be followed.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, UsageError> {
        let mut options = Self {
            verb: Verb::Watch,
            programs: u64::MAX,
            limit: None,
            seed: 0,
            goes_on: false,
            twin: None,
        };
        while let Some(word) = words.next() {
            let mut value =
                || words.next().ok_or_else(|| UsageError(format!("{word} needs a value")));
            match word.as_str() {
                "--programs" => options.programs = number(&value()?)?,
                "--seconds" => options.limit = Some(Duration::from_secs(number(&value()?)?)),
                "--seed" => options.seed = number(&value()?)?,
                "--all" => options.goes_on = true,
                "--twin" => options.twin = Some(twin(&value()?)?),
                "--replay" => options.verb = Verb::Replay { seed: number(&value()?)? },
                "--file" => options.verb = Verb::File { path: value()?.into() },
                "--child" => options.verb = Verb::Work,
                "--child-one" => options.verb = Verb::One,
                "--help" | "-h" => options.verb = Verb::Help,
                _ => return Err(UsageError(format!("unknown option '{word}'"))),
            }
        }
        if options.programs == u64::MAX && options.limit.is_none() {
            options.limit = Some(Duration::from_secs(60));
        }
        Ok(options)
    }

    /// The command line of a child process with the same options.
    pub(crate) fn for_child(&self, verb: &str) -> Vec<String> {
        let mut words = vec![verb.to_owned(), "--seed".to_owned(), self.seed.to_string()];
        words.extend(["--programs".to_owned(), self.programs.to_string()]);
        if let Some(limit) = self.limit {
            words.extend(["--seconds".to_owned(), limit.as_secs().to_string()]);
        }
        if self.goes_on {
            words.push("--all".to_owned());
        }
        if let Some((name, _)) = TWINS.iter().find(|(_, twin)| Some(*twin) == self.twin) {
            words.extend(["--twin".to_owned(), (*name).to_owned()]);
        }
        words
    }
}

fn twin(name: &str) -> Result<Twin, UsageError> {
    let known = TWINS.iter().find(|(known, _)| *known == name);
    known.map(|(_, twin)| *twin).ok_or_else(|| UsageError(format!("there is no twin '{name}'")))
}

fn number(word: &str) -> Result<u64, UsageError> {
    word.parse().map_err(|_| UsageError(format!("'{word}' is not a number")))
}
