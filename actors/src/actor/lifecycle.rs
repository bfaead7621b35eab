//! The actor trait: hooks at the start and end of an actor, and the decision after a failure.

use std::error::Error;

use turnwheel_runtime::Failure;

use crate::actor::Context;

/// A type whose values live in a task of their own and take one message at a time.
///
/// All hooks are optional and run in turns of the actor, so they use `self` and the context freely.
/// Messages are taken by the traits of [`handler`](crate::handler).
///
/// The fields of an actor take at most 32 KiB: a spawn moves the actor through several functions, an
/// [`AsyncHandler`](crate::AsyncHandler) through several more, and a debug build copies it in each.
/// 64 KiB overflow a stack of 2 MiB. Larger data lies in a `Box` or a `Vec`.
///
/// ```
/// use turnwheel_actors::{Actor, Context, Handler, System};
/// use turnwheel_runtime::Group;
///
/// struct Counter(u64);
/// impl Actor for Counter {
///     type Error = std::convert::Infallible;
/// }
///
/// struct Add(u64);
/// impl Handler<Add> for Counter {
///     type Reply = u64;
///     fn handle(&mut self, Add(by): Add, _: &mut Context<'_, Self>) -> u64 {
///         self.0 += by;
///         self.0
///     }
/// }
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let counter = System::new(&group).spawn(Counter(0))?;
/// counter.tell(Add(2))?;
/// assert_eq!(counter.ask(Add(3)).wait().map_err(|error| error.to_string())?, 5);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Actor: Sized + Send + 'static {
    /// The error of its hooks; [`Infallible`](std::convert::Infallible) if they have none.
    type Error: Error + Send + Sync + 'static;

    /// Runs before any message. Futures awaited here hold the messages back until they are done,
    /// also when the actor restarts after a failure.
    ///
    /// # Errors
    ///
    /// The actor fails, and so does [`Address::started`](crate::Address::started).
    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Self::Error> {
        let _ = cx;
        Ok(())
    }

    /// Runs when the actor is closed in order and all messages sent before are handled.
    ///
    /// # Errors
    ///
    /// The actor ends as failed.
    fn closing(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Self::Error> {
        let _ = cx;
        Ok(())
    }

    /// The last hook, called once for every kind of end. A kill or failure inside a handler's
    /// future drops that future first.
    fn ended(&mut self, exit: &Exit) {
        let _ = exit;
    }

    /// Decides after a handler or timer of this actor has panicked, or a hook has failed.
    fn on_failure(&mut self, failure: &Failure, cx: &mut Context<'_, Self>) -> Directive {
        let _ = (failure, cx);
        Directive::Restart
    }
}

/// Decision about an actor that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Directive {
    /// Go on with the next message and the state as it is.
    Resume,
    /// Go on with a fresh actor from the factory, after the pause of its
    /// [`Restart`](crate::Restart) policy; `Stop` if it has no factory.
    Restart,
    /// Close in order; queued messages are dropped.
    Stop,
    /// Fail, and tell the group's escalation hook.
    Escalate,
}

/// Exit status of an actor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Exit {
    /// In order.
    Closed,
    /// By this failure.
    Failed(Failure),
}

impl Exit {
    /// Whether it ended by a failure.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

impl From<Result<(), Failure>> for Exit {
    fn from(result: Result<(), Failure>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Closed)
    }
}
