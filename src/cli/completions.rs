//! `turnwheel completions`: scripts that complete the command line in shells.

use clap_complete::env::Shells;

use super::exit::Exit;
use super::paint::print;

/// Variable by which the scripts ask this command for candidates.
pub(super) const VARIABLE: &str = "TURNWHEEL_COMPLETE";

const AFTER_HELP: &str = "\
The script asks this command for candidates: verbs, flags, and names of plans, flows, schedules, jobs and
journeys, of the store or of the server that has it.

Examples:
  turnwheel completions bash > /etc/bash_completion.d/turnwheel
  turnwheel completions zsh > ~/.zfunc/_turnwheel
  turnwheel completions fish > ~/.config/fish/completions/turnwheel.fish";

/// Print a script that completes the command line in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Exit> {
    let shell = &arguments.shell;
    let no_script = || Exit::failed(format!("there is no script for {shell}"));
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(no_script)?;
    let mut script = Vec::new();
    let name = "turnwheel";
    let written = completer.write_registration(VARIABLE, name, name, name, &mut script);
    written.map_err(|error| Exit::failed(format!("the script: {error}")))?;
    let script = String::from_utf8(script)
        .map_err(|error| Exit::failed(format!("the script is no text: {error}")))?;
    print(&script)
}
