//! Orders of the API, given to plans of the engine.

use turnwheel_engine::{ActionId, PlanError, PlanHandle, StepId, Time, TimeError};
use turnwheel_runtime::completion::Completion;

use crate::api::Order;

/// Gives an order to a plan: the completion tells whether it was taken, and that is durable.
///
/// # Errors
///
/// The order has a time that is none.
pub fn give(
    plan: &PlanHandle,
    order: &Order,
    by: &str,
) -> Result<Completion<Result<(), PlanError>>, TimeError> {
    Ok(match order {
        Order::Cancel { force: false } => plan.cancel(by),
        Order::Cancel { force: true } | Order::CancelNow {} => plan.cancel_now(by),
        Order::SkipFailed {} => plan.skip_failed(by),
        Order::RetryFailed {} => plan.retry_failed(by),
        Order::Label { name, value } => plan.label(name, value, by),
        Order::RemoveLabel { name } => plan.remove_label(name, by),
        Order::Halt {} => plan.halt(by),
        Order::Pause {} => plan.pause(by),
        Order::Resume {} => plan.resume(by),
        Order::Fail {} => plan.fail(by),
        Order::Revert {} => plan.revert(by),
        Order::Skip { step } => plan.skip(StepId(*step), by),
        Order::Retry { step } => plan.restart_from(StepId(*step), by),
        Order::EditInput { action, input } => plan.edit_input(ActionId(*action), input, by),
        Order::Freeze {} => plan.freeze(by),
        Order::DelayUntil { start_at } => {
            let time = start_at.as_deref().map(str::parse::<Time>).transpose()?;
            plan.delay_until(time, by)
        }
    })
}
