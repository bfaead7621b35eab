//! The protocols as the models in `loom-tests/` drive them: the real types behind plain calls.

#![allow(missing_docs, reason = "only models see it")]

mod future;

use std::future::Future as _;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, Wake};

use crate::completion::Completion;
use crate::earliest::Earliest;
use crate::failure::Failure;
use crate::handoff::section::Section;
use crate::handoff::slot::Slot;
use crate::sync::UnsafeCell;
use crate::task::lane::inbox::{bits, Idle, Inbox};
use crate::task::lane::node::{Link, Node};
use crate::task::refs::{Leave, References};
use crate::word::{TimerState, TimerWord};
use crate::worker::sleep::{ParkMode, Sleep};

pub use self::future::Future;
pub use crate::handoff::Lender;

pub const READY: u32 = bits::READY;
pub const CLOSE: u32 = bits::CLOSE;

/// A task as the protocols see it: lane, signals, and a state that only the runner touches.
#[derive(Debug)]
pub struct Task {
    inbox: Inbox,
    refs: References,
    /// The consumer's position and the state, not atomic: the model reports a race on them.
    owner: UnsafeCell<Owner>,
}

#[derive(Debug)]
struct Owner {
    position: *const Link,
    values: Vec<u32>,
    signals: u32,
    is_over: bool,
}

// SAFETY: the model checks the exclusivity that the real task claims.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Gone,
    Requeue,
}

impl Task {
    pub fn new(scheduled: bool) -> Self {
        let inbox = Inbox::new(scheduled);
        let owner = Owner { position: ptr::null(), values: Vec::new(), signals: 0, is_over: false };
        Self { inbox, refs: References::new(), owner: UnsafeCell::new(owner) }
    }

    fn with<R>(&self, look: impl FnOnce(&mut Owner) -> R) -> R {
        self.owner.with_mut(|owner| {
            // SAFETY: the runner has it for itself; the model checks that.
            look(unsafe { &mut *owner })
        })
    }

    /// Pushes. `None` if refused, else whether the caller must run the task.
    pub fn submit(&self, value: u32, capacity: u64) -> Option<bool> {
        let seen = self.inbox.look(capacity).ok()?;
        let node = Self::node(value);
        // SAFETY: fresh.
        let pushed = unsafe { self.inbox.push(node, seen, capacity) };
        if pushed.is_err() {
            // SAFETY: refused, so ours still.
            drop(unsafe { Box::from_raw(node) });
        }
        pushed.ok()
    }

    fn node(value: u32) -> *mut Node {
        let node = Node { next: Link::new(ptr::null_mut()), value: UnsafeCell::new(value) };
        Box::into_raw(Box::new(node))
    }

    /// Takes a place for a permit.
    pub fn reserve(&self, capacity: u64) -> bool {
        self.inbox.reserve(capacity).is_ok()
    }

    /// Gives a permit's place back.
    pub fn unreserve(&self) {
        self.inbox.unreserve();
    }

    /// Pushes into a permit's place. `None` if refused, else whether the caller must run the task.
    pub fn submit_reserved(&self, value: u32) -> Option<bool> {
        let node = Self::node(value);
        // SAFETY: fresh; the model has reserved.
        let pushed = unsafe { self.inbox.push_reserved(node) };
        if pushed.is_err() {
            // SAFETY: refused, so ours still.
            drop(unsafe { Box::from_raw(node) });
        }
        pushed.ok()
    }

    /// Sets a signal. Whether the caller must run the task.
    pub fn signal(&self, set: u32) -> bool {
        self.inbox.signal(set).schedule
    }

    /// As `Source::ready`: what is ready goes to the runner's own queue if the task is held, else
    /// it is signalled. Whether the caller must run the task.
    pub fn ready(&self, value: u32) -> bool {
        if !self.inbox.take_hold(0) {
            return self.signal(bits::READY);
        }
        self.with(|owner| owner.values.push(value));
        true
    }

    /// Closes admission and signals. Whether the caller must run the task.
    pub fn close(&self) -> bool {
        self.inbox.close_admission();
        self.signal(bits::CLOSE)
    }

    /// Runs turns until the task is left.
    pub fn run_to_end(&self) {
        while self.run() == After::Requeue {
            loom::thread::yield_now();
        }
    }

    /// One turn: as `Turn::rounds` with nothing but values and signals.
    pub fn run(&self) -> After {
        loop {
            if self.inbox.signals() & bits::WAKE != 0 {
                let taken = self.inbox.take_signals_owner();
                self.with(|owner| owner.signals |= taken);
            }
            self.take_values();
            if self.inbox.is_closed() && self.inbox.is_drained_owner(self.position()) {
                self.with(|owner| owner.is_over = true);
            }
            match self.go_idle() {
                Some(after) => return after,
                None => continue,
            }
        }
    }

