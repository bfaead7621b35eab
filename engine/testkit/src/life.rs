//! One life of a world: from its start over a store until its plans have ended.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use turnwheel_engine::internal::write_rows;
use turnwheel_engine::store::{Batch, Filter, Verdict, Written};
use turnwheel_engine::{BuildError, PlanError, StoreError};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::time::{Clock, ManualClock};

use crate::fault_store::{FaultStore, Observer};
use crate::medium::{Image, Medium};
use crate::workload::{Ack, Client, Workload};
use crate::worlds::open;

/// How a life begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    pub(super) seed: u64,
    pub(super) wall: SystemTime,
    /// The commit that the store refuses.
    pub(super) refused: Option<u64>,
    /// Whether to remember what each commit has left.
    pub(super) is_watched: bool,
}

/// What is known of a life.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) acks: Vec<Ack>,
    /// Before each commit: the moment at which the process could have ended.
    pub(super) cuts: Vec<Cut>,
    /// Everything that was written, in its order.
    pub(super) journal: Vec<Written>,
    pub(super) commits: u64,
}

/// A moment right before a commit.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// What was acknowledged then.
    pub(super) acks: usize,
    /// How many entries were durable then.
    pub(super) entries: usize,
    pub(super) wall: SystemTime,
    pub(super) before: Image,
    /// What the commit has left; nothing if it was not made.
    pub(super) after: Option<Image>,
}

/// Remembers each commit.
struct Watch {
    medium: Arc<dyn Medium>,
    clock: ManualClock,
    acks: Arc<Mutex<Vec<Ack>>>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    cuts: Vec<Cut>,
    journal: Vec<Written>,
}

impl Observer for Watch {
    fn begins(&mut self) {
        let acks = self.acks.lock().len();
        let wall = self.clock.wall();
        let mut seen = self.seen.lock();
        let entries = seen.journal.len();
        if let Some(before) = self.medium.checkpoint() {
            let after = Some(self.medium.image());
            seen.cuts.push(Cut { acks, entries, wall, before, after });
        }
        let before = self.medium.image();
        seen.cuts.push(Cut { acks, entries, wall, before, after: None });
    }

    fn ended(&mut self, batch: &Batch<'_>, verdicts: &[Verdict]) {
        let after = self.medium.image();
        let mut seen = self.seen.lock();
        for (append, verdict) in batch.appends.iter().zip(verdicts) {
            if let Verdict::Written(seq) = verdict {
                let (plan, prev, records) = (append.plan, append.prev, append.records.clone());
                seen.journal.push(Written { seq: *seq, plan, prev, records });
            }
        }
        if let Some(cut) = seen.cuts.last_mut() {
            cut.after = Some(after);
        }
    }
}

/// Runs a world over a store until its client and its plans have ended. What happened is told in either
/// case; the error says why it did not end.
pub(super) fn live<W: Workload>(
    workload: &W,
    medium: &Arc<dyn Medium>,
    birth: Birth,
) -> (Life, Result<(), String>) {
    let acks: Arc<Mutex<Vec<Ack>>> = Arc::default();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let sim = Sim::builder().seed(birth.seed).wall(birth.wall).build();
    let store = if birth.is_watched {
        let (medium, clock) = (Arc::clone(medium), sim.clock());
        let watch = Watch { medium, clock, acks: Arc::clone(&acks), seen: Arc::clone(&seen) };
        FaultStore::watched(workload.store(watch.medium.store()), Box::new(watch))
    } else {
        FaultStore::new(workload.store(medium.store()))
    };
    if let Some(refused) = birth.refused {
        store.fail_at(refused, StoreError::Failed("this commit was chosen to fail".to_owned()));
    }
    let outcome = run(workload, &sim, &store, &acks, (birth.seed, birth.refused.is_some()));
    let commits = store.commits();
    drop(sim);
    let Seen { cuts, journal } = std::mem::take(&mut *seen.lock());
    let acks = std::mem::take(&mut *acks.lock());
    (Life { acks, cuts, journal, commits }, outcome)
}

fn run<W: Workload>(
    workload: &W,
    sim: &Sim,
    store: &FaultStore,
    acks: &Arc<Mutex<Vec<Ack>>>,
    (seed, is_refused): (u64, bool),
) -> Result<(), String> {
    let (plans, journal) = (sim.group("plans"), sim.group("journal"));
    let limit = sim.now() + workload.patience();
    let begin = || {
        let opened = settled(sim, limit, open(workload, store, (&plans, &journal), seed));
        opened.map_err(|stuck| format!("the start hangs: {stuck}"))
    };
    // A start writes that each world is there. If that is refused it says so, and is tried again.
    let worlds = match begin()? {
        Err(BuildError::Store(StoreError::Failed(_))) if is_refused => begin()?,
        worlds => worlds,
    };
    let worlds = worlds.map_err(|error| format!("the world does not start: {error}"))?;
    // The client may end the others.
    let world = worlds.last().expect("a life has a world");
    let client = Client::new(worlds.clone(), plans.clone(), Arc::clone(acks));
    let mut client = pin!(workload.client(client));
    loop {
        match sim.block_on(client.as_mut()) {
            Ok(outcome) => break outcome.map_err(|error| format!("the client failed: {error}"))?,
            Err(stuck) => pass(sim, limit).map_err(|late| format!("{late}: {stuck}"))?,
        }
    }
    loop {
        let filter = Filter { limit: usize::MAX, ..Filter::default() };
        let rows = settled(sim, limit, world.list(filter))?;
        // A list shows what was before when a write is refused: the rows follow, and what is checked later is
        // what they say then.
        let rows = match (rows, settled(sim, limit, write_rows(world))?.map_err(PlanError::Store)) {
            (Ok(rows), Ok(())) => rows,
            (Err(error), _) | (_, Err(error)) => {
                pass(sim, limit)
                    .map_err(|late| format!("{late}: the plans cannot be listed: {error}"))?;
                continue;
            }
        };
        let mut live = Vec::new();
        for row in rows {
            let view = settled(sim, limit, world.plan(row.id).view())?;
            let view = view.map_err(|error| format!("plan {} cannot be seen: {error}", row.id))?;
            if !workload.is_end(&view) {
                live.push(format!("{} is {}", row.id, view.state.name()));
            }
        }
        // A plan that is over may have been told something since: its row says that, too.
        if live.is_empty() && settled(sim, limit, write_rows(world))?.is_ok() {
            return Ok(());
        }
        pass(sim, limit).map_err(|late| format!("{late}: {}", live.join(", ")))?;
    }
}

/// Waits for something that needs no time, or little.
fn settled<F: Future>(
    sim: &Sim,
    limit: std::time::Duration,
    future: F,
) -> Result<F::Output, String> {
    let mut future = pin!(future);
    loop {
        match sim.block_on(future.as_mut()) {
            Ok(output) => return Ok(output),
            Err(stuck) => pass(sim, limit).map_err(|late| format!("{late}: {stuck}"))?,
        }
    }
}

/// Lets time pass until the next timer.
fn pass(sim: &Sim, limit: std::time::Duration) -> Result<(), String> {
    if sim.now() > limit || !sim.advance_to_next_timer() {
        return Err(format!("plans have not ended after {:?}", sim.now()));
    }
    Ok(())
}
