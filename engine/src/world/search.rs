//! Finding plans: by key, by filter, and how many there are.

use turnwheel_runtime::Failure;

use super::{Asking, Opening, PlanHandle, World};
use crate::error::{PlanError, StoreError};
use crate::limits::SEARCH_PLANS;
use crate::plan::{PlanResult, PlanState, Waiting};
use crate::store::{search, Count, Filter, PlanRow, SearchPage, StoreReader, Tally};
use crate::time::Time;

/// Numbers of plans, by state, result and reason for waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    groups: Vec<Count>,
}

impl Counts {
    pub(crate) fn of(groups: Vec<Count>) -> Self {
        Self { groups }
    }

    /// Plans that are alike; groups without plans are left out.
    pub fn groups(&self) -> &[Count] {
        &self.groups
    }

    /// All plans.
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Plans in a state.
    pub fn in_state(&self, state: PlanState) -> u64 {
        self.sum(|group| group.state == state)
    }

    /// Plans with a result.
    pub fn with_result(&self, result: PlanResult) -> u64 {
        self.sum(|group| group.result == result)
    }

    /// Number of plans that wait for this; plans with [`Waiting::Nothing`] run, or are over.
    pub fn waiting(&self, waits: Waiting) -> u64 {
        self.sum(|group| group.waits == waits)
    }

    fn sum(&self, fits: impl Fn(&Count) -> bool) -> u64 {
        self.groups.iter().filter(|group| fits(group)).map(|group| group.plans).sum()
    }
}

fn lost(failure: Failure) -> StoreError {
    StoreError::unanswered(&failure)
}

impl World {
    /// Brings the rows to what is durable now, as far as the store can be written.
    pub(super) async fn caught_up(&self) -> Result<(), StoreError> {
        match self.catch_up().await {
            // Reading is possible while nothing can be written: some rows say what was before.
            Err(error @ (StoreError::Full(_) | StoreError::Failed(_))) => {
                tracing::warn!(%error, "rows stay behind their journal");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Brings the rows to what is durable now.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let journal = &self.shared.journal;
        // Rows that were outdated at the start are updated when their plans are read; this waits
        // for it. An unreadable plan gets no newer row. A world that continues no plan by itself
        // must not begin to by that.
        let behind = match self.shared.opening {
            Opening::OnRequest => Vec::new(),
            Opening::GoOn | Opening::AtRest => journal.found().await.map_err(lost)?,
        };
        let views: Vec<_> = behind.into_iter().map(|plan| self.plan(plan).view()).collect();
        let mut outcome = Ok(());
        for view in views {
            match view.await {
                Err(PlanError::Store(error @ StoreError::Failed(_))) => outcome = Err(error),
                Err(error) => tracing::debug!(%error, "a row stays behind its journal"),
                Ok(_) => {}
            }
        }
        self.write_rows().await.and(outcome)
    }

    /// Brings the rows of all plans that this world has loaded to what is durable now.
    pub(crate) async fn write_rows(&self) -> Result<(), StoreError> {
        self.shared.journal.flush().await.map_err(lost)?
    }

    /// Asks the store when its rows say everything that is durable.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn StoreReader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.caught_up().await?;
        self.shared.journal.read(question).await.map_err(lost)?
    }
}

impl World {
    /// The plan that has taken an idempotency key, if one has.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn find(&self, key: &str) -> Asking<Option<PlanHandle>, StoreError> {
        let (world, key) = (self.clone(), key.to_owned());
        Asking::new(async move {
            let found = world.shared.journal.read(move |reader| reader.by_key(&key)).await;
            let found = found.map_err(lost)??;
            Ok(found.map(|plan| world.plan(plan)))
        })
    }

    /// The plans that fit, newest first unless said otherwise, as of now. While the store takes no writes,
    /// for instance because it is full, the rows of plans that have changed last say what was before.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn list(&self, filter: Filter) -> Asking<Vec<PlanRow>, PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let mut rows = world.ask(move |reader| reader.list(&filter)).await?;
            world.name_holders(&mut rows);
            Ok(rows)
        })
    }

    /// As [`list`](Self::list), but stops when it has looked at
    /// [`SEARCH_PLANS`](crate::limits::SEARCH_PLANS), with the place at which it goes on: for
    /// conditions that few plans fit.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn search(&self, filter: Filter) -> Asking<SearchPage, PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let mut found = world.ask(move |reader| search(reader, &filter, SEARCH_PLANS)).await?;
            world.name_holders(&mut found.rows);
            Ok(found)
        })
    }

    /// Numbers of plans that were stopped in the minutes since a time, at most
    /// [`TALLY_KEPT`](crate::limits::TALLY_KEPT) ago.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn tallies(&self, from: Time) -> Asking<Vec<Tally>, PlanError> {
        let world = self.clone();
        Asking::new(async move { Ok(world.ask(move |reader| reader.tallies(from)).await?) })
    }

    /// Holders of a lock change without the plans that wait for it.
    fn name_holders(&self, rows: &mut [PlanRow]) {
        for row in rows.iter_mut().filter(|row| row.waits == Waiting::Lock) {
            let waited_for = self.shared.journal.locks().waited_for(row.id);
            row.waits_for = waited_for.unwrap_or_else(|| std::mem::take(&mut row.waits_for));
        }
    }

    /// The plans that fit, for decisions that are not taken again: an error while some rows say
    /// what was before.
    pub(crate) async fn list_now(&self, filter: Filter) -> Result<Vec<PlanRow>, PlanError> {
        self.catch_up().await?;
        let rows = self.shared.journal.read(move |reader| reader.list(&filter)).await;
        Ok(rows.map_err(lost)??)
    }

    /// Numbers of plans, as of now. Cost: a handful of rows is read, regardless of the number of
    /// plans.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn counts(&self) -> Asking<Counts, PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let groups = world.ask(|reader| reader.counts()).await?;
            Ok(Counts { groups })
        })
    }

    /// Numbers of matching plans, as of now, regardless of the filter's limit. Cost: that of
    /// listing them in the store; only the counts are kept in memory.
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn counts_of(&self, filter: Filter) -> Asking<Counts, PlanError> {
        let world = self.clone();
        Asking::new(async move {
            let groups = world.ask(move |reader| reader.counts_of(&filter)).await?;
            Ok(Counts { groups })
        })
    }
}
