//! Runs programs in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use turnwheel_fuzz::generate::Generator;
use turnwheel_fuzz::kind::Kind;
use turnwheel_fuzz::program::Program;
use turnwheel_fuzz::run::run;
use turnwheel_fuzz::shrink::shrink;

use crate::cli::Options;

/// Runs of one program while it is made smaller, at most.
const TRIES: usize = 4_000;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// Kinds of violations after which `--all` ends.
const FOUND_MAX: usize = 20;

/// Counts of a run.
#[derive(Debug, Default)]
struct Sums {
    programs: u64,
    acts: u64,
    kinds: BTreeMap<Kind, u64>,
    found: BTreeSet<String>,
}

/// Runs one program after the other; answers whether all kept the contract.
pub(crate) fn many(options: &Options) -> Result<bool, Box<dyn Error>> {
    let generator = Generator::default();
    let begin = Instant::now();
    let mut shown = begin;
    let mut sums = Sums::default();
    let mut out = std::io::stdout();
    while sums.programs < options.programs {
        if options.limit.is_some_and(|limit| begin.elapsed() >= limit) {
            break;
        }
        let seed = options.seed.wrapping_add(sums.programs);
        // Written before it runs: the parent names the program that ends this process.
        out.write_all(format!("at {seed}\n").as_bytes())?;
        let program = generator.program(seed);
        sums.count(&program);
        let violations = run(&program, options.twin);
        if let Some(first) = violations.first() {
            let is_new = sums.found.insert(shape_of(first));
            if is_new {
                report(&program, options);
            }
            if !options.goes_on || sums.found.len() >= FOUND_MAX {
                break;
            }
        }
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            println!("{}", sums.line(begin.elapsed()));
        }
    }
    sums.print(begin.elapsed());
    Ok(sums.found.is_empty())
}

/// The kind of a violation: its first words, without numbers.
fn shape_of(text: &str) -> String {
    text.chars().filter(|letter| letter.is_alphabetic()).take(24).collect()
}

/// Makes a program smaller and prints it.
pub(crate) fn report(program: &Program, options: &Options) {
    let seed = program.seed;
    let shapes = |program: &Program| -> Vec<String> {
        run(program, options.twin).iter().map(|text| shape_of(text)).collect()
    };
    let wanted = shapes(program);
    let small = shrink(program, TRIES, |program| shapes(program).first() == wanted.first());
    println!("VIOLATION: seed {seed}, {} acts, {} when minimal", program.len(), small.len());
    run(program, options.twin).iter().for_each(|text| println!("  {text}"));
    println!("{small}");
    run(&small, options.twin).iter().for_each(|text| println!("  {text}"));
}

/// Runs the program of one seed.
pub(crate) fn replay(seed: u64, options: &Options) -> Result<bool, Box<dyn Error>> {
    let program = Generator::default().program(seed);
    println!("{program}");
    let violations = run(&program, options.twin);
    if violations.is_empty() {
        println!("no violation");
        return Ok(true);
    }
    report(&program, options);
    Ok(false)
}

/// Runs a program that it reads from its input.
pub(crate) fn one(options: &Options) -> Result<bool, Box<dyn Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let violations = run(&text.parse()?, options.twin);
    violations.iter().for_each(|text| println!("{text}"));
    Ok(violations.is_empty())
}

impl Sums {
    fn count(&mut self, program: &Program) {
        self.programs += 1;
        program.each(&mut |act| {
            self.acts += 1;
            *self.kinds.entry(act.kind).or_default() += 1;
        });
    }

    fn line(&self, took: Duration) -> String {
        let rate = self.programs as f64 / took.as_secs_f64();
        let found = self.found.len();
        format!(
            "{} programs, {} operations, {:.0} s, {rate:.0} programs/s, {found} violations",
            self.programs,
            self.acts,
            took.as_secs_f64()
        )
    }

    fn print(&self, took: Duration) {
        println!("operations by kind:");
        for (kind, count) in &self.kinds {
            println!("  {:24} {count:>10}", kind.text());
        }
        println!("{}", self.line(took));
    }
}
