//! The thread of the simulation: begins a program, lets time pass, ends it.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::sim::{Fault, Sim};
use turnwheel_runtime::{Failure, Group};

use super::life::delay;
use super::world::{violation, with, World};
use super::{end, perform as perform_act, Here};
use crate::kind::Kind;
use crate::program::{Act, Program};
use crate::run::Twin;

/// Mailbox memory of a tight group, in bytes.
const TIGHT_BYTES: u64 = 700;
/// Steps of one simulation, at most: a program has fuel for far fewer.
const TURNS_MAX: u64 = 30_000;

pub(super) fn run(program: &Program, twin: Option<Twin>) -> Vec<String> {
    let before = holders(program);
    World::begin(twin, program.is_tight());
    let sim =
        Sim::builder().seed(program.seed).workers(program.workers()).turns_max(TURNS_MAX).build();
    let mut builder = Group::builder("fuzz");
    if program.is_tight() {
        builder = builder.memory_budget(TIGHT_BYTES);
    }
    match sim.build(builder) {
        Ok(group) => {
            super::actors::begin(&group, program);
            with(|world| world.group = Some(group));
        }
        Err(error) => violation(format!("no group: {error}")),
    }
    for act in program.acts.iter() {
        if !with(World::burn) {
            break;
        }
        guarded(act.kind.text(), || perform_act(act, &mut Here::Main(&sim)));
    }
    end::end(sim);
    let mut violations = with(|world| std::mem::take(&mut world.violations));
    World::begin(None, false);
    let after = holders(program);
    let held = after.iter().zip(&before).filter(|(after, before)| after != before).count();
    if held > 0 {
        violations.push(format!("{held} bodies of acts are still held"));
    }
    violations
}

/// Counts the holders of each body. A value that is never dropped keeps its body.
fn holders(program: &Program) -> Vec<usize> {
    let mut counts = Vec::new();
    program.each(&mut |act| counts.push(Arc::strong_count(&act.body)));
    counts
}

/// Calls the API from outside of turns. What unwinds out of it must be a panic of the program.
pub(super) fn guarded(what: &str, call: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        let failure = Failure::from_panic(panic);
        if super::hooks::number_of(&failure).is_none() {
            violation(format!("{what} panicked: {failure}"));
        }
        with(|world| world.frames.clear());
    }
}

pub(super) fn perform(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Main(sim) = here else { return };
    match act.kind {
        Kind::Idle => {
            sim.run_until_idle();
            end::check_idle();
        }
        Kind::Step => {
            for _ in 0..=act.a % 4 {
                sim.run_one();
            }
        }
        Kind::Advance => {
            sim.advance(delay(act.b));
            end::check_idle();
        }
        Kind::LoseHints => sim.inject(Fault::LoseHint { one_in: u32::from(act.b % 3) + 1 }),
        _ => sim.inject(Fault::SlowWorker {
            group: "fuzz".into(),
            worker: usize::from(act.a % 2),
            one_in: u32::from(act.b % 4) + 1,
            turn: Duration::from_micros(u64::from(act.b)),
        }),
    }
}
