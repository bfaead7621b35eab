//! Removes plans that are long over.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use turnwheel_runtime::Failure;

use super::{Asking, World};
use crate::error::StoreError;
use crate::id::PlanId;
use crate::journal::decode;
use crate::limits::CLEAN_PLANS;
use crate::plan::{PlanResult, PlanState, Record};
use crate::store::{Filter, PlanRow, Seq, StoreReader};
use crate::time::Time;

/// Stopped plans to remove, and their export.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::{MemoryStore, PlanResult, Retention, World};
///
/// let folder = tempfile::tempdir()?;
/// let world = World::builder().build(MemoryStore::new())?;
/// let month = Duration::from_secs(30 * 24 * 3600);
/// let retention = Retention::older_than(month)
///     .results([PlanResult::Success])
///     .export(folder.path().join("old-plans.jsonl"));
/// let cleaned = world.clean(retention).wait()?;
/// assert_eq!(cleaned.plans, 0);
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Retention {
    age: Duration,
    label: Option<String>,
    labels: Vec<(String, Option<String>)>,
    results: Vec<PlanResult>,
    export: Option<Export>,
    pause: Duration,
}

/// Export of plans before their removal.
#[derive(Clone, Debug)]
enum Export {
    /// All to this file.
    File(PathBuf),
    /// To a file of each day in this folder.
    Folder(PathBuf),
}

impl Export {
    /// The file for what is removed at a time.
    fn file(&self, at: Time) -> PathBuf {
        match self {
            Self::File(file) => file.clone(),
            Self::Folder(folder) => {
                let at = at.to_string();
                let day = at.split_once('T').map_or(&*at, |(day, _)| day);
                folder.join(format!("plans-{day}.jsonl"))
            }
        }
    }
}

impl Retention {
    /// Plans that were stopped longer ago than this, whatever their result and label, without an export.
    pub fn older_than(age: Duration) -> Self {
        let (labels, results, pause) = (Vec::new(), Vec::new(), Duration::ZERO);
        Self { age, label: None, labels, results, export: None, pause }
    }

    /// Only plans that are called so.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Only plans that have this label with this value; all that are said.
    pub fn having(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), Some(value.into())));
        self
    }

    /// Only plans with one of these results.
    pub fn results(mut self, results: impl IntoIterator<Item = PlanResult>) -> Self {
        self.results = results.into_iter().collect();
        self
    }

    /// Appends each plan to this file before it is removed: a line of JSON for each, with all its records. They
    /// are whole: nothing is [masked](crate::Action::present) in them, and what a [codec](crate::Codec) has
    /// encoded is plain.
    pub fn export(mut self, file: impl Into<PathBuf>) -> Self {
        self.export = Some(Export::File(file.into()));
        self
    }

    /// The same to a folder, which is made if it is not there: a file for each day on which plans are
    /// removed, `plans-2026-11-21.jsonl`.
    pub fn export_to(mut self, folder: impl Into<PathBuf>) -> Self {
        self.export = Some(Export::Folder(folder.into()));
        self
    }

    /// Pause between two slices, so that others can use the store.
    pub(super) fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    pub(super) fn age(&self) -> Duration {
        self.age
    }

    pub(super) fn export_place(&self) -> Option<PathBuf> {
        self.export.as_ref().map(|export| match export {
            Export::File(place) | Export::Folder(place) => place.clone(),
        })
    }
}

/// Counts of removed plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// Plans that were removed, with their entries and keys.
    pub plans: u64,
    /// Plans that fit and were kept: they cannot be read, so that there is nothing to export.
    pub kept: u64,
}

/// Cleaning ended early. Plans removed before are exported and gone, the rest is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    /// The file of the export.
    #[error("the export to {file}: {error}")]
    Export {
        /// Its name.
        file: String,
        /// The error.
        error: io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A plan as it is exported.
#[derive(Serialize)]
struct Exported<'a> {
    plan: PlanId,
    label: &'a str,
    labels: &'a BTreeMap<String, String>,
    state: &'static str,
    result: &'static str,
    created_at_us: u64,
    ended_at_us: Option<u64>,
    records: Vec<Record>,
}

