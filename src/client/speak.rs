//! The operations of a program on plans, in any world.

use serde_json::Value;

use super::{Client, ClientError, Happenings};
use crate::api;

/// Operations on plans, events and schedules, of a program's own world ([`Client::here`]) or of a
/// server ([`Client::new`]); a test may implement it with fixed answers.
///
/// The operations are those of [`Client`] with the same names.
pub trait Plans: Send + Sync {
    /// [`Client::start`], with an idempotency key if there is one.
    ///
    /// # Errors
    ///
    /// The world refuses, or does not answer.
    fn begin(&self, start: &api::Start, key: Option<&str>) -> Result<api::Started, ClientError>;

    /// [`Client::plans`].
    ///
    /// # Errors
    ///
    /// The world refuses, or does not answer.
    fn list(&self, query: &[(&str, &str)]) -> Result<api::PlanPage, ClientError>;

    /// [`Client::plan`].
    ///
    /// # Errors
    ///
    /// There is no such plan, or the world does not answer.
    fn look(&self, plan: &str) -> Result<api::PlanDetail, ClientError>;

    /// [`Client::wait`].
    ///
    /// # Errors
    ///
    /// There is no such plan, or the world does not answer.
    fn wait(&self, plan: &str) -> Result<api::PlanDetail, ClientError>;

    /// [`Client::steps`].
    ///
    /// # Errors
    ///
    /// There is no such plan, or the world does not answer.
    fn steps(&self, plan: &str, cursor: Option<&str>) -> Result<api::StepPage, ClientError>;

    /// [`Client::order`].
    ///
    /// # Errors
    ///
    /// The plan refuses, or the world does not answer.
    fn order(&self, plan: &str, order: &api::Order) -> Result<api::OrderDone, ClientError>;

    /// [`Client::order_many`].
    ///
    /// # Errors
    ///
    /// The world refuses, or does not answer.
    fn order_many(&self, order: &api::BulkOrder) -> Result<api::BulkDone, ClientError>;

    /// [`Client::event`].
    ///
    /// # Errors
    ///
    /// The step takes no events, or the world does not answer.
    fn event(
        &self,
        plan: &str,
        step: u32,
        event: &api::EventFor,
    ) -> Result<api::EventDone, ClientError>;

    /// [`Client::publish`].
    ///
    /// # Errors
    ///
    /// It is no event, or the world does not answer.
    fn publish(&self, event: &Value) -> Result<api::EventsDone, ClientError>;

    /// [`Client::put_schedule`].
    ///
    /// # Errors
    ///
    /// Its settings are invalid, or the world does not answer.
    fn put_schedule(
        &self,
        name: &str,
        spec: &api::ScheduleSpec,
    ) -> Result<api::ScheduleInfo, ClientError>;

    /// [`Client::events`].
    ///
    /// # Errors
    ///
    /// The world refuses, or does not answer.
    fn events(&self, query: &[(&str, &str)]) -> Result<Happenings, ClientError>;

    /// [`Client::stats`].
    ///
    /// # Errors
    ///
    /// The world does not answer.
    fn stats(&self) -> Result<api::Stats, ClientError>;
}

impl Plans for Client {
    fn begin(&self, start: &api::Start, key: Option<&str>) -> Result<api::Started, ClientError> {
        self.start_with(start, key)
    }

    fn list(&self, query: &[(&str, &str)]) -> Result<api::PlanPage, ClientError> {
        self.plans(query)
    }

    fn look(&self, plan: &str) -> Result<api::PlanDetail, ClientError> {
        self.plan(plan)
    }

    fn wait(&self, plan: &str) -> Result<api::PlanDetail, ClientError> {
        Self::wait(self, plan)
    }

    fn steps(&self, plan: &str, cursor: Option<&str>) -> Result<api::StepPage, ClientError> {
        Self::steps(self, plan, cursor)
    }

    fn order(&self, plan: &str, order: &api::Order) -> Result<api::OrderDone, ClientError> {
        Self::order(self, plan, order)
    }

    fn order_many(&self, order: &api::BulkOrder) -> Result<api::BulkDone, ClientError> {
        Self::order_many(self, order)
    }

    fn event(
        &self,
        plan: &str,
        step: u32,
        event: &api::EventFor,
    ) -> Result<api::EventDone, ClientError> {
        Self::event(self, plan, step, event)
    }

    fn publish(&self, event: &Value) -> Result<api::EventsDone, ClientError> {
        Self::publish(self, event)
    }

    fn put_schedule(
        &self,
        name: &str,
        spec: &api::ScheduleSpec,
    ) -> Result<api::ScheduleInfo, ClientError> {
        Self::put_schedule(self, name, spec)
    }

    fn events(&self, query: &[(&str, &str)]) -> Result<Happenings, ClientError> {
        Ok(Box::new(Self::events(self, query)?))
    }

    fn stats(&self) -> Result<api::Stats, ClientError> {
        Self::stats(self)
    }
}
