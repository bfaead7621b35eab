//! Runs programs in a child process, so that a crash or a hang has a seed and a program too.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

use turnwheel_fuzz::generate::Generator;
use turnwheel_fuzz::program::Program;
use turnwheel_fuzz::shrink::shrink;

use crate::cli::Options;

/// A child that says nothing for so long hangs. To shrink a program takes longer than to run it.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A single program that runs for so long hangs.
const PROGRAM_MAX: Duration = Duration::from_secs(1);
/// Processes that are started to make a program smaller, at most.
const TRIES: usize = 600;

/// Runs many programs in a child; answers whether all kept the contract.
pub(crate) fn many(options: &Options) -> Result<bool, Box<dyn Error>> {
    let mut child = spawn(&options.for_child("--child"), Stdio::null())?;
    let output = child.stdout.take().ok_or("the child has no output")?;
    let (lines, received) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut last = options.seed;
    let is_hung = loop {
        match received.recv_timeout(SILENCE_MAX) {
            Ok(line) => match line.strip_prefix("at ") {
                Some(seed) => last = seed.parse()?,
                None => println!("{line}"),
            },
            Err(RecvTimeoutError::Timeout) => break true,
            Err(RecvTimeoutError::Disconnected) => break false,
        }
    };
    if is_hung {
        child.kill()?;
    }
    let status = child.wait()?;
    if reader.join().is_err() {
        return Err("the reader of the child's output panicked".into());
    }
    match status.code() {
        Some(code) if !is_hung => Ok(code == 0),
        _ => {
            println!("VIOLATION: seed {last}: the process ends with {status}, hung: {is_hung}");
            crashed(&Generator::default().program(last), options);
            Ok(false)
        }
    }
}

/// Runs a printed program.
pub(crate) fn file(path: &Path, options: &Options) -> Result<bool, Box<dyn Error>> {
    let program: Program = std::fs::read_to_string(path)?.parse()?;
    match run_apart(&program, options) {
        Outcome::Clean => {
            println!("no violation");
            Ok(true)
        }
        Outcome::Broken => {
            crate::work::report(&program, options);
            Ok(false)
        }
        Outcome::Crashed => {
            crashed(&program, options);
            Ok(false)
        }
    }
}

/// Makes a program smaller that ends its process, and prints it.
fn crashed(program: &Program, options: &Options) {
    let small = shrink(program, TRIES, |program| run_apart(program, options) == Outcome::Crashed);
    println!("it crashes or hangs; {} acts, {} when minimal", program.len(), small.len());
    println!("{small}");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Clean,
    Broken,
    Crashed,
}

/// Runs a program in a process of its own.
fn run_apart(program: &Program, options: &Options) -> Outcome {
    let Ok(mut child) = spawn(&options.for_child("--child-one"), Stdio::piped()) else {
        return Outcome::Clean;
    };
    if let Some(mut input) = child.stdin.take() {
        // A child that has gone already says so with its status.
        let _ = input.write_all(program.to_string().as_bytes());
    }
    let end = Instant::now() + PROGRAM_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return match status.code() {
                    Some(0) => Outcome::Clean,
                    Some(1) => Outcome::Broken,
                    _ => Outcome::Crashed,
                }
            }
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            _ => break,
        }
    }
    // It may have ended in this moment.
    let _ = child.kill();
    let _ = child.wait();
    Outcome::Crashed
}

fn spawn(words: &[String], input: Stdio) -> Result<Child, std::io::Error> {
    let program = std::env::current_exe()?;
    Command::new(program).args(words).stdin(input).stdout(Stdio::piped()).spawn()
}
