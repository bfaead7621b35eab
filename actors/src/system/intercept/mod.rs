//! Interceptors around messages: tracing, metrics, retries, authorization.
//!
//! An [`Interceptor`] is called before and after each message, and may refuse it, inspect it,
//! change it, and change its outcome. *Incoming* interceptors are around the handling of an actor's
//! messages, *outgoing* ones around the sending of messages to the actors of a system.
//!
//! | installed by | around |
//! | --- | --- |
//! | [`SystemBuilder::intercept`](crate::SystemBuilder::intercept) | all messages that its actors handle |
//! | [`SystemBuilder::intercept_outgoing`](crate::SystemBuilder::intercept_outgoing) | all messages and calls to its actors, from handlers and from elsewhere |
//! | [`ActorBuilder::intercept`](crate::ActorBuilder::intercept) | those of one actor, inside the system's |
//! | [`EntitiesBuilder::intercept`](crate::EntitiesBuilder::intercept) | those of one type of entity, inside the system's |
//!
//! Interceptors are nested in the order in which they were installed: the first is the outermost,
//! so it begins first and ends last. A refused message reaches neither the inner interceptors nor
//! the handler; outer interceptors see the refusal as its end.
//!
//! Without interceptors a message costs nothing more: an intercepted actor is not plain, and its
//! cell checks that flag in any case.
//!
//! Timers, streams, continuations and closures ([`Address::with`](crate::Address::with)) are
//! messages too. Hooks of an actor are not.
//!
//! | file | content |
//! | --- | --- |
//! | `call` | a message as an interceptor sees it |
//! | `outcome` | its outcome, as an interceptor sees and changes it |
//! | `interception` | one message on its way through the interceptors |
//! | `outgoing` | the sending of messages, and the further attempts of calls |
//! | `incoming` | the ways of an intercepted message through a cell |

use std::any::Any;
use std::sync::Arc;

use turnwheel_runtime::Failure;

mod call;
pub(crate) mod interception;
pub(crate) mod outcome;
pub(crate) mod outgoing;

pub use call::{Call, Direction, MessageInfo};
pub use outcome::Outcome;

/// Code around messages.
///
/// One value is around many messages at once, of different actors and on different threads; data of
/// one message, from its begin to its end, is in its [`State`](Interceptor::State).
///
/// For each message: [`begin`](Interceptor::begin) once; unless that refuses,
/// [`within`](Interceptor::within) around the handler, or around each poll of its future; and
/// [`end`](Interceptor::end) once, also if the handler panicked or its future was dropped. A panic
/// of an interceptor fails the message and not the actor.
///
/// ```
/// use turnwheel_actors::intercept::{Call, Interceptor, MessageInfo, Outcome};
/// use turnwheel_actors::{Actor, Context, Handler, System};
/// use turnwheel_runtime::{Failure, Group};
///
/// struct Vault;
/// impl Actor for Vault {
///     type Error = std::convert::Infallible;
/// }
/// struct Open;
/// impl Handler<Open> for Vault {
///     type Reply = &'static str;
///     fn handle(&mut self, _: Open, _: &mut Context<'_, Self>) -> &'static str {
///         "open"
///     }
/// }
///
/// /// Admits only requests with a user.
/// struct Guard;
/// impl Interceptor for Guard {
///     type State = ();
///     fn begin(&self, call: &mut Call<'_>) -> Result<(), Failure> {
///         match call.request().get("user") {
///             Some(_) => Ok(()),
///             None => Err(Failure::Refused("nobody is logged in")),
///         }
///     }
/// }
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let vault = System::new(&group).actor(Vault).intercept(Guard).spawn()?;
/// let error = vault.ask(Open).wait().expect_err("nobody is logged in");
/// assert!(error.to_string().contains("nobody is logged in"));
/// let ada = turnwheel_actors::RequestContext::new().with("user", "ada");
/// assert_eq!(ada.scope(|| vault.ask(Open)).wait()?, "open");
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// Its state of one message, from begin to end. One allocation if it has a size.
    type State: Send + 'static;

    /// Before a message: inspects it, changes it, or refuses it.
    ///
    /// # Errors
    ///
    /// The message is not handled: its caller gets the failure; without a caller it is a dead
    /// letter.
    fn begin(&self, call: &mut Call<'_>) -> Result<Self::State, Failure>;

    /// Around the handler, or around each poll of its future. It must call `run` once: a message
    /// whose `run` is not called fails; a second call does nothing.
    fn within(&self, state: &mut Self::State, run: &mut dyn FnMut()) {
        let _ = state;
        run();
    }

    /// After a message, for every outcome.
    fn end(&self, state: &mut Self::State, info: &MessageInfo, outcome: &mut Outcome<'_>) {
        let _ = (state, info, outcome);
    }
}

impl<I: Interceptor> Interceptor for Arc<I> {
    type State = I::State;

    fn begin(&self, call: &mut Call<'_>) -> Result<Self::State, Failure> {
        I::begin(self, call)
    }

    fn within(&self, state: &mut Self::State, run: &mut dyn FnMut()) {
        I::within(self, state, run);
    }

    fn end(&self, state: &mut Self::State, info: &MessageInfo, outcome: &mut Outcome<'_>) {
        I::end(self, state, info, outcome);
    }
}

/// State of an interceptor for one message, without its type.
pub(crate) type LayerState = Box<dyn Any + Send>;

/// An interceptor without its type.
pub(crate) trait Layer: Send + Sync {
    fn begin(&self, call: &mut Call<'_>) -> Result<LayerState, Failure>;
    fn within(&self, kept: &mut LayerState, run: &mut dyn FnMut());
    fn end(&self, kept: &mut LayerState, info: &MessageInfo, outcome: &mut Outcome<'_>);
    /// Its type, for errors.
    fn name(&self) -> &'static str;
}

impl<I: Interceptor> Layer for I {
    fn begin(&self, call: &mut Call<'_>) -> Result<LayerState, Failure> {
        Ok(Box::new(Interceptor::begin(self, call)?))
    }

    fn within(&self, kept: &mut LayerState, run: &mut dyn FnMut()) {
        Interceptor::within(self, state_of::<I>(kept), run);
    }

    fn end(&self, kept: &mut LayerState, info: &MessageInfo, outcome: &mut Outcome<'_>) {
        Interceptor::end(self, state_of::<I>(kept), info, outcome);
    }

    fn name(&self) -> &'static str {
        std::any::type_name::<I>()
    }
}

fn state_of<I: Interceptor>(kept: &mut LayerState) -> &mut I::State {
    match kept.downcast_mut() {
        Some(state) => state,
        None => unreachable!("a layer gets back what its own begin has made"),
    }
}

/// Interceptors in their order, the outermost first. Empty is the usual case, and holds no memory.
#[derive(Clone, Default)]
pub(crate) struct Chain(Option<Arc<[Arc<dyn Layer>]>>);

impl Chain {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn layers(&self) -> &[Arc<dyn Layer>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Adds an interceptor inside the existing ones.
    pub(crate) fn push(&mut self, interceptor: impl Interceptor) {
        let layer: Arc<dyn Layer> = Arc::new(interceptor);
        let layers = self.layers().iter().cloned().chain([layer]);
        self.0 = Some(layers.collect());
    }

    /// These, with others inside them.
    pub(crate) fn around(&self, inner: &Self) -> Self {
        if inner.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return inner.clone();
        }
        Self(Some(self.layers().iter().chain(inner.layers()).cloned().collect()))
    }
}
