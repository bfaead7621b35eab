//! Waiting for a future by running the simulation.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::drive::Step;
use super::quiet::Quiescence;
use super::state::Sim;
use crate::completion::Completion;
use crate::failure::Failure;
use crate::sync::{Arc, AtomicBool, Ordering};

/// A future did not end although nothing was left to do at the present time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulation is idle and the future is not done; {left}")]
#[non_exhaustive]
pub struct Stuck {
    /// The work that is left, and why it does not run.
    pub left: Quiescence,
}

#[derive(Debug)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Sim {
    /// Runs the simulation until the completion is done, at the present time.
    ///
    /// ```
    /// use turnwheel_runtime::sim::Sim;
    /// let sim = Sim::new(1);
    /// let task = sim.group("cpu").spawn(20)?;
    /// assert_eq!(sim.wait(task.call(|state, _| *state + 1))?, 21);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The completion's failure; or [`Stuck`] as a [`Failure::Error`] if everything is idle before.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn wait<T>(&self, completion: Completion<T>) -> Result<T, Failure> {
        self.block_on(completion).unwrap_or_else(|stuck| Err(Failure::error(stuck)))
    }

    /// As [`Sim::wait`], and lets up to `limit` of virtual time pass for it.
    ///
    /// # Errors
    ///
    /// The completion's failure; [`Stuck`] as a [`Failure::Error`] if nothing is left to do; or
    /// [`Failure::TimedOut`].
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn wait_for<T>(&self, completion: Completion<T>, limit: Duration) -> Result<T, Failure> {
        let mut future = pin!(completion);
        let end_ns = self.state.common.clock.deadline_after(limit);
        loop {
            let stuck = match self.block_on(future.as_mut()) {
                Ok(answer) => return answer,
                Err(stuck) => stuck,
            };
            match self.state.next_deadline_ns() {
                Some(next_ns) if next_ns <= end_ns => self.state.move_to(next_ns),
                Some(_) => {
                    self.state.move_to(end_ns);
                    return Err(Failure::TimedOut(limit));
                }
                None => return Err(Failure::error(stuck)),
            }
        }
    }

    /// Runs the simulation until the future is done, without moving the time.
    ///
    /// # Errors
    ///
    /// [`Stuck`] if the simulation is idle before: the future needs a later time (see
    /// [`Sim::advance`]), another thread, or an event that never happens.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Stuck> {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut steps = 0;
        loop {
            // Acquire: pairs with the store in `wake`.
            if woken.0.swap(false, Ordering::Acquire) {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(value) = polled {
                    return Ok(value);
                }
                continue;
            }
            if self.state.step() == Step::Idle && !woken.0.load(Ordering::Acquire) {
                return Err(Stuck { left: self.quiescence() });
            }
            steps += 1;
            assert!(
                steps < self.state.config.turns_max,
                "the future is not done after {steps} steps; \
                 `SimBuilder::turns_max` moves the limit"
            );
        }
    }
}