    /// As `run`, but leaves the task held with its lane untouched unless a signal came.
    pub fn run_held(&self) -> bool {
        loop {
            let taken = self.inbox.take_signals_owner();
            self.with(|owner| owner.signals |= taken);
            if taken != 0 {
                return false;
            }
            if self.inbox.try_hold_owner() {
                return true;
            }
        }
    }

    fn position(&self) -> *const Link {
        let position = self.with(|owner| owner.position);
        if position.is_null() {
            self.inbox.stub()
        } else {
            position
        }
    }

    fn take_values(&self) {
        loop {
            let position = self.position();
            // SAFETY: we are the runner and this is our position.
            let node = unsafe { self.inbox.next_owner(position) };
            if node.is_null() {
                return;
            }
            // SAFETY: the node is linked, so its contents are published to us.
            let value = unsafe { (*node).value.with(|value| *value) };
            self.with(|owner| {
                owner.values.push(value);
                owner.position = node.cast();
            });
            self.inbox.publish_done_owner(1);
            self.free(position);
        }
    }

    fn free(&self, position: *const Link) {
        if ptr::eq(position, self.inbox.stub()) {
            self.inbox.leave_stub_owner();
        } else {
            // SAFETY: its link was seen, or the lane was left idle from it.
            drop(unsafe { Box::from_raw(position.cast_mut().cast::<Node>()) });
        }
    }

    fn go_idle(&self) -> Option<After> {
        if self.inbox.signals() & bits::WAKE != 0 {
            return None;
        }
        let position = self.position();
        let stub = self.inbox.stub();
        self.with(|owner| owner.position = ptr::null());
        match self.inbox.try_idle_owner(position) {
            Idle::Gone => {
                if !ptr::eq(position, stub) {
                    self.free(position);
                }
                Some(After::Gone)
            }
            Idle::Signalled => {
                self.with(|owner| owner.position = position);
                None
            }
            Idle::More => {
                self.with(|owner| owner.position = position);
                // SAFETY: we are the runner and this is our position.
                let node = unsafe { self.inbox.next_linked_owner(position) };
                node.is_null().then_some(After::Requeue)
            }
        }
    }

    /// What the turns have consumed, when nobody runs the task any more.
    pub fn values(&self) -> Vec<u32> {
        self.with(|owner| owner.values.clone())
    }

    pub fn signals_taken(&self) -> u32 {
        self.with(|owner| owner.signals)
    }

    pub fn is_over(&self) -> bool {
        self.with(|owner| owner.is_over)
    }

    /// A handle goes; answers whether the caller must free the task. `orphan` is what the last
    /// handle does before it goes.
    pub fn drop_handle(&self, orphan: impl FnOnce()) -> bool {
        let mut leave = self.refs.leave();
        if leave == Leave::Last {
            orphan();
            leave = self.refs.left();
        }
        leave == Leave::Free
    }

    pub fn add_handle(&self) {
        self.refs.add();
    }

    /// One more handle that is no reason to stay.
    pub fn add_weak(&self) {
        self.refs.weaken();
    }

    /// Makes a handle of a weak one. False if the task is over.
    pub fn upgrade(&self) -> bool {
        self.refs.strengthen()
    }

    /// A weak handle goes. Whether the cell is to be freed.
    pub fn drop_weak(&self) -> bool {
        self.refs.left() == Leave::Free
    }

    pub fn is_unreferenced(&self) -> bool {
        self.refs.is_unreferenced()
    }

    pub fn release_own(&self) -> bool {
        self.refs.release_own()
    }
}

/// Waits as a plain thread does: polls, and parks in between.
pub fn wait<T>(mut completion: Completion<T>) -> Result<T, Failure> {
    struct Unpark(loom::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(loom::thread::current())).into();
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(outcome) = Pin::new(&mut completion).poll(&mut cx) {
            return outcome;
        }
        loom::thread::park();
    }
}

/// A timer's word.
#[derive(Debug)]
pub struct Timer(TimerWord);

impl Default for Timer {
    fn default() -> Self {
        Self(TimerWord::new())
    }
}

impl Timer {
    pub fn fire(&self) -> bool {
        self.0.fire()
    }

    pub fn begin(&self) -> bool {
        self.0.begin()
    }

    pub fn rearm(&self) -> bool {
        self.0.step(TimerState::Running, TimerState::Armed)
    }

