//! The clock of a world's plans: wall time, without the jumps of a moment.
//!
//! Due times are stored as wall time, since a date is all that two processes share. Within a
//! process the monotonic clock shows a jump of the wall clock. The world then counts on from the
//! time before it and looks at the clock every [`CLOCK_LOOK`](crate::limits::CLOCK_LOOK). A clock
//! that comes back within [`CLOCK_HOLD`](crate::limits::CLOCK_HOLD) has changed nothing; a clock that
//! stays where it jumped to is followed.
//!
//! | timed | after the world has followed the clock |
//! | --- | --- |
//! | before the jump was noticed | is due at its date: the machine slept, or the clock was wrong |
//! | since then, or in the first minute of the process | keeps to elapsed time |
//!
//! The second kind is known by plan and due time as long as the clock is in doubt. When the clock is
//! followed, each of these plans is woken and writes [`Record::Retimed`](crate::plan::Record).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::Group;

use crate::id::PlanId;
use crate::limits::{CLOCK_DUES_MAX, CLOCK_STEP};
use crate::time::Time;

/// The clock of a world's plans.
pub(crate) struct Clock {
    group: Group,
    /// Time for which a jump is not followed.
    hold: Duration,
    /// Wall time less monotonic time, in microseconds, as the world believes it.
    offset: AtomicI64,
    /// Until this monotonic time the process has just begun, and its clock may be wrong.
    new_until: i64,
    /// Whether there is a jump that is not followed.
    is_off: AtomicBool,
    /// Whether what is timed now may have to be moved.
    is_in_doubt: AtomicBool,
    /// Whether there are due times to move.
    has_moves: AtomicBool,
    /// The time of plans when the last jump was followed.
    followed: AtomicU64,
    doubts: Mutex<Doubts>,
    on_jump: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct Doubts {
    jump: Option<Jump>,
    /// Due times set since the clock is in doubt.
    dues: BTreeSet<(PlanId, Time)>,
    moves: BTreeMap<PlanId, Vec<(Time, i64)>>,
    /// Plans with moves that were not woken yet.
    to_wake: Vec<PlanId>,
}

/// A jump of the wall clock that may be one of a moment. Times are monotonic, in microseconds.
struct Jump {
    offset: i64,
    noticed: i64,
    seen: i64,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Clock {
    /// Begins with the wall time of now.
    pub(super) fn new(group: &Group, hold: Duration) -> Self {
        let (monotonic, wall) = read(group);
        Self {
            group: group.clone(),
            hold,
            offset: AtomicI64::new(wall - monotonic),
            new_until: monotonic + micros(hold),
            is_off: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(true),
            has_moves: AtomicBool::new(false),
            followed: AtomicU64::new(0),
            doubts: Mutex::default(),
            on_jump: OnceLock::new(),
        }
    }

    /// Sets what is called when a jump is noticed or followed: it has to look at the clock, and again
    /// as long as that [is off](Self::is_off).
    pub(super) fn on_jump(&self, look: impl Fn() + Send + Sync + 'static) {
        if self.on_jump.set(Box::new(look)).is_ok() && self.is_off() {
            self.tell();
        }
    }

    fn tell(&self) {
        if let Some(look) = self.on_jump.get() {
            look();
        }
    }

    /// The wall time as it is; a jump is noticed by that.
    pub(super) fn wall(&self) -> Time {
        let _of_plans = self.now();
        self.group.wall().into()
    }

    /// The time of plans.
    pub(crate) fn now(&self) -> Time {
        let (monotonic, wall) = read(&self.group);
        let offset = wall - monotonic;
        let believed = self.offset.load(Ordering::Acquire);
        let step = apart(offset, believed);
        if step > CLOCK_STEP || self.is_off() {
            return self.jumped(monotonic, offset);
        }
        if self.is_in_doubt.load(Ordering::Relaxed) && monotonic >= self.new_until {
            self.trust();
        }
        // It follows a clock that is corrected little by little.
        if step >= Duration::from_millis(1) {
            self.offset.store(offset, Ordering::Release);
        }
        time(wall)
    }

    /// Whether there is a jump that is not followed.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Acquire)
    }

