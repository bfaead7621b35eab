//! Actions without their types, as the engine keeps and calls them.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::concurrency::KeyOfCall;
use super::hook::{Change, On};
use super::migrate;
use super::phases::sealed::Sealed;
use super::present::ActionView;
use super::step::{Facts, Wishes};
use super::{panic_message, Action, Next, OnInterrupt, Registry, Rescue, RetryPolicy, StepContext};
use crate::error::ActionError;
use crate::id::PlanId;
use crate::payload::Payload;
use crate::plan::{plan_root, Planned};
use crate::time::Time;
use crate::world::check_labels;

/// Function of an action that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Run,
    Finalize,
    Revert,
}

/// A call of a step's code.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    pub(crate) facts: Box<Facts>,
    pub(crate) input: Payload,
    pub(crate) output: Payload,
}

/// End of a call of a step's code.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) result: Result<Next, ActionError>,
    /// The output, if it changed.
    pub(crate) output: Option<Payload>,
    pub(crate) wishes: Wishes,
    /// Whether the action's code was called, or may have been.
    pub(crate) is_called: bool,
}

impl Returned {
    pub(crate) fn failed(error: ActionError) -> Self {
        Self { result: Err(error), output: None, wishes: Wishes::default(), is_called: true }
    }

    /// Whether it waits for more plans than one entry of the journal should have.
    pub(crate) fn asks_for_pages(&self) -> bool {
        let waits = matches!(self.result, Ok(Next::Suspend(_) | Next::Event(_) | Next::SubPlans));
        waits && self.wishes.plans.has_pages()
    }

    /// It has failed before the action's code was called.
    pub(crate) fn not_called(error: ActionError) -> Self {
        Self { is_called: false, ..Self::failed(error) }
    }
}

/// A call that has begun.
pub(crate) enum Begun {
    /// To be called where it may block.
    Blocking(Box<dyn FnOnce() -> Returned + Send>),
    /// To be polled.
    Async(Pin<Box<dyn Future<Output = Returned> + Send>>),
}

/// The key that a call needs, or why that is not known.
pub(crate) type Keyed = Result<Option<KeyOfCall>, ActionError>;

/// An action without its type.
pub(crate) trait AnyAction: Send + Sync {
    fn runs(&self) -> bool;
    fn finalizes(&self) -> bool;
    fn queue(&self) -> Option<&str>;
    fn priority(&self) -> Option<i32>;
    fn runs_async(&self) -> bool;
    fn concurrency(&self, input: &dyn Fn() -> Option<Payload>) -> Keyed;
    fn run_weight(&self) -> u32;
    fn finalize_weight(&self) -> u32;
    fn reverts(&self) -> bool;
    fn retry(&self) -> RetryPolicy;
    fn retry_finalize(&self) -> RetryPolicy;
    fn retry_revert(&self) -> RetryPolicy;
    fn reverts_failed(&self, error: &ActionError) -> bool;
    fn limit(&self) -> Option<Duration>;
    fn heartbeat(&self) -> Option<Duration>;
    fn rescue(&self, error: &ActionError) -> Rescue;
    fn rescue_of_planned(&self, action: &str, suggested: Rescue) -> Rescue;
    fn takes_events(&self) -> bool;
    fn check_event(&self, event: &Payload) -> Result<(), ActionError>;
    fn scheduled(&self, input: &Payload) -> Result<Vec<(String, String)>, ActionError>;
    fn on_interrupt(&self, input: &Payload) -> OnInterrupt;
    fn is_cancellable(&self) -> bool;
    fn cleans_up_when_skipped(&self) -> bool;
    fn hooks(&self) -> On;
    fn version(&self) -> u32;
    fn migrated(
        &self,
        from: u32,
        input: &Payload,
        output: &Payload,
    ) -> Result<(Payload, Payload), ActionError>;
    fn check(&self, from: u32, input: &Payload, output: &Payload) -> Result<(), ActionError>;
    fn present(&self, view: &mut ActionView<'_>);
    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError>;
    fn changed(&self, change: &Change) -> Result<(), ActionError>;
    fn plan(
        &self,
        registry: &Arc<Registry>,
        plan: PlanId,
        input: &Payload,
        clock: &dyn Fn() -> Time,
    ) -> Planned;
    fn begin(self: Arc<Self>, call: Call) -> Begun;
}

impl<A: Action> AnyAction for A {
    fn runs(&self) -> bool {
        A::Phases::RUNS
    }

