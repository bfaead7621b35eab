//! A value for each worker of a group, which the worker uses without a lock.

use super::Group;
use crate::handoff::Section;
use crate::worker;

/// A value for each worker of a group. The worker accesses its own value with a few plain stores.
/// Any thread may visit all values, which costs a system call for each (`membarrier(2)`; without it
/// both take a lock).
///
/// For data that every worker writes often and one thread reads rarely: lists, counts, caches.
///
/// ```
/// use turnwheel_runtime::internal::PerWorker;
/// use turnwheel_runtime::Group;
/// use std::sync::Arc;
/// let group = Group::builder("doc").workers(1).build()?;
/// let counts = Arc::new(PerWorker::new(&group, || 0));
/// let own = Arc::clone(&counts);
/// group.spawn(())?.call(move |_, _| own.own(|count| *count += 1)).wait()?;
/// let mut sum = 0;
/// counts.visit_each(|count| sum += *count);
/// assert_eq!(sum, 1);
/// assert_eq!(counts.own(|_| ()), None, "this thread is no worker");
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PerWorker<T> {
    group: Group,
    sections: Box<[Section<T>]>,
}

impl<T: Send> PerWorker<T> {
    /// One value for each worker.
    pub fn new(group: &Group, make: impl Fn() -> T) -> Self {
        let workers = group.shared().workers.len();
        let sections = (0..workers).map(|_| Section::new(make())).collect();
        Self { group: group.clone(), sections }
    }

    /// Uses the value of the worker that this thread is; `None` if it is none of the group's.
    ///
    /// The closure must not wait for anybody.
    ///
    /// # Panics
    ///
    /// Within itself, or within a visit.
    #[inline(always)]
    pub fn own<R>(&self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        // SAFETY: used within this function alone.
        let local = unsafe { worker::current() };
        let local = local.filter(|local| local.is_of(self.group.shared()))?;
        let section = self.sections.get(local.index)?;
        // SAFETY: one thread at a time is this worker, and the thread before has handed it over.
        Some(unsafe { section.enter_owner(run) })
    }

    /// Uses the values of all workers, one after the other. From any thread.
    ///
    /// # Panics
    ///
    /// Within itself, or [`PerWorker::own`].
    pub fn visit_each(&self, mut run: impl FnMut(&mut T)) {
        worker::with_current(|local| {
            let local = local.filter(|local| local.is_of(self.group.shared()));
            let own = local.and_then(|local| self.sections.get(local.index));
            assert!(!own.is_some_and(Section::is_inside_owner), "a visit within a section");
        });
        for section in &self.sections {
            section.visit(&mut run);
        }
    }
}

debug_fields!(impl<T> PerWorker<T>, self => workers: self.sections.len());
