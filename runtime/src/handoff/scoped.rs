//! A value that is set while a closure runs, readable by everything that the closure calls.
//!
//! A thread may run turns inside such a closure: it assists, polls a hosted worker, or runs a
//! simulation. The value belongs to the closure and not to those turns, so it is hidden from them.

use std::cell::Cell;
use std::ptr;
use std::thread::LocalKey;

use crate::sync::OnceLock;

/// Runs a closure without the values of the thread that its turns must not see.
type Hide = fn(&mut dyn FnMut());

static HIDE: OnceLock<Hide> = OnceLock::new();

/// From now on turns run inside of `hide` where a thread that is no worker runs them. The first
/// caller's stays: there is one crate above this one.
pub fn hide_from_turns(hide: Hide) {
    HIDE.get_or_init(|| hide);
}

/// Runs turns, without the values that they must not see.
pub(crate) fn hidden<R>(run: impl FnOnce() -> R) -> R {
    let Some(hide) = HIDE.get() else { return run() };
    let (mut run, mut result) = (Some(run), None);
    hide(&mut || result = run.take().map(|run| run()));
    result.expect("the closure is run")
}

/// Storage of such a value; usually a thread-local.
///
/// Entering costs two stores, whatever the size of the value: the value is not moved.
///
/// ```
/// use turnwheel_runtime::internal::Scoped;
/// thread_local! {
///     static USER: Scoped<String> = const { Scoped::new() };
/// }
/// let user = || USER.with(|place| place.look(Clone::clone));
/// assert_eq!(user(), None);
/// let ada = "ada".to_owned();
/// USER.with(|place| place.enter(&ada, || assert_eq!(user().as_deref(), Some("ada"))));
/// assert_eq!(user(), None);
/// ```
pub struct Scoped<T>(Cell<*const T>);

impl<T> Scoped<T> {
    /// A place with nothing in it.
    pub const fn new() -> Self {
        Self(Cell::new(ptr::null()))
    }

    /// Runs a closure with the value in the place; then the former one is there again, also after a
    /// panic.
    #[inline(always)]
    pub fn enter<R>(&self, value: &T, run: impl FnOnce() -> R) -> R {
        self.run_with(ptr::from_ref(value), run)
    }

    /// Runs a closure with nothing in the place; then the former value is there again, also after a
    /// panic.
    pub fn leave<R>(&self, run: impl FnOnce() -> R) -> R {
        self.run_with(ptr::null(), run)
    }

    #[inline(always)]
    fn run_with<R>(&self, value: *const T, run: impl FnOnce() -> R) -> R {
        struct Back<'a, T>(&'a Cell<*const T>, *const T);
        impl<T> Drop for Back<'_, T> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _back = Back(&self.0, self.0.replace(value));
        run()
    }

    /// Returns whether a value is set.
    #[inline(always)]
    pub fn is_entered(&self) -> bool {
        !self.0.get().is_null()
    }

    /// Calls `look` with the value, if one is set.
    #[inline(always)]
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        // SAFETY: an `enter` that has not returned put the value there. `Scoped` is not shared
        // between threads, so this call runs inside that `enter`, which holds the borrow.
        unsafe { self.0.get().as_ref() }.map(look)
    }
}

impl<T: 'static> Scoped<T> {
    /// As [`Scoped::enter`] for a thread-local. Inlined, whatever the closure does.
    ///
    /// # Panics
    ///
    /// As [`Scoped::look_here`].
    #[inline(always)]
    pub fn enter_here<R>(here: &'static LocalKey<Self>, value: &T, run: impl FnOnce() -> R) -> R {
        // As in `look_here`.
        let place: *const Self = here.with(ptr::from_ref);
        // SAFETY: the place belongs to this thread, and its end, where it could be dropped, does
        // not come while this call lasts.
        unsafe { &*place }.enter(value, run)
    }

    /// As [`Scoped::look`] for a thread-local. Inlined, whatever the closure does.
    ///
    /// # Panics
    ///
    /// The thread is ending and its thread-local has been dropped; one without a destructor never
    /// is.
    #[inline(always)]
    pub fn look_here<R>(here: &'static LocalKey<Self>, look: impl FnOnce(&T) -> R) -> Option<R> {
        // Not within `with`: the compiler would make a call of that, with an answer in memory.
        let value = here.with(|place| place.0.get());
        // SAFETY: as in `look`: the place belongs to this thread, and we do not leave this call.
        unsafe { value.as_ref() }.map(look)
    }
}

impl<T> Default for Scoped<T> {
    fn default() -> Self {
        Self::new()
    }
}

debug_fields!(impl<T> Scoped<T>, self => is_entered: self.is_entered());
