//! Extensions of a world: actions that join others, and middleware.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::{World, WorldBuilder};
use crate::action::{panic_message, Action, Change, On};
use crate::error::ActionError;
use crate::middleware::{Layer, Middleware};
use crate::plan::ActionRef;
use crate::transaction::TransactionAdapter;

impl WorldBuilder {
    /// Lets an action join the planning of another one, which knows nothing of it: whenever `Base` was
    /// planned, in whatever plan, `Plugin` is planned as its child.
    ///
    /// The function makes the plugin's input from the one that `Base` was planned with, and from a
    /// reference to its output. A plugin that uses the output runs after `Base`; else both run at the
    /// same time. If the planning of `Base` fails, nothing is added; if that of the plugin fails, the
    /// plan does. Plugins are planned in the order of these calls, and can be extended themselves.
    /// If either action is not registered, nothing changes.
    ///
    /// Cost: the input of an extended action is copied once as JSON; other actions pay nothing.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use turnwheel_engine::{
    ///     Action, ActionError, Input, MemoryStore, Next, Run, Runs, StepContext, World,
    /// };
    ///
    /// struct Order;
    /// impl Action for Order {
    ///     const NAME: &'static str = "order";
    ///     type Input = u64;
    ///     type Output = String;
    ///     type Phases = Runs;
    /// }
    /// impl Run for Order {
    ///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         step.output = format!("order {}", step.input);
    ///         Ok(Next::Done)
    ///     }
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Line { text: Input<String> }
    /// struct Log;
    /// impl Action for Log {
    ///     const NAME: &'static str = "log";
    ///     type Input = Line;
    ///     type Output = String;
    ///     type Phases = Runs;
    /// }
    /// impl Run for Log {
    ///     fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
    ///         step.output = format!("seen: {}", step.input.text.get()?);
    ///         Ok(Next::Done)
    ///     }
    /// }
    ///
    /// let world = World::builder()
    ///     .action(Order)
    ///     .action(Log)
    ///     .extend::<Log, Order>(|_number, order| Ok(Line { text: order.output()?.into() }))
    ///     .build(MemoryStore::new())?;
    /// assert_eq!(world.extensions_of::<Order>(), ["log"]);
    /// let plan = world.trigger::<Order>(7).wait()?.finished().wait()?;
    /// assert_eq!(plan.output::<Log>()?, "seen: order 7");
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn extend<Plugin: Action, Base: Action>(
        mut self,
        input: impl Fn(Base::Input, ActionRef<Base>) -> Result<Plugin::Input, ActionError>
            + Send
            + Sync
            + 'static,
    ) -> Self {
        let added = self.registry.extensions_mut().add::<Plugin, Base>(input);
        if let Err(problem) = added {
            self.problem.get_or_insert(problem);
        }
        self
    }
}

impl WorldBuilder {
    /// Puts a middleware around the phases of all actions, outside of those that they have themselves.
    /// The same one twice counts once.
    pub fn middleware(mut self, middleware: impl Into<Layer>) -> Self {
        self.registry.chains_mut().of_world(middleware.into());
        self
    }

    /// Plans and finalizes inside of transactions of the host's own database.
    ///
    /// The finalize steps of a plan are then one piece of work on the blocking pool, outside of queues.
    pub fn transactions(mut self, adapter: impl TransactionAdapter) -> Self {
        self.registry.set_transaction(std::sync::Arc::new(adapter));
        self
    }

    /// Tells a function of changes of all plans: once a plan and change, as for the
    /// [hooks of its root action](crate::Action::changed).
    pub fn hook(
        mut self,
        on: On,
        hook: impl Fn(&Change) -> Result<(), ActionError> + Send + Sync + 'static,
    ) -> Self {
        self.registry.add_hook(on, std::sync::Arc::new(hook));
        self
    }

    /// Calls a function at the begin of [`World::shutdown`], while the world still works: on the
    /// thread that ends the world, in the order of registration, each once. An error or panic is
    /// logged and stops no other function; there is no time limit.
    pub fn before_shutdown(
        mut self,
        hook: impl Fn() -> Result<(), ActionError> + Send + Sync + 'static,
    ) -> Self {
        self.last_calls.0.push(Box::new(hook));
        self
    }

    /// Puts a middleware around the phases of one action.
    pub fn middleware_of<A: Action>(mut self, middleware: impl Into<Layer>) -> Self {
        self.registry.chains_mut().of_action(A::NAME, middleware.into());
        self
    }

    /// Leaves an action without a middleware that it would have otherwise.
    pub fn without_middleware<A: Action, M: Middleware>(mut self) -> Self {
        self.registry.chains_mut().remove(A::NAME, std::any::TypeId::of::<M>());
        self
    }
}

/// Code that is called when a world ends.
type LastCall = Box<dyn Fn() -> Result<(), ActionError> + Send + Sync>;

/// Functions to call when a world ends.
#[derive(Default)]
pub(super) struct LastCalls(Vec<LastCall>);

impl fmt::Debug for LastCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LastCalls").field(&self.0.len()).finish()
    }
}

impl LastCalls {
    pub(super) fn call(self) {
        for (number, call) in self.0.iter().enumerate() {
            match catch_unwind(AssertUnwindSafe(call)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(number, %error, "a hook of the shutdown failed"),
                Err(panic) => {
                    let message = panic_message(panic);
                    tracing::warn!(number, message, "a hook of the shutdown panicked");
                }
            }
        }
    }
}

impl World {
    /// The names of the actions that [extend](WorldBuilder::extend) this one, in their order; only those
    /// that are registered.
    pub fn extensions_of<A: Action>(&self) -> Vec<&'static str> {
        self.shared.registry.extensions().of(A::NAME)
    }
}