impl World {
    /// Removes plans that are long over, a slice at a time, so that others are not kept waiting. The
    /// idempotency keys of these plans are free again.
    ///
    /// A plan that was triggered by another one stays as long as that is not stopped. Cost: a commit, and
    /// with an export a sync of its file, for each [`CLEAN_PLANS`](crate::limits::CLEAN_PLANS) plans.
    ///
    /// # Errors
    ///
    /// The store failed, or the export could not be written.
    pub fn clean(&self, retention: Retention) -> Asking<Cleaned, CleanError> {
        let world = self.clone();
        Asking::new(async move { world.clean_all(retention).await })
    }

    async fn clean_all(&self, retention: Retention) -> Result<Cleaned, CleanError> {
        let lost = |failure: Failure| StoreError::unanswered(&failure);
        let journal = &self.shared.journal;
        self.caught_up().await?;
        let age = u64::try_from(retention.age.as_micros()).unwrap_or(u64::MAX);
        let mut filter = Filter {
            states: vec![PlanState::Stopped],
            results: retention.results,
            label: retention.label,
            labels: retention.labels,
            ended_before: Some(Time(self.shared.now().0.saturating_sub(age))),
            is_unneeded: true,
            limit: CLEAN_PLANS,
            ..Filter::default()
        };
        if let Some(Export::Folder(folder)) = &retention.export {
            std::fs::create_dir_all(folder).map_err(|error| CleanError::Export {
                file: folder.display().to_string(),
                error,
            })?;
        }
        let mut cleaned = Cleaned::default();
        loop {
            let now = self.shared.now();
            let export = retention.export.as_ref().map(|export| export.file(now));
            let page = filter.clone();
            let slice = journal.read(move |reader| slice(reader, &page, export.as_deref()));
            let Slice { rows, plans, last } = slice.await.map_err(lost)??;
            cleaned.kept += (rows - plans.len()) as u64;
            cleaned.plans += journal.remove(plans).await.map_err(lost)?? as u64;
            if rows < CLEAN_PLANS {
                return Ok(cleaned);
            }
            filter.before = last;
            if !retention.pause.is_zero() {
                let _slept = self.shared.group.sleep(retention.pause).await;
                if self.shared.is_ending() {
                    return Ok(cleaned);
                }
            }
        }
    }
}

/// Plans that may be removed: their exports are durable.
struct Slice {
    rows: usize,
    plans: Vec<(PlanId, Seq)>,
    last: Option<PlanId>,
}

fn slice(
    reader: &mut dyn StoreReader,
    filter: &Filter,
    export: Option<&Path>,
) -> Result<Slice, CleanError> {
    let rows = reader.list(filter)?;
    let last = rows.last().map(|row| row.id);
    let mut plans = Vec::with_capacity(rows.len());
    let mut lines = Vec::new();
    // Busy plans wait for their hooks first: the consequences of hooks are still to be written.
    for row in rows.iter().filter(|row| !row.is_busy) {
        if export.is_some() {
            match line(reader, row) {
                Ok(line) => lines.extend(line),
                Err(problem @ (StoreError::Corrupt(_) | StoreError::Undecodable { .. })) => {
                    tracing::warn!(plan = %row.id, %problem, "a plan is kept: it cannot be exported");
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        }
        plans.push((row.id, row.head));
    }
    if let (Some(file), false) = (export, lines.is_empty()) {
        let written = append(file, &lines);
        written.map_err(|error| CleanError::Export { file: file.display().to_string(), error })?;
    }
    Ok(Slice { rows: rows.len(), plans, last })
}

fn append(file: &Path, lines: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file: File = options.open(file)?;
    file.write_all(lines)?;
    file.sync_data()
}

fn line(reader: &mut dyn StoreReader, row: &PlanRow) -> Result<Vec<u8>, StoreError> {
    let mut records = Vec::new();
    for (_, entry) in reader.history(row.id, row.head)? {
        records.extend(decode(row.id, &entry)?);
    }
    let exported = Exported {
        plan: row.id,
        label: &row.label,
        labels: &row.labels,
        state: row.state.name(),
        result: row.result.name(),
        created_at_us: row.created_at.0,
        ended_at_us: row.ended_at.map(|at| at.0),
        records,
    };
    let mut line = serde_json::to_vec(&exported)
        .map_err(|error| StoreError::Failed(format!("plan {}: {error}", row.id)))?;
    line.push(b'\n');
    Ok(line)
}
