//! The command line: what a person types, and the exit codes they get back.

mod doctor;
mod exit;
#[cfg(feature = "server")]
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Text after the options in `turnwheel --help`.
const AFTER_HELP: &str = "\
Start here:
  turnwheel doctor              what this machine can do, as a table
  turnwheel doctor --json       the same for a program
  turnwheel help doctor         what each figure means

Exit codes:
  0    done
  1    it was tried and failed; the message says what and where
  2    the command line asks for something that cannot be (unknown flag, unusable directory)
  130  interrupted (Ctrl-C or a termination signal)

Results go to standard output, messages and progress to standard error; progress is shown only
if standard error is a terminal.";

/// One thing at a time per entity, and everything else at once.
///
/// Turnwheel is a library for services whose entities (accounts, orders, devices) must each do one
/// thing at a time, while thousands of them run at once on a few threads. This command looks at the
/// machine that the library will run on.
#[derive(Debug, Parser)]
#[command(name = "turnwheel", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Command {
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// What the binary can do.
#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(doctor::Arguments),
    #[cfg(feature = "server")]
    Serve(serve::Arguments),
}

/// Parses the command line, runs the verb and returns the exit code.
pub(crate) fn run() -> ExitCode {
    let outcome = match Command::parse().verb {
        Some(Verb::Doctor(arguments)) => doctor::run(&arguments),
        #[cfg(feature = "server")]
        Some(Verb::Serve(arguments)) => serve::run(&arguments),
        None => {
            // `turnwheel` alone teaches, and is still a command line that asks for nothing.
            eprintln!("{}", Command::command().render_long_help());
            return ExitCode::from(exit::WRONG_USAGE);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Command::command().debug_assert();
    }
}
