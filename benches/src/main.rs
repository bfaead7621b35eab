//! `turnwheel-bench`: the numbers of Turnwheel, beside its peers and by itself.

#![expect(clippy::print_stdout, reason = "a command-line program")]

#[cfg(target_os = "linux")]
mod abuse;
mod alloc;
mod cli;
mod cluster;
mod compare;
mod engine;
mod entities;
mod error;
mod idle;
mod jobs;
#[cfg(target_os = "linux")]
mod journeys;
mod latency;
mod load;
mod process;
mod report;
#[cfg(target_os = "linux")]
mod requests;
mod savina;
#[cfg(target_os = "linux")]
#[path = "../../tests/serve_common/mod.rs"]
mod serve_common;
#[cfg(target_os = "linux")]
mod server;
mod timers;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::cli::{Cli, Verb};
use self::error::BenchError;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("turnwheel-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each command")]
fn run(verb: Verb) -> Result<(), BenchError> {
    match verb {
        Verb::Compare(args) => {
            let options = compare::Options {
                patterns: args.pattern,
                impls: args.contenders,
                reps: args.reps,
                procs: args.procs,
                work_ns: args.work_ns,
                workers: args.workers,
                fails_at: args.fails_at,
            };
            let bar = progress();
            if let Some(other) = &args.beside {
                let (rows, failures) = compare::run_beside(&options, other, &bar)?;
                bar.finish_and_clear();
                return report::emit_all(&rows, &failures, args.output.json.as_deref());
            }
            let (rows, failures) = compare::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit_all(&rows, &failures, args.output.json.as_deref())
        }
        Verb::Entities(args) => {
            let options = entities::Options {
                cases: args.case,
                keys: args.keys,
                reps: args.reps,
                procs: args.procs,
                workers: args.workers,
            };
            let bar = progress();
            let (rows, failures) = entities::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit_all(&rows, &failures, args.output.json.as_deref())
        }
        Verb::Engine(args) if args.faults => {
            engine::faults(args.seeds, args.points.unwrap_or(usize::MAX), args.pairs)
        }
        Verb::Engine(args) => {
            let options = engine::Options {
                folder: args.folder,
                steps: args.steps,
                concurrency: args.plans,
                seconds: args.seconds,
                place: engine::Place::of(&args.store, engine::sync(&args.sync)?)?,
            };
            let bar = progress();
            if args.case.is_empty() {
                let rows = engine::run(&options, &bar)?;
                bar.finish_and_clear();
                return report::emit(&rows, args.output.json.as_deref());
            }
            let rows = engine::run_scenes(&options, &args.case, args.sleepers, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        Verb::Cluster(args) => {
            let options = cluster::Options {
                cases: args.case,
                store: args.store,
                lease: Duration::from_secs(args.lease),
                repetitions: args.reps,
                seconds: args.seconds,
                sleepers: args.sleepers,
            };
            let bar = progress();
            let rows = cluster::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        #[cfg(target_os = "linux")]
        Verb::Journeys(args) => {
            let options = journeys::Options {
                folder: args.folder,
                cases: args.case,
                users: args.users,
                definitions: args.definitions,
                events: args.events,
                at_once: args.at_once,
                connections: args.connections,
                desks: args.desks,
                sync: engine::sync(&args.sync)?,
                store: args.store,
            };
            let bar = progress();
            let rows = journeys::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        #[cfg(target_os = "linux")]
        Verb::Server(args) => {
            let options = server::Options {
                folder: args.folder,
                cases: args.case,
                connections: args.connections.into(),
                seconds: args.seconds,
                runs: args.runs,
                plans: args.plans,
                steps: args.steps,
                keep: args.keep,
            };
            let bar = progress();
            let rows = server::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())?;
            server::is_complete()
        }
        Verb::Jobs(args) => {
            let options = jobs::Options {
                cases: args.case,
                folder: args.folder,
                place: engine::Place::of(&args.store, engine::sync("full")?)?,
                jobs: args.jobs,
                seconds: args.seconds,
                history: args.history,
                days: args.days,
                runs: args.runs,
            };
            let bar = progress();
            let rows = jobs::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        Verb::Savina(args) => {
            let options = savina::Options {
                size: args.size,
                programs: args.program,
                workers: args.workers,
                has_no_steal: args.no_steal,
                reps: args.reps.unwrap_or(if args.size == savina::Size::Smoke { 1 } else { 5 }),
            };
            let bar = progress();
            let rows = savina::run(&options, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        Verb::Latency(args) => {
            let bar = progress();
            let rows = latency::run(&args.case, args.samples, args.reps, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        Verb::Timers(args) => {
            let bar = progress();
            let rows = timers::run(args.millions, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        Verb::Idle(args) => {
            let bar = progress();
            let rows = idle::run(args.tasks, args.seconds, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())
        }
        #[cfg(target_os = "linux")]
        Verb::Abuse(args) => {
            let bar = progress();
            let rows = abuse::run(&args.case, args.seconds, &bar)?;
            bar.finish_and_clear();
            report::emit(&rows, args.output.json.as_deref())?;
            abuse::judge(&rows)
        }
        Verb::Diff(args) => {
            print!("{}", report::diff(&args.old, &args.new)?);
            Ok(())
        }
        Verb::CompareChild { orders } => compare::child::run(&process::orders(&orders)?),
        Verb::ClusterChild { orders } => cluster::node::run(&process::orders(&orders)?),
        Verb::EntitiesChild { orders } => entities::child(&process::orders(&orders)?),
    }
}

/// Progress on standard error; shows only on a terminal.
fn progress() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
