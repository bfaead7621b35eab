//! The actions of tasks that do something outside, which may block.

use std::sync::Arc;

use turnwheel_engine::action::{
    Action, ActionView, Concurrency, Next, Rescue, Run, Runs, StepContext,
};
use turnwheel_engine::{internal, ActionError, Payload};
use turnwheel_runtime::completion::block_on;

use super::action::{around, bounded, check_event, faulted, or_fault, task_of};
use super::effect;
use super::present::{edited, present};
use super::state::{TaskInput, TaskOutput, Which};
use crate::bench::Bench;

/// A task of a flow that does something outside: a request, or a command. Each kind has places of its
/// own.
#[derive(Debug)]
pub(crate) struct FlowEffect<const IS_REQUEST: bool> {
    pub(crate) bench: Arc<Bench>,
}

/// A task that runs a process or a container.
pub(crate) type FlowCommand = FlowEffect<false>;

/// A task that asks a service.
pub(crate) type FlowRequest = FlowEffect<true>;

/// The queue of requests. Commands are in the default one.
pub(crate) const REQUESTS: &str = "requests";

impl<const IS_REQUEST: bool> Action for FlowEffect<IS_REQUEST> {
    const NAME: &'static str = if IS_REQUEST { internal::REQUEST } else { internal::EFFECT };
    type Input = TaskInput;
    type Output = TaskOutput;
    type Phases = Runs;

    fn queue(&self) -> Option<&str> {
        IS_REQUEST.then_some(REQUESTS)
    }

    fn concurrency(&self) -> Concurrency<TaskInput> {
        let io = &self.bench.io;
        if IS_REQUEST {
            let limit = io.namespace_requests_max();
            return Concurrency::shared(limit, |input| input.namespace.clone());
        }
        Concurrency::shared(io.namespace_tasks_max(), |input| input.namespace.clone())
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn check_event(&self, event: &Payload) -> Result<(), ActionError> {
        check_event(event)
    }

    fn present(&self, view: &mut ActionView<'_>) {
        present(view);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        edited(stored, &input)
    }
}

impl<const IS_REQUEST: bool> Run for FlowEffect<IS_REQUEST> {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let next = self.call(step);
        Ok(or_fault(next, step.input.at.clone(), &mut step.output))
    }
}

impl<const IS_REQUEST: bool> FlowEffect<IS_REQUEST> {
    fn call(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let start: Which = step.plan_input()?;
        // The task that has asked for it has had it already, but perhaps in another process.
        let definition = match self.bench.definition(&start.definition) {
            Ok(known) => known,
            Err(_) => block_on(self.bench.definition_later(&start.definition))
                .map_err(|refused| ActionError::new("definition", refused))?
                .map_err(faulted)?,
        };
        let task = task_of(&definition, &step.input.at)?;
        let around = around(step);
        let (outcome, receipt) = effect::run(&self.bench, step, &definition, task, &around);
        let outcome = bounded(outcome, task);
        if let (Some(receipt), None) = (receipt, &outcome.fault) {
            internal::when_stored(step, move || receipt.accept());
        }
        step.output.outcome = Some(outcome);
        Ok(Next::Done)
    }
}
