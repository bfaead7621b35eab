//! `savina`: fourteen programs of the Savina suite on the public API, each with a known result.
//!
//! They differ from the originals where those cannot be checked: money is integer, random numbers
//! come from one fixed generator, retries are counted. Parameters decide how parallel a program is,
//! so steals and wake-ups stand beside each time.

mod banking;
mod big;
mod bndbuffer;
mod chameneos;
mod concdict;
mod count;
mod fib;
mod fjcreate;
mod fjthrput;
mod nqueenk;
mod philosopher;
mod pingpong;
mod radixsort;
mod run;
mod threadring;

use std::sync::mpsc;
use std::time::Duration;

use turnwheel_runtime::Group;

pub(crate) use self::run::{run, Options};

use crate::error::BenchError;

/// How much of a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Size {
    /// Milliseconds each: is it correct?
    Smoke,
    /// 0.2 to 1.5 seconds each on two cores: how fast is it?
    Standard,
}

impl Size {
    /// One of two values.
    fn pick<T>(self, smoke: T, standard: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Standard => standard,
        }
    }
}

/// What a program that came to the right result has to say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Messages between its actors.
    messages: u64,
    /// What else is worth knowing: retries, peaks.
    note: String,
}

impl Outcome {
    fn new(messages: u64) -> Self {
        Self { messages, note: String::new() }
    }
}

/// One program.
struct Program {
    name: &'static str,
    run: fn(&Group, Size) -> Result<Outcome, BenchError>,
}

const PROGRAMS: [Program; 14] = [
    Program { name: "pingpong", run: pingpong::run },
    Program { name: "count", run: count::run },
    Program { name: "fjthrput", run: fjthrput::run },
    Program { name: "fjcreate", run: fjcreate::run },
    Program { name: "threadring", run: threadring::run },
    Program { name: "chameneos", run: chameneos::run },
    Program { name: "big", run: big::run },
    Program { name: "concdict", run: concdict::run },
    Program { name: "bndbuffer", run: bndbuffer::run },
    Program { name: "philosopher", run: philosopher::run },
    Program { name: "banking", run: banking::run },
    Program { name: "radixsort", run: radixsort::run },
    Program { name: "fib", run: fib::run },
    Program { name: "nqueenk", run: nqueenk::run },
];

/// A program that has not ended by then has lost messages.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(120);

/// Where an actor tells the result; clones share it.
#[derive(Debug)]
struct Done<T>(mpsc::Sender<T>);

impl<T> Clone for Done<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Done<T> {
    fn tell(&self, result: T) {
        // Nobody listens any more after a time-out, which has been reported.
        let _ = self.0.send(result);
    }
}

/// Where the program waits for it.
#[derive(Debug)]
struct Waiting<T>(mpsc::Receiver<T>);

impl<T> Waiting<T> {
    /// The next result told.
    fn get(&self, what: &str) -> Result<T, BenchError> {
        self.0.recv_timeout(PROGRAM_TIME_MAX).map_err(|_| BenchError::Unfinished {
            what: what.to_owned(),
            seconds: PROGRAM_TIME_MAX.as_secs(),
            left: 1,
        })
    }

    /// As many results as that.
    fn get_all(&self, what: &str, count: u64) -> Result<Vec<T>, BenchError> {
        (0..count).map(|_| self.get(what)).collect()
    }
}

fn done<T>() -> (Done<T>, Waiting<T>) {
    let (sender, receiver) = mpsc::channel();
    (Done(sender), Waiting(receiver))
}
