//! Plans: begin, look, order, tell.

use std::time::Duration;

use serde::Serialize;

use super::{encoded, understand, Client, ClientError, WITHIN};
use crate::api;

/// Time for which one request waits for the end of a plan.
const WAIT: Duration = Duration::from_secs(30);

impl Client {
    /// Starts a plan; it is durable when this returns.
    ///
    /// # Errors
    ///
    /// The server refuses. Without an answer it is unknown whether the plan has started: see
    /// [`Client::start_once`].
    pub fn start(&self, start: &api::Start) -> Result<api::Started, ClientError> {
        self.post("/plans", start)
    }

    /// Begins a plan with an idempotency key: the same call again answers the same plan.
    ///
    /// # Errors
    ///
    /// The server refuses, also if the key has begun another plan; or it does not answer.
    pub fn start_once(
        &self,
        key: &str,
        action: &str,
        input: &impl Serialize,
    ) -> Result<api::Started, ClientError> {
        let input = serde_json::to_value(input).map_err(ClientError::Unwritable)?;
        let start = api::Start { action: action.to_owned(), input, ..api::Start::default() };
        self.start_with(&start, Some(key))
    }

    /// As [`Client::start`], with an idempotency key if there is one.
    ///
    /// # Errors
    ///
    /// As [`Client::start_once`].
    pub fn start_with(
        &self,
        start: &api::Start,
        key: Option<&str>,
    ) -> Result<api::Started, ClientError> {
        let headers: Vec<(&str, &str)> =
            key.map(|key| ("idempotency-key", key)).into_iter().collect();
        understand(&self.send("POST", "/plans", &headers, start, WITHIN)?)
    }

    /// A page of the plans that fit, newest first. Filters of the list are given as in its query.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn plans(&self, query: &[(&str, &str)]) -> Result<api::PlanPage, ClientError> {
        self.get(&format!("/plans{}", super::query(query)))
    }

    /// The plan started with this idempotency key: the caller's own, else the one whose
    /// [`key`](api::PlanDetail::key) is this. `None` if there is none.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub fn plan_of_key(&self, key: &str) -> Result<Option<api::PlanSummary>, ClientError> {
        Ok(self.plans(&[("key", key)])?.plans.pop())
    }

    /// A plan as it is now.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the server does not answer.
    pub fn plan(&self, plan: &str) -> Result<api::PlanDetail, ClientError> {
        self.get(&format!("/plans/{}", encoded(plan)))
    }

    /// Waits until a plan is stopped or paused, without a time limit.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the server does not answer.
    pub fn wait(&self, plan: &str) -> Result<api::PlanDetail, ClientError> {
        let path = format!("/plans/{}?wait_ms={}", encoded(plan), WAIT.as_millis());
        loop {
            let text = self.ask("GET", &path, &[], None, WAIT + WITHIN)?;
            let shown: api::PlanDetail = understand(&text)?;
            if matches!(shown.summary.state.as_str(), "stopped" | "paused") {
                return Ok(shown);
            }
        }
    }

    /// A page of the steps of a plan, from a cursor on.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the server does not answer.
    pub fn steps(&self, plan: &str, cursor: Option<&str>) -> Result<api::StepPage, ClientError> {
        let cursor = cursor.map_or(String::new(), |cursor| format!("?cursor={}", encoded(cursor)));
        self.get(&format!("/plans/{}/steps{cursor}", encoded(plan)))
    }

    /// Gives an order to a plan; it is durable when this returns.
    ///
    /// # Errors
    ///
    /// The plan refuses, or the server does not answer.
    pub fn order(&self, plan: &str, order: &api::Order) -> Result<api::OrderDone, ClientError> {
        self.post(&format!("/plans/{}/orders", encoded(plan)), order)
    }

    /// Starts a failed flow from its failed task, as a new plan; it is durable when this returns. A
    /// second retry of the same plan gives the plan of the first one.
    ///
    /// # Errors
    ///
    /// The plan is no flow, or has not failed; or the server does not answer.
    pub fn retry(&self, plan: &str, rerun: &api::Rerun) -> Result<api::Started, ClientError> {
        self.post(&format!("/plans/{}/retry", encoded(plan)), rerun)
    }

    /// Runs a plan again from its begin, as a new plan; it is durable when this returns.
    ///
    /// # Errors
    ///
    /// There is no such plan, the key has started another one, or the server does not answer.
    pub fn again(
        &self,
        plan: &str,
        rerun: &api::Rerun,
        key: Option<&str>,
    ) -> Result<api::Started, ClientError> {
        let headers: Vec<(&str, &str)> =
            key.map(|key| ("idempotency-key", key)).into_iter().collect();
        let path = format!("/plans/{}/again", encoded(plan));
        understand(&self.send("POST", &path, &headers, rerun, WITHIN)?)
    }

    /// Gives an order to all matching plans.
    ///
    /// # Errors
    ///
    /// The server refuses or does not answer; the outcome of each plan is in the answer.
    pub fn order_many(&self, order: &api::BulkOrder) -> Result<api::BulkDone, ClientError> {
        self.post("/orders", order)
    }

    /// Removes a plan that is over, with all that happened to it.
    ///
    /// # Errors
    ///
    /// There is no such plan, it is not over, or the server does not answer.
    pub fn remove_plan(&self, plan: &str) -> Result<(), ClientError> {
        self.ask("DELETE", &format!("/plans/{}", encoded(plan)), &[], None, WITHIN).map(drop)
    }

    /// Sends an event to a step that waits for one, or will; it is durable when this returns.
    ///
    /// # Errors
    ///
    /// The step takes no events, or the server does not answer. An event with an id can be sent again.
    pub fn event(
        &self,
        plan: &str,
        step: u32,
        event: &api::EventFor,
    ) -> Result<api::EventDone, ClientError> {
        self.post(&format!("/plans/{}/steps/{step}/events", encoded(plan)), event)
    }
}
