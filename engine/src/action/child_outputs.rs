//! Outputs of the plans that a step has asked for.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

use turnwheel_runtime::completion::block_on;

use super::{Action, StepContext};
use crate::error::{unanswered, ActionError, PlanError, StoreError};
use crate::id::PlanId;
use crate::limits::CHILD_OUTPUTS_PAGE;
use crate::plan::{Ids, Place};
use crate::store::read_plan;
use crate::world::{OutcomeError, PlanView, Shared};

/// The outputs of a step's sub-plans with one root action, read from the store page by page.
///
/// They come in the order in which the step has asked for the plans, of its newest round only:
/// those that [`StepContext::sub_plans`] counts. Plans of an earlier attempt that are still under
/// way are before them, unless this attempt has asked for them [by
/// key](crate::SubPlanOptions::key).
pub struct ChildOutputs<B> {
    world: Weak<Shared>,
    plans: Arc<Ids>,
    place: Place,
    action: PhantomData<fn() -> B>,
}

/// The outcome of one sub-plan.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChildOutput<T> {
    /// The plan.
    pub plan: PlanId,
    /// Its output, or why it has none: it has not ended well, is under way, or is not in the store.
    pub outcome: Result<T, OutcomeError>,
}

impl<B> fmt::Debug for ChildOutputs<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildOutputs").finish_non_exhaustive()
    }
}

impl<A: Action> StepContext<A> {
    /// The outputs of the plans of an action that this step has asked for, in their order. A call
    /// with [`Cause::SubPlans`](super::Cause::SubPlans) finds them all. Code that blocks waits for
    /// them, and
    /// `async` code awaits [`all`](ChildOutputs::all); a large fan-out reads
    /// [pages](ChildOutputs::next_page).
    ///
    /// ```
    /// use turnwheel_engine::{action, ActionError, Cause, MemoryStore, Next, StepContext, World};
    ///
    /// #[action]
    /// fn square(number: u64) -> u64 {
    ///     number * number
    /// }
    ///
    /// #[action(output = u64)]
    /// fn sum_of_squares(
    ///     numbers: &[u64],
    ///     step: &mut StepContext<SumOfSquares>,
    /// ) -> Result<Next, ActionError> {
    ///     if step.cause() == Cause::SubPlans {
    ///         step.output = step.child_outputs::<Square>().wait()?.iter().sum();
    ///         return Ok(Next::Done);
    ///     }
    ///     // Keys by position: after a failure only what has failed is done again.
    ///     step.trigger_each::<Square>("square", numbers)?;
    ///     Ok(step.wait_for_sub_plans())
    /// }
    ///
    /// let actions = World::builder().action(Square).action(SumOfSquares);
    /// let world = actions.build(MemoryStore::new())?;
    /// let sum = world.trigger::<SumOfSquares>(vec![1, 2, 3]).outcome::<SumOfSquares>().wait()?;
    /// assert_eq!(sum, 14);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn child_outputs<B: Action>(&self) -> ChildOutputs<B> {
        ChildOutputs {
            world: Weak::clone(&self.facts.world),
            plans: self.facts.asked.as_ref().map_or_else(Arc::default, |it| Arc::clone(&it.round)),
            place: Place::default(),
            action: PhantomData,
        }
    }
}

impl<B: Action> ChildOutputs<B> {
    /// Reads the next outcomes, at most [`CHILD_OUTPUTS_PAGE`]; none at the end. So a fan-out of
    /// any size takes the memory of a page.
    ///
    /// # Errors
    ///
    /// The store failed, or the world is ending.
    pub async fn next_page(&mut self) -> Result<Vec<ChildOutput<B::Output>>, ActionError> {
        let mut page = Vec::new();
        while page.is_empty() {
            let mut ids = self.plans.from(self.place);
            let wanted: Vec<PlanId> = ids.by_ref().take(CHILD_OUTPUTS_PAGE).collect();
            let place = ids.place;
            if wanted.is_empty() {
                break;
            }
            page = self.read(wanted).await?;
            self.place = place;
        }
        Ok(page)
    }

    async fn read(&self, wanted: Vec<PlanId>) -> Result<Vec<ChildOutput<B::Output>>, ActionError> {
        let world = self.world.upgrade().ok_or_else(|| {
            ActionError::new("ending", "the world ends: its store is not read any more")
        })?;
        let journal = world.journal();
        let mut wanted: VecDeque<_> =
            wanted.into_iter().map(|plan| (plan, journal.head(plan))).collect();
        let read = journal.read(move |reader| {
            let mut page = Vec::new();
            while let Some((plan, head)) = wanted.pop_front() {
                let outcome = match read_plan(reader, plan, head)? {
                    Some(read) if read.created.action != B::NAME => continue,
                    Some(read) => PlanView::of(read).outcome::<B>(),
                    None => Err(PlanError::Unknown(plan).into()),
                };
                page.push(ChildOutput { plan, outcome });
            }
            Ok(page)
        });
        let read: Result<_, StoreError> =
            read.await.map_err(|failure| StoreError::unanswered(&failure))?;
        Ok(read?)
    }

    /// The outputs of all, in their order.
    ///
    /// # Errors
    ///
    /// The store failed, or one of the plans has no output: the error is of the first one.
    pub async fn all(mut self) -> Result<Vec<B::Output>, ActionError> {
        let mut all = Vec::new();
        loop {
            let page = self.next_page().await?;
            if page.is_empty() {
                return Ok(all);
            }
            for child in page {
                all.push(child.outcome?);
            }
        }
    }

    /// As [`all`](Self::all), for code that blocks.
    ///
    /// # Errors
    ///
    /// As of `all`; on a worker of a group it is refused.
    pub fn wait(self) -> Result<Vec<B::Output>, ActionError> {
        block_on(self.all()).map_err(refused)?
    }

    /// As [`next_page`](Self::next_page), for code that blocks.
    ///
    /// # Errors
    ///
    /// As of `next_page`; on a worker of a group it is refused.
    pub fn wait_page(&mut self) -> Result<Vec<ChildOutput<B::Output>>, ActionError> {
        block_on(self.next_page()).map_err(refused)?
    }
}

fn refused(failure: turnwheel_runtime::Failure) -> ActionError {
    ActionError::new("refused", unanswered(&failure))
}
