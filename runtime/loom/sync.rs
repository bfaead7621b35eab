//! The model checker's primitives under the same names.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool as Flag, AtomicUsize as Number, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::Step;
use crossbeam_deque::Steal;
pub(crate) use loom::cell::UnsafeCell;
// Where the real code has a compiler fence, another thread's barrier makes it a real one.
pub(crate) use loom::sync::atomic::{
    fence, fence as compiler_fence, AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64,
    AtomicU8, AtomicUsize, Ordering,
};
// The counts of std's are no part of a model: it has the methods that the crate needs.
pub(crate) use std::sync::Arc;

/// As std's, of the model's threads.
macro_rules! thread_local {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $(const)? $init:expr;)+) => {
        $(#[allow(unused_braces, reason = "the initial value is a block, as a constant of std's is")]
        static $name: $crate::sync::LocalKey<$type> =
            $crate::sync::LocalKey(loom::thread::LocalKey {
                init: || $crate::sync::Local(std::mem::ManuallyDrop::new($init)),
                _p: std::marker::PhantomData,
            });)+
    };
}

/// A model spin must let the other threads run.
pub(crate) fn spin_hint() {
    loom::thread::yield_now();
}

/// Looks of a thread that waits for the others to sleep; each lets them run.
const YIELDS_MAX: usize = 1_000;

/// The stack of a model's thread, in words.
const STACK_WORDS: usize = 32 << 10;

std::thread_local! {
    /// Threads of the model that are neither over nor asleep without a wake-up. No model sees it.
    static AWAKE: Cell<usize> = const { Cell::new(0) };
    /// The step that the model leaves out.
    static WITHOUT: Cell<Option<Step>> = const { Cell::new(None) };
}

/// Begins a model.
pub(crate) fn begin(without: Option<Step>) {
    AWAKE.set(0);
    WITHOUT.set(without);
}

/// Whether the model takes this step.
pub(crate) fn keeps(step: Step) -> bool {
    WITHOUT.get() != Some(step)
}

/// The order of a step; of one that is left out, none.
pub(crate) fn order(step: Step, order: Ordering) -> Ordering {
    if keeps(step) {
        order
    } else {
        Ordering::Relaxed
    }
}

fn awake(by: isize) {
    AWAKE.set(AWAKE.get().wrapping_add_signed(by));
}

/// Counts a thread that begins. Dropped at its end.
struct Awake;

impl Drop for Awake {
    fn drop(&mut self) {
        awake(-1);
    }
}

/// Lets the other threads run until each is over or asleep. One that was told to wake up before it
/// slept, and was not heard, ends this too.
pub(crate) fn until_asleep() {
    for _ in 0..YIELDS_MAX {
        if AWAKE.get() <= 1 {
            return;
        }
        loom::thread::yield_now();
    }
}

thread_local! {
    static IS_ASLEEP: RefCell<Arc<Flag>> = const { RefCell::default() };
}

/// A thread of the model.
#[derive(Clone, Debug)]
pub(crate) struct Thread(loom::thread::Thread, Arc<Flag>);

pub(crate) fn current_thread() -> Thread {
    Thread(loom::thread::current(), IS_ASLEEP.with(|own| Arc::clone(&own.borrow())))
}

impl Thread {
    pub(crate) fn id(&self) -> loom::thread::ThreadId {
        self.0.id()
    }

    pub(crate) fn unpark(&self) {
        if self.1.swap(false, SeqCst) {
            awake(1);
        }
        self.0.unpark();
    }
}

/// Starts threads of a model, on stacks that the real code fits.
#[derive(Debug)]
pub(crate) struct ThreadBuilder(loom::thread::Builder);

/// A thread to be joined.
#[derive(Debug)]
pub(crate) struct JoinHandle<T>(loom::thread::JoinHandle<T>, Thread);

impl ThreadBuilder {
    pub(crate) fn new() -> Self {
        Self(loom::thread::Builder::new())
    }

    pub(crate) fn name(self, name: String) -> Self {
        Self(self.0.name(name))
    }

    pub(crate) fn stack_size(self, _: usize) -> Self {
        self
    }

    pub(crate) fn spawn<T, F>(self, run: F) -> std::io::Result<JoinHandle<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let is_asleep = Arc::new(Flag::new(false));
        let own = Arc::clone(&is_asleep);
        awake(1);
        let handle = self.0.stack_size(STACK_WORDS).spawn(move || {
            let _awake = Awake;
            IS_ASLEEP.with(|mine| *mine.borrow_mut() = own);
            run()
        })?;
        let thread = Thread(handle.thread().clone(), is_asleep);
        Ok(JoinHandle(handle, thread))
    }
}

impl<T> JoinHandle<T> {
    pub(crate) fn thread(&self) -> &Thread {
        &self.1
    }

    pub(crate) fn is_finished(&self) -> bool {
        true
    }

    pub(crate) fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }
}

