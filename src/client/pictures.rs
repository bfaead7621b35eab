//! Plans as data for those who draw them, and their steps.

use super::{encoded, query, Client, ClientError};
use crate::api;

impl Client {
    /// A step of a plan.
    ///
    /// # Errors
    ///
    /// There is none, or the server does not answer.
    pub fn step(&self, plan: &str, step: u32) -> Result<api::StepInfo, ClientError> {
        self.get(&format!("/plans/{}/steps/{step}", encoded(plan)))
    }

    /// Who planned whom: the whole tree, or the part that the query says (`under`, `depth`, `after`,
    /// `limit`).
    ///
    /// # Errors
    ///
    /// There is no such plan, the query is wrong, or the server does not answer.
    pub fn tree(&self, plan: &str, part: &[(&str, &str)]) -> Result<api::Tree, ClientError> {
        self.get(&format!("/plans/{}/tree{}", encoded(plan), query(part)))
    }

    /// Which step waits for which.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the server does not answer.
    pub fn graph(&self, plan: &str) -> Result<api::Graph, ClientError> {
        self.get(&format!("/plans/{}/graph", encoded(plan)))
    }

    /// When each step did what.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the server does not answer.
    pub fn timeline(&self, plan: &str) -> Result<api::Timeline, ClientError> {
        self.get(&format!("/plans/{}/timeline", encoded(plan)))
    }

    /// All that happened to a plan, with who and why, and each call of each step.
    ///
    /// # Errors
    ///
    /// There is no such plan, or the server does not answer.
    pub fn history(&self, plan: &str) -> Result<api::History, ClientError> {
        self.get(&format!("/plans/{}/history", encoded(plan)))
    }

    /// Says that what a step has started outside is alive.
    ///
    /// # Errors
    ///
    /// The step does not run in this attempt, or the server does not answer.
    pub fn heartbeat(
        &self,
        plan: &str,
        step: u32,
        beat: &api::HeartbeatFor,
    ) -> Result<api::EventDone, ClientError> {
        self.post(&format!("/plans/{}/steps/{step}/heartbeat", encoded(plan)), beat)
    }

    /// Makes a path by which somebody without a token can send one event to a step.
    ///
    /// # Errors
    ///
    /// There is no such step, or the server does not answer.
    pub fn callback(&self, plan: &str, step: u32) -> Result<api::Callback, ClientError> {
        let path = format!("/plans/{}/steps/{step}/callback", encoded(plan));
        self.post(&path, &serde_json::json!({}))
    }
}
