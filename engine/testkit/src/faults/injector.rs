//! Counts reads, writes and timers of a run, and makes the trouble that begins at them.

use std::task::Waker;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use turnwheel_engine::StoreError;
use turnwheel_runtime::time::{Clock, ManualClock};

use super::life::Counts;
use super::point::{FaultPoint, Moment, Trouble};
use crate::fault_store::{Injector as Injects, Op};

/// How long a store fails that does so for a while.
const WHILE: Duration = Duration::from_secs(60);

/// How long a slow answer takes.
const SLOW: Duration = Duration::from_secs(5);

/// How far a clock is off, and for how long.
const OFF: Duration = Duration::from_secs(3_600);
const OFF_FOR: Duration = Duration::from_secs(4);

/// How long a world needs at most to follow a clock, once that is wrong or right.
const DOUBT: Duration = Duration::from_secs(120);

/// Why a life is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// At once, without a word.
    Killed,
    /// In order.
    Shutdown,
    /// Another world begins first.
    TakenOver,
    /// After a while: the store does not answer any more.
    Doomed,
}

#[derive(Debug)]
pub(super) struct Injector(Mutex<State>);

#[derive(Debug)]
struct State {
    clock: ManualClock,
    counts: Counts,
    points: Vec<FaultPoint>,
    stop: Option<Stop>,
    /// Wakes the life when it is to end.
    waker: Option<Waker>,
    /// Whether nothing is read or written any more, in this life.
    is_dead: bool,
    /// The operation that fails, and until when.
    fails: Option<(Trouble, u64)>,
    loses_answer: bool,
    /// When the clock is set right, and by how much.
    clock_off: Option<(u64, Trouble)>,
    /// Until when a world may not have followed the clock.
    doubt: u64,
}

fn failed(text: &str) -> StoreError {
    StoreError::Failed(format!("chosen to fail: {text}"))
}

impl Injector {
    pub(super) fn new(points: &[FaultPoint], clock: ManualClock) -> Self {
        Self(Mutex::new(State {
            clock,
            counts: Counts::default(),
            points: points.to_vec(),
            stop: None,
            waker: None,
            is_dead: false,
            fails: None,
            loses_answer: false,
            clock_off: None,
            doubt: 0,
        }))
    }

    /// Another life begins, and all is well.
    pub(super) fn begin_life(&self, clock: ManualClock) {
        let mut state = self.0.lock();
        (state.clock, state.stop, state.waker) = (clock, None, None);
        (state.is_dead, state.fails, state.loses_answer) = (false, None, false);
        (state.clock_off, state.doubt) = (None, 0);
    }

    /// Whether the life may end with due times by a wrong clock.
    pub(super) fn is_in_doubt(&self) -> bool {
        let state = self.0.lock();
        // A store that fails for ever takes no moved times either.
        let is_doomed = state.stop == Some(Stop::Doomed);
        state.doubt > if is_doomed { 0 } else { state.clock.now_ns() }
    }

    pub(super) fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// Why the life is to end, if it is; else its waker is kept.
    pub(super) fn stop(&self, waker: &Waker) -> Option<Stop> {
        let mut state = self.0.lock();
        if state.stop.is_none() {
            state.waker = Some(waker.clone());
        }
        state.stop
    }

    pub(super) fn stopped(&self) -> Option<Stop> {
        self.0.lock().stop
    }

    /// When the store answers again, if it fails for a while.
    pub(super) fn well_again(&self) -> Option<Duration> {
        let state = self.0.lock();
        let (_, until) = state.fails.filter(|(_, until)| *until != u64::MAX)?;
        let left = until.checked_sub(state.clock.now_ns())?;
        Some(Duration::from_nanos(left + 1))
    }

    /// What the clock shows when it is set right.
    pub(super) fn right_wall(&self) -> SystemTime {
        let mut state = self.0.lock();
        if let Some((_, trouble)) = state.clock_off.take() {
            state.move_wall(trouble == Trouble::ClockBack);
        }
        state.clock.wall()
    }

    /// Time has come for a timer.
    pub(super) fn timer(&self) {
        let mut state = self.0.lock();
        state.set_clock_right();
        state.counts.timers += 1;
        let moment = Moment::Timer(state.counts.timers);
        if let Some(trouble) = state.due(moment) {
            let _nothing_is_asked = state.begin(trouble, Op::Write);
        }
    }
}

impl Injects for Injector {
    fn before(&self, op: Op) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        if state.is_dead {
            return Err(failed("the process has ended"));
        }
        state.set_clock_right();
        let moment = match op {
            Op::Read => {
                state.counts.reads += 1;
                Moment::Read(state.counts.reads)
            }
            Op::Write => {
                state.counts.writes += 1;
                Moment::Write(state.counts.writes)
            }
        };
        if let Some(trouble) = state.due(moment) {
            state.begin(trouble, op)?;
        }
        state.in_trouble(op)
    }

    fn after(&self) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        match std::mem::take(&mut state.loses_answer) {
            true => Err(failed("the answer is lost")),
            false => Ok(()),
        }
    }
}

impl State {
    fn due(&mut self, moment: Moment) -> Option<Trouble> {
        let place = self.points.iter().position(|point| point.moment == moment)?;
        Some(self.points.remove(place).trouble)
    }

    fn begin(&mut self, trouble: Trouble, op: Op) -> Result<(), StoreError> {
        let until = |time: Duration| self.clock.now_ns() + time.as_nanos() as u64;
        match trouble {
            Trouble::Once => return Err(failed("this once")),
            Trouble::Minute | Trouble::Full => self.fails = Some((trouble, until(WHILE))),
            Trouble::Forever => {
                self.fails = Some((trouble, u64::MAX));
                self.end(Stop::Doomed);
            }
            Trouble::AnswerLost if op == Op::Write => self.loses_answer = true,
            Trouble::AnswerLost => return Err(failed("this once")),
            Trouble::Slow => self.clock.advance(SLOW),
            Trouble::Killed => {
                self.is_dead = true;
                self.end(Stop::Killed);
                return Err(failed("the process has ended"));
            }
            Trouble::Shutdown => self.end(Stop::Shutdown),
            Trouble::TakenOver => self.end(Stop::TakenOver),
            Trouble::ClockBack | Trouble::ClockForth if self.clock_off.is_none() => {
                (self.clock_off, self.doubt) = (Some((until(OFF_FOR), trouble)), until(DOUBT));
                self.move_wall(trouble == Trouble::ClockForth);
            }
            Trouble::ClockBack | Trouble::ClockForth => {}
        }
        Ok(())
    }

    fn in_trouble(&mut self, op: Op) -> Result<(), StoreError> {
        let Some((trouble, until)) = self.fails else { return Ok(()) };
        if self.clock.now_ns() >= until {
            self.fails = None;
            return Ok(());
        }
        match trouble {
            Trouble::Full if op == Op::Read => Ok(()),
            Trouble::Full => Err(StoreError::Full("chosen to be full".to_owned())),
            _ => Err(failed("for a while")),
        }
    }

    fn end(&mut self, stop: Stop) {
        if self.stop.is_none() {
            self.stop = Some(stop);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    fn set_clock_right(&mut self) {
        if let Some((until, trouble)) = self.clock_off {
            if self.clock.now_ns() >= until {
                self.clock_off = None;
                self.move_wall(trouble == Trouble::ClockBack);
            }
        }
    }

    fn move_wall(&self, is_forth: bool) {
        let wall: SystemTime = self.clock.wall();
        self.clock.set_wall(if is_forth { wall + OFF } else { wall - OFF });
    }
}
