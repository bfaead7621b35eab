//! Names: actors of a system found by a name and a type.

mod entry;
mod error;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::Completion;

pub(crate) use entry::holders;
pub(crate) use entry::sealed::Holder;
pub use entry::Registrable;
use entry::{AnyHolder, Entry, Leaving};
pub use error::{LookupError, RegisterError};

use crate::system::System;

/// Names of one system, at most: they are for services, not for entities.
pub const NAMES_MAX: usize = 65_536;

/// Length of a name, at most; bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// Look-ups of one system that wait for a name, at most.
pub const NAME_WAITERS_MAX: usize = 4_096;

/// A name as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registered {
    /// The name.
    pub name: String,
    /// The name of the actor that has it.
    pub actor: String,
    /// The type to look it up by.
    pub type_name: &'static str,
}

/// The names of a system.
#[derive(Default)]
pub(crate) struct Names {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    next_id: u64,
    /// Look-ups that wait for a free name.
    waiting: Vec<(String, Completer<()>)>,
}

impl System {
    /// Gives an actor a name, by which [`System::lookup`] finds it with the type registered here.
    /// The registry keeps the actor alive as an address does, until the actor ends, which frees the
    /// name, or until [`System::unregister`]. An actor may have several names.
    ///
    /// ```
    /// # use turnwheel_actors::{Actor, Context, Handler, System};
    /// # use turnwheel_runtime::Group;
    /// # struct Counter(u64);
    /// # impl Actor for Counter { type Error = std::convert::Infallible; }
    /// # struct Add(u64);
    /// # impl Handler<Add> for Counter {
    /// #     type Reply = u64;
    /// #     fn handle(&mut self, Add(by): Add, _: &mut Context<'_, Self>) -> u64 { self.0 += by; self.0 }
    /// # }
    /// use turnwheel_actors::Address;
    /// # let group = Group::builder("doc").workers(1).build()?;
    /// let system = System::new(&group);
    /// system.register("orders", &system.spawn(Counter(0))?)?;
    /// let orders: Address<Counter> = system.lookup("orders")?;
    /// assert_eq!(orders.ask(Add(2)).wait()?, 2);
    /// assert!(system.register("orders", &system.spawn(Counter(0))?).is_err());
    /// # group.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RegisterError`]: another actor, named in the error, has the name; the actor has ended; or
    /// limits.
    pub fn register<T: Registrable>(&self, name: &str, what: &T) -> Result<(), RegisterError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(RegisterError::NameLength { bytes: name.len() });
        }
        let ended = || {
            let (name, actor) = (name.to_owned(), what.actor_name());
            RegisterError::Ended { name, actor }
        };
        let (awaited, former) = {
            let mut state = self.shared().names.state.lock();
            let taken = state.entries.get(name).filter(|entry| !entry.holder.has_ended());
            if let Some(entry) = taken {
                let (name, holder) = (name.to_owned(), entry.holder.actor_name());
                let type_name = entry.holder.type_name();
                return Err(RegisterError::Taken { name, holder, type_name });
            }
            if state.entries.len() >= NAMES_MAX {
                return Err(RegisterError::TooMany);
            }
            let id = state.next_id;
            state.next_id += 1;
            // Under the lock: an end at this very moment finds the entry.
            let leaving = Leaving { system: self.downgrade(), name: name.to_owned(), id };
            let mut end = what.end();
            let waker = Waker::from(Arc::new(leaving));
            if Pin::new(&mut end).poll(&mut Context::from_waker(&waker)).is_ready() {
                return Err(ended());
            }
            let entry = Entry { id, holder: Box::new(what.clone()), _end: end };
            let former = state.entries.insert(name.to_owned(), entry);
            (state.take_waiting(name), former)
        };
        drop(former);
        for waiter in awaited {
            // The look-up may have given up.
            let _ = waiter.complete(());
        }
        Ok(())
    }

    /// Finds the owner of a name, with the type that was registered.
    ///
    /// # Errors
    ///
    /// [`LookupError::Unknown`], [`LookupError::WrongType`].
    pub fn lookup<T: Registrable>(&self, name: &str) -> Result<T, LookupError> {
        self.shared().names.state.lock().lookup(name)
    }

    /// As [`System::lookup`], and waits until an actor has the name.
    ///
    /// # Errors
    ///
    /// [`LookupError::WrongType`] at once, [`LookupError::TimedOut`] after `limit`,
    /// [`LookupError::TooManyWaiting`].
    pub fn lookup_within<T: Registrable>(
        &self,
        name: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<T, LookupError>> + Send + 'static {
        let (system, name) = (self.clone(), name.to_owned());
        async move {
            let mut late = pin!(system.group().sleep(limit));
            loop {
                let mut registered = match system.shared().names.lookup_or_wait(&name) {
                    Ok(found) => return found,
                    Err(registered) => registered,
                };
                let is_late = std::future::poll_fn(|cx| {
                    if Pin::new(&mut registered).poll(cx).is_ready() {
                        return Poll::Ready(false);
                    }
                    late.as_mut().poll(cx).map(|_| true)
                });
                if is_late.await {
                    return Err(LookupError::TimedOut { name, limit });
                }
            }
        }
    }

    /// Frees a name; `false` if no actor has it. The actor lives on while others keep it.
    pub fn unregister(&self, name: &str) -> bool {
        let removed = self.shared().names.remove(name, |_| true);
        removed.is_some_and(|entry| !entry.holder.has_ended())
    }

    /// All names, in their order.
    pub fn registered(&self) -> Vec<Registered> {
        let state = self.shared().names.state.lock();
        let living = state.entries.iter().filter(|(_, entry)| !entry.holder.has_ended());
        let listed = living.map(|(name, Entry { holder, .. })| Registered {
            name: name.clone(),
            actor: holder.actor_name(),
            type_name: holder.type_name(),
        });
        listed.collect()
    }
}

