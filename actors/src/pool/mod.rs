//! Pools: actors of one type, without state that matters, that share the work sent to one address.

mod builder;
mod drain;
pub(crate) mod key;
mod member;
mod recipient;
pub(crate) mod router;
mod send;
mod shared;
mod supervisor;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::Completion;

pub use builder::{PoolBuilder, PoolError};
pub use drain::PoolDrained;
use key::hash;
pub use member::MemberInfo;
use shared::{Route, Shared};
pub use supervisor::PoolFailure;

use crate::actor::{Actor, MessageFor};
use crate::call::Ask;
use crate::error::TellError;
use crate::recipient::SendMode;
use crate::system::{holders, System};

/// Members of one pool, at most: a list of them is looked through for each message.
pub const POOL_MEMBERS_MAX: usize = 1_024;

/// Idle time of a member above the least number by default: long enough to outlast the pauses of a
/// busy hour, short enough that a peak is forgotten soon.
pub const POOL_IDLE_DEFAULT: Duration = Duration::from_secs(30);

/// Choice of the member that gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Routing {
    /// One after the other.
    RoundRobin,
    /// The oldest idle member; else the one with the fewest messages in flight: queued or in an
    /// unfinished handler. Costs one heap allocation more for each `tell`.
    LeastLoaded,
}

/// Actors of one type behind one handle, for work that any of them can do. Clones share it.
///
/// Each member is an ordinary actor: it takes one message at a time, as its handlers say. A message
/// goes to one member, by the pool's [`Routing`] or by a key, at once and on the sender's thread;
/// there is no router in between. A member whose mailbox is full is passed over. So the messages of
/// one sender keep their order only if they have the same key.
///
/// A pool has a **fixed** number of members, or it **grows**: while all are busy a message makes
/// one more, up to a maximum; members above the minimum that are idle for some time are closed. By
/// default the minimum is zero, and the maximum one for each worker of the group.
///
/// **Failures.** A failed member restarts in its place, with its mailbox, by the pool's
/// [`Restart`](crate::Restart) policy. A member that fails for good, or is killed, is replaced; its
/// queued messages are dead letters, and their callers get an error. When more members end so than
/// the policy allows, the pool gives up: it closes, and [`Pool::closed`] fails with
/// [`PoolFailure`]. A member that closes itself is replaced when it is needed.
///
/// When the last clone is gone, the members close in order; so a member must not hold one.
///
/// ```
/// use turnwheel_actors::{Actor, Context, Handler, System};
/// # use turnwheel_runtime::Group;
/// struct Squarer;
/// impl Actor for Squarer {
///     type Error = std::convert::Infallible;
/// }
/// struct Square(u64);
/// impl Handler<Square> for Squarer {
///     type Reply = u64;
///     fn handle(&mut self, Square(of): Square, _: &mut Context<'_, Self>) -> u64 { of * of }
/// }
/// # let group = Group::builder("doc").workers(1).build()?;
/// let system = System::new(&group);
/// let pool = system.pool(|| Squarer).fixed(4).build()?;
/// assert_eq!(pool.ask(Square(7)).wait()?, 49);
/// assert_eq!(pool.ask_keyed("a customer", Square(8)).wait()?, 64);
/// pool.close().wait()?;
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<A: Actor> {
    shared: Arc<Shared<A>>,
}

/// Result of a message to all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcast {
    /// Members that took it.
    pub delivered: usize,
    /// Members that did not: full, or just ended. Each is a dead letter.
    pub refused: usize,
}

impl Broadcast {
    /// Counts answers to sends, `true` for each that was taken.
    fn of(told: impl Iterator<Item = bool>) -> Self {
        let mut broadcast = Self::default();
        for is_told in told {
            broadcast.delivered += usize::from(is_told);
            broadcast.refused += usize::from(!is_told);
        }
        broadcast
    }
}

impl System {
    /// Describes a pool of actors from `factory`, which runs in the turns of the members.
    pub fn pool<A: Actor>(
        &self,
        factory: impl Fn() -> A + Send + Sync + 'static,
    ) -> PoolBuilder<A> {
        PoolBuilder::new(self.clone(), Arc::new(factory))
    }
}

