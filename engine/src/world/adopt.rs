//! A world goes on with plans of slots that it has got.
//!
//! Due plans run first. Plans that wait are known by their rows, and are read when they are due or
//! asked for.

use turnwheel_runtime::Failure;

use super::{Opening, World};
use crate::connect::Word;
use crate::error::StoreError;
use crate::id::PlanId;
use crate::plan::PlanState;
use crate::run;
use crate::store::{Slots, StoreReader};
use crate::time::Time;

/// Plans that are read at once: a plan that becomes due meanwhile waits for one page.
const PAGE: usize = 256;

impl World {
    /// Goes on with the plans of slots that this world owns since a change: those that are due
    /// first, then those that were doing something, then it knows when the others are due.
    pub(crate) async fn adopt(&self, gained: Slots) -> Result<(), StoreError> {
        let shared = self.shared();
        if shared.opening() == Opening::GoOn {
            if gained.is_empty() {
                return Ok(());
            }
            // They may be due, and their launches wait for nothing.
            self.restore_schedules().await?;
            let now = shared.now();
            self.set_wakes(&gained, now).await?;
            self.renew_rows(&gained).await?;
            self.each_busy(gained, |plan| self.wake(plan)).await?;
            shared.wakes().learn(shared, gained).await?;
        }
        self.restore_schedules().await
    }

    /// Makes rows anew that are behind: they do not say which plans are due. Due ones are woken,
    /// busy ones after all pages, and the others stay in the store.
    async fn renew_rows(&self, gained: &Slots) -> Result<(), StoreError> {
        let (shared, mut busy) = (self.shared(), Vec::new());
        let journal = shared.journal();
        for page in journal.behind_in(gained).chunks(PAGE) {
            let plans = page.to_vec();
            let found = journal.read(move |reader| reader.load_many(&plans)).await;
            let found = found.map_err(|failure: Failure| StoreError::unanswered(&failure))??;
            let (mut rows, now) = (Vec::with_capacity(page.len()), shared.now());
            for ((plan, _), found) in page.iter().zip(found) {
                let row = found.and_then(|found| match found {
                    Some(loaded) => run::stored_row(*plan, &loaded),
                    None => Ok(None),
                });
                match row {
                    Ok(Some(row)) if row.wakes_at.is_some_and(|at| at <= now) => self.wake(*plan),
                    Ok(Some(row)) => {
                        // The end of a plan may not have been told.
                        let waits = [PlanState::Running, PlanState::Paused, PlanState::Scheduled];
                        if row.is_busy || !waits.contains(&row.state) {
                            busy.push(*plan);
                        }
                        rows.push(row);
                    }
                    Ok(None) => {}
                    // Its actor says what is to be done about it.
                    Err(_damaged) => self.wake(*plan),
                }
            }
            let wakes = shared.wakes().clone();
            journal.renew(rows, move |row| {
                row.wakes_at.into_iter().for_each(|at| wakes.set(row.id, at));
            });
        }
        busy.into_iter().for_each(|plan| self.wake(plan));
        Ok(())
    }

    /// A world has gone: plans of this one that wait for plans ask for them again, since what it
    /// was about to tell them is lost. Those of slots that were gained with it were woken.
    pub(crate) async fn ask_for_plans_again(&self, gained: Slots) -> Result<(), StoreError> {
        let shared = self.shared();
        if shared.opening() != Opening::GoOn {
            return Ok(());
        }
        self.each_busy(self.own_slots().without(&gained), |plan| {
            if let Err(problem) = shared.say(plan, Word::AskAgain) {
                tracing::debug!(%plan, problem, "a plan is told again later");
                shared.ask_again_later(plan);
            }
        })
        .await
    }

    fn wake(&self, plan: PlanId) {
        let shared = self.shared();
        if !shared.owns(plan) {
            return;
        }
        if let Err(problem) = shared.say(plan, Word::Wake) {
            tracing::debug!(%plan, problem, "a plan is told again later");
            shared.wakes().set(plan, shared.now().after(run::AGAIN));
        }
    }

    /// Does something to each plan of these slots that was doing something, and is still of this
    /// world.
    async fn each_busy(&self, slots: Slots, to: impl Fn(PlanId)) -> Result<(), StoreError> {
        let (shared, mut from) = (self.shared(), None);
        loop {
            let read = move |reader: &mut dyn StoreReader| reader.busy_in(&slots, from, PAGE);
            let page = shared.journal().read(read).await;
            let page = page.map_err(|failure: Failure| StoreError::unanswered(&failure))??;
            page.iter().copied().filter(|plan| shared.owns(*plan)).for_each(&to);
            from = page.last().copied();
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Knows which plans of these slots are due before a time.
    async fn set_wakes(&self, slots: &Slots, until: Time) -> Result<(), StoreError> {
        let (shared, slots) = (self.shared(), *slots);
        let read = move |reader: &mut dyn StoreReader| reader.wakes_in(&slots, until, usize::MAX);
        let due = shared.journal().read(read).await;
        for (at, plan) in due.map_err(|failure: Failure| StoreError::unanswered(&failure))?? {
            if shared.owns(plan) {
                shared.wakes().set(plan, at);
            }
        }
        Ok(())
    }
}
