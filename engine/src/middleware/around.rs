//! One call of a middleware: its subject, and the call of the next one.

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use serde::Serialize;
use turnwheel_runtime::completion::block_on;

use super::AnyMiddleware;
use crate::action::{
    panic_message, AnyAction, Begun, Call, CallKind, Cause, Next, Returned, Wishes,
};
use crate::error::ActionError;
use crate::id::{PlanId, StepId};
use crate::payload::Payload;

/// Subject of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The planning of an action.
    Plan,
    /// The planning of a plan.
    PlanAll,
    /// The finalize phase of a plan.
    FinalizeAll,
    /// An action that is told of a change.
    Hook,
}

/// The innermost call.
type Inner<'a> = dyn FnMut(&Payload) -> Result<(), ActionError> + 'a;

/// Subject of a middleware within one thread: the planning of an action or of a plan.
pub struct Around<'a> {
    rest: &'a [Arc<dyn AnyMiddleware>],
    phase: Phase,
    plan: PlanId,
    action: &'a str,
    input: &'a mut Payload,
    inner: &'a mut Inner<'a>,
}

impl fmt::Debug for Around<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Around").field("action", &self.action).finish_non_exhaustive()
    }
}

impl<'a> Around<'a> {
    pub(crate) fn new(
        chain: &'a [Arc<dyn AnyMiddleware>],
        phase: Phase,
        plan: PlanId,
        action: &'a str,
        input: &'a mut Payload,
        inner: &'a mut Inner<'a>,
    ) -> Self {
        Self { rest: chain, phase, plan, action, input, inner }
    }

    /// Calls the next middleware inside, at last the action.
    ///
    /// # Errors
    ///
    /// Those of the inner calls.
    pub fn pass(&mut self) -> Result<(), ActionError> {
        let Some((next, rest)) = self.rest.split_first() else { return (self.inner)(self.input) };
        let mut around = Around {
            rest,
            phase: self.phase,
            plan: self.plan,
            action: self.action,
            input: &mut *self.input,
            inner: &mut *self.inner,
        };
        match self.phase {
            Phase::Plan => next.plan(&mut around),
            Phase::PlanAll => next.plan_phase(&mut around),
            Phase::FinalizeAll => next.finalize_phase(&mut around),
            Phase::Hook => next.hook(&mut around),
        }
    }

    /// The plan.
    pub fn plan_id(&self) -> PlanId {
        self.plan
    }

    /// The name of the action: in a plan phase that of the root.
    pub fn action(&self) -> &str {
        self.action
    }

    /// The input.
    pub fn input(&self) -> &Payload {
        self.input
    }

    /// Changes what those inside are given.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn set_input<T: Serialize + ?Sized>(&mut self, input: &T) -> Result<(), ActionError> {
        let input = Payload::of(input);
        *self.input = input.map_err(|error| error.of("the input", self.action))?;
        Ok(())
    }
}

/// Subject of an asynchronous middleware: one call of a step's code.
pub struct AroundStep<'a> {
    rest: &'a [Arc<dyn AnyMiddleware>],
    name: &'a str,
    action: &'a Arc<dyn AnyAction>,
    call: &'a mut Call,
    wishes: &'a mut Wishes,
    is_called: &'a mut bool,
}

impl fmt::Debug for AroundStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AroundStep").field("action", &self.name).finish_non_exhaustive()
    }
}