impl Names {
    /// Removes a name if its entry is as said. The caller drops the entry, without the lock: it may
    /// be the last address of its actor.
    fn remove(&self, name: &str, is_it: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        let mut state = self.state.lock();
        state.entries.get(name).is_some_and(is_it).then(|| state.entries.remove(name)).flatten()
    }

    /// Looks a name up; for a free name, returns a completion for its next registration.
    fn lookup_or_wait<T: Registrable>(
        &self,
        name: &str,
    ) -> Result<Result<T, LookupError>, Completion<()>> {
        let mut state = self.state.lock();
        match state.lookup(name) {
            Err(LookupError::Unknown { .. }) => {}
            found => return Ok(found),
        }
        let count = state.waiting.len();
        if count == state.waiting.capacity() || count >= NAME_WAITERS_MAX {
            state.waiting.retain(|(_, waiter)| !waiter.is_cancelled());
            let room = state.waiting.len().max(4);
            state.waiting.reserve(room);
        }
        if state.waiting.len() >= NAME_WAITERS_MAX {
            return Ok(Err(LookupError::TooManyWaiting { name: name.to_owned() }));
        }
        let (completer, registered) = completion();
        state.waiting.push((name.to_owned(), completer));
        Err(registered)
    }
}

impl State {
    fn lookup<T: Registrable>(&self, name: &str) -> Result<T, LookupError> {
        let entry = self.entries.get(name).filter(|entry| !entry.holder.has_ended());
        let Some(Entry { holder, .. }) = entry else {
            return Err(LookupError::Unknown { name: name.to_owned() });
        };
        let holder: &dyn AnyHolder = &**holder;
        holder.as_any().downcast_ref::<T>().cloned().ok_or_else(|| LookupError::WrongType {
            name: name.to_owned(),
            registered: holder.type_name(),
            wanted: std::any::type_name::<T>(),
        })
    }

    /// Takes out the look-ups that wait for this name.
    fn take_waiting(&mut self, name: &str) -> Vec<Completer<()>> {
        let mut taken = Vec::new();
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].0 == name {
                taken.push(self.waiting.swap_remove(index).1);
            } else {
                index += 1;
            }
        }
        taken
    }
}
