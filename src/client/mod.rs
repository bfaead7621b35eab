//! A client of a server: the same things as with a [`World`](crate::engine::World) of one's own, over HTTP.
//!
//! It blocks its thread; a program that may not block calls it on a thread for that.

mod error;
mod plans;
mod schedules;
mod work;

use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::api;
pub use error::ClientError;

/// How long a request may take, that of a wait not included.
const WITHIN: Duration = Duration::from_secs(60);

/// Bytes of an answer: a plan of a hundred thousand steps has less.
const ANSWER_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

/// A server, and who asks it. Clones share their connections.
///
/// ```no_run
/// use serde_json::json;
/// use turnwheel::client::Client;
///
/// let client = Client::new("http://127.0.0.1:7070").token("s3cret");
/// let started = client.start_once("order-7", "ship", &json!({"order": 7}))?;
/// let plan = client.wait(&started.id)?;
/// println!("{}: {}", plan.summary.result, plan.output);
/// # Ok::<(), turnwheel::client::ClientError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    token: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Client {
    /// The server at this address: where its router is mounted, without `/api/v1`.
    pub fn new(address: &str) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = config.timeout_connect(Some(WITHIN)).build();
        let base = format!("{}/api/v1", address.trim_end_matches('/'));
        Self { agent: config.into(), base, token: None }
    }

    /// Asks with this token.
    pub fn token(mut self, secret: &str) -> Self {
        self.token = Some(secret.to_owned());
        self
    }

    /// Whether the server does its work; what is wrong is in the answer.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn health(&self) -> Result<api::Health, ClientError> {
        let base = self.base.trim_end_matches("/api/v1");
        let (_, text) = self.exchange("GET", &format!("{base}/health"), &[], None, WITHIN)?;
        understand(&text)
    }

    /// How its world is.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn stats(&self) -> Result<api::Stats, ClientError> {
        self.get("/stats")
    }

    /// The actions that plans can begin with.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn actions(&self) -> Result<api::Actions, ClientError> {
        self.get("/actions")
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        understand(&self.ask("GET", path, &[], None, WITHIN)?)
    }

    fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        understand(&self.send("POST", path, &[], body, WITHIN)?)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &impl Serialize,
        within: Duration,
    ) -> Result<String, ClientError> {
        let body = serde_json::to_vec(body).map_err(ClientError::Unwritable)?;
        self.ask(method, path, headers, Some(body), within)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
        within: Duration,
    ) -> Result<String, ClientError> {
        let url = format!("{}{path}", self.base);
        let (status, text) = self.exchange(method, &url, headers, body, within)?;
        if (200..300).contains(&status) {
            return Ok(text);
        }
        match serde_json::from_str::<api::Problem>(&text) {
            Ok(problem) => Err(ClientError::Refused(Box::new(problem))),
            Err(_) => Err(ClientError::Foreign { status, text: text.chars().take(300).collect() }),
        }
    }

    fn exchange(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
        within: Duration,
    ) -> Result<(u16, String), ClientError> {
        let lost = |error: &dyn fmt::Display| ClientError::Lost {
            url: url.to_owned(),
            problem: error.to_string(),
        };
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let agent = &self.agent;
        let answer = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body);
                let request = request.map_err(|error| lost(&error))?;
                agent.run(limited(agent, request, within))
            }
            None => {
                let request = request.body(()).map_err(|error| lost(&error))?;
                agent.run(limited(agent, request, within))
            }
        };
        let answer = answer.map_err(|error| lost(&error))?;
        let status = answer.status().as_u16();
        let mut text = String::new();
        let mut reader = answer.into_body().into_reader().take(ANSWER_BYTES_MAX);
        reader.read_to_string(&mut text).map_err(|error| lost(&error))?;
        Ok((status, text))
    }
}

fn limited<B: ureq::AsSendBody>(
    agent: &ureq::Agent,
    request: ureq::http::Request<B>,
    within: Duration,
) -> ureq::http::Request<B> {
    agent.configure_request(request).timeout_global(Some(within)).build()
}

fn understand<T: DeserializeOwned>(text: &str) -> Result<T, ClientError> {
    serde_json::from_str(text).map_err(ClientError::Unreadable)
}

/// A part of a path.
fn encoded(text: &str) -> String {
    let mut part = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            part.push(char::from(byte));
        } else {
            part.push_str(&format!("%{byte:02X}"));
        }
    }
    part
}
