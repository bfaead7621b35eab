//! Users under way move to a newer version that says so, whether anything happens to them or not:
//! a time that the version gives to their wait counts from now on.
//!
//! 1. A version that moves users is in the catalogue, and the mark of its journey is older.
//! 2. The node that owns the key of the mark reads all users of the platform, some at a time, and
//!    has the desks move those who are under way on an older version.
//! 3. A step that another node has decided on an older version may be written behind that look. So
//!    it is looked again when the others have had the time to learn of the version, until nobody is
//!    left; then the mark says so. After a crash the users are read again.
//!
//! A user who is touched meanwhile has moved already. Each move of a user goes through all versions
//! in between, so a version that is stored before all have moved to the one before it leaves nobody
//! behind.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use turnwheel_engine::internal::{pause, spawn, WeakWorld};
use turnwheel_engine::store::{StateRow, StateScan};
use turnwheel_engine::{TimedStates, World};
use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::{Completion, Task};

use crate::catalogue::Catalogue;
use crate::chart::Chart;
use crate::definitions::Definitions;
use crate::desk::{Desk, Request, USER};
use crate::error::JourneyError;
use crate::journeys::desk_of;
use crate::limits::{AGAIN, MOVED_AT_ONCE, MOVES_PAGE};
use crate::row::Row;
use crate::walk::Turn;

/// Name of the marks: for each journey the version to which all users have moved.
const MARK: &str = "turnwheel.journey.moved";

/// Begin of a mark that says that all have moved through all versions up to that one. A program that has
/// looked at the newest of them only has left such a begin out, and users behind.
const THROUGH: &str = "through ";

/// Pauses before users are looked at again: other nodes look for new definitions once in each.
const SETTLE_LOOKS: u32 = 5;

/// Nothing runs.
const IDLE: u8 = 0;
/// A pass over the journeys runs.
const RUNS: u8 = 1;
/// It runs, and has to look again.
const AGAIN_ASKED: u8 = 2;

/// Moves users to newer versions.
#[derive(Debug)]
pub(crate) struct Mover {
    pub(crate) world: WeakWorld,
    pub(crate) states: TimedStates,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) desks: Vec<Task<Desk>>,
    pub(crate) state: AtomicU8,
}

