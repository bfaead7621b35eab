//! `turnwheel completions`: scripts that complete the command line in shells.

use clap::CommandFactory;
use clap_complete::Shell;

use super::exit::Exit;
use super::paint::print;

const AFTER_HELP: &str = "\
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
    let shell = match arguments.shell.as_str() {
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => Shell::Bash,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::Command::command(), "turnwheel", &mut script);
    let script = String::from_utf8(script)
        .map_err(|error| Exit::failed(format!("the script is no text: {error}")))?;
    print(&script)
}
