//! Work of steps that a program elsewhere does: this one.

use std::time::Duration;

use serde::Serialize;

use super::{encoded, understand, Client, ClientError, WITHIN};
use crate::api;

impl Client {
    /// Leases tasks; waits for one as long as the request says.
    ///
    /// # Errors
    ///
    /// The server refuses or does not answer.
    pub fn lease(&self, lease: &api::Lease) -> Result<Vec<api::Task>, ClientError> {
        let within = WITHIN + Duration::from_millis(lease.wait_ms.unwrap_or(0));
        let leased: api::Leased =
            understand(&self.send("POST", "/work/lease", &[], lease, within)?)?;
        Ok(leased.tasks)
    }

    /// Counts the tasks of a topic.
    ///
    /// # Errors
    ///
    /// The server refuses or does not answer.
    pub fn topic(&self, name: &str) -> Result<api::Topic, ClientError> {
        self.get(&format!("/work/topics/{}", encoded(name)))
    }

    /// Says that the worker lives, and how far it is. The code `lease-lost` means: stop.
    ///
    /// # Errors
    ///
    /// The task is not this worker's any more, or the server does not answer.
    pub fn beat(
        &self,
        task: &api::Task,
        details: &impl Serialize,
    ) -> Result<api::TaskHeld, ClientError> {
        let details = serde_json::to_value(details).map_err(ClientError::Unwritable)?;
        let beat = api::TaskHeartbeat { lease_ms: None, details };
        self.post(&format!("/work/{}/heartbeat", encoded(&task.id)), &beat)
    }

    /// Gives the task back, not worked on: another worker gets it at once.
    ///
    /// # Errors
    ///
    /// The task is not this worker's any more, or the server does not answer.
    pub fn release(&self, task: &api::Task) -> Result<api::TaskDone, ClientError> {
        self.post(&format!("/work/{}/release", encoded(&task.id)), &serde_json::json!({}))
    }

    /// Says that the task is done; that is durable when this answers.
    ///
    /// # Errors
    ///
    /// The task is not this worker's any more, or the server does not answer.
    pub fn complete(
        &self,
        task: &api::Task,
        output: &impl Serialize,
    ) -> Result<api::TaskDone, ClientError> {
        let output = serde_json::to_value(output).map_err(ClientError::Unwritable)?;
        let done = api::TaskComplete { output };
        self.post(&format!("/work/{}/complete", encoded(&task.id)), &done)
    }

    /// Says that the task has failed; that is durable when this answers.
    ///
    /// # Errors
    ///
    /// The task is not this worker's any more, or the server does not answer.
    pub fn fail(
        &self,
        task: &api::Task,
        failed: &api::TaskFail,
    ) -> Result<api::TaskDone, ClientError> {
        self.post(&format!("/work/{}/fail", encoded(&task.id)), failed)
    }
}
