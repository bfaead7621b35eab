//! Requests between worlds that share a store.
//!
//! A request names its target world; the answer returns to the sender. [`Local`] carries requests
//! between worlds of one process. Implement [`Connector`] to carry them to other machines: requests
//! and answers can be written as bytes.

mod local;
mod request;

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_runtime::Completion;

pub use local::Local;
pub use request::{Answer, Request};
pub(crate) use request::{AnswerKind, RequestKind, Word};

use crate::world::Shared;

/// Carries requests between worlds.
///
/// It may lose a request or its answer, deliver late, or deliver in another order. It must not
/// change a request, or answer for a world that has not answered. When it learns that no answer
/// will come, it completes with an error or drops the completer: a waiter for the end of a plan
/// waits without a limit, and asks again only then or when a world goes.
///
/// ```
/// use turnwheel_engine::connect::{Answer, ConnectError, Connector, Desk, Envelope, Local};
/// use turnwheel_runtime::Completion;
///
/// /// Prints each request before it is carried.
/// #[derive(Debug, Default)]
/// struct Told(Local);
///
/// impl Connector for Told {
///     fn attach(&self, desk: Desk) {
///         self.0.attach(desk);
///     }
///     fn detach(&self, world: u64) {
///         self.0.detach(world);
///     }
///     fn send(&self, envelope: Envelope) -> Completion<Result<Answer, ConnectError>> {
///         eprintln!("{} for world {}", envelope.request.name(), envelope.to);
///         self.0.send(envelope)
///     }
/// }
/// ```
pub trait Connector: Send + Sync + fmt::Debug + 'static {
    /// From now on requests for this desk's world go to it.
    fn attach(&self, desk: Desk);

    /// Requests for this world are answered with [`ConnectError::Unknown`] from now on.
    fn detach(&self, world: u64);

    /// Carries a request to the world that it is for, and its answer back.
    fn send(&self, envelope: Envelope) -> Completion<Result<Answer, ConnectError>>;
}

/// A request with its way.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The world that has sent it.
    pub from: u64,
    /// The world that it is for.
    pub to: u64,
    /// The request.
    pub request: Request,
}

/// Takes the requests for one world.
#[derive(Clone)]
pub struct Desk {
    pub(crate) world: u64,
    pub(crate) shared: Weak<Shared>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("world", &self.world).finish_non_exhaustive()
    }
}

impl Desk {
    /// The world whose desk it is.
    pub fn world(&self) -> u64 {
        self.world
    }

    /// Takes a request. The answer comes when what was asked is durable.
    pub fn take(&self, request: Request) -> Completion<Result<Answer, ConnectError>> {
        self.take_aged(request, Duration::ZERO)
    }

    /// The same for a request that was sent so long ago: what it asks for with a limit of time has
    /// the rest of that.
    pub fn take_aged(
        &self,
        request: Request,
        age: Duration,
    ) -> Completion<Result<Answer, ConnectError>> {
        match self.shared.upgrade() {
            Some(shared) => shared.take(request, age),
            None => Completion::done(Err(ConnectError::Unknown { world: self.world })),
        }
    }
}

/// A request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ConnectError {
    /// No world of this number takes requests.
    #[error("there is no world {world} to take a request")]
    Unknown {
        /// Its number.
        world: u64,
    },
    /// The world went before it has answered: nobody knows whether it has done what was asked.
    #[error(
        "world {world} went before it has answered: look whether it was done before asking again"
    )]
    Gone {
        /// Its number.
        world: u64,
    },
    /// The answer did not come in time: nobody knows whether it was done.
    #[error("no answer within {limit:?}: look whether it was done before asking again")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// There is no world that runs plans, or none that knows what is asked for.
    #[error("no executor is available for {what}: start one over this store")]
    NoExecutor {
        /// The object without an owner.
        what: String,
    },
    /// The world takes nothing new.
    #[error("world {world} is ending and takes nothing new")]
    Ending {
        /// Its number.
        world: u64,
    },
    /// It could not be taken.
    #[error("the request was not taken: {0}")]
    Refused(String),
    /// The world that has the plan is of another node, and there is no way to it.
    #[error(
        "world {world} («{name}») of another node has the plan, and nothing reaches it: ask that \
         node, or connect the nodes"
    )]
    Unreachable {
        /// Its number.
        world: u64,
        /// Its name.
        name: String,
    },
}
