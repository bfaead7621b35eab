//! One process: the repetitions of one case.

use std::hint::black_box;
use std::time::{Duration, Instant};

use turnwheel::actors::{Entities, System};
use turnwheel_runtime::{Group, Mailbox};

use super::account::{text_key, Account, FinishLine, STATE_BYTES};
use super::plan::{Case, ROUNDS};
use super::senders::{Door, Senders};
use super::{Line, Orders};
use crate::alloc;
use crate::compare::patterns::anonymous_bytes;
use crate::compare::plan::BOUND;
use crate::error::{check, BenchError};
use crate::process::tell;

/// Who ask in `ask_…`, and send in `hot`; in `hot_pair` there are two.
const CROWD: usize = 64;
const PAIR: usize = 2;
/// The last turns end after their messages were handled.
const SETTLE: Duration = Duration::from_millis(100);

/// Runs what the parent has ordered.
pub(super) fn run(orders: &Orders) -> Result<(), BenchError> {
    let plan = Plan::new(orders);
    match orders.case {
        Case::Idle | Case::IdleText => weigh(&plan),
        Case::Activate | Case::ActivateText => activate(&plan),
        Case::Lookup | Case::LookupZipf => look_up(&plan),
        _ => send(&plan),
    }
}

/// What all runs of a process have in common.
struct Plan<'a> {
    orders: &'a Orders,
    what: String,
    targets: Vec<u32>,
    line: &'static FinishLine,
}

/// Entities, and where their senders run.
struct Field {
    group: Group,
    senders: Group,
    entities: Entities,
}

impl<'a> Plan<'a> {
    fn new(orders: &'a Orders) -> Self {
        let Orders { case, keys, .. } = *orders;
        let targets = case.targets(keys);
        let line = FinishLine::draw(shares(case, keys, &targets));
        Self { orders, what: format!("{case} of {keys} keys"), targets, line }
    }

    fn field(&self) -> Result<Field, BenchError> {
        let workers = self.orders.workers;
        if !self.orders.case.is_lone() {
            let group = build("entities", workers, Mailbox::unbounded())?;
            let entities = Entities::new(&System::new(&group));
            return Ok(Field { senders: group.clone(), group, entities });
        }
        // The senders keep to workers that never run the entity.
        let group = build("entities", 1, Mailbox::bounded(BOUND as u64))?;
        let senders = build("senders", workers.saturating_sub(1).max(1), Mailbox::unbounded())?;
        let entities = Entities::new(&System::new(&group));
        Ok(Field { group, senders, entities })
    }

    /// Actors that send to all targets.
    fn senders(&self, field: &Field) -> Senders {
        let system = System::new(&field.senders);
        let get = || Door::Get(field.entities.clone());
        let held = || {
            let keys = 0..u64::from(self.orders.keys);
            Door::Held(keys.map(|key| field.entities.get::<Account>(key)).collect())
        };
        let workers = self.orders.workers;
        let parts = |count, door: Door| {
            let part = self.targets.len().div_ceil(count).max(1);
            self.targets.chunks(part).map(|keys| (door.clone(), keys.to_vec())).collect()
        };
        match self.orders.case {
            Case::AskGet | Case::AskGetZipf => Senders::ask(&system, parts(CROWD, get())),
            Case::AskRef | Case::AskRefZipf => Senders::ask(&system, parts(CROWD, held())),
            Case::TellRef | Case::TellRefZipf => Senders::tell(&system, parts(workers, held())),
            Case::Hot => Senders::tell(&system, parts(CROWD, get())),
            Case::HotPair => Senders::tell(&system, parts(PAIR, get())),
            Case::Churn => {
                let door = Door::Visit(field.entities.clone());
                // Each key has one sender: its visits come one after the other.
                let part = self.orders.keys.div_ceil(workers as u32).max(1);
                let part_of = |at: usize| {
                    let own = self.targets.iter().filter(|key| (**key / part) as usize == at);
                    (door.clone(), own.copied().collect())
                };
                Senders::tell(&system, (0..workers).map(part_of).collect())
            }
            Case::ActivateText | Case::IdleText => {
                let mut parts: Vec<(Door, Vec<u32>)> = parts(workers, get());
                for (door, keys) in &mut parts {
                    let texts = keys.iter().rev().map(|key| text_key(*key)).collect();
                    *door = Door::Text(field.entities.clone(), texts);
                }
                Senders::tell(&system, parts)
            }
            _ => Senders::tell(&system, parts(workers, get())),
        }
    }

