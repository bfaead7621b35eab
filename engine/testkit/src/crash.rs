//! Crash points: the process ends at each write, and what is left must be enough.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use turnwheel_engine::plan::Record;
use turnwheel_engine::store::Written;

use crate::fault::Fault;
use crate::life::{live, Birth, Cut, Life};
use crate::medium::{Kind, Medium};
use crate::verify;
use crate::workload::{Ack, Workload};

/// What is added to the seed of a life for the one after it: ids must not come again.
const NEXT_LIFE: u64 = 0x9e37_79b9_7f4a_7c15;

/// How long nobody is there after a crash.
const DOWN: Duration = Duration::from_millis(1_500);

/// Violations that are told in full.
const VIOLATIONS_KEPT: usize = 20;

/// Tries crashes at the writes of a workload; see [`crash_points`].
#[derive(Clone, Debug)]
#[must_use]
pub struct CrashPoints {
    seeds: Vec<u64>,
    points: usize,
    second: usize,
    folder: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CrashReport {
    /// Distinct points that were tried: workload, seed, write, fault, place of the tear.
    pub points: u64,
    /// Points at which something was wrong.
    pub violations: u64,
    /// The first of them.
    pub first: Vec<Violation>,
    /// Steps that a crash has interrupted, so that their code was called again or may have to be.
    pub repeated_steps: u64,
    /// Plans that had come to their end after all crashes.
    pub plans: u64,
}

/// Something that must not be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The workload.
    pub workload: String,
    /// The kind of store.
    pub store: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// The write, counted from 1 in the run.
    pub write: usize,
    /// What became of it; nothing if the run without any crash is wrong.
    pub fault: Option<Fault>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, store, seed, write, fault, problem } = self;
        match fault {
            None => write!(f, "{workload} on {store}, seed {seed}, no crash: {problem}"),
            Some(fault) => {
                write!(f, "{workload} on {store}, seed {seed}, write {write} {fault}: {problem}")
            }
        }
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crash points, {} violations, {} plans ended, {} steps interrupted and called again",
            self.points, self.violations, self.plans, self.repeated_steps
        )?;
        self.first.iter().try_for_each(|violation| write!(f, "\n{violation}"))
    }
}

impl CrashReport {
    /// Adds what came of another workload.
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.violations += other.violations;
        self.repeated_steps += other.repeated_steps;
        self.plans += other.plans;
        let room = VIOLATIONS_KEPT.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }

    /// Checks that nothing was wrong.
    ///
    /// # Panics
    ///
    /// Something was; the message tells the first violations.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations == 0, "{self}");
        assert!(self.points > 0, "no crash point was tried");
    }
}

/// Runs a workload in a simulation over a store in memory, lets it crash at each write, lets it recover
/// and go on to its end, and checks after each that
///
/// * what was durable and what was acknowledged is still there,
/// * no outcome is recorded twice, and each plan's journal is one chain of legal states,
/// * every plan comes to its end, and its row and snapshot agree with its journal.
///
/// [`CrashPoints`] says how many seeds, and tears writes of SQLite files. Cost: two lives of the workload
/// a point, some milliseconds each.
///
/// ```
/// use turnwheel_testkit::{crash_points, Client, Workload};
/// use turnwheel_engine::{
///     Action, ActionError, Next, RunAsync, RunsAsync, StepContext, WorldBuilder,
/// };
///
/// struct Double;
///
/// impl Action for Double {
///     const NAME: &'static str = "double";
///     type Input = u64;
///     type Output = u64;
///     type Phases = RunsAsync;
/// }
///
/// impl RunAsync for Double {
///     async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
///         step.output = step.input * 2;
///         Ok(Next::Done)
///     }
/// }
///
/// struct Doubling;
///
/// impl Workload for Doubling {
///     fn name(&self) -> &str {
///         "doubling"
///     }
///
///     fn world(&self, builder: WorldBuilder) -> WorldBuilder {
///         builder.action(Double)
///     }
///
///     async fn client(&self, client: Client) -> Result<(), String> {
///         let plan = client.trigger::<Double>("the only one", 21).await?;
///         let output = client.finished(plan).await?.output::<Double>();
///         assert_eq!(output.map_err(|error| error.to_string())?, 42);
///         Ok(())
///     }
/// }
///
/// let report = crash_points(&Doubling);
/// report.assert_clean();
/// ```
pub fn crash_points<W: Workload>(workload: &W) -> CrashReport {
    CrashPoints::new().run(|| workload)
}

impl Default for CrashPoints {
    fn default() -> Self {
        Self::new()
    }
}

