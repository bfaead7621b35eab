//! The binary `turnwheel`: reads the command line, runs one verb, turns its outcome into an exit code.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