impl Mover {
    /// Looks whether users have to move, in the background.
    pub(crate) fn look(self: &Arc<Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let before = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| {
            Some(if state == IDLE { RUNS } else { AGAIN_ASKED })
        });
        if before == Ok(IDLE) {
            let mover = Arc::clone(self);
            spawn(&world, async move { mover.run().await });
        }
    }

    async fn run(&self) {
        loop {
            let Some(world) = self.world.upgrade() else { return };
            if let Err(error) = self.pass(&world).await {
                tracing::warn!(%error, "users do not move to a newer version, and are tried again");
                pause(&world, AGAIN).await;
                continue;
            }
            let ended = self.state.compare_exchange(RUNS, IDLE, Ordering::SeqCst, Ordering::SeqCst);
            if ended.is_ok() {
                return;
            }
            self.state.store(RUNS, Ordering::SeqCst);
        }
    }

    /// Moves the users of all journeys, and then those who are written behind that.
    async fn pass(&self, world: &World) -> Result<(), JourneyError> {
        let catalogue = self.definitions.current();
        let mut open = Vec::new();
        for (name, known) in &catalogue.journeys {
            let Some(chart) = known.newest_that_moves() else { continue };
            // The first version has nobody to move.
            if chart.version < 2 || world.hold_of_key(&key(name)).is_none() {
                continue;
            }
            let mark = self.states.load(MARK, name).await.map_err(JourneyError::failed)?;
            let text = mark.bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            let moved = text.and_then(|text| text.strip_prefix(THROUGH)?.parse().ok());
            if moved.is_some_and(|moved: u32| moved >= chart.version) {
                continue;
            }
            self.move_all(&catalogue, chart).await?;
            open.push((name, chart, mark.version));
        }
        while !open.is_empty() {
            for _ in 0..SETTLE_LOOKS {
                pause(world, AGAIN).await;
                if self.state.load(Ordering::SeqCst) == AGAIN_ASKED {
                    // A newer version does not wait. Without a mark these are looked at again.
                    return Ok(());
                }
            }
            let mut left = Vec::new();
            for (name, chart, version) in open {
                if self.move_all(&catalogue, chart).await? > 0 {
                    left.push((name, chart, version));
                    continue;
                }
                let text = format!("{THROUGH}{}", chart.version);
                let content = (Some(text.into_bytes()), None);
                let saved = self.states.save(MARK, name, content, version).await;
                saved.map_err(JourneyError::failed)?;
            }
            open = left;
        }
        Ok(())
    }

    /// Moves the users of a platform who are on an older version of a journey. Returns how many
    /// have moved: those without a place in the newer version finish on theirs.
    async fn move_all(&self, catalogue: &Catalogue, chart: &Chart) -> Result<u64, JourneyError> {
        let prefix = format!("{}/", chart.settings.platform);
        let (mut after, mut moved) = (prefix.clone(), 0u64);
        loop {
            let rows = self.states.list(USER, StateScan::After(after), MOVES_PAGE).await;
            let rows = rows.map_err(JourneyError::failed)?;
            let Some(last) = rows.last().map(|row| row.key.clone()) else { break };
            let is_last = rows.len() < MOVES_PAGE || !last.starts_with(&prefix);
            let of_platform = rows.into_iter().filter(|row| row.key.starts_with(&prefix));
            let old: Vec<StateRow> = of_platform.filter(|row| is_old(row, chart)).collect();
            for some in old.chunks(MOVED_AT_ONCE) {
                let asked: Vec<_> = some.iter().map(|row| self.move_one(row)).collect();
                for asked in asked {
                    moved += u64::from(asked.await.map_err(JourneyError::failed)??);
                }
            }
            if is_last {
                break;
            }
            after = last;
        }
        let (journey, version) = (catalogue_name(catalogue, chart), chart.version);
        tracing::info!(journey, version, moved, "users have moved to a newer version");
        Ok(moved)
    }

    fn move_one(&self, row: &StateRow) -> Completion<Result<bool, JourneyError>> {
        let (to, moved) = completion();
        let refusal = to.clone();
        let (key, of) = (row.key.clone(), desk_of(&row.key, self.desks.len()));
        let request = Box::new(Move { to, has_moved: false });
        let read = (row.key.clone(), row.record.clone());
        if self.desks[of].submit(move |desk, cx| desk.take_read(read, request, cx)).is_err() {
            tracing::debug!(user = key, "the journeys have ended");
            let _gone = refusal.complete(Err(JourneyError::failed("the journeys have ended")));
        }
        moved
    }
}

fn key(journey: &str) -> String {
    format!("{MARK}/{journey}")
}

fn catalogue_name<'a>(catalogue: &'a Catalogue, chart: &Chart) -> &'a str {
    let mut all = catalogue.journeys.iter();
    let found = all.find(|(_, known)| known.kept.number == chart.journey);
    found.map_or("?", |(name, _)| name.as_str())
}

/// Whether a user is under way on an older version. A row that cannot be read is left to the desk,
/// which says so.
fn is_old(row: &StateRow, chart: &Chart) -> bool {
    let Some(row) = row.record.bytes.as_deref().and_then(|bytes| Row::decode(bytes).ok()) else {
        return false;
    };
    let is_of = |it: &&crate::row::Pass| it.journey == chart.journey;
    row.passes.iter().filter(is_of).any(|pass| pass.version < chart.version)
}

/// The move of a user.
struct Move {
    to: Completer<Result<bool, JourneyError>>,
    has_moved: bool,
}

impl Request for Move {
    fn decide(&mut self, turn: &mut Turn<'_>) {
        turn.bring_up();
        self.has_moved = turn.is_changed;
    }

    fn is_background(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, outcome: Result<(), JourneyError>) {
        let Self { to, has_moved } = *self;
        let _gone = to.complete(outcome.map(|()| has_moved));
    }
}
