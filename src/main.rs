//! The binary `turnwheel`: reads the command line, runs one verb, turns its outcome into an exit code.

mod cli;

/// Plans are many small values that one thread makes and another one drops: with the allocator of the C
/// library a start of a flow takes a quarter of its time in it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::run()
}
