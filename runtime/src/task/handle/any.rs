//! Handle of a task with unknown type.

use std::ptr::NonNull;
use std::time::Duration;

use super::task::Task;
use crate::completion::Completion;
use crate::failure::Failure;
use crate::task::cell::layout::{self, Header};
use crate::task::cell::reference::TaskRef;
use crate::task::turn::current;
use crate::task::turn::lifecycle::Phase;

/// A task of unknown type: from listings, for operators.
#[derive(Clone, Debug)]
pub struct AnyTask(pub(in crate::task) Task<()>);

/// Methods of a typed task that do not touch its state.
macro_rules! as_task {
    ($($name:ident($($value:ident: $type:ty)?) -> $output:ty;)+) => {$(
        #[doc = concat!("As [`Task::", stringify!($name), "`].")]
        pub fn $name(&self $(, $value: $type)?) -> $output {
            self.0.$name($($value)?)
        }
    )+};
}

impl AnyTask {
    as_task! {
        name() -> String;
        class() -> String;
        id() -> u64;
        tag() -> u64;
        phase() -> Phase;
        queue_len() -> u64;
        close_within(deadline: Duration) -> Completion<()>;
        stop() -> Completion<()>;
        kill() -> Completion<()>;
        closed() -> Completion<()>;
    }

    /// From the registry's entry.
    ///
    /// # Safety
    ///
    /// The caller holds the registration of the task.
    pub(crate) unsafe fn registered(header: NonNull<Header>) -> Self {
        // SAFETY: forwarded to the caller.
        Self(Task::new(unsafe { TaskRef::new_ref(header) }))
    }

    pub(crate) fn header(&self) -> &Header {
        self.0.header()
    }

    /// The labels given at the spawn: with name and class, the fields of a log line.
    pub fn labels(&self) -> Vec<(String, String)> {
        let labels = self.header().extra().map_or(&[][..], |extra| &extra.labels);
        labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    /// The value beside the state, if it is of this type. For layers above.
    #[doc(hidden)]
    pub fn attachment<K: 'static>(&self) -> Option<&K> {
        // SAFETY: our reference keeps it.
        unsafe { layout::attachment_of_type(self.0.inner.0) }
    }

    /// Settles the futures of a task whose job never returns, also futures requested later: the
    /// task will never run again.
    pub(crate) fn give_up(&self) {
        let (started, closed) = {
            let mut life = self.header().extra_or_make().life.lock();
            life.is_given_up = true;
            life.failure.get_or_insert(Failure::Killed);
            (std::mem::take(&mut life.started), std::mem::take(&mut life.closed))
        };
        for waiter in started.into_iter().chain(closed) {
            // The waiter may have given up.
            let _ = waiter.fail(Failure::Killed);
        }
    }
}

/// The task whose job is dropped unrun on this thread, if any: destructors of the job's captures
/// can find their task by it. It may differ from the task whose turn runs here: a job may push
/// another out of a mailbox.
pub fn losing_task() -> Option<AnyTask> {
    current::losing_ref().map(|task| AnyTask(Task::new(task)))
}

/// The task whose turn runs on this thread, if any.
pub fn current_task() -> Option<AnyTask> {
    current::current_ref().map(|task| AnyTask(Task::new(task)))
}
