//! Plans as data for drawing, and their steps.

use super::{encoded, query, Client, ClientError};
use crate::api;

impl Client {
    /// A step of a plan.
    ///
    /// # Errors
    ///
    /// There is no such step, or the server does not answer.
    pub fn step(&self, plan: &str, step: u32) -> Result<api::StepInfo, ClientError> {
        self.get(&format!("/plans/{}/steps/{step}", encoded(plan)))
    }

    /// The tree of actions: a page of it, or of the part selected by the query (`under`, `depth`,
    /// `state`, `text`, `limit`, `cursor`).
    ///
    /// # Errors
    ///
    /// There is no such plan, the query is wrong, or the server does not answer.
    pub fn tree(&self, plan: &str, part: &[(&str, &str)]) -> Result<api::Tree, ClientError> {
        self.picture(plan, "tree", part)
    }

    /// The graph of steps and their dependencies, row by row: a page of it (`limit`, `cursor`,
    /// `beside`).
    ///
    /// # Errors
    ///
    /// There is no such plan, the query is wrong, or the server does not answer.
    pub fn graph(&self, plan: &str, part: &[(&str, &str)]) -> Result<api::Graph, ClientError> {
        self.picture(plan, "graph", part)
    }

    /// The times of each step: a page of them (`limit`, `cursor`, `phase`).
    ///
    /// # Errors
    ///
    /// There is no such plan, the query is wrong, or the server does not answer.
    pub fn timeline(
        &self,
        plan: &str,
        part: &[(&str, &str)],
    ) -> Result<api::Timeline, ClientError> {
        self.picture(plan, "timeline", part)
    }

    /// All events of a plan, with author and reason: a page of them (`limit`, `cursor`, `order`).
    ///
    /// ```no_run
    /// use turnwheel::client::Client;
    ///
    /// let client = Client::new("http://127.0.0.1:7070");
    /// let mut cursor = None;
    /// loop {
    ///     let part: Vec<(&str, &str)> = cursor.iter().map(|at: &String| ("cursor", &**at)).collect();
    ///     let page = client.history("0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f", &part)?;
    ///     page.happenings.iter().for_each(|one| println!("{} {}", one.at, one.what));
    ///     cursor = page.next;
    ///     if cursor.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), turnwheel::client::ClientError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no such plan, the query is wrong, or the server does not answer.
    pub fn history(&self, plan: &str, part: &[(&str, &str)]) -> Result<api::History, ClientError> {
        self.picture(plan, "history", part)
    }

    /// Each call of each step, in the order of their begins: a page of them (`limit`, `cursor`, `order`,
    /// `step`).
    ///
    /// # Errors
    ///
    /// There is no such plan, the query is wrong, or the server does not answer.
    pub fn calls(&self, plan: &str, part: &[(&str, &str)]) -> Result<api::Calls, ClientError> {
        self.picture(plan, "calls", part)
    }

    fn picture<T: serde::de::DeserializeOwned>(
        &self,
        plan: &str,
        what: &str,
        part: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        self.get(&format!("/plans/{}/{what}{}", encoded(plan), query(part)))
    }

    /// Sends a heartbeat for external work of a step.
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

    /// Makes a path for sending one event to a step without a token.
    ///
    /// # Errors
    ///
    /// There is no such step, or the server does not answer.
    pub fn callback(&self, plan: &str, step: u32) -> Result<api::Callback, ClientError> {
        let path = format!("/plans/{}/steps/{step}/callback", encoded(plan));
        self.post(&path, &serde_json::json!({}))
    }
}
