//! Timers of an actor whose ticks are messages: they end with the actor, or with the activation of
//! an entity.
//!
//! A timer never overlaps itself: its next tick is armed when the last one was handled, to the end
//! of its future if it has one. So a late tick delays the next one, and no tick is doubled. For a
//! fixed rate with a policy for missed ticks: [`Context::tell_every`].

use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{self as runtime, Condition, ConditionMode, Timer, TimersFull};

use crate::actor::{Actor, ActorCell, Context, MessageFor, Turn};
use crate::call::Call;
use crate::request::{self, Baggage, Delivery};

/// When a timer of an actor ticks, and how.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_actors::Timing;
///
/// let often = Timing::every(Duration::from_secs(1)).first(Duration::ZERO);
/// let paused = Timing::every(Duration::from_secs(1)).first(Duration::MAX);
/// assert_ne!(often, paused);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Timing {
    first: Duration,
    period: Duration,
    keeps_alive: bool,
    interleaves: bool,
}

impl Timing {
    /// One tick after a delay; zero is as soon as possible, [`Duration::MAX`] not before it is
    /// changed.
    pub fn once(delay: Duration) -> Self {
        Self { first: delay, period: Duration::MAX, keeps_alive: false, interleaves: false }
    }

    /// Ticks again and again, one period after the previous tick was handled. The period must not
    /// be zero; [`Duration::MAX`] is [`Timing::once`].
    pub fn every(period: Duration) -> Self {
        Self { period, ..Self::once(period) }
    }

    setters! {
        /// The delay before the first tick, by default a period.
        first(self, delay: Duration) => self.first = delay;

        /// Ticks count as activity: an entity is not passivated as idle while its timer ticks more
        /// often than its idle time. By default a ticking timer keeps no entity active.
        keep_alive(self) => self.keeps_alive = true;

        /// A tick is handled also while futures of other handlers are under way that would let it
        /// wait ([`Admits`](crate::Admits)). By default it waits for its turn like a message. While
        /// the future of an [`AsyncHandler`](crate::AsyncHandler) has the actor, every tick waits.
        interleave(self) => self.interleaves = true;
    }
}

/// Why a timer was not armed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// It would never stop ticking.
    #[error("a timer with a period of zero: for one tick use a period of `Duration::MAX`")]
    ZeroPeriod,
    /// The group holds as many timers as it may.
    #[error(transparent)]
    Full(#[from] TimersFull),
    /// The timer was disposed of, or its actor or activation has ended.
    #[error("the timer is over: it was disposed of, or its actor has ended")]
    Over,
}

impl From<runtime::TimerError> for TimerError {
    fn from(error: runtime::TimerError) -> Self {
        match error {
            runtime::TimerError::Full(full) => Self::Full(full),
            // The only other reason.
            _ => Self::ZeroPeriod,
        }
    }
}

/// A timer of an actor. Clones are the same timer; dropping them changes nothing.
#[derive(Clone)]
pub struct ActorTimer {
    state: Arc<Mutex<TimerState>>,
    /// Ends with the last handle: a timer without handles needs no subscription for changes.
    changed: Condition,
}

debug_fields!(impl ActorTimer, self => is_over: self.is_over());

impl ActorTimer {
    /// Changes when it ticks, from any thread: next after `due`, and then with this period. The
    /// values are as in [`Timing`]; a timer that has ticked its last can so be wound up again.
    /// During a tick the change takes effect when the tick was handled.
    ///
    /// # Errors
    ///
    /// [`TimerError::ZeroPeriod`]; [`TimerError::Over`].
    pub fn change(&self, due: Duration, period: Duration) -> Result<(), TimerError> {
        if period.is_zero() {
            return Err(TimerError::ZeroPeriod);
        }
        let armed = {
            let mut state = self.state.lock();
            if state.is_over {
                return Err(TimerError::Over);
            }
            state.next = due;
            state.period = period;
            state.is_changed = true;
            state.armed.take()
        };
        armed.as_ref().map(Timer::cancel);
        self.changed.signal();
        Ok(())
    }

    /// Ends it, from any thread: no further tick falls due. Returns whether it was not over before.
    pub fn dispose(&self) -> bool {
        let (was_over, armed) = {
            let mut state = self.state.lock();
            (std::mem::replace(&mut state.is_over, true), state.armed.take())
        };
        armed.as_ref().map(Timer::cancel);
        !was_over
    }

    /// Whether it was disposed of, or its actor or activation has ended.
    pub fn is_over(&self) -> bool {
        self.state.lock().is_over
    }
}

/// State that the handles and the actor share.
#[derive(Default)]
struct TimerState {
    /// The delay before the next tick.
    next: Duration,
    period: Duration,
    /// A tick is being handled, or waits for its turn.
    is_ticking: bool,
    /// `next` was set through a handle since the tick began.
    is_changed: bool,
    is_over: bool,
    armed: Option<Timer>,
}

/// A timer in its actor: the job of each tick.
struct Ticker<A, M, K, F> {
    state: Arc<Mutex<TimerState>>,
    make: Mutex<F>,
    baggage: Option<Arc<Baggage>>,
    timing: Timing,
    /// The life of the actor that has armed it.
    incarnation: u64,
    kind: PhantomData<fn(A) -> (M, K)>,
}

/// Held by the actor's subscription: once that is gone, no handle can revive the timer.
impl<A, M, K, F> Drop for Ticker<A, M, K, F> {
    fn drop(&mut self) {
        self.state.lock().is_over = true;
    }
}