impl<A: Actor> Pool<A> {
    /// The name given to it, or that of the actors' type.
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.shared.members().len()
    }

    /// Messages in the mailboxes of all members, about.
    pub fn queue_len(&self) -> u64 {
        self.shared.members().iter().map(|member| member.address.queue_len()).sum()
    }

    /// The members, by place.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.shared.members().iter().map(member::Member::info).collect()
    }

    /// Sends a message to one member; its answer is dropped.
    ///
    /// Never blocks. Cost: as [`Address::tell`](crate::Address::tell), a lock for the list and the
    /// choice: a look at each member, but for round robin at fixed size. With
    /// [`Routing::LeastLoaded`], and in pools that grow, one heap allocation.
    ///
    /// # Errors
    ///
    /// All members are full, the group's memory is used up, or the pool is closed; the message
    /// comes back.
    pub fn tell<M: MessageFor<A, K>, K: 'static>(&self, message: M) -> Result<(), TellError<M>> {
        self.shared.tell(Route::Any, message, SendMode::Tell)
    }

    /// Sends a message to the member of this key: always the same one while the members do not
    /// change. A replacement takes over the keys; adding or removing a member moves only its share
    /// of them. Messages with a key do not make members: set a minimum in a growing pool that gets
    /// only such messages.
    ///
    /// # Errors
    ///
    /// As [`Pool::tell`]; also if this member alone is full.
    pub fn tell_keyed<M: MessageFor<A, K>, K: 'static>(
        &self,
        key: &(impl Hash + ?Sized),
        message: M,
    ) -> Result<(), TellError<M>> {
        self.shared.tell(Route::Key(hash(key)), message, SendMode::Tell)
    }

    /// As [`Pool::tell`], but ahead of all that is queued at the member.
    ///
    /// # Errors
    ///
    /// As [`Pool::tell`], with the bound of [`Address::tell_urgent`](crate::Address::tell_urgent).
    pub fn tell_urgent<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
    ) -> Result<(), TellError<M>> {
        self.shared.tell(Route::Any, message, SendMode::Urgent)
    }

    /// Sends a message to one member and returns a future of the reply, with the system's deadline.
    ///
    /// Errors come through the future, with the message if no member took it. A call made by a
    /// member for its own call goes to other members; it is a cycle only if all members wait for
    /// it.
    pub fn ask<M: MessageFor<A, K>, K: 'static>(&self, message: M) -> Ask<M, M::Reply> {
        self.ask_within(message, self.shared.settings.system.shared().ask_limit)
    }

    /// As [`Pool::ask`] with a deadline of its own.
    pub fn ask_within<M: MessageFor<A, K>, K: 'static>(
        &self,
        message: M,
        limit: Duration,
    ) -> Ask<M, M::Reply> {
        self.shared.ask(Route::Any, message, limit)
    }

    /// As [`Pool::ask`], of the member of this key; see [`Pool::tell_keyed`].
    pub fn ask_keyed<M: MessageFor<A, K>, K: 'static>(
        &self,
        key: &(impl Hash + ?Sized),
        message: M,
    ) -> Ask<M, M::Reply> {
        let limit = self.shared.settings.system.shared().ask_limit;
        self.shared.ask(Route::Key(hash(key)), message, limit)
    }

    /// Sends a copy to each current member; makes none.
    pub fn broadcast<M: MessageFor<A, K> + Clone, K: 'static>(&self, message: &M) -> Broadcast {
        let members = self.shared.members();
        let tell = |member| self.shared.tell_member(member, message.clone()).is_ok();
        Broadcast::of(members.iter().map(tell))
    }

    /// Closes the pool in order: all members handle their earlier messages at once. Completes when
    /// all have ended.
    pub fn close(&self) -> Completion<()> {
        self.shared.end();
        self.closed()
    }

    /// Completes when the pool is over: fails with [`PoolFailure`] if it has given up.
    pub fn closed(&self) -> Completion<()> {
        self.shared.supervisor.closed()
    }

    /// Whether it takes no more messages.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

clone_fields!(impl<A: Actor> Pool<A>, shared);

debug_fields!(impl<A: Actor> Pool<A>, self => name: self.name(), size: self.size());

holders!(<A: Actor> Pool<A>, Self::is_closed;);
