//! Flows of the Serverless Workflow DSL, and events for them.

use serde_json::Value;

use super::{encoded, understand, Client, ClientError, WITHIN};
use crate::api;

impl Client {
    /// All flows that the server has, page by page.
    ///
    /// # Errors
    ///
    /// The server has no flows, or does not answer.
    pub fn flows(&self) -> Result<api::FlowList, ClientError> {
        let mut all: api::FlowList = self.get("/flows")?;
        while let Some(cursor) = all.next.take() {
            let page: api::FlowList = self.get(&format!("/flows?cursor={}", encoded(&cursor)))?;
            all.flows.extend(page.flows);
            all.next = page.next;
        }
        Ok(all)
    }

    /// A flow; its version may be `latest`.
    ///
    /// # Errors
    ///
    /// There is no such flow, or the server does not answer.
    pub fn flow(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<api::FlowDetail, ClientError> {
        self.get(&flow_path(namespace, name, version))
    }

    /// Adds a flow, YAML or JSON; an existing one stays unchanged.
    ///
    /// # Errors
    ///
    /// It is invalid (the problems have their places), a different flow has its name and version,
    /// or the server does not answer.
    pub fn add_flow(&self, source: &str) -> Result<api::FlowDetail, ClientError> {
        self.flow_source("/flows", source)
    }

    /// Checks a flow without adding it; returns its problems.
    ///
    /// # Errors
    ///
    /// As [`Client::add_flow`].
    pub fn check_flow(&self, source: &str) -> Result<api::FlowDetail, ClientError> {
        self.flow_source("/flows/check", source)
    }

    fn flow_source(&self, path: &str, source: &str) -> Result<api::FlowDetail, ClientError> {
        let headers = [("content-type", "application/yaml")];
        let body = source.as_bytes().to_vec();
        understand(&self.ask("POST", path, &headers, Some(body), WITHIN)?)
    }

    /// Removes a version of a flow; plans that are over keep their definition.
    ///
    /// # Errors
    ///
    /// There is no such version, plans of it are not over, schedules start it, or the server does not
    /// answer.
    pub fn remove_flow(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<(), ClientError> {
        self.ask("DELETE", &flow_path(namespace, name, version), &[], None, WITHIN).map(drop)
    }

    /// The same although schedules start it: they go on with its definition.
    ///
    /// # Errors
    ///
    /// There is no such version, plans of it are not over, or the server does not answer.
    pub fn remove_scheduled_flow(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<(), ClientError> {
        let path = format!("{}?force=true", flow_path(namespace, name, version));
        self.ask("DELETE", &path, &[], None, WITHIN).map(drop)
    }

    /// Starts a flow; its plan is durable when this returns. The same key gives the same plan.
    ///
    /// # Errors
    ///
    /// There is no such flow, its input is invalid, the key has started another one, or the server
    /// does not answer.
    pub fn start_flow(
        &self,
        (namespace, name, version): (&str, &str, &str),
        run: &api::FlowRun,
        key: Option<&str>,
    ) -> Result<api::Started, ClientError> {
        let path = format!("{}/start", flow_path(namespace, name, version));
        let headers: Vec<(&str, &str)> =
            key.map(|key| ("idempotency-key", key)).into_iter().collect();
        understand(&self.send("POST", &path, &headers, run, WITHIN)?)
    }

    /// Publishes an event of CloudEvents 1.0, in structured mode, to the flows that listen for it
    /// or start with it; it is durable with all of them when this returns.
    ///
    /// # Errors
    ///
    /// It is no event, or the server does not answer. The same event can be published again.
    pub fn publish(&self, event: &Value) -> Result<api::EventsDone, ClientError> {
        let headers = [("content-type", "application/cloudevents+json")];
        understand(&self.send("POST", "/events", &headers, event, WITHIN)?)
    }

    /// Events that were published on the node lately, the newest first, at most so many.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn recent_events(&self, limit: u32) -> Result<api::RecentEvents, ClientError> {
        self.get(&format!("/events/recent?limit={limit}"))
    }
}

fn flow_path(namespace: &str, name: &str, version: &str) -> String {
    format!("/flows/{}/{}/{}", encoded(namespace), encoded(name), encoded(version))
}