impl CrashPoints {
    /// One seed, all points, a second crash in two places of each recovery, in memory.
    pub fn new() -> Self {
        Self { seeds: vec![1], points: usize::MAX, second: 2, folder: None }
    }

    /// These seeds: each gives the run another order.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// At most so many points for each seed, spread evenly over all of them.
    pub fn points(mut self, points: usize) -> Self {
        self.points = points;
        self
    }

    /// How many times the recovery from each point is ended by a second crash; in memory only.
    pub fn second_crashes(mut self, count: usize) -> Self {
        self.second = count;
        self
    }

    /// Takes SQLite files, in folders that are made below this one and removed again, instead of
    /// memory: writes are lost, torn, garbled and reordered.
    pub fn sqlite_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Tries the crash points of a workload, which is made anew for each process.
    ///
    /// # Panics
    ///
    /// A folder for files cannot be made, written or read.
    pub fn run<W: Workload>(&self, workload: impl Fn() -> W) -> CrashReport {
        let kind = match &self.folder {
            None => Kind::Memory,
            Some(folder) => Kind::Sqlite(folder.clone()),
        };
        let mut report = CrashReport::default();
        for seed in &self.seeds {
            let mut run = Run { make: &workload, kind: &kind, seed: *seed, report: &mut report };
            if let Err(error) = run.all(self.points, self.second) {
                panic!("the folder for crash points cannot be used: {error}");
            }
        }
        report
    }
}

/// One seed of a workload.
struct Run<'a, F> {
    make: &'a F,
    kind: &'a Kind,
    seed: u64,
    report: &'a mut CrashReport,
}

/// What was there when a life ended by a crash.
#[derive(Clone, Copy)]
struct Past<'a> {
    journal: &'a [Written],
    acks: &'a [Ack],
}