    /// Whether the cancel was in time.
    pub fn cancel(&self) -> bool {
        self.0.cancel().is_some()
    }
}

/// Wheels of one deadline each, as the group's timers use them.
#[derive(Debug)]
pub struct Wheels {
    earliest: Earliest,
    wheels: Vec<loom::sync::Mutex<Vec<u64>>>,
}

impl Wheels {
    pub fn new(count: usize) -> Self {
        let wheels = (0..count).map(|_| loom::sync::Mutex::new(Vec::new())).collect();
        Self { earliest: Earliest::new(count), wheels }
    }

    pub fn arm(&self, wheel: usize, deadline_ns: u64) {
        let mut pending = self.wheels[wheel].lock().expect("no model panics inside");
        pending.push(deadline_ns);
        self.earliest.lower_locked(wheel, deadline_ns);
    }

    /// Takes what is due.
    pub fn service(&self, now_ns: u64) -> usize {
        let seen = self.earliest.get();
        let mut fired = 0;
        for (index, wheel) in self.wheels.iter().enumerate() {
            if self.earliest.is_due(index, now_ns) {
                let mut pending = wheel.lock().expect("no model panics inside");
                let before = pending.len();
                pending.retain(|deadline_ns| *deadline_ns > now_ns);
                fired += before - pending.len();
                let next_ns = pending.iter().copied().min().unwrap_or(u64::MAX);
                self.earliest.served_locked(index, next_ns);
            }
        }
        self.earliest.raise(seen);
        fired
    }

    pub fn earliest(&self) -> u64 {
        self.earliest.get()
    }
}

/// The run-next slot, with numbers in the place of tasks.
#[derive(Debug)]
pub struct RunNext(Slot<u32>);

// SAFETY: the slot holds addresses that are never followed here.
unsafe impl Send for RunNext {}
// SAFETY: as above.
unsafe impl Sync for RunNext {}

impl Default for RunNext {
    fn default() -> Self {
        Self(Slot::new())
    }
}

impl RunNext {
    pub fn replace_owner(&self, task: usize) -> Option<usize> {
        self.0.replace_owner(ptr::without_provenance_mut(task)).map(number)
    }

    pub fn take_owner(&self) -> Option<usize> {
        self.0.take_owner().map(number)
    }

    pub fn steal(&self) -> Option<usize> {
        self.0.steal().map(number)
    }
}

fn number(task: NonNull<u32>) -> usize {
    task.as_ptr().addr()
}

/// A number of one owner that others visit.
#[derive(Debug)]
pub struct Visited(Section<u32>);

impl Visited {
    pub fn new(number: u32) -> Self {
        Self(Section::new(number))
    }

    /// As the owner; the model calls it from one thread.
    pub fn add_owner(&self, by: u32) -> u32 {
        let add = |number: &mut u32| {
            *number += by;
            *number
        };
        // SAFETY: one thread of the model calls it.
        unsafe { self.0.enter_owner(add) }
    }

    pub fn add(&self, by: u32) -> u32 {
        self.0.visit(|number| {
            *number += by;
            *number
        })
    }
}

/// The sleep protocol.
#[derive(Debug)]
pub struct Sleepers(Sleep);

impl Sleepers {
    pub fn new(workers: usize) -> Self {
        Self(Sleep::new(workers))
    }

    pub fn start_search(&self) -> bool {
        self.0.start_search()
    }

    pub fn end_search(&self) -> bool {
        self.0.end_search()
    }

    /// Whether the worker is on watch.
    pub fn enter(&self, worker: usize, was_searching: bool) -> bool {
        self.0.enter(worker, was_searching) == ParkMode::Watch
    }

    pub fn leave(&self, worker: usize, and_search: bool) -> bool {
        self.0.leave(worker, and_search)
    }

    /// Whether the worker is still booked as parked.
    pub fn is_parked(&self, worker: usize) -> bool {
        self.0.reconsider(worker).is_some()
    }

    pub fn wake_for_push(&self) -> Option<usize> {
        self.0.wake_for_push()
    }

    pub fn wake_for_local_push(&self) -> Option<usize> {
        self.0.wake_for_local_push()
    }

    pub fn wake_for_batch(&self) -> Option<usize> {
        self.0.wake_for_batch()
    }

    /// One worker keeps the time.
    pub fn keeps_time(&self, worker: usize, until_ns: u64) -> bool {
        self.0.keeps_time(worker, until_ns)
    }

    pub fn for_earlier_timer(&self) -> Option<usize> {
        self.0.for_earlier_timer()
    }
}
