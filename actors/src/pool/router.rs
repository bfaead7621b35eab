//! Routers: one of several actors that others have made, chosen for each message.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use turnwheel_runtime::SubmitErrorKind;

use crate::call::Ask;
use crate::error::{AskError, TellError};
use crate::pool::key::{hash, winner};
use crate::pool::{Broadcast, Routing};
use crate::recipient::{Callee, Recipient, SendMode};
use crate::system::registry::Registrable;
use crate::system::DeadLetterReason;

/// Actors in one router, at most: a list of them is looked through for each message.
pub const ROUTEES_MAX: usize = 1_024;

/// Chooses one of several actors for each message: by turn, by load, or by a key. Clones share the
/// list.
///
/// The actors are made and supervised elsewhere, and may be of different types: an entry of the
/// list is an [`Address`](crate::Address), [`Recipient`], [`Callee`] or [`Pool`](crate::Pool), all
/// of one type. The list keeps them alive; the next choice removes ended ones. For actors of one
/// type that are made and replaced for you, use a [`Pool`](crate::Pool).
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
/// use turnwheel_actors::{Router, Routing};
/// # let group = Group::builder("doc").workers(1).build()?;
/// # let system = System::new(&group);
/// let router = Router::new(Routing::RoundRobin);
/// router.add(system.spawn(Counter(0))?)?;
/// router.add(system.spawn(Counter(10))?)?;
/// let answers = [router.choose(), router.choose()].map(|counter| {
///     counter.ok_or("there are two")?.ask(Add(1)).wait().map_err(|_| "it answers")
/// });
/// assert_eq!(answers, [Ok(1), Ok(11)]);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Router<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    routing: Routing,
    /// Replaced by a new list on each change, so that no message is sent under the lock.
    list: Mutex<List<T>>,
    next_id: AtomicU64,
    cursor: AtomicUsize,
}

type List<T> = Arc<Vec<(RouteeId, T)>>;

/// Names one place in one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteeId(u64);

/// A router has [`ROUTEES_MAX`] actors already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the router has {ROUTEES_MAX} actors already")]
pub struct RouterFull;

impl<T: Registrable> Router<T> {
    /// Without actors. [`Routing::LeastLoaded`] chooses the actor with the fewest messages in its
    /// mailbox, the first added of several.
    pub fn new(routing: Routing) -> Self {
        let list = Mutex::new(Arc::new(Vec::new()));
        let (next_id, cursor) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { shared: Arc::new(Shared { routing, list, next_id, cursor }) }
    }

    /// Adds an actor. Copies the list.
    ///
    /// # Errors
    ///
    /// There are [`ROUTEES_MAX`].
    pub fn add(&self, actor: T) -> Result<RouteeId, RouterFull> {
        let id = RouteeId(self.shared.next_id.fetch_add(1, Ordering::Relaxed));
        let mut new = Some((id, actor));
        self.change(|list| {
            let mut longer = without_ended(list);
            if longer.len() < ROUTEES_MAX {
                longer.extend(new.take());
            }
            longer
        });
        new.map_or(Ok(id), |_| Err(RouterFull))
    }

    /// Takes an actor out; `false` if it is not there. Copies the list.
    pub fn remove(&self, id: RouteeId) -> bool {
        let is_other = |(routee, _): &&(RouteeId, T)| *routee != id;
        let old = self.change(|list| list.iter().filter(is_other).cloned().collect());
        !old.iter().all(|one| is_other(&one))
    }

    /// Replaces the list. Returns the old one, which may hold the last addresses of actors: they
    /// are dropped without the lock.
    fn change(&self, make: impl FnOnce(&List<T>) -> Vec<(RouteeId, T)>) -> List<T> {
        let mut list = self.shared.list.lock();
        let changed = Arc::new(make(&list));
        std::mem::replace(&mut *list, changed)
    }

    /// The actors that have not ended, in the order added.
    pub fn all(&self) -> Vec<T> {
        self.living().iter().map(|(_, routee)| routee.clone()).collect()
    }

    /// The next actor in turn, or the least loaded; `None` without actors.
    pub fn choose(&self) -> Option<T> {
        let list = self.living();
        let index = self.index(&list)?;
        Some(list[index].1.clone())
    }

