//! The same for many plans at once.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completion, Failure};

use super::bulk_report::{BulkOutcome, BulkPlan, BulkProgress, BulkReport};
use super::{Asking, World};
use crate::connect::RequestKind;
use crate::error::{unanswered, PlanError, StoreError};
use crate::id::PlanId;
use crate::journal::Locks;
use crate::limits::{BULK_AT_ONCE, BULK_PLANS_MAX, CLEAN_PLANS};
use crate::plan::PlanState;
use crate::run::OrderKind;
use crate::store::read_plan;
use crate::store::{Filter, PlanRow, Seq, StoreReader};
use crate::time::Time;

/// Rows that are read at once.
const PAGE: usize = 256;

/// Order for each plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BulkOrder {
    /// [`PlanHandle::cancel`](crate::PlanHandle::cancel).
    Cancel,
    /// [`PlanHandle::cancel_now`](crate::PlanHandle::cancel_now).
    CancelNow,
    /// [`PlanHandle::pause`](crate::PlanHandle::pause).
    Pause,
    /// [`PlanHandle::resume`](crate::PlanHandle::resume).
    Resume,
    /// [`PlanHandle::skip_failed`](crate::PlanHandle::skip_failed).
    Skip,
    /// [`PlanHandle::retry_failed`](crate::PlanHandle::retry_failed).
    Retry,
    /// [`PlanHandle::halt`](crate::PlanHandle::halt).
    Halt,
    /// Removes the plan, its entries and its idempotency key; only one that is over, and that no plan
    /// waits for.
    Delete,
}

impl BulkOrder {
    fn kind(self) -> Option<OrderKind> {
        Some(match self {
            Self::Cancel => OrderKind::Cancel { is_forced: false },
            Self::CancelNow => OrderKind::Cancel { is_forced: true },
            Self::Pause => OrderKind::Pause,
            Self::Resume => OrderKind::Resume,
            Self::Skip => OrderKind::SkipFailed,
            Self::Retry => OrderKind::RetryFailed,
            Self::Halt => OrderKind::Halt,
            Self::Delete => return None,
        })
    }

    /// States of the plans for which it is.
    fn states(self) -> &'static [PlanState] {
        use PlanState::{Paused, Pending, Planned, Planning, Running, Scheduled, Stopped};
        match self {
            Self::Cancel | Self::CancelNow | Self::Halt => {
                &[Pending, Scheduled, Planning, Planned, Running, Paused]
            }
            Self::Pause => &[Running],
            Self::Resume | Self::Skip | Self::Retry => &[Paused],
            Self::Delete => &[Stopped],
        }
    }

    /// Why nothing would come of it, as far as the store knows.
    fn problem(
        self,
        reader: &mut dyn StoreReader,
        row: &PlanRow,
        locks: &Locks,
    ) -> Result<Option<String>, StoreError> {
        let is_over = row.state == PlanState::Stopped;
        let unless = |fits: bool, problem: &str| (!fits).then(|| problem.to_owned());
        Ok(match self {
            Self::Cancel | Self::CancelNow | Self::Halt => unless(!is_over, "it is over"),
            Self::Pause => {
                unless(row.state == PlanState::Running, "only a running plan can be paused")
            }
            Self::Resume if row.state != PlanState::Paused => {
                Some("only a paused plan can be resumed".to_owned())
            }
            // Without held locks none can block it, so the plan need not be read.
            Self::Resume if locks.is_empty() => None,
            Self::Resume => {
                let plan = read_plan(reader, row.id, None)?;
                plan.and_then(|plan| locks.check(&plan.locks, plan.id).err())
                    .map(|it| it.to_string())
            }
            Self::Delete if !is_over => Some("only a plan that is over can be deleted".to_owned()),
            Self::Delete => {
                let (key, is_unneeded) = (row.id, true);
                let (after, before) = around(key);
                let unneeded = Filter { is_unneeded, after, before, limit: 1, ..Filter::default() };
                let is_free = !reader.list(&unneeded)?.is_empty();
                unless(is_free, "the plan that asked for it is not over")
            }
            Self::Skip | Self::Retry => {
                let Some(plan) = read_plan(reader, row.id, None)? else {
                    return Ok(Some("it is gone".to_owned()));
                };
                let problem =
                    if self == Self::Skip { plan.refuses_skip() } else { plan.refuses_retry() };
                let taken = || locks.check(&plan.locks, plan.id).err();
                problem.or_else(|| taken().map(|it| it.to_string()))
            }
        })
    }
}

