//! Middleware: code around the phases of actions, for a whole world or for one action.
//!
//! A chain wraps its subject: the first middleware is outermost, calls `pass` to continue, and may
//! change inputs before and outputs after. A middleware that does not pass stops the chain and the
//! action. Chains are ordered when the world is built; an action without a chain pays nothing.

mod around;
mod chain;
mod delay;

use std::any::TypeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub(crate) use around::{begin, Phase};
pub use around::{Around, AroundStep};
pub(crate) use chain::Chains;
pub(crate) use delay::delay;
pub use delay::AroundDelay;

use crate::action::{ActionView, Next};
use crate::error::ActionError;

/// Code around the phases of actions. Functions that are not implemented pass.
///
/// ```
/// use std::sync::Mutex;
///
/// use turnwheel_engine::{
///     Action, ActionError, Around, AroundStep, MemoryStore, Middleware, Next, Run, Runs,
///     StepContext, World,
/// };
///
/// struct Double;
/// impl Action for Double {
///     const NAME: &'static str = "double";
///     type Input = u64;
///     type Output = u64;
///     type Phases = Runs;
/// }
/// impl Run for Double {
///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
///         step.output = step.input * 2;
///         Ok(Next::Done)
///     }
/// }
///
/// struct OneMore;
/// impl Middleware for OneMore {
///     fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
///         let number: u64 = around.input().read()?;
///         around.set_input(&(number + 1))?;
///         around.pass()
///     }
///     async fn run(&self, around: &mut AroundStep<'_>) -> Result<Next, ActionError> {
///         let next = around.pass().await?;
///         let number: u64 = around.output().read()?;
///         around.set_output(&(number + 100))?;
///         Ok(next)
///     }
/// }
///
/// let world = World::builder().action(Double).middleware(OneMore).build(MemoryStore::new())?;
/// let plan = world.trigger::<Double>(20).wait()?.finished().wait()?;
/// assert_eq!(plan.output::<Double>()?, 142);
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// Around delaying a plan, before it is stored; also one that a schedule launches. The chain is that of
    /// the root action. It runs in the thread that delays the plan and should not block.
    ///
    /// # Errors
    ///
    /// There is no such plan.
    fn delay(&self, around: &mut AroundDelay<'_>) -> Result<(), ActionError> {
        around.pass()
    }

    /// Around the planning of one action, its planned actions included.
    ///
    /// # Errors
    ///
    /// The planning of the action fails.
    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        around.pass()
    }

    /// Once around the planning of a whole plan. The chain is that of the root action.
    ///
    /// # Errors
    ///
    /// The planning fails.
    fn plan_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        around.pass()
    }

    /// Around the presentation of an action. The action sees changes of the view before the pass;
    /// values masked after it stay masked.
    fn present(&self, view: &mut ActionView<'_>) {
        view.pass();
    }

    /// Around telling an action of a change of its plan.
    ///
    /// # Errors
    ///
    /// They are logged.
    fn hook(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        around.pass()
    }

    /// Around each call of a run phase, also those for events. Around an action that may block it is
    /// called where the action is, and may block too.
    fn run(
        &self,
        around: &mut AroundStep<'_>,
    ) -> impl Future<Output = Result<Next, ActionError>> + Send {
        around.pass()
    }

    /// Around each call of a finalize phase; it may block.
    fn finalize(
        &self,
        around: &mut AroundStep<'_>,
    ) -> impl Future<Output = Result<Next, ActionError>> + Send {
        around.pass()
    }

    /// Once around the finalize phase of a plan, where that is one piece of work: in a world with
    /// [transactions](crate::WorldBuilder::transactions), around the transaction. Elsewhere each
    /// finalize step is stored by itself, so that nothing can be around all of them. The chain is
    /// that of the action of the first finalize step that is called; it may block. The input is
    /// that of the plan's root: changing it changes nothing.
    ///
    /// # Errors
    ///
    /// The phase fails, and nothing of it counts.
    fn finalize_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        around.pass()
    }

    /// Around each call of a compensation; it may block. Its changes of the output are not kept.
    fn revert(
        &self,
        around: &mut AroundStep<'_>,
    ) -> impl Future<Output = Result<Next, ActionError>> + Send {
        around.pass()
    }
}