    fn finalizes(&self) -> bool {
        A::Phases::FINALIZES
    }

    fn queue(&self) -> Option<&str> {
        guarded::<A, _>("queue", None, || Action::queue(self))
    }

    fn priority(&self) -> Option<i32> {
        guarded::<A, _>("priority", None, || Action::priority(self))
    }

    fn runs_async(&self) -> bool {
        A::Phases::IS_ASYNC
    }

    fn concurrency(&self, input: &dyn Fn() -> Option<Payload>) -> Keyed {
        let concurrency = catch_unwind(AssertUnwindSafe(|| Action::concurrency(self)));
        let concurrency =
            concurrency.map_err(|panic| ActionError::new("panic", panic_message(panic)))?;
        if concurrency.is_any() {
            return Ok(None);
        }
        // An input that cannot be read has no key: the call says what is wrong with it.
        let Some(input) = input().and_then(|input| input.read().ok()) else { return Ok(None) };
        catch_unwind(AssertUnwindSafe(|| concurrency.of_call(&input)))
            .map_err(|panic| ActionError::new("panic", panic_message(panic)))
    }

    fn run_weight(&self) -> u32 {
        guarded::<A, _>("run_weight", 1_000, || thousandths(Action::run_weight(self)))
    }

    fn finalize_weight(&self) -> u32 {
        guarded::<A, _>("finalize_weight", 1_000, || thousandths(Action::finalize_weight(self)))
    }

    fn reverts(&self) -> bool {
        A::Phases::REVERTS
    }

    fn retry(&self) -> RetryPolicy {
        guarded::<A, _>("retry", RetryPolicy::none(), || Action::retry(self))
    }

    fn retry_finalize(&self) -> RetryPolicy {
        guarded::<A, _>("retry_finalize", RetryPolicy::none(), || Action::retry_finalize(self))
    }

    fn retry_revert(&self) -> RetryPolicy {
        guarded::<A, _>("retry_revert", RetryPolicy::none(), || Action::retry_revert(self))
    }

    fn reverts_failed(&self, error: &ActionError) -> bool {
        guarded::<A, _>("reverts_failed", true, || Action::reverts_failed(self, error))
    }

    fn limit(&self) -> Option<Duration> {
        guarded::<A, _>("limit", None, || Action::limit(self))
    }

    fn heartbeat(&self) -> Option<Duration> {
        guarded::<A, _>("heartbeat", None, || Action::heartbeat(self))
    }

    fn rescue(&self, error: &ActionError) -> Rescue {
        guarded::<A, _>("rescue", Rescue::Pause, || Action::rescue(self, error))
    }

    fn rescue_of_planned(&self, action: &str, suggested: Rescue) -> Rescue {
        guarded::<A, _>("rescue_of_planned", Rescue::Pause, || {
            Action::rescue_of_planned(self, action, suggested)
        })
    }

    fn takes_events(&self) -> bool {
        guarded::<A, _>("takes_events", true, || Action::takes_events(self))
    }

    fn check_event(&self, event: &Payload) -> Result<(), ActionError> {
        Action::check_event(self, event)
    }

    fn scheduled(&self, input: &Payload) -> Result<Vec<(String, String)>, ActionError> {
        let scheduled = || {
            let labels = Action::scheduled(self, input)?;
            check_labels(&labels).map_err(|error| ActionError::new("label", error).and_final())?;
            Ok(labels)
        };
        guarded::<A, _>("scheduled", Ok(Vec::new()), scheduled)
    }

    fn on_interrupt(&self, input: &Payload) -> OnInterrupt {
        guarded::<A, _>("on_interrupt", OnInterrupt::Pause, || match input.read() {
            Ok(input) => Action::on_interrupt_of(self, &input),
            // The call says what is wrong with it.
            Err(_) => Action::on_interrupt(self),
        })
    }

    fn is_cancellable(&self) -> bool {
        guarded::<A, _>("is_cancellable", false, || Action::is_cancellable(self))
    }