impl<W: Workload, F: Fn() -> W> Run<'_, F> {
    fn all(&mut self, points: usize, second: usize) -> io::Result<()> {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let birth = Birth { seed: self.seed, wall, refused: None, is_watched: true };
        let medium = self.kind.empty()?;
        let workload = (self.make)();
        let (life, outcome) = live(&workload, &medium, birth);
        let outcome = outcome.and_then(|()| self.check(&workload, &medium, Past::NOTHING, &life));
        drop(medium);
        if let Err(problem) = outcome {
            self.report(0, None, problem);
            return Ok(());
        }
        let mut faults: Vec<(usize, Fault)> = Vec::new();
        for (write, cut) in life.cuts.iter().enumerate() {
            let Some(after) = &cut.after else { continue };
            faults.extend(cut.before.faults(after).into_iter().map(|fault| (write, fault)));
        }
        faults.push((life.cuts.len() - 1, Fault::Kept));
        let is_memory = matches!(self.kind, Kind::Memory);
        if is_memory {
            faults.extend((0..life.commits as usize).map(|write| (write, Fault::Refused)));
        }
        let step = faults.len().div_ceil(points.max(1)).max(1);
        for (write, fault) in faults.into_iter().step_by(step) {
            let problem = match fault {
                Fault::Refused => self.refused(Birth { is_watched: false, ..birth }, write)?,
                _ => self.crash(&life, write, fault, if is_memory { second } else { 0 })?,
            };
            self.report.points += 1;
            if let Err(problem) = problem {
                self.report(write + 1, Some(fault), problem);
            }
        }
        Ok(())
    }

    /// The store refuses one commit, and the process goes on.
    fn refused(&mut self, birth: Birth, write: usize) -> io::Result<Result<(), String>> {
        let medium = self.kind.empty()?;
        let birth = Birth { refused: Some(write as u64 + 1), ..birth };
        let workload = (self.make)();
        let (life, outcome) = live(&workload, &medium, birth);
        Ok(outcome.and_then(|()| self.check(&workload, &medium, Past::NOTHING, &life)))
    }

    /// The process ends at a write; another one goes on with what is left.
    fn crash(
        &mut self,
        life: &Life,
        write: usize,
        fault: Fault,
        second: usize,
    ) -> io::Result<Result<(), String>> {
        let cut = &life.cuts[write];
        let after = cut.after.as_ref().unwrap_or(&cut.before);
        let medium = self.kind.holding(&cut.before.left(after, fault))?;
        let acks = &life.acks[..cut.acks];
        let most = life.cuts.get(write + 1).map_or(life.journal.len(), |next| next.entries);
        let range = match fault {
            Fault::Lost => cut.entries..=cut.entries,
            Fault::Kept => most..=most,
            _ => cut.entries..=most,
        };
        let workload = (self.make)();
        let found = match found(&workload, &medium, &life.journal, range, acks) {
            Ok(found) => found,
            Err(problem) => return Ok(Err(format!("after the crash: {problem}"))),
        };
        let past = Past { journal: &life.journal[..found], acks };
        let birth = self.reborn(self.seed, cut, second > 0);
        let (next, outcome) = live(&workload, &medium, birth);
        let outcome = outcome.and_then(|()| self.check(&workload, &medium, past, &next));
        if outcome.is_err() {
            return Ok(outcome);
        }
        for place in 0..second.min(next.cuts.len()) {
            let place = place * next.cuts.len() / second;
            let problem = self.crash_again(past, &next, place, birth.seed)?;
            self.report.points += 1;
            if let Err(problem) = problem {
                self.report(write + 1, Some(Fault::Twice { write: place + 1 }), problem);
            }
        }
        Ok(Ok(()))
    }

    /// The recovery is ended by a crash, too.
    fn crash_again(
        &mut self,
        past: Past<'_>,
        life: &Life,
        place: usize,
        seed: u64,
    ) -> io::Result<Result<(), String>> {
        let cut = &life.cuts[place];
        let medium = self.kind.holding(&cut.before)?;
        let journal = [past.journal, &life.journal[..cut.entries]].concat();
        let acks = [past.acks, &life.acks[..cut.acks]].concat();
        let workload = (self.make)();
        let (next, outcome) = live(&workload, &medium, self.reborn(seed, cut, false));
        let past = Past { journal: &journal, acks: &acks };
        Ok(outcome.and_then(|()| self.check(&workload, &medium, past, &next)))
    }

    fn reborn(&self, seed: u64, cut: &Cut, is_watched: bool) -> Birth {
        let seed = seed.wrapping_add(NEXT_LIFE);
        Birth { seed, wall: cut.wall + DOWN, refused: None, is_watched }
    }

    /// What must hold at the end of a life.
    fn check(
        &mut self,
        workload: &W,
        medium: &Arc<dyn Medium>,
        past: Past<'_>,
        life: &Life,
    ) -> Result<(), String> {
        let text = |error: turnwheel_engine::StoreError| error.to_string();
        let mut reader = workload.store(medium.store()).reader().map_err(text)?;
        let journal = verify::journal(&mut *reader).map_err(text)?;
        if !journal.starts_with(&verify::kept(workload, past.journal, &journal)) {
            return Err("the recovery has changed what was written before".to_owned());
        }
        let plans = verify::plans(&journal)?;
        verify::acknowledged(workload, &mut *reader, &plans, past.acks)?;
        verify::acknowledged(workload, &mut *reader, &plans, &life.acks)?;
        verify::ended(workload, &mut *reader, &plans)?;
        let all: Vec<_> = plans.values().map(|told| &told.plan).collect();
        workload.verdict(&all)?;
        self.report.plans += plans.len() as u64;
        let records = plans.values().flat_map(|told| &told.records);
        let repeated = records.filter(|record| matches!(record, Record::Interrupted { .. }));
        self.report.repeated_steps += repeated.count() as u64;
        Ok(())
    }

    fn report(&mut self, write: usize, fault: Option<Fault>, problem: String) {
        self.report.violations += 1;
        if self.report.first.len() < VIOLATIONS_KEPT {
            let (workload, store) = ((self.make)().name().to_owned(), self.kind.name());
            let seed = self.seed;
            self.report.first.push(Violation { workload, store, seed, write, fault, problem });
        }
    }
}

impl Past<'_> {
    const NOTHING: Self = Self { journal: &[], acks: &[] };
}

/// How much of a journal is there after a crash: what was durable before the write, or with it. And what
/// was acknowledged before is among it.
fn found<W: Workload>(
    workload: &W,
    medium: &Arc<dyn Medium>,
    written: &[Written],
    range: std::ops::RangeInclusive<usize>,
    acks: &[Ack],
) -> Result<usize, String> {
    let text = |error: turnwheel_engine::StoreError| error.to_string();
    let store = workload.store(medium.store());
    // Taken once, as any start does: a file that has no tables yet gets them.
    drop(store.writer().map_err(text)?);
    let mut reader = store.reader().map_err(text)?;
    let journal = verify::journal(&mut *reader).map_err(text)?;
    let (count, least, most) = (journal.len(), *range.start(), *range.end());
    let is_there =
        |entries: &usize| verify::kept(workload, &written[..*entries], &journal) == journal;
    let Some(entries) = range.clone().rfind(is_there) else {
        return Err(format!("{count} entries are there, of which {least} to {most} were written"));
    };
    verify::acknowledged(workload, &mut *reader, &verify::plans(&journal)?, acks)?;
    Ok(entries)
}
