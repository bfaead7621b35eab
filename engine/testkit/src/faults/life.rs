//! The lives of a world and its client in one run, and what must hold at the end.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use turnwheel_engine::internal::write_rows;
use turnwheel_engine::store::{Filter, Store};
use turnwheel_engine::{BuildError, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Group;

use super::injector::{Injector, Stop};
use super::point::FaultPoint;
use crate::fault_store::{FaultStore, Twin};
use crate::medium::Kind;
use crate::verify;
use crate::workload::{Ack, Client, Workload};
use crate::worlds::open;

/// What is added to the seed of a life for the one after it: ids must not come again.
const NEXT_LIFE: u64 = 0x9e37_79b9_7f4a_7c15;

/// How long nobody is there between two lives.
const DOWN: Duration = Duration::from_millis(1_500);

/// How long a world goes on that is to be ended: without a store, or beside the one that has taken
/// it.
const DOOMED: Duration = Duration::from_secs(120);

/// How long a world has for a clean end.
const ENDING: Duration = Duration::from_secs(30);

/// How long nothing more may happen after the end of all plans.
const QUIET: Duration = Duration::from_secs(3_600);

/// After how long a start is tried again that the store has refused, and how often.
const START_AGAIN: Duration = Duration::from_secs(10);
const STARTS: u32 = 20;

/// After how long a person asks again who was told that the store fails.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Turns of a simulation at one moment: more are a loop that never rests.
const TURNS: u64 = 300_000;

/// How often something happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) timers: u64,
}

/// How a life has ended.
enum End {
    /// All plans are over.
    Done,
    /// Another one has to go on.
    Stopped(Stop),
}

/// One run.
struct Run<'a, W> {
    workload: &'a W,
    injector: Arc<Injector>,
    store: FaultStore,
    acks: Arc<Mutex<Vec<Ack>>>,
    /// Whether a life has ended with a wrong clock.
    was_in_doubt: bool,
}

/// One life of it.
struct Life {
    sim: Sim,
    plans: Group,
    seed: u64,
    limit: Duration,
}

/// Runs a workload with this trouble, and checks what it has left.
pub(super) fn judge<W: Workload>(
    workload: &W,
    place: (&Kind, Option<Twin>),
    seed: u64,
    points: &[FaultPoint],
) -> Result<Counts, String> {
    let (kind, twin) = place;
    let medium = kind.scratch().map_err(|error| format!("no place for a store: {error}"))?;
    let store = workload.store(medium.store());
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut life = Life::new(seed, wall, workload.patience());
    let injector = Arc::new(Injector::new(points, life.sim.clock()));
    let faulty = FaultStore::injected(Arc::clone(&store), Arc::clone(&injector) as _, twin);
    let acks = Arc::default();
    let mut run = Run { workload, injector, store: faulty, acks, was_in_doubt: false };
    let worlds = loop {
        let (end, worlds) = run.live(&life)?;
        let End::Stopped(stop) = end else { break worlds };
        run.was_in_doubt |= run.injector.is_in_doubt();
        // A clock that is off is set right while nobody is there.
        let wall = run.injector.right_wall() + DOWN;
        let next = Life::new(life.seed.wrapping_add(NEXT_LIFE), wall, workload.patience());
        let before = std::mem::replace(&mut life, next);
        if stop == Stop::TakenOver {
            // The new one takes the store; the old one does not know it yet.
            drop(store.writer().map_err(|error| error.to_string())?);
            before.sim.advance(DOOMED);
        }
        drop(worlds);
        drop(before);
        run.injector.begin_life(life.sim.clock());
    };
    let counts = run.injector.counts();
    run.check(&*store, &worlds)?;
    Ok(counts)
}

impl Life {
    fn new(seed: u64, wall: SystemTime, patience: Duration) -> Self {
        let sim = Sim::builder().seed(seed).wall(wall).turns_max(TURNS).build();
        let plans = sim.group("plans");
        Self { sim, plans, seed, limit: patience }
    }
}