/// A middleware and its place among others, if that matters.
///
/// Without rules the middleware of the world comes first, which is outermost, then that of the action,
/// both in the order of registration. Rules about one that is not in the chain are ignored.
#[derive(Clone)]
pub struct Layer {
    pub(crate) middleware: Arc<dyn AnyMiddleware>,
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    /// Middleware inside of it.
    pub(crate) before: Vec<TypeId>,
    /// Middleware outside of it.
    pub(crate) after: Vec<TypeId>,
    pub(crate) replaces: Option<TypeId>,
}

impl std::fmt::Debug for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Layer").field(&self.name).finish()
    }
}

impl Layer {
    /// A layer without rules.
    pub fn new<M: Middleware>(middleware: M) -> Self {
        Self {
            middleware: Arc::new(middleware),
            id: TypeId::of::<M>(),
            name: std::any::type_name::<M>(),
            before: Vec::new(),
            after: Vec::new(),
            replaces: None,
        }
    }

    /// Puts it outside of another one.
    #[must_use]
    pub fn before<M: Middleware>(mut self) -> Self {
        self.before.push(TypeId::of::<M>());
        self
    }

    /// Puts it inside of another one.
    #[must_use]
    pub fn after<M: Middleware>(mut self) -> Self {
        self.after.push(TypeId::of::<M>());
        self
    }

    /// Puts it in the place of another one, which is left out, with all rules about that.
    #[must_use]
    pub fn replacing<M: Middleware>(mut self) -> Self {
        self.replaces = Some(TypeId::of::<M>());
        self
    }
}

impl<M: Middleware> From<M> for Layer {
    fn from(middleware: M) -> Self {
        Self::new(middleware)
    }
}

/// The end of a call, when it has come.
pub(crate) type Passing<'a> = Pin<Box<dyn Future<Output = Result<Next, ActionError>> + Send + 'a>>;

/// A middleware without its type.
pub(crate) trait AnyMiddleware: Send + Sync {
    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError>;
    fn plan_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError>;
    fn finalize_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError>;
    fn hook(&self, around: &mut Around<'_>) -> Result<(), ActionError>;
    fn delay(&self, around: &mut AroundDelay<'_>) -> Result<(), ActionError>;
    fn revert<'a>(&'a self, around: &'a mut AroundStep<'_>) -> Passing<'a>;
    fn present(&self, view: &mut ActionView<'_>);
    fn run<'a>(&'a self, around: &'a mut AroundStep<'_>) -> Passing<'a>;
    fn finalize<'a>(&'a self, around: &'a mut AroundStep<'_>) -> Passing<'a>;
}

impl<M: Middleware> AnyMiddleware for M {
    fn delay(&self, around: &mut AroundDelay<'_>) -> Result<(), ActionError> {
        Middleware::delay(self, around)
    }

    fn revert<'a>(&'a self, around: &'a mut AroundStep<'_>) -> Passing<'a> {
        Box::pin(Middleware::revert(self, around))
    }

    fn plan(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        Middleware::plan(self, around)
    }

    fn plan_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        Middleware::plan_phase(self, around)
    }

    fn finalize_phase(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        Middleware::finalize_phase(self, around)
    }

    fn present(&self, view: &mut ActionView<'_>) {
        Middleware::present(self, view);
    }

    fn hook(&self, around: &mut Around<'_>) -> Result<(), ActionError> {
        Middleware::hook(self, around)
    }

    fn run<'a>(&'a self, around: &'a mut AroundStep<'_>) -> Passing<'a> {
        Box::pin(Middleware::run(self, around))
    }

    fn finalize<'a>(&'a self, around: &'a mut AroundStep<'_>) -> Passing<'a> {
        Box::pin(Middleware::finalize(self, around))
    }
}
