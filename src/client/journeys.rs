//! Journeys and the users who take them. Answers are JSON as `docs/journeys.md` shows it.

use serde_json::{json, Value};

use super::{encoded, understand, Client, ClientError, WITHIN};

impl Client {
    /// All journeys, by name.
    ///
    /// # Errors
    ///
    /// The server has no journeys, or does not answer.
    pub fn journeys(&self) -> Result<Value, ClientError> {
        self.get("/journeys")
    }

    /// A journey with its definition.
    ///
    /// # Errors
    ///
    /// There is no such journey, or the server does not answer.
    pub fn journey(&self, name: &str) -> Result<Value, ClientError> {
        self.get(&journey_path(name))
    }

    /// Adds a journey, or a version of it, YAML or JSON.
    ///
    /// # Errors
    ///
    /// It is invalid (the problems have their places), or the server does not answer.
    pub fn add_journey(&self, text: &str) -> Result<Value, ClientError> {
        let headers = [("content-type", "application/yaml")];
        let body = text.as_bytes().to_vec();
        understand(&self.ask("POST", "/journeys", &headers, Some(body), WITHIN)?)
    }

    /// Removes a journey: users under way leave it.
    ///
    /// # Errors
    ///
    /// There is no such journey, or the server does not answer.
    pub fn remove_journey(&self, name: &str) -> Result<Value, ClientError> {
        understand(&self.ask("DELETE", &journey_path(name), &[], None, WITHIN)?)
    }

    /// The elements of a journey.
    ///
    /// # Errors
    ///
    /// There is no such journey, or the server does not answer.
    pub fn journey_elements(&self, name: &str) -> Result<Value, ClientError> {
        self.get(&format!("{}/elements", journey_path(name)))
    }

    /// Users at each element of a journey, conversions and drop-offs.
    ///
    /// # Errors
    ///
    /// There is no such journey, or the server does not answer.
    pub fn journey_counts(&self, name: &str) -> Result<Value, ClientError> {
        self.get(&format!("{}/counts", journey_path(name)))
    }

    /// Tries a definition on recorded events: nothing is stored and nothing is sent.
    ///
    /// # Errors
    ///
    /// The definition or an event is invalid, or the server does not answer.
    pub fn dry_run_journey(&self, spec: &Value) -> Result<Value, ClientError> {
        understand(&self.send("POST", "/journeys/dry-run", &[], spec, WITHIN)?)
    }

    /// Where a user is, why, since when, and what comes next.
    ///
    /// # Errors
    ///
    /// The names cannot be those of a user, or the server does not answer.
    pub fn user(&self, platform: &str, user: &str) -> Result<Value, ClientError> {
        self.get(&user_path(platform, user))
    }

    /// Replaces the attributes of a user; with a revision only if they have it still.
    ///
    /// # Errors
    ///
    /// They were changed since, they are too large, or the server does not answer.
    pub fn put_user(
        &self,
        platform: &str,
        user: &str,
        attributes: &Value,
        revision: Option<u64>,
    ) -> Result<Value, ClientError> {
        let query = revision.map_or_else(String::new, |revision| format!("?revision={revision}"));
        let path = format!("{}{query}", user_path(platform, user));
        understand(&self.send("PUT", &path, &[], attributes, WITHIN)?)
    }

    /// Forgets a user: attributes, passes, messages and history.
    ///
    /// # Errors
    ///
    /// The names cannot be those of a user, or the server does not answer.
    pub fn forget_user(&self, platform: &str, user: &str) -> Result<Value, ClientError> {
        understand(&self.ask("DELETE", &user_path(platform, user), &[], None, WITHIN)?)
    }

    /// Notes that a user wants no messages, or wants them again.
    ///
    /// # Errors
    ///
    /// As [`Client::forget_user`].
    pub fn opt_out_user(
        &self,
        platform: &str,
        user: &str,
        is_out: bool,
    ) -> Result<Value, ClientError> {
        let path = format!("{}/opt-out", user_path(platform, user));
        understand(&self.send("POST", &path, &[], &json!({ "out": is_out }), WITHIN)?)
    }

    /// Sends messages of a user again that were given up: the one with this key, or all.
    ///
    /// # Errors
    ///
    /// There is none, the user has opted out of all of them or has too many messages that wait, or
    /// the server does not answer.
    pub fn resend_messages(
        &self,
        platform: &str,
        user: &str,
        key: Option<&str>,
    ) -> Result<Value, ClientError> {
        let path = format!("{}/resend", user_path(platform, user));
        understand(&self.send("POST", &path, &[], &json!({ "key": key }), WITHIN)?)
    }

    /// Sends events of users, CloudEvents with the user as subject; it is answered when all are
    /// durable, and an event that was sent before, by source and id, changes nothing.
    ///
    /// # Errors
    ///
    /// One is no event of a user, or the server does not answer.
    pub fn publish_of_users(&self, platform: &str, events: &[Value]) -> Result<Value, ClientError> {
        let path = format!("/platforms/{}/events", encoded(platform));
        let headers = [("content-type", "application/cloudevents-batch+json")];
        understand(&self.send("POST", &path, &headers, &events, WITHIN)?)
    }
}

fn journey_path(name: &str) -> String {
    format!("/journeys/{}", encoded(name))
}

fn user_path(platform: &str, user: &str) -> String {
    format!("/users/{}/{}", encoded(platform), encoded(user))
}