/// The limits between which only this plan is.
fn around(plan: PlanId) -> (Option<PlanId>, Option<PlanId>) {
    let number = u128::from_be_bytes(plan.to_bytes());
    let id = |number: u128| PlanId::from_bytes(number.to_be_bytes());
    (number.checked_sub(1).map(id), number.checked_add(1).map(id))
}

type OnProgress = Arc<dyn Fn(BulkProgress) + Send + Sync>;

/// The same for many plans; made by [`World::bulk`].
#[derive(Clone)]
#[must_use = "nothing is done before it is run"]
pub struct Bulk {
    world: World,
    filter: Filter,
    at_once: usize,
    plans_max: usize,
    only: Option<Arc<[PlanId]>>,
    on_progress: Option<OnProgress>,
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl World {
    /// The same for all plans that fit and are there when it begins. The page of the filter does not
    /// matter: its limit is that of [`Bulk::plans_max`].
    ///
    /// ```
    /// use turnwheel_engine::store::Filter;
    /// use turnwheel_engine::{BulkOrder, MemoryStore, PlanState, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// let paused = Filter { states: vec![PlanState::Paused], ..Filter::default() };
    /// let bulk = world.bulk(paused).at_once(8);
    /// let would = bulk.dry_run(BulkOrder::Resume).wait()?;
    /// assert_eq!((would.touched(), would.left()), (0, 0));
    /// let report = bulk.run(BulkOrder::Resume, "ann").wait()?;
    /// assert_eq!(report.failed(), 0);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bulk(&self, filter: Filter) -> Bulk {
        let (at_once, plans_max) = (BULK_AT_ONCE, BULK_PLANS_MAX);
        Bulk { world: self.clone(), filter, at_once, plans_max, only: None, on_progress: None }
    }
}

impl Bulk {
    /// Maximum number of plans at once, instead of [`BULK_AT_ONCE`]; at least 1.
    pub fn at_once(mut self, plans: usize) -> Self {
        self.at_once = plans.max(1);
        self
    }

    /// Maximum number of plans that are touched, instead of [`BULK_PLANS_MAX`]. The report has as
    /// many of those at most that the order is not for.
    pub fn plans_max(mut self, plans: NonZeroUsize) -> Self {
        self.plans_max = plans.get();
        self
    }

    /// Only these plans, in this order, of the matching ones. A plan that does not exist or match
    /// is left, and the report says so.
    pub fn only(mut self, plans: &[PlanId]) -> Self {
        self.only = Some(plans.into());
        self
    }