    fn cleans_up_when_skipped(&self) -> bool {
        guarded::<A, _>("cleans_up_when_skipped", false, || Action::cleans_up_when_skipped(self))
    }

    fn present(&self, view: &mut ActionView<'_>) {
        Action::present(self, view);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        let panicked = || Err(ActionError::new("edited", "the action could not read it"));
        guarded::<A, _>("edited", panicked(), || Action::edited(self, stored, input))
    }

    fn version(&self) -> u32 {
        A::VERSION
    }

    fn migrated(
        &self,
        from: u32,
        input: &Payload,
        output: &Payload,
    ) -> Result<(Payload, Payload), ActionError> {
        migrate::migrated(self, from, input, output)
    }

    fn check(&self, from: u32, input: &Payload, output: &Payload) -> Result<(), ActionError> {
        migrate::check(self, from, input, output)
    }

    fn hooks(&self) -> On {
        A::HOOKS
    }

    fn changed(&self, change: &Change) -> Result<(), ActionError> {
        Action::changed(self, change)
    }

    fn plan(
        &self,
        registry: &Arc<Registry>,
        plan: PlanId,
        input: &Payload,
        clock: &dyn Fn() -> Time,
    ) -> Planned {
        let input = input.read::<A::Input>();
        plan_root::<A>(registry, plan, input.map_err(|e| unfit(A::NAME, "input", &e)), clock)
    }

    fn begin(self: Arc<Self>, call: Call) -> Begun {
        match call.kind {
            CallKind::Run => A::Phases::run(self, call),
            CallKind::Finalize => A::Phases::finalize(self, call),
            CallKind::Revert => A::Phases::revert(self, call),
        }
    }
}

/// Asks an action what it wants. A panic is no answer: the safest one is taken.
pub(super) fn guarded<A: Action, T>(what: &str, otherwise: T, ask: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| {
        let message = panic_message(panic);
        tracing::error!(action = A::NAME, what, message, "an action panicked when it was asked");
        otherwise
    })
}

fn thousandths(weight: f64) -> u32 {
    if weight.is_finite() {
        (weight.clamp(0.0, 1_000_000.0) * 1_000.0) as u32
    } else {
        0
    }
}

/// Calls code that may block; a panic is a failure.
pub(super) fn blocking<A: Action>(
    call: Call,
    code: impl FnOnce(&mut StepContext<A>) -> Result<Next, ActionError>,
) -> Returned {
    let (mut step, before) = match prepare::<A>(call) {
        Ok(prepared) => prepared,
        Err(error) => return Returned::not_called(error),
    };
    let result = catch_unwind(AssertUnwindSafe(|| code(&mut step)));
    let result =
        result.unwrap_or_else(|panic| Err(ActionError::new("panic", panic_message(panic))));
    finish(&before, step, result)
}

/// Input and output as the action's types, and the output as it was.
pub(super) fn prepare<A: Action>(call: Call) -> Result<(StepContext<A>, Payload), ActionError> {
    let input = call.input.read().map_err(|error| unfit(A::NAME, "input", &error))?;
    let output = if call.output.is_null() {
        A::Output::default()
    } else {
        call.output.read().map_err(|error| unfit(A::NAME, "output", &error))?
    };
    let step = StepContext { input, output, facts: call.facts, wishes: Wishes::default() };
    Ok((step, call.output))
}

fn unfit(action: &str, what: &str, error: &dyn std::fmt::Display) -> ActionError {
    ActionError::new("unfit", format!("the stored {what} of «{action}» {error}"))
}

/// Result of a call. An output that has changed is kept, whether the call succeeded or not.
pub(super) fn finish<A: Action>(
    before: &Payload,
    step: StepContext<A>,
    result: Result<Next, ActionError>,
) -> Returned {
    let chunks = step.facts.cancelled.take_chunks(usize::MAX);
    let mut returned = match Payload::of(&step.output) {
        Ok(output) => {
            let output = (output != *before).then_some(output);
            Returned { result, output, wishes: step.wishes, is_called: true }
        }
        Err(error) => {
            let error = ActionError::new("output", format!("the output of «{}» {error}", A::NAME));
            Returned::failed(result.err().unwrap_or(error))
        }
    };
    returned.wishes.chunks = chunks;
    returned
}