    /// The actor of this key: always the same while the list does not change. Adding or removing an
    /// actor moves only its share of the keys. `None` without actors.
    pub fn choose_keyed(&self, key: &(impl Hash + ?Sized)) -> Option<T> {
        let list = self.living();
        let index = winner(list.iter().map(|(id, _)| id.0), hash(key))?;
        Some(list[index].1.clone())
    }

    fn index(&self, list: &List<T>) -> Option<usize> {
        match self.shared.routing {
            Routing::RoundRobin => {
                let turn = self.shared.cursor.fetch_add(1, Ordering::Relaxed);
                turn.checked_rem(list.len())
            }
            Routing::LeastLoaded => {
                let least = list.iter().enumerate().min_by_key(|(_, (_, routee))| routee.work());
                least.map(|(index, _)| index)
            }
        }
    }

    /// The list without ended actors.
    fn living(&self) -> List<T> {
        let list = Arc::clone(&*self.shared.list.lock());
        if list.iter().all(|(_, routee)| !routee.has_ended()) {
            return list;
        }
        self.change(without_ended);
        let living = Arc::clone(&*self.shared.list.lock());
        // The old one may be the last with the addresses in it: it is dropped without the lock.
        drop(list);
        living
    }
}

/// The actors of a list that have not ended.
fn without_ended<T: Registrable>(list: &List<T>) -> Vec<(RouteeId, T)> {
    list.iter().filter(|(_, routee)| !routee.has_ended()).cloned().collect()
}

impl<M: 'static> Router<Recipient<M>> {
    /// Sends a message to the chosen actor; skips actors with a full mailbox.
    ///
    /// # Errors
    ///
    /// All are full, or there is no actor (`Closed`); the message comes back.
    pub fn tell(&self, message: M) -> Result<(), TellError<M>> {
        let list = self.living();
        let kind = SubmitErrorKind::Closed;
        let Some(first) = self.index(&list) else { return Err(TellError { kind, message }) };
        let mut error = TellError { kind, message };
        for step in 0..list.len() {
            let (_, recipient) = &list[(first + step) % list.len()];
            match recipient.target().send(error.message, SendMode::Offer) {
                Ok(()) => return Ok(()),
                Err(TellError { kind, message }) => {
                    // Full counts more than closed: trying again may help.
                    let is_closed = kind == SubmitErrorKind::Closed;
                    error = TellError { kind: if is_closed { error.kind } else { kind }, message };
                }
            }
        }
        list[first].1.target().lost(DeadLetterReason::Refused(error.kind));
        Err(error)
    }

    /// Sends a message to the actor of this key; see [`Router::choose_keyed`].
    ///
    /// # Errors
    ///
    /// Its mailbox is full, or there is no actor (`Closed`); the message comes back.
    pub fn tell_keyed(&self, key: &(impl Hash + ?Sized), message: M) -> Result<(), TellError<M>> {
        match self.choose_keyed(key) {
            Some(recipient) => recipient.tell(message),
            None => Err(TellError { kind: SubmitErrorKind::Closed, message }),
        }
    }

    /// Sends a copy to each actor.
    pub fn broadcast(&self, message: &M) -> Broadcast
    where
        M: Clone,
    {
        Broadcast::of(self.living().iter().map(|(_, one)| one.tell(message.clone()).is_ok()))
    }
}

impl<M: 'static, R: 'static> Router<Callee<M, R>> {
    /// Asks the chosen actor. With a full mailbox the future fails and returns the message.
    pub fn ask(&self, message: M) -> Ask<M, R> {
        ask(self.choose(), message)
    }

    /// Asks the actor of this key; see [`Router::choose_keyed`].
    pub fn ask_keyed(&self, key: &(impl Hash + ?Sized), message: M) -> Ask<M, R> {
        ask(self.choose_keyed(key), message)
    }
}

fn ask<M: 'static, R: 'static>(callee: Option<Callee<M, R>>, message: M) -> Ask<M, R> {
    match callee {
        Some(callee) => callee.ask(message),
        None => {
            let kind = SubmitErrorKind::Closed;
            Ask::refused(AskError::Refused(TellError { kind, message }))
        }
    }
}

clone_fields!(impl<T> Router<T>, shared);

debug_fields!(impl<T> Router<T>, self =>
    routing: self.shared.routing, actors: self.shared.list.lock().len());
