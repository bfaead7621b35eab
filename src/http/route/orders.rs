//! Orders for one plan.

use axum::extract::State;
use axum::Json as Answer;
use turnwheel_engine::PlanHandle;

use crate::api::{Order, OrderDone};
use crate::http::body::{Json, PlanAt, Who};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;
use crate::shape;

/// Gives an order to a plan; the answer comes when it is durable
///
/// The field `possible` of a plan and of its steps lists the orders that it takes now.
#[utoipa::path(
    post, path = "/plans/{plan}/orders", tag = "plans", operation_id = "orderPlan",
    request_body = Order, params(("plan" = String, Path, description = "The plan")),
    responses((status = 200, description = "The order was carried out", body = OrderDone)),
)]
pub(in crate::http) async fn order(
    State(api): State<Api>,
    Who(who): Who,
    PlanAt(id): PlanAt,
    Json(order): Json<Order>,
) -> Result<Answer<OrderDone>, Problem> {
    let plan = api.world().plan(id);
    let done = give(&plan, &order, &who.name).await;
    let outcome = done.as_ref().map_or_else(Problem::detail, |()| "done");
    trace::audit(&who, order.name(), &id.to_string(), outcome);
    done?;
    let (plan, by) = (id.to_string(), who.name.to_string());
    Ok(Answer(OrderDone { plan, order: order.name().to_owned(), by }))
}

/// Gives an order, and waits until it is durable or refused.
pub(in crate::http) async fn give(
    plan: &PlanHandle,
    order: &Order,
    by: &str,
) -> Result<(), Problem> {
    let asked = shape::give(plan, order, by)
        .map_err(|error| Problem::new(Code::BodyInvalid, format!("the body: start_at: {error}")))?;
    Ok(asked.await??)
}