impl<A: Actor, M: MessageFor<A, K>, K: 'static, F: FnMut() -> M + Send + 'static>
    Ticker<A, M, K, F>
{
    /// Arms the timer for the next tick, if there is one.
    fn arm(self: &Arc<Self>, turn: &mut Turn<'_, A>) -> Result<(), TimersFull> {
        let delay = {
            let mut state = self.state.lock();
            state.is_changed = false;
            if state.is_over || state.next == Duration::MAX {
                return Ok(());
            }
            state.next
        };
        let ticker = Arc::clone(self);
        let timer = turn.after(delay, move |cell, turn| ticker.tick(cell, turn))?;
        let mut state = self.state.lock();
        if state.is_over || state.is_changed {
            // Changed from another thread since: its signal arms anew.
            drop(state);
            timer.cancel();
        } else {
            state.armed = Some(timer);
        }
        Ok(())
    }

    /// Handles a tick.
    fn tick(self: &Arc<Self>, cell: &mut ActorCell<A>, turn: &mut Turn<'_, A>) {
        {
            let mut state = self.state.lock();
            state.armed = None;
            state.is_over |= cell.state.incarnation() != self.incarnation;
            if state.is_over || state.is_changed || state.is_ticking {
                return;
            }
            state.is_ticking = true;
        }
        let (reply, mut receiver, _) = Call::unasked().begin::<M::Reply>();
        let run = AssertUnwindSafe(|| {
            let message = (self.make.lock())();
            let delivery = Delivery { message, baggage: self.baggage.clone(), reply: Some(reply) };
            if !self.timing.keeps_alive {
                cell.state.expect_tick();
            }
            match self.timing.interleaves && !cell.state.is_out() {
                true => cell.handle_admitted::<M, K>(delivery, turn.reborrow()),
                false => M::receive(cell, delivery, turn.reborrow()),
            }
        });
        let run = catch_unwind(run);
        if receiver.state().is_settled() {
            self.rest(turn);
        } else {
            // Its handler has a future, or waits for others.
            let ticker = Arc::clone(self);
            let handled = poll_fn(move |cx| receiver.poll(cx.waker()).map(drop));
            let is_noted = !self.timing.keeps_alive;
            if is_noted {
                cell.state.note_tick(true);
            }
            turn.await_interleaved(handled, move |cell: &mut ActorCell<A>, turn, ()| {
                if is_noted {
                    cell.state.note_tick(false);
                }
                ticker.rest(turn);
            });
        }
        if let Err(panic) = run {
            // The policy hook decides about the actor; the timer lives as long as the actor.
            resume_unwind(panic);
        }
    }

    /// A tick was handled: the next one counts from now.
    fn rest(self: &Arc<Self>, turn: &mut Turn<'_, A>) {
        {
            let mut state = self.state.lock();
            state.is_ticking = false;
            if !state.is_changed {
                state.next = state.period;
            }
        }
        self.arm_or_end(turn);
    }

    fn arm_or_end(self: &Arc<Self>, turn: &mut Turn<'_, A>) {
        if let Err(error) = self.arm(turn) {
            tracing::error!(actor = turn.name(), %error, "a timer of an actor ends");
            self.state.lock().is_over = true;
        }
    }
}

impl<A: Actor> Context<'_, A> {
    /// Handles messages of its own by a timer that can be changed and that never overlaps itself.
    /// It ends with the actor. The timer of an entity ends with its activation; arm it in
    /// [`starting`](Actor::starting).
    ///
    /// A tick is handled like a message: a failure of its handler goes to the actor's
    /// [`on_failure`](Actor::on_failure), and does not end the timer as long as the actor
    /// continues. A restart of the actor ends its timers. The request context goes along.
    ///
    /// Cost: some allocations, and two for each tick.
    ///
    /// # Errors
    ///
    /// [`TimerError::ZeroPeriod`]; [`TimerError::Full`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_actors_testkit::Stage;
    /// use turnwheel_actors::{Actor, ActorTimer, Context, Handler, TimerError, Timing};
    ///
    /// #[derive(Default)]
    /// struct Clock { ticks: u32, timer: Option<ActorTimer> }
    /// impl Actor for Clock {
    ///     type Error = TimerError;
    ///     fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), TimerError> {
    ///         self.timer = Some(cx.timer(Timing::every(Duration::from_secs(1)), || Tick)?);
    ///         Ok(())
    ///     }
    /// }
    /// struct Tick;
    /// impl Handler<Tick> for Clock {
    ///     type Reply = ();
    ///     fn handle(&mut self, _: Tick, _: &mut Context<'_, Self>) { self.ticks += 1 }
    /// }
    ///
    /// let stage = Stage::new(1);
    /// let clock = stage.spawn(Clock::default());
    /// stage.advance(Duration::from_secs(10));
    /// assert_eq!(stage.answer(clock.with(|clock, _| clock.ticks)), 10);
    /// ```
    pub fn timer<M: MessageFor<A, K>, K: 'static>(
        &mut self,
        timing: Timing,
        make: impl FnMut() -> M + Send + 'static,
    ) -> Result<ActorTimer, TimerError> {
        if timing.period.is_zero() {
            return Err(TimerError::ZeroPeriod);
        }
        let state = Arc::new(Mutex::new(TimerState {
            next: timing.first,
            period: timing.period,
            ..TimerState::default()
        }));
        let ticker = Arc::new(Ticker {
            state: Arc::clone(&state),
            make: Mutex::new(make),
            baggage: request::baggage(),
            timing,
            incarnation: self.incarnation(),
            kind: PhantomData::<fn(A) -> (M, K)>,
        });
        let turn = self.turn_mut();
        ticker.arm(turn)?;
        let changed = turn.condition(ConditionMode::Coalescing, move |_, turn| {
            let is_to_arm = {
                let state = ticker.state.lock();
                state.is_changed && !state.is_ticking
            };
            if is_to_arm {
                ticker.arm_or_end(turn);
            }
        });
        Ok(ActorTimer { state, changed })
    }
}
