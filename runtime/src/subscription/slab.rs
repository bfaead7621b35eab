//! The subscriptions of one task; only its runner touches them.

use std::collections::VecDeque;

use super::{Source, TimerState};
use crate::sync::{Arc, Ordering};
use crate::task::{Header, Phase, Turn};

/// Result of a subscription's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Finished: remove the subscription.
    Done,
    /// It stays for the next time.
    Stay,
    /// It stays and is ready again.
    More,
}

/// Kind of a subscription; decides in which phases it triggers and which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Triggers in Started.
    Timer,
    /// Triggers in Started.
    Condition,
    /// Triggers in the phase of its registration; holds Starting and Closing.
    Plain,
    /// As `Plain`; registered in Started it triggers in, and holds, CloseRequested too.
    Holding,
}

/// A subscription's job; gets its own source.
pub(crate) type Job = Box<dyn FnMut(&mut Turn, &Arc<Source>) -> Step + Send>;

/// One subscription.
pub(crate) struct Slot {
    pub(crate) source: Arc<Source>,
    pub(crate) kind: Kind,
    /// First and last phase in which its job may run.
    first: Phase,
    last: Phase,
    /// The job; taken out while it runs.
    pub(crate) job: Option<Job>,
}

debug_fields!(impl Slot, self => kind: self.kind);

impl Slot {
    /// Whether it may run in this phase.
    pub(crate) fn triggers_in(&self, phase: Phase) -> bool {
        (self.first..=self.last).contains(&phase)
    }

    /// The phase that lasts while it is there; Started lasts by itself.
    fn holds(&self) -> Option<Phase> {
        (self.last != Phase::Started).then_some(self.last)
    }

    /// Whether it is a future or a continuation.
    fn is_future(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Holding)
    }
}

/// Phases of a task.
const PHASES: usize = Phase::Failed as usize + 1;

/// All subscriptions of a task.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Subscriptions that hold each phase, counted: a task is left more often than it has
    /// subscriptions.
    holding: [u32; PHASES],
    /// Ready ones in the order in which they became ready.
    pub(crate) ready: VecDeque<Arc<Source>>,
    /// Number of the oldest ready ones that the current round has yet to visit.
    pub(crate) owed: usize,
    /// A future woken while the task was held, which has brought it back; without a mark.
    pub(crate) woken: Option<Arc<Source>>,
    /// Ready in a phase in which they may not run yet.
    pub(crate) waiting: VecDeque<Arc<Source>>,
    /// Exclusive futures; while the first is under way, nothing else runs.
    pub(crate) exclusive: VecDeque<u32>,
    /// Source of an ended subscription, kept for the next one. It holds the memory of the task, so
    /// it is dropped at the task's end.
    spare: Option<Arc<Source>>,
}

