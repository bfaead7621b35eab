//! Types that can be registered under a name, and an entry of the registry.

use std::any::{type_name, Any};
use std::sync::{Arc, Weak};
use std::task::Wake;

use turnwheel_runtime::Completion;

use crate::system::Shared;

/// A type that can be registered under a name, or be in a [`Router`](crate::Router): an
/// [`Address`](crate::Address), a [`Recipient`](crate::Recipient), a [`Callee`](crate::Callee) or a
/// [`Pool`](crate::Pool).
pub trait Registrable: sealed::Holder + Clone {}

impl<T: sealed::Holder + Clone> Registrable for T {}

pub(crate) mod sealed {
    use turnwheel_runtime::Completion;

    /// The holder of a name.
    #[expect(unnameable_types, reason = "it seals the public trait")]
    pub trait Holder: Send + Sync + 'static {
        fn actor_name(&self) -> String;
        fn has_ended(&self) -> bool;
        fn end(&self) -> Completion<()>;
        /// Messages that wait for it, about.
        fn work(&self) -> u64;
    }
}

/// Lets types be registered.
macro_rules! holders {
    ($(<$($parameter:ident $(: $bound:ident)?),+> $holder:ty, $has_ended:expr;)+) => {$(
        impl<$($parameter: 'static $(+ $bound)?),+> $crate::system::registry::Holder for $holder {
            fn actor_name(&self) -> String {
                self.name().to_string()
            }

            fn has_ended(&self) -> bool {
                let has_ended: fn(&Self) -> bool = $has_ended;
                has_ended(self)
            }

            fn end(&self) -> turnwheel_runtime::Completion<()> {
                self.closed()
            }

            fn work(&self) -> u64 {
                self.queue_len()
            }
        }
    )+};
}

pub(crate) use holders;

/// A holder of any type.
pub(super) trait AnyHolder: sealed::Holder {
    fn as_any(&self) -> &dyn Any;
    fn type_name(&self) -> &'static str;
}

impl<T: sealed::Holder> AnyHolder for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        type_name::<T>()
    }
}

/// The owner of a name.
pub(super) struct Entry {
    /// Differs for each registration.
    pub(super) id: u64,
    pub(super) holder: Box<dyn AnyHolder>,
    /// Wakes [`Leaving`]; dropped with the entry, it leaves no trace on the actor.
    pub(super) _end: Completion<()>,
}

/// Woken by the end of an actor: gives its name up.
pub(super) struct Leaving {
    pub(super) system: Weak<Shared>,
    pub(super) name: String,
    pub(super) id: u64,
}

impl Wake for Leaving {
    fn wake(self: Arc<Self>) {
        if let Some(system) = self.system.upgrade() {
            drop(system.names.remove(&self.name, |entry| entry.id == self.id));
        }
    }
}