impl<W: Workload> Run<'_, W> {
    /// One life; its worlds come back, to be dropped when it is time.
    fn live(&self, life: &Life) -> Result<(End, Vec<World>), String> {
        let worlds = match self.start(life)? {
            Ok(worlds) => worlds,
            Err(stop) => return Ok((End::Stopped(stop), Vec::new())),
        };
        let stop = match self.through(life, &worlds) {
            Ok(None) => return Ok((End::Done, worlds)),
            Ok(Some(stop)) => stop,
            // Without a store the client has reason to give up.
            Err(problem) => self.injector.stopped().ok_or(problem)?,
        };
        match stop {
            Stop::Doomed => {
                life.sim.advance(DOOMED);
            }
            Stop::Shutdown => {
                for world in &worlds {
                    let ended = pin!(world.terminate(ENDING));
                    let _refused = self.settled(life, ended, life.sim.now() + 3 * ENDING)?;
                }
            }
            Stop::Killed | Stop::TakenOver => {}
        }
        Ok((End::Stopped(stop), worlds))
    }

    /// Starts the worlds, again and again if the store refuses them.
    fn start(&self, life: &Life) -> Result<Result<Vec<World>, Stop>, String> {
        let journal = life.sim.group("journal");
        let mut problem = String::new();
        for _ in 0..STARTS {
            let groups = (&life.plans, &journal);
            let open = pin!(open(self.workload, &self.store, groups, life.seed));
            let limit = life.sim.now() + life.limit;
            match self.settled(life, open, limit)? {
                Ok(worlds) => return Ok(Ok(worlds)),
                Err(BuildError::Store(error)) => problem = error.to_string(),
                Err(error) => return Err(format!("the world does not start: {error}")),
            }
            if let Some(stop) = self.injector.stopped() {
                return Ok(Err(stop));
            }
            life.sim.advance(START_AGAIN);
        }
        Err(format!("the world does not start: {problem}"))
    }

    /// Runs the client, and waits for the end of all plans and for the quiet after it. Nothing if
    /// that is done; or why the life is to end before.
    fn through(&self, life: &Life, worlds: &[World]) -> Result<Option<Stop>, String> {
        let client = Client::new(worlds.to_vec(), life.plans.clone(), Arc::clone(&self.acks));
        let client = client.after_doubt(self.was_in_doubt);
        // The client may have ended the others.
        let world = worlds.last().expect("a life has a world");
        let limit = life.sim.now() + life.limit;
        let mut client = pin!(self.workload.client(client));
        loop {
            let stop_or_end = poll_fn(|cx| match self.injector.stop(cx.waker()) {
                Some(stop) => Poll::Ready(Err(stop)),
                None => client.as_mut().poll(cx).map(Ok),
            });
            match life.sim.block_on(stop_or_end) {
                Ok(Err(Stop::Doomed)) => {
                    life.sim.advance(DOOMED);
                    return Ok(Some(Stop::Doomed));
                }
                Ok(Err(stop)) => return Ok(Some(stop)),
                Ok(Ok(Ok(()))) => break,
                Ok(Ok(Err(error))) => return Err(format!("the client failed: {error}")),
                Err(stuck) => {
                    self.pass(life, limit).map_err(|late| format!("the client: {late}: {stuck}"))?
                }
            }
        }
        if let Some(stop) = self.over(life, world, limit)? {
            return Ok(Some(stop));
        }
        let quiet = life.sim.now() + QUIET;
        while self.pass(life, quiet).is_ok() {
            if let Some(stop) = self.injector.stopped() {
                return Ok(Some(stop));
            }
        }
        self.over(life, world, quiet + QUIET)
    }

    /// Waits until all plans are where they have to come to, and their rows say so.
    fn over(&self, life: &Life, world: &World, limit: Duration) -> Result<Option<Stop>, String> {
        loop {
            let filter = Filter { limit: usize::MAX, ..Filter::default() };
            let listed = pin!(async { world.list(filter).await });
            let rows = self.settled(life, listed, limit)?;
            let written = self.settled(life, pin!(write_rows(world)), limit)?;
            let (mut live, mut has_failed) = (Vec::new(), false);
            match (rows, written) {
                (Ok(rows), Ok(())) => {
                    for row in rows {
                        let view = pin!(async { world.plan(row.id).view().await });
                        match self.settled(life, view, limit)? {
                            Ok(view) if self.workload.is_end(&view) => {}
                            Ok(view) => {
                                let (state, waits) = (view.state.name(), view.waits_for());
                                live.push(format!("{} is {state}: {waits}", row.id));
                            }
                            Err(error) => {
                                has_failed = true;
                                live.push(format!("{}: {error}", row.id));
                            }
                        }
                    }
                }
                (Err(error), _) => {
                    has_failed = true;
                    live.push(error.to_string());
                }
                (_, Err(error)) => {
                    has_failed = true;
                    live.push(error.to_string());
                }
            }
            if let Some(stop) = self.injector.stopped() {
                return Ok(Some(stop));
            }
            if live.is_empty() {
                return Ok(None);
            }
            if has_failed && life.sim.now() <= limit {
                // Nobody but a person asks again.
                life.sim.advance(ASK_AGAIN);
                continue;
            }
            self.pass(life, limit).map_err(|late| format!("{late}: {}", live.join(", ")))?;
        }
    }

    /// Waits for something that needs no time, or little.
    fn settled<F: Future + Unpin>(
        &self,
        life: &Life,
        mut future: F,
        limit: Duration,
    ) -> Result<F::Output, String> {
        loop {
            match life.sim.block_on(&mut future) {
                Ok(output) => return Ok(output),
                Err(stuck) => {
                    self.pass(life, limit).map_err(|late| format!("{late}: {stuck}"))?;
                }
            }
        }
    }

    /// Lets time pass until the next timer.
    fn pass(&self, life: &Life, limit: Duration) -> Result<(), String> {
        let late = || format!("nothing has ended after {:?}", life.sim.now());
        if life.sim.now() > limit {
            return Err(late());
        }
        if !life.sim.advance_to_next_timer() {
            // Nothing waits for a time. Who asks the store again by hand does so when it is well.
            life.sim.advance(self.injector.well_again().ok_or_else(late)?);
        }
        self.injector.timer();
        Ok(())
    }

    /// Conditions that must hold at the end.
    fn check(&self, store: &dyn Store, worlds: &[World]) -> Result<(), String> {
        let text = |error: turnwheel_engine::StoreError| error.to_string();
        let mut reader = store.reader().map_err(text)?;
        let letters = worlds.last().map(World::dead_letters).unwrap_or_default();
        verify::letters(&mut *reader, &letters)?;
        let journal = verify::journal(&mut *reader).map_err(text)?;
        let plans = verify::plans(&journal)?;
        let acks = self.acks.lock();
        verify::acknowledged(self.workload, &mut *reader, &plans, &acks)?;
        verify::ended(self.workload, &mut *reader, &plans)?;
        let plans: Vec<_> = plans.values().map(|told| &told.plan).collect();
        self.workload.verdict(&plans)
    }
}
