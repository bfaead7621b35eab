//! The command line: parsing and exit codes.

mod again;
mod any_store;
mod ask;
mod backup;
mod check;
mod complete;
mod completions;
mod config;
mod confirm;
mod context;
mod delete;
#[cfg(feature = "server")]
mod descriptors;
#[cfg(all(feature = "server", feature = "postgres"))]
mod dev;
mod doctor;
mod edit;
mod event;
mod exit;
mod find;
mod fitted;
mod flow;
mod format;
mod hand;
mod hidden;
mod interrupt;
mod job;
mod journey;
mod journey_look;
mod journey_trial;
mod list;
mod logs;
mod man;
mod many;
mod node;
#[cfg(feature = "server")]
mod notify;
mod orders;
mod outside;
mod paint;
mod place;
mod progress;
mod remote;
mod run;
mod schedule;
mod schedule_text;
#[cfg(feature = "server")]
mod serve;
mod settings;
mod show;
#[cfg(feature = "server")]
mod signals;
mod source;
mod span;
mod start;
mod stats;
mod store;
mod traces;
mod tree;
mod words;
mod world;
mod yaml;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::CompleteEnv;

use exit::Exit;
use settings::{Flags, Settings};

/// The version, with the commit where it is known.
const VERSION: &str = match option_env!("TURNWHEEL_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Text after the options in `turnwheel --help`.
const AFTER_HELP: &str = "\
Start here:
  turnwheel run FLOW.yaml       run a flow, with its progress and its result
  turnwheel list                what plans the store has, and where they are
  turnwheel show last           the newest plan: its steps, what came of it, why it waits
  turnwheel help VERB           what a verb does, with examples and exit codes
  turnwheel doctor              what this machine can do

Results go to standard output, messages and progress to standard error; progress and colours are
shown only on a terminal. What verbs have in common is set by flags, else by the environment
(TURNWHEEL_STORE …), else by a configuration file: turnwheel help config.";

/// One thing at a time per entity, and everything else at once: durable flows from one binary.
///
/// Turnwheel runs flows and keeps their progress in one file: after a kill at any moment they
/// continue where they were. This command shows and changes the plans of a store.
#[derive(Debug, Parser)]
#[command(name = "turnwheel", version = VERSION, max_term_width = fitted::WIDEST)]
struct Command {
    #[command(flatten)]
    flags: Flags,

    #[command(subcommand)]
    verb: Option<Verb>,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Arguments),
    Check(check::Arguments),
    #[cfg(feature = "server")]
    Serve(serve::Arguments),
    #[cfg(all(feature = "server", feature = "postgres"))]
    Dev(dev::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Tree(tree::Arguments),
    Logs(logs::Arguments),
    Stats(stats::Arguments),
    #[command(after_help = orders::AFTER_HELP)]
    Cancel(orders::Cancel),
    #[command(after_help = orders::AFTER_HELP)]
    #[command(alias = "halt")]
    Terminate(orders::Terminate),
    #[command(after_help = orders::AFTER_HELP)]
    Skip(orders::Skip),
    #[command(after_help = orders::AFTER_HELP)]
    Retry(orders::Retry),
    #[command(after_help = orders::AFTER_HELP)]
    Pause(orders::Pause),
    #[command(after_help = orders::AFTER_HELP)]
    Resume(orders::Resume),
    #[command(after_help = again::AFTER_HELP)]
    Again(again::Again),
    #[command(after_help = delete::AFTER_HELP)]
    Delete(delete::Delete),
    Start(start::Arguments),
    #[command(after_help = edit::AFTER_HELP)]
    EditInput(edit::EditInput),
    #[command(after_help = edit::AFTER_HELP)]
    Revert(edit::Revert),
    #[command(after_help = edit::AFTER_HELP)]
    Fail(edit::Fail),
    #[command(after_help = edit::AFTER_HELP)]
    Freeze(edit::Freeze),
    #[command(after_help = edit::AFTER_HELP)]
    Delay(edit::Delay),
    Flow(flow::Arguments),
    #[command(after_help = ask::AFTER_HELP)]
    Label(ask::Label),
    #[command(after_help = ask::AFTER_HELP)]
    Letter(ask::Letter),
    #[command(after_help = ask::AFTER_HELP)]
    Health(ask::Health),
    Event(event::Arguments),
    Schedule(schedule::Arguments),
    Job(job::Arguments),
    Journey(journey::Arguments),
    Node(node::Arguments),
    World(world::Arguments),
    Api(world::Api),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Export(backup::Export),
    Store(store::Arguments),
    Context(context::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Doctor(doctor::Arguments),
}

impl Verb {
    /// Whether flows are run in this process, which may run commands.
    fn runs_flows(&self) -> bool {
        #[cfg(feature = "server")]
        if matches!(self, Self::Serve(_)) {
            return true;
        }
        matches!(
            self,
            Self::Run(_) | Self::Resume(_) | Self::Retry(_) | Self::Again(_) | Self::Flow(_)
        )
    }
}

/// The command line, with the help of each verb for its subcommands too.
fn command() -> clap::Command {
    let command = Command::command().after_help(format!("{AFTER_HELP}\n\n{}", exit::CODES));
    let command = command.mut_subcommands(|verb| {
        let Some(help) = verb.get_after_help().cloned() else { return verb };
        verb.mut_subcommands(|what| match what.get_after_help() {
            Some(_) => what,
            None => what.after_help(help.clone()),
        })
    });
    fitted::fitted(command, fitted::width())
}

/// Parses the command line, runs the verb and returns the exit code.
pub(crate) fn run() -> ExitCode {
    CompleteEnv::with_factory(command).var(completions::VARIABLE).complete();
    let parsed = <Command as clap::FromArgMatches>::from_arg_matches(&command().get_matches());
    let Command { flags, verb } = match parsed {
        Ok(parsed) => parsed,
        Err(error) => error.exit(),
    };
    let Some(verb) = verb else {
        // `turnwheel` alone prints help, and is still a usage error.
        paint::tell!("{}", command().render_long_help());
        return ExitCode::from(exit::WRONG_USAGE);
    };
    match act(&flags, &verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

fn act(flags: &Flags, verb: &Verb) -> Result<(), Exit> {
    // Commands without settings work even if the settings are invalid.
    match verb {
        Verb::Config(arguments) => return config::run(flags, arguments),
        Verb::Context(arguments) => return context::run(flags, arguments),
        Verb::Completions(arguments) => return completions::run(arguments),
        Verb::Man(arguments) => return man::run(arguments),
        Verb::Doctor(arguments) => return doctor::run(arguments),
        _ => {}
    }
    if verb.runs_flows() {
        hidden::leave()?;
    }
    let settings = Settings::load(flags)?;
    match verb {
        #[cfg(feature = "server")]
        Verb::Serve(arguments) => serve::run(&settings, arguments),
        #[cfg(all(feature = "server", feature = "postgres"))]
        Verb::Dev(arguments) => dev::run(&settings, arguments),
        Verb::Run(arguments) => run::run(&settings, arguments),
        Verb::Check(arguments) => check::run(&settings, arguments),
        Verb::List(arguments) => list::run(&settings, arguments),
        Verb::Show(arguments) => show::run(&settings, arguments),
        Verb::Tree(arguments) => tree::run(&settings, arguments),
        Verb::Logs(arguments) => logs::run(&settings, arguments),
        Verb::Stats(arguments) => stats::run(&settings, arguments),
        Verb::Cancel(arguments) => orders::cancel(&settings, arguments),
        Verb::Terminate(arguments) => orders::terminate(&settings, arguments),
        Verb::Skip(arguments) => orders::skip(&settings, arguments),
        Verb::Retry(arguments) => orders::retry(&settings, arguments),
        Verb::Pause(arguments) => orders::pause(&settings, arguments),
        Verb::Resume(arguments) => orders::resume(&settings, arguments),
        Verb::Again(arguments) => again::again(&settings, arguments),
        Verb::Delete(arguments) => delete::delete(&settings, arguments),
        Verb::Start(arguments) => start::run(&settings, arguments),
        Verb::EditInput(arguments) => edit::edit_input(&settings, arguments),
        Verb::Revert(arguments) => edit::revert(&settings, arguments),
        Verb::Fail(arguments) => edit::fail(&settings, arguments),
        Verb::Freeze(arguments) => edit::freeze(&settings, arguments),
        Verb::Delay(arguments) => edit::delay(&settings, arguments),
        Verb::Flow(arguments) => flow::run(&settings, arguments),
        Verb::Label(arguments) => ask::label(&settings, arguments),
        Verb::Letter(arguments) => ask::letter(&settings, arguments),
        Verb::Health(arguments) => ask::health(&settings, arguments),
        Verb::Event(arguments) => event::run(&settings, arguments),
        Verb::Schedule(arguments) => schedule::run(&settings, arguments),
        Verb::Job(arguments) => job::run(&settings, arguments),
        Verb::Journey(arguments) => journey::run(&settings, arguments),
        Verb::Node(arguments) => node::run(&settings, arguments),
        Verb::World(arguments) => world::run(&settings, arguments),
        Verb::Api(arguments) => world::api(&settings, arguments),
        Verb::Backup(arguments) => backup::backup(&settings, arguments),
        Verb::Restore(arguments) => backup::restore(&settings, arguments),
        Verb::Export(arguments) => backup::export(&settings, arguments),
        Verb::Store(arguments) => store::run(&settings, arguments),
        Verb::Config(_)
        | Verb::Context(_)
        | Verb::Completions(_)
        | Verb::Man(_)
        | Verb::Doctor(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