impl Subscriptions {
    /// Registers a job. In a phase in which the job could never run, the job is returned, to be
    /// dropped outside of any borrow, and the source is cut off.
    pub(crate) fn add(
        &mut self,
        header: &Header,
        kind: Kind,
        phase: Phase,
        job: Job,
    ) -> (Arc<Source>, Option<Job>) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let source = self.source(header, index);
        let (first, last) = match kind {
            Kind::Timer | Kind::Condition => (Phase::Started, Phase::Started),
            Kind::Holding if phase == Phase::Started => (phase, Phase::CloseRequested),
            Kind::Plain | Kind::Holding => (phase, phase),
        };
        // A plain continuation made while closing is requested would never be waited for.
        let is_unawaited = kind == Kind::Plain && phase == Phase::CloseRequested;
        let is_late = phase > last || phase.is_over() || is_unawaited;
        if is_late {
            source.mark.detach_owner();
            self.free.push(index);
            return (source, Some(job));
        }
        let slot = Slot { source: Arc::clone(&source), kind, first, last, job: Some(job) };
        if let Some(phase) = slot.holds() {
            self.holding[phase as usize] += 1;
        }
        self.slots[index as usize] = Some(slot);
        (source, None)
    }

    /// Returns a source; the spare one if no waker holds it.
    fn source(&mut self, header: &Header, index: u32) -> Arc<Source> {
        if let Some(mut spare) = self.spare.take() {
            if let Some(source) = Arc::get_mut(&mut spare) {
                source.renew(index);
                return spare;
            }
        }
        Source::new(header, index)
    }

    /// Keeps the source of a subscription that is over; the turn under way has done with it.
    pub(crate) fn keep(&mut self, source: Arc<Source>) -> Option<Arc<Source>> {
        debug_assert!(!source.mark.is_attached(), "one that is over");
        self.spare.replace(source)
    }

    pub(crate) fn get(&mut self, source: &Arc<Source>) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(source.index as usize)?.as_mut()?;
        Arc::ptr_eq(&slot.source, source).then_some(slot)
    }

    /// Next step for a subscription whose job panicked: a condition's signal counts as consumed, a
    /// recurring timer has been armed again, a one-shot timer is gone.
    pub(crate) fn step_after_panic(&mut self, source: &Arc<Source>) -> Step {
        match self.get(source).map(|slot| slot.kind) {
            Some(Kind::Condition) if source.count.load(Ordering::Acquire) > 0 => Step::More,
            Some(Kind::Condition) => Step::Stay,
            Some(Kind::Timer) if source.timer.get() <= TimerState::Fired => Step::Stay,
            _ => Step::Done,
        }
    }

    /// Removes one; its job is returned so that the caller drops it outside any borrow.
    #[must_use]
    pub(crate) fn remove(&mut self, source: &Arc<Source>) -> Option<Slot> {
        self.get(source)?;
        let slot = self.slots[source.index as usize].take();
        if let Some(phase) = slot.as_ref().and_then(Slot::holds) {
            self.holding[phase as usize] -= 1;
        }
        if slot.as_ref().is_some_and(|slot| slot.kind == Kind::Timer) {
            // A one-shot timer has run, or panicked: a later cancel is too late.
            source.timer.step(TimerState::Running, TimerState::Done);
        }
        source.drop_spare_owner();
        source.mark.detach_owner();
        self.free.push(source.index);
        self.exclusive.retain(|index| *index != source.index);
        slot
    }

    /// Removes everything that cannot trigger in `phase` or later.
    #[must_use]
    pub(crate) fn retire(&mut self, phase: Phase) -> Vec<Slot> {
        let late: Vec<Arc<Source>> = self
            .slots
            .iter()
            .flatten()
            .filter(|slot| phase.is_over() || phase > slot.last)
            .map(|slot| Arc::clone(&slot.source))
            .collect();
        late.iter().filter_map(|source| self.remove(source)).collect()
    }

    /// Whether something registered keeps the task in this phase.
    pub(crate) fn is_held(&self, phase: Phase) -> bool {
        self.holding[phase as usize] > 0
    }

    /// Futures and continuations that keep a task that is to close from it.
    pub(crate) fn holding(&self) -> u32 {
        self.holding[Phase::CloseRequested as usize]
    }

    /// Futures that are not done.
    pub(crate) fn futures(&self) -> usize {
        self.slots.iter().flatten().filter(|slot| slot.is_future()).count()
    }

    /// Whether a subscription is ready, without those on the stack.
    pub(crate) fn has_ready(&self) -> bool {
        self.woken.is_some() || !self.ready.is_empty()
    }

    /// The round under way visits everything that is ready now.
    pub(crate) fn owe_ready(&mut self) {
        self.owed = self.ready.len() + usize::from(self.woken.is_some());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Takes the queued sources when the task is over: they hold its memory.
    #[must_use]
    pub(crate) fn take_queued(&mut self) -> [VecDeque<Arc<Source>>; 3] {
        self.owed = 0;
        let woken = self.woken.take().into_iter().chain(self.spare.take()).collect();
        [std::mem::take(&mut self.ready), std::mem::take(&mut self.waiting), woken]
    }

    /// Makes sources ready that waited for a phase or for an exclusive future, ahead of the
    /// rest. Returns how many.
    pub(crate) fn release_waiting(&mut self) -> usize {
        if self.waiting.is_empty() {
            return 0;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let count = waiting.len();
        waiting.append(&mut self.ready);
        self.ready = waiting;
        count
    }
}