    /// The time of plans when the last jump was followed; 0 if there was none.
    pub(crate) fn followed(&self) -> Time {
        Time(self.followed.load(Ordering::Relaxed))
    }

    /// Nothing that was timed has to be moved any more.
    fn trust(&self) {
        let mut doubts = self.doubts.lock();
        if !self.is_off() {
            doubts.dues.clear();
            self.is_in_doubt.store(false, Ordering::Release);
        }
    }

    /// The time while the wall clock is or was elsewhere: as before the jump, until that lasts.
    fn jumped(&self, monotonic: i64, offset: i64) -> Time {
        let mut doubts = self.doubts.lock();
        let believed = self.offset.load(Ordering::Acquire);
        if apart(offset, believed) <= CLOCK_STEP {
            doubts.jump = None;
            self.is_off.store(false, Ordering::Release);
            return time(monotonic + offset);
        }
        // A jump that nobody has looked at for so long may be another one to the same time.
        let is_same = |jump: &Jump| {
            apart(jump.offset, offset) <= CLOCK_STEP && apart(jump.seen, monotonic) <= self.hold
        };
        let before = doubts.jump.take().filter(is_same);
        let is_new = before.is_none();
        let noticed = before.map_or(monotonic, |jump| jump.noticed);
        let is_held = apart(noticed, monotonic) < self.hold;
        if is_held {
            doubts.jump = Some(Jump { offset, noticed, seen: monotonic });
            self.is_off.store(true, Ordering::Release);
            self.is_in_doubt.store(true, Ordering::Release);
        } else {
            self.follow(&mut doubts, offset - believed);
            self.followed.store(time(monotonic + offset).0, Ordering::Relaxed);
            self.offset.store(offset, Ordering::Release);
        }
        drop(doubts);
        if is_new || !is_held {
            self.tell();
        }
        time(monotonic + if is_held { believed } else { offset })
    }

    /// Everything that was timed in doubt keeps to elapsed time.
    fn follow(&self, doubts: &mut Doubts, by: i64) {
        self.is_off.store(false, Ordering::Release);
        for (plan, due) in std::mem::take(&mut doubts.dues) {
            doubts.moves.entry(plan).or_default().push((due, by));
            if doubts.to_wake.last() != Some(&plan) {
                doubts.to_wake.push(plan);
            }
        }
        self.has_moves.store(!doubts.moves.is_empty(), Ordering::Release);
        let seconds = by / 1_000_000;
        tracing::warn!(seconds, "the wall clock has jumped and stays there: plans follow it");
    }

    /// Whether what is timed now may have to be moved.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt.load(Ordering::Acquire)
    }

    /// A plan has something to do after some time, counted from now.
    pub(crate) fn timed(&self, plan: PlanId, dues: impl IntoIterator<Item = Time>) {
        if !self.is_in_doubt() {
            return;
        }
        let mut doubts = self.doubts.lock();
        for due in dues {
            if doubts.dues.len() < CLOCK_DUES_MAX {
                doubts.dues.insert((plan, due));
            }
        }
    }

    /// Due times of a plan that are to be moved, and by how many microseconds. Call it after
    /// [`now`](Self::now): it has then what belongs to that time.
    pub(crate) fn take_moves(&self, plan: PlanId) -> Vec<(Time, i64)> {
        if !self.has_moves.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut doubts = self.doubts.lock();
        let moves = doubts.moves.remove(&plan).unwrap_or_default();
        self.has_moves.store(!doubts.moves.is_empty(), Ordering::Release);
        moves
    }

    /// Plans that have to be woken, because they have due times to move.
    pub(crate) fn take_to_wake(&self) -> Vec<PlanId> {
        std::mem::take(&mut self.doubts.lock().to_wake)
    }
}

/// Monotonic and wall time, in microseconds.
fn read(group: &Group) -> (i64, i64) {
    let monotonic = i64::try_from(group.now_ns() / 1_000).unwrap_or(i64::MAX);
    let wall = Time::from(group.wall()).0;
    (monotonic, i64::try_from(wall).unwrap_or(i64::MAX))
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn apart(one: i64, other: i64) -> Duration {
    Duration::from_micros(one.abs_diff(other))
}

fn time(us: i64) -> Time {
    Time(u64::try_from(us).unwrap_or_default())
}