/// Parks the calling thread until it is unparked; a limit may pass at any time.
pub(crate) fn park(limit: Option<Duration>) {
    if limit.is_some() {
        return loom::thread::yield_now();
    }
    let is_asleep = IS_ASLEEP.with(|own| Arc::clone(&own.borrow()));
    is_asleep.store(true, SeqCst);
    awake(-1);
    loom::thread::park();
    if is_asleep.swap(false, SeqCst) {
        // Unparked before it slept.
        awake(1);
    }
}

/// A model has no time: its waits have no end but the event.
#[expect(clippy::disallowed_methods, reason = "nobody looks at it")]
pub(crate) fn deadline(_: Duration) -> Instant {
    Instant::now()
}

pub(crate) fn until(_: Instant) -> Option<Duration> {
    Some(Duration::MAX)
}

/// A mutex without poisoning, as `parking_lot` has it.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// Guard of [`Mutex`]; without the lock while it waits for a condition variable.
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().ok())
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it has the lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it has the lock")
    }
}

/// A condition variable with `parking_lot`'s signatures, and how many threads sleep on it.
#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar, Number);

/// Whether a limit has passed: never.
pub(crate) struct WaitResult;

impl WaitResult {
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(loom::sync::Condvar::new(), Number::new(0))
    }

    pub(crate) fn notify_all(&self) {
        awake(self.1.swap(0, SeqCst) as isize);
        self.0.notify_all();
    }

    pub(crate) fn notify_one(&self) {
        let one = self.1.load(SeqCst).min(1);
        self.1.fetch_sub(one, SeqCst);
        awake(one as isize);
        self.0.notify_one();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.1.fetch_add(1, SeqCst);
        awake(-1);
        let held = guard.0.take().expect("it has the lock");
        guard.0 = self.0.wait(held).ok();
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitResult {
        self.wait(guard);
        WaitResult
    }

    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitResult {
        self.wait(guard);
        WaitResult
    }
}

/// The run queues: a lock in the place of `crossbeam-deque`, which has no models. Their lengths
/// order nothing.
#[derive(Debug)]
pub(crate) struct Injector<T>(Mutex<VecDeque<T>>, AtomicUsize);

impl<T> Injector<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(VecDeque::new()), AtomicUsize::new(0))
    }

    pub(crate) fn push(&self, task: T) {
        let mut tasks = self.0.lock();
        tasks.push_back(task);
        self.1.store(tasks.len(), Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut tasks = self.0.lock();
        let task = tasks.pop_front();
        self.1.store(tasks.len(), Ordering::Relaxed);
        task
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        self.pop().map_or(Steal::Empty, Steal::Success)
    }

    pub(crate) fn steal_batch(&self, to: &Worker<T>) -> Steal<()> {
        let batch: Vec<T> = std::iter::from_fn(|| self.pop()).collect();
        batch.into_iter().for_each(|task| to.push(task));
        Steal::Success(())
    }

    pub(crate) fn steal_batch_and_pop(&self, to: &Worker<T>) -> Steal<T> {
        let first = self.steal();
        if first.is_success() {
            let _ = self.steal_batch(to);
        }
        first
    }
}

#[derive(Debug)]
pub(crate) struct Worker<T>(Arc<Injector<T>>);

impl<T> Worker<T> {
    pub(crate) fn new_fifo() -> Self {
        Self(Arc::new(Injector::new()))
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(Arc::clone(&self.0))
    }
}

impl<T> Deref for Worker<T> {
    type Target = Injector<T>;

    fn deref(&self) -> &Injector<T> {
        &self.0
    }
}

#[derive(Debug)]
pub(crate) struct Stealer<T>(Arc<Injector<T>>);

impl<T> Deref for Stealer<T> {
    type Target = Injector<T>;

    fn deref(&self) -> &Injector<T> {
        &self.0
    }
}

/// A thread-local value of the model's threads, which share one thread.
pub(crate) struct LocalKey<T: 'static>(pub(crate) loom::thread::LocalKey<Local<T>>);

/// The value. Where the model has failed, nothing runs its destructor: the model is gone.
pub(crate) struct Local<T>(pub(crate) ManuallyDrop<T>);

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped here alone.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

impl<T> LocalKey<T> {
    pub(crate) fn try_with<R>(
        &'static self,
        look: impl FnOnce(&T) -> R,
    ) -> Result<R, loom::thread::AccessError> {
        self.0.try_with(|local| look(&local.0))
    }

    pub(crate) fn with<R>(&'static self, look: impl FnOnce(&T) -> R) -> R {
        self.0.with(|local| look(&local.0))
    }
}

impl<T> LocalKey<RefCell<T>> {
    pub(crate) fn with_borrow_mut<R>(&'static self, look: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| look(&mut cell.borrow_mut()))
    }
}

impl<T> LocalKey<Cell<T>> {
    pub(crate) fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    pub(crate) fn set(&'static self, value: T) {
        drop(self.replace(value));
    }

    pub(crate) fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}
