//! Delivery of outcomes: a job in the group of the plans tells all plans of a commit.
//!
//! The writer hands the outcomes of a commit over as one job and goes on with the next commit. So a
//! commit wakes the threads of the plans once, not once for each entry.

use std::fmt;

use turnwheel_runtime::{Context, Group, Mailbox, SpawnError, Task, TaskJob};

use super::{EntryOutcome, EntryTicket};

/// Commits on their way to one world, at most; the writer itself tells the plans of others.
const MAILBOX: u64 = 1 << 10;

/// Tells the plans of one world what became of their entries.
#[derive(Clone)]
pub(crate) struct Delivery {
    task: Task<()>,
    /// The number of the world.
    world: u64,
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("world", &self.world).finish_non_exhaustive()
    }
}

impl Delivery {
    /// For the plans of a world, which run in this group.
    pub(crate) fn start(group: &Group, world: u64) -> Result<Self, String> {
        let task = group.task(()).name("plan-outcomes").mailbox(Mailbox::bounded(MAILBOX - 1));
        let task = task.spawn().map_err(|error: SpawnError<_>| error.to_string())?;
        Ok(Self { task, world })
    }

    fn send(&self, outcomes: Outcomes) {
        if let Err(error) = self.task.submit_job(outcomes) {
            // The world is ending, or its threads are far behind.
            error.job.tell();
        }
    }
}

/// Outcomes of entries, with the tickets that they are for.
struct Outcomes(Vec<(EntryTicket, EntryOutcome)>);

impl Outcomes {
    fn tell(self) {
        self.0.into_iter().for_each(|(mut ticket, outcome)| ticket(outcome));
    }
}

impl TaskJob<()> for Outcomes {
    fn run(self, (): &mut (), _: &mut Context<'_, ()>) {
        self.tell();
    }
}

/// Delivers outcomes in their order, those of one world together.
pub(super) fn deliver(
    outcomes: impl ExactSizeIterator<Item = ((EntryTicket, Delivery), EntryOutcome)>,
) {
    let mut rest = outcomes.len();
    let mut open: Option<(Delivery, Outcomes)> = None;
    for ((ticket, delivery), outcome) in outcomes {
        if open.as_ref().is_some_and(|(to, _)| to.world != delivery.world) {
            open.take().into_iter().for_each(|(to, outcomes)| to.send(outcomes));
        }
        let (_, together) = open.get_or_insert((delivery, Outcomes(Vec::new())));
        if together.0.is_empty() {
            together.0.reserve(rest);
        }
        together.0.push((ticket, outcome));
        rest -= 1;
    }
    open.into_iter().for_each(|(to, outcomes)| to.send(outcomes));
}