impl AroundStep<'_> {
    /// Calls the next middleware inside, at last the action.
    ///
    /// # Errors
    ///
    /// Those of the inner calls.
    pub async fn pass(&mut self) -> Result<Next, ActionError> {
        if let Some((next, rest)) = self.rest.split_first() {
            let kind = self.call.kind;
            let mut around = AroundStep {
                rest,
                name: self.name,
                action: self.action,
                call: &mut *self.call,
                wishes: &mut *self.wishes,
                is_called: &mut *self.is_called,
            };
            let passing = match kind {
                CallKind::Run => next.run(&mut around),
                CallKind::Finalize => next.finalize(&mut around),
                CallKind::Revert => next.revert(&mut around),
            };
            return passing.await;
        }
        let returned = match Arc::clone(self.action).begin(self.call.clone()) {
            Begun::Async(future) => future.await,
            Begun::Blocking(code) => code(),
        };
        *self.wishes = returned.wishes;
        *self.is_called = returned.is_called;
        if let Some(output) = returned.output {
            self.call.output = output;
        }
        returned.result
    }

    /// The plan.
    pub fn plan_id(&self) -> PlanId {
        self.call.facts.plan
    }

    /// The step.
    pub fn step_id(&self) -> StepId {
        self.call.facts.step
    }

    /// The name of the action.
    pub fn action(&self) -> &str {
        self.name
    }

    /// 1 for the first time, as the step itself is told.
    pub fn attempt(&self) -> u32 {
        self.call.facts.attempt
    }

    /// Why the step's code is called.
    pub fn cause(&self) -> Cause {
        self.call.facts.cause
    }

    /// Around a compensation: why the run step has failed, if it has.
    pub fn failure(&self) -> Option<&ActionError> {
        self.call.facts.failure.as_ref()
    }

    /// The input; references are replaced by values.
    pub fn input(&self) -> &Payload {
        &self.call.input
    }

    /// Changes what those inside are given, for this call.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn set_input<T: Serialize + ?Sized>(&mut self, input: &T) -> Result<(), ActionError> {
        let input = Payload::of(input);
        self.call.input = input.map_err(|error| error.of("the input", self.name))?;
        Ok(())
    }

    /// The output: the former one before the inner calls, their result after.
    pub fn output(&self) -> &Payload {
        &self.call.output
    }

    /// Changes the output. It is stored when the call has ended, even if it failed.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn set_output<T: Serialize + ?Sized>(&mut self, output: &T) -> Result<(), ActionError> {
        let output = Payload::of(output);
        self.call.output = output.map_err(|error| error.of("the output", self.name))?;
        Ok(())
    }
}

/// Begins a call with a chain around it, or without.
pub(crate) fn begin(
    chain: Option<Arc<[Arc<dyn AnyMiddleware>]>>,
    name: &str,
    action: &Arc<dyn AnyAction>,
    call: Call,
) -> Begun {
    let Some(chain) = chain else { return Arc::clone(action).begin(call) };
    // Nothing is called by this: it tells where the action wants to be called.
    let is_async = matches!(Arc::clone(action).begin(call.clone()), Begun::Async(_));
    let called = around(chain, name.to_owned(), Arc::clone(action), call);
    if is_async {
        return Begun::Async(Box::pin(called));
    }
    Begun::Blocking(Box::new(move || {
        let waited = catch_unwind(AssertUnwindSafe(|| block_on(called)));
        match waited {
            Ok(Ok(returned)) => returned,
            Ok(Err(refused)) => {
                let message = format!("a middleware waits where it may not: {refused}");
                Returned::failed(ActionError::new("middleware", message))
            }
            Err(panic) => Returned::failed(ActionError::new("panic", panic_message(panic))),
        }
    }))
}

async fn around(
    chain: Arc<[Arc<dyn AnyMiddleware>]>,
    name: String,
    action: Arc<dyn AnyAction>,
    mut call: Call,
) -> Returned {
    let before = call.output.clone();
    let mut wishes = Wishes::default();
    // The code of a middleware is code of the step: it may have had an effect.
    let mut is_called = true;
    let mut outermost = AroundStep {
        rest: &chain,
        name: &name,
        action: &action,
        call: &mut call,
        wishes: &mut wishes,
        is_called: &mut is_called,
    };
    let result = outermost.pass().await;
    let output = (call.output != before).then_some(call.output);
    Returned { result, output, wishes, is_called }
}