    /// Runs once; what it came to for each message.
    fn time(&self, senders: &Senders) -> Result<Line, BenchError> {
        let rounds = if self.orders.case == Case::Churn { ROUNDS } else { 1 };
        self.line.begin(u64::from(rounds));
        let before = alloc::allocations();
        let begin = Instant::now();
        senders.start();
        let finished = self.line.wait(&self.what)?;
        let allocations = alloc::allocations() - before;
        Ok(self.sample(finished.duration_since(begin), allocations))
    }

    fn sample(&self, elapsed: Duration, allocations: u64) -> Line {
        let count = self.targets.len() as f64;
        Line::Sample {
            ns: elapsed.as_nanos() as f64 / count,
            allocations: allocations as f64 / count,
        }
    }

    /// The repetition before the first warms up.
    fn repeat(&self, mut once: impl FnMut() -> Result<Line, BenchError>) -> Result<(), BenchError> {
        once()?;
        (0..self.orders.reps).try_for_each(|_| {
            tell(&once()?);
            Ok(())
        })
    }
}

impl Field {
    /// Ends it; an entity that is still there has not been lost.
    fn end(self, plan: &Plan<'_>) -> Result<(), BenchError> {
        let lost = self.entities.system().dead_letters();
        drop(self.entities);
        // Whatever is left goes with the groups.
        let _ = self.senders.shutdown();
        let _ = self.group.shutdown();
        if plan.orders.case.is_lone() {
            // There a full mailbox refuses, and the sender tries again.
            return Ok(());
        }
        check(format!("{}: messages that nobody handled", plan.what), lost, 0)
    }
}

/// How many messages make an entity report, for each key.
fn shares(case: Case, keys: u32, targets: &[u32]) -> Vec<u32> {
    let size = if case.is_lone() { 1 } else { keys as usize };
    match case {
        // One a life.
        Case::Churn | Case::Lookup | Case::LookupZipf => vec![1; size],
        _ => {
            let mut shares = vec![0; size];
            targets.iter().for_each(|key| shares[*key as usize] += 1);
            shares
        }
    }
}

fn build(name: &str, workers: usize, mailbox: Mailbox) -> Result<Group, BenchError> {
    let built = Group::builder(name).workers(workers).mailbox(mailbox).build();
    built.map_err(|error| BenchError::Start {
        what: format!("group {name}"),
        why: error.to_string(),
    })
}

/// The same entities in all repetitions.
fn send(plan: &Plan<'_>) -> Result<(), BenchError> {
    let field = plan.field()?;
    let senders = plan.senders(&field);
    plan.repeat(|| plan.time(&senders))?;
    field.end(plan)
}

/// New entities in each repetition.
fn activate(plan: &Plan<'_>) -> Result<(), BenchError> {
    plan.repeat(|| {
        let field = plan.field()?;
        let senders = plan.senders(&field);
        let line = plan.time(&senders)?;
        field.end(plan)?;
        Ok(line)
    })
}

/// Look-ups from this thread, which is no worker, while all entities live and rest.
fn look_up(plan: &Plan<'_>) -> Result<(), BenchError> {
    let field = plan.field()?;
    let keys = plan.orders.keys;
    let system = System::new(&field.senders);
    let senders =
        Senders::tell(&system, vec![(Door::Get(field.entities.clone()), (0..keys).collect())]);
    plan.time(&senders)?;
    std::thread::sleep(SETTLE);
    plan.repeat(|| {
        let before = alloc::allocations();
        let begin = Instant::now();
        let mut found = 0;
        for key in &plan.targets {
            let entity = field.entities.get::<Account>(black_box(*key));
            found += usize::from(entity.is_active());
        }
        let elapsed = begin.elapsed();
        check(format!("{}: found", plan.what), found, plan.targets.len())?;
        Ok(plan.sample(elapsed, alloc::allocations() - before))
    })?;
    field.end(plan)
}

/// Bytes of an entity beside its state.
fn weigh(plan: &Plan<'_>) -> Result<(), BenchError> {
    let field = plan.field()?;
    let senders = plan.senders(&field);
    let (heap, resident) = (alloc::live_bytes(), anonymous_bytes());
    plan.time(&senders)?;
    drop(senders);
    std::thread::sleep(SETTLE);
    let each = |bytes: f64| bytes / f64::from(plan.orders.keys) - STATE_BYTES as f64;
    let heap = each((alloc::live_bytes() - heap) as f64);
    let resident = each(anonymous_bytes() - resident);
    tell(&Line::Bytes { heap, resident });
    field.end(plan)
}
