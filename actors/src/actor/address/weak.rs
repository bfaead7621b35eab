//! Addresses that do not keep their actor.

use turnwheel_runtime::WeakTask;

use crate::actor::{Actor, ActorCell, Address};
use crate::system::id;

/// An address that does not keep its actor: with no other address left the actor closes in order.
///
/// For lists of observers and for actors that know each other. Holds the memory of the actor's
/// task, not that of the actor.
///
/// ```
/// # use turnwheel_actors::{Actor, Context, Handler, System};
/// # use turnwheel_runtime::Group;
/// # struct Counter(u64);
/// # impl Actor for Counter { type Error = std::convert::Infallible; }
/// # let group = Group::builder("doc").workers(1).build()?;
/// let counter = System::new(&group).spawn(Counter(0))?;
/// let weak = counter.downgrade();
/// assert!(weak.upgrade() == Some(counter.clone()));
/// counter.close().wait()?;
/// assert!(weak.upgrade().is_none());
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakAddress<A: Actor> {
    task: WeakTask<ActorCell<A>>,
}

impl<A: Actor> Address<A> {
    /// An address that does not keep the actor. One atomic operation.
    pub fn downgrade(&self) -> WeakAddress<A> {
        WeakAddress { task: self.task.downgrade() }
    }
}

impl<A: Actor> WeakAddress<A> {
    /// An address that keeps the actor; `None` if it has ended. An actor that is closing is still
    /// answered, and takes no more messages.
    pub fn upgrade(&self) -> Option<Address<A>> {
        self.task.upgrade().map(Address::new)
    }

    /// As [`Address::id`].
    pub fn id(&self) -> u64 {
        id::bare(self.task.tag())
    }
}

clone_fields!(impl<A: Actor> WeakAddress<A>, task);

debug_fields!(impl<A: Actor> WeakAddress<A>, self => id: self.id());
