//! Runs random programs over the public API and prints the smallest one that breaks the contract.
//!
//! ```text
//! cargo run --release -p turnwheel-fuzz -- --programs 1000000 --seed 1 --seconds 600
//! cargo run --release -p turnwheel-fuzz -- --replay 4711
//! cargo run --release -p turnwheel-fuzz -- --file program.txt
//! ```
//!
//! The programs run in a child process: the parent notices a crash or a hang, names its seed and
//! makes its program smaller too.

#![expect(clippy::print_stdout, reason = "a command-line program")]

mod cli;
mod supervise;
mod work;

use std::process::ExitCode;

use self::cli::{Options, Verb};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    let is_clean = match &options.verb {
        Verb::Help => {
            println!("{}", cli::USAGE);
            Ok(true)
        }
        Verb::Work => work::many(&options),
        Verb::One => work::one(&options),
        Verb::Watch => supervise::many(&options),
        Verb::Replay { seed } => work::replay(*seed, &options),
        Verb::File { path } => supervise::file(path, &options),
    };
    match is_clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