    /// Called when the outcome of a plan is known, in the order of the plans; it should be quick.
    pub fn on_progress(
        mut self,
        on_progress: impl Fn(BulkProgress) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(on_progress));
        self
    }

    /// Returns the plans that would be changed, and the others with the reason. No plan is changed.
    /// Later changes of a plan may change the answer.
    ///
    /// Cost: the rows of the plans are read, for [`Skip`](BulkOrder::Skip) and
    /// [`Retry`](BulkOrder::Retry) the plans as well, and for [`Resume`](BulkOrder::Resume) as long as any plan
    /// holds a [lock](crate::Singleton).
    ///
    /// # Errors
    ///
    /// The store failed.
    pub fn dry_run(&self, order: BulkOrder) -> Asking<BulkReport, PlanError> {
        let bulk = self.clone();
        Asking::new(async move { Ok(bulk.looked_at(order).await?.report()) })
    }

    /// Gives the order to each plan that it would change, and returns the outcomes. If the future
    /// is dropped early, the remaining plans are left unchanged.
    ///
    /// Cost: each plan is loaded, and changed in a commit that is shared with others.
    ///
    /// # Errors
    ///
    /// The list could not be read; no plan was changed. Failures of single plans are in the report.
    pub fn run(&self, order: BulkOrder, by: &str) -> Asking<BulkReport, PlanError> {
        let (bulk, by) = (self.clone(), by.to_owned());
        Asking::new(async move {
            let mut found = bulk.looked_at(order).await?;
            match order.kind() {
                Some(kind) => bulk.send(&mut found, &kind, &by).await,
                None => bulk.delete(&mut found).await,
            }
            Ok(found.report())
        })
    }

    /// The plans that fit, and what would become of each.
    async fn looked_at(&self, order: BulkOrder) -> Result<Found, StoreError> {
        let now = Time(self.world.shared.now().0.saturating_add(1));
        let mut page = Filter { limit: PAGE, ..self.filter.clone() };
        page.created_before = Some(page.created_before.map_or(now, |before| before.min(now)));
        let mut found = Found::default();
        let locks = Arc::clone(self.world.shared.journal.locks());
        if let Some(only) = self.only.clone() {
            page.limit = 1;
            found.has_more = only.len() > self.plans_max;
            for ids in only[..only.len().min(self.plans_max)].chunks(PAGE) {
                let (ids, page, locks) = (ids.to_vec(), page.clone(), Arc::clone(&locks));
                let question =
                    move |reader: &mut dyn StoreReader| named(reader, &ids, &page, order, &locks);
                found.plans.extend(self.world.ask(question).await?);
            }
            return Ok(found);
        }
        let (mut touched, mut left) = (0, 0);
        loop {
            let (asked, locks) = (page.clone(), Arc::clone(&locks));
            let question =
                move |reader: &mut dyn StoreReader| looked_at(reader, &asked, order, &locks);
            let plans = self.world.ask(question).await?;
            let is_last = plans.len() < PAGE;
            if let Some((last, _)) = plans.last() {
                page = page.next_page(last.plan);
            }
            for plan in plans {
                let fits = matches!(plan.0.outcome, BulkOutcome::Would);
                let count = if fits { &mut touched } else { &mut left };
                if *count < self.plans_max {
                    *count += 1;
                    found.plans.push(plan);
                } else if fits {
                    found.has_more = true;
                    return Ok(found);
                }
            }
            if left >= self.plans_max && page.states.is_empty() {
                // Enough is said of those that it is not for, such as thousands that are over.
                page.states = order.states().to_vec();
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Sends an order to each plan, so many at once.
    async fn send(&self, found: &mut Found, kind: &OrderKind, by: &str) {
        let total = found.plans.len();
        let mut under_way: VecDeque<(usize, Option<Completion<Answer>>)> = VecDeque::new();
        for next in 0..=total {
            while under_way.len() >= self.at_once || (next == total && !under_way.is_empty()) {
                let Some((index, answer)) = under_way.pop_front() else { break };
                if let Some(answer) = answer {
                    let plan = found.plans[index].0.plan;
                    found.plans[index].0.outcome = outcome(plan, answer.await);
                }
                self.progress(index + 1, total);
            }
            let Some((plan, _)) = found.plans.get(next) else { break };
            let would = matches!(plan.outcome, BulkOutcome::Would);
            let handle = self.world.plan(plan.plan);
            under_way.push_back((next, would.then(|| handle.order(kind.clone(), by))));
        }
    }

    /// Removes plans, a slice at a time.
    async fn delete(&self, found: &mut Found) {
        let total = found.plans.len();
        let mut done = 0;
        for slice in found.plans.chunks_mut(CLEAN_PLANS) {
            let would = |plan: &&(BulkPlan, Seq)| matches!(plan.0.outcome, BulkOutcome::Would);
            let heads: Vec<_> =
                slice.iter().filter(would).map(|(plan, head)| (plan.plan, *head)).collect();
            let mut kept = self.remove(heads).await;
            for (plan, _) in slice {
                if matches!(plan.outcome, BulkOutcome::Would) {
                    plan.outcome = match &mut kept {
                        Ok(kept) => kept.remove(&plan.plan).unwrap_or(BulkOutcome::Done),
                        Err(error) => BulkOutcome::Failed(error.clone().into()),
                    };
                }
                done += 1;
                self.progress(done, total);
            }
        }
    }

    /// Removes plans here, and has their owners remove those of other worlds. Returns those that
    /// are still there, with the reason.
    async fn remove(
        &self,
        heads: Vec<(PlanId, Seq)>,
    ) -> Result<HashMap<PlanId, BulkOutcome>, StoreError> {
        let ids: Vec<PlanId> = heads.iter().map(|(plan, _)| *plan).collect();
        let (own, others): (Vec<_>, Vec<_>) =
            heads.into_iter().partition(|(plan, _)| self.world.shared.owns(*plan));
        let asked: Vec<_> = others.into_iter().map(|it| (it.0, self.ask_to_remove(it))).collect();
        let (mut refused, here) = (HashMap::new(), own.clone());
        let removed = self.world.shared.journal.remove(own).await;
        if let Err(error) = removed.unwrap_or_else(|lost| Err(StoreError::unanswered(&lost))) {
            let failed = |(plan, _)| (plan, BulkOutcome::Failed(error.clone().into()));
            refused.extend(here.into_iter().map(failed));
        }
        for (plan, asked) in asked {
            let outcome = outcome(plan, asked.await);
            if !matches!(outcome, BulkOutcome::Done) {
                refused.insert(plan, outcome);
            }
        }
        let left = self.world.ask(move |reader| still_there(reader, &ids)).await?;
        let kept = left.into_iter().map(|plan| {
            let why = || "something has happened to it meanwhile".to_owned();
            let why = refused.remove(&plan).unwrap_or_else(|| BulkOutcome::Left { why: why() });
            (plan, why)
        });
        Ok(kept.collect())
    }

    /// Has another world remove its plan.
    fn ask_to_remove(&self, (plan, head): (PlanId, Seq)) -> Completion<Answer> {
        let (reply, done) = completion();
        self.world.shared.ask_elsewhere(plan, RequestKind::Remove { plan, head }, reply);
        done
    }

    fn progress(&self, done: usize, total: usize) {
        if let Some(on_progress) = &self.on_progress {
            on_progress(BulkProgress { done, total });
        }
    }
}

type Answer = Result<(), PlanError>;

/// Plans that fit, with their newest entries.
#[derive(Default)]
struct Found {
    plans: Vec<(BulkPlan, Seq)>,
    has_more: bool,
}

impl Found {
    fn report(self) -> BulkReport {
        let plans = self.plans.into_iter().map(|(plan, _)| plan).collect();
        BulkReport { plans, has_more: self.has_more }
    }
}

fn looked_at(
    reader: &mut dyn StoreReader,
    page: &Filter,
    order: BulkOrder,
    locks: &Locks,
) -> Result<Vec<(BulkPlan, Seq)>, StoreError> {
    let mut plans = Vec::new();
    for row in reader.list(page)? {
        let outcome = match order.problem(reader, &row, locks) {
            Ok(None) => BulkOutcome::Would,
            Ok(Some(why)) => BulkOutcome::Left { why },
            // One plan that cannot be read does not keep the others from it.
            Err(error @ (StoreError::Corrupt(_) | StoreError::Undecodable { .. })) => {
                BulkOutcome::Failed(error.into())
            }
            Err(error) => return Err(error),
        };
        plans.push((BulkPlan { plan: row.id, label: row.label.to_string(), outcome }, row.head));
    }
    Ok(plans)
}

/// As `looked_at`, for plans by their ids.
fn named(
    reader: &mut dyn StoreReader,
    ids: &[PlanId],
    filter: &Filter,
    order: BulkOrder,
    locks: &Locks,
) -> Result<Vec<(BulkPlan, Seq)>, StoreError> {
    let mut plans = Vec::with_capacity(ids.len());
    for id in ids {
        let (after, before) = around(*id);
        let one = Filter { after, before, ..filter.clone() };
        match looked_at(reader, &one, order, locks)?.pop() {
            Some(found) => plans.push(found),
            None => {
                let outcome =
                    BulkOutcome::Left { why: "there is no such plan that fits".to_owned() };
                let missing = BulkPlan { plan: *id, label: String::new(), outcome };
                plans.push((missing, Seq::default()));
            }
        }
    }
    Ok(plans)
}

fn still_there(reader: &mut dyn StoreReader, ids: &[PlanId]) -> Result<Vec<PlanId>, StoreError> {
    let mut left = Vec::new();
    for id in ids {
        let (after, before) = around(*id);
        let one = Filter { after, before, limit: 1, ..Filter::default() };
        left.extend(reader.list(&one)?.into_iter().map(|row| row.id));
    }
    Ok(left)
}

fn outcome(plan: PlanId, answer: Result<Answer, Failure>) -> BulkOutcome {
    match answer {
        Ok(Ok(())) => BulkOutcome::Done,
        Ok(Err(PlanError::State { problem, .. })) => BulkOutcome::Left { why: problem },
        Ok(Err(error)) => BulkOutcome::Failed(error),
        Err(failure) => {
            BulkOutcome::Failed(PlanError::Refused { plan, problem: unanswered(&failure) })
        }
    }
}
