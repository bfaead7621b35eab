//! Queues as their users describe and see them.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::action::DEFAULT_QUEUE;
use crate::error::{BuildError, TextTooLong};
use crate::limits::{DEFAULT_QUEUE_SIZE, NAME_BYTES_MAX, RATE_MAX};

/// A queue: limits of concurrent steps, and of begins in a time.
///
/// Every world has the queue `default`, in which only code that blocks a thread counts and
/// [`DEFAULT_QUEUE_SIZE`] steps run at once; describe it to have it otherwise. Steps that wait for a
/// place are taken by priority; plans of one priority take turns, and the steps of a plan go in their
/// order.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::{MemoryStore, Queue, World};
///
/// let slow = Queue::new("slow").size(5).rate(100, Duration::from_secs(60));
/// let world = World::builder().queue(slow).build(MemoryStore::new())?;
/// let status = world.queues();
/// assert_eq!(status.len(), 2);
/// assert_eq!((status[1].name.as_str(), status[1].size, status[1].free()), ("slow", 5, 5));
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Queue {
    pub(crate) name: String,
    pub(crate) size: u32,
    pub(crate) rate: Option<(u32, Duration)>,
    pub(crate) is_only_blocking: bool,
}

impl Queue {
    /// A queue of [`DEFAULT_QUEUE_SIZE`] places.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { name, size: DEFAULT_QUEUE_SIZE, rate: None, is_only_blocking: false }
    }

    /// The queue that is there if nothing is said.
    pub(crate) fn usual() -> Self {
        Self::new(DEFAULT_QUEUE).only_blocking()
    }

    /// Maximum number of steps that run their code at once, at least 1.
    ///
    /// Blocking code runs on the threads of the world's group, at most 128 in all: beyond that,
    /// steps with a place wait for a thread.
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    /// At most `count` calls of code begin within any span of this length, counted anew after a
    /// restart. Cost: 8 bytes for each of them.
    pub fn rate(mut self, count: u32, span: Duration) -> Self {
        self.rate = Some((count, span));
        self
    }

    /// Code that does not block a thread needs no place here. Without it every call needs one.
    pub fn only_blocking(mut self) -> Self {
        self.is_only_blocking = true;
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        TextTooLong::check("name of a queue", &self.name, NAME_BYTES_MAX)?;
        let problem = if self.name.is_empty() {
            "its name is empty"
        } else if NonZeroU32::new(self.size).is_none() {
            "its size is 0, so nothing would ever run in it"
        } else if self.rate.is_some_and(|(count, span)| count == 0 || span.is_zero()) {
            "its rate needs a count and a span above 0"
        } else if self.rate.is_some_and(|(count, _)| count > RATE_MAX) {
            "its rate counts too many: 100,000 are the limit, use a shorter span"
        } else {
            return Ok(());
        };
        let (name, problem) = (self.name.clone(), problem.to_owned());
        Err(BuildError::Queue { name, problem })
    }
}

/// State of a queue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// Maximum number of its steps that run their code at once.
    pub size: u32,
    /// Number of steps with a place.
    pub running: u32,
    /// Number of waiting steps.
    pub waiting: u32,
    /// The same of the plan that was asked for.
    pub of_plan: Option<PlanShare>,
}

/// A plan's share of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PlanShare {
    /// Number of its steps with a place.
    pub running: u32,
    /// Number of its waiting steps.
    pub waiting: u32,
}

impl QueueStatus {
    /// Places that nobody has.
    pub fn free(&self) -> u32 {
        self.size.saturating_sub(self.running)
    }
}
