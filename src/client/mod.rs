//! A client of a server: the same things as with a [`World`](crate::engine::World) of one's own, over HTTP;
//! or of a world of this process, so that a program works with both: [`Plans`].
//!
//! It blocks its thread; a program that may not block calls it on a thread for that.

mod carry;
mod error;
mod events;
mod flows;
#[cfg(feature = "server")]
mod here;
mod jobs;
mod journeys;
mod pictures;
mod plans;
mod schedules;
mod speak;
mod work;
mod world;

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::api;
use carry::{lost, trusting, OverHttp};
pub use carry::{Carrier, Request};
pub use error::ClientError;
pub use events::{Events, Happenings};
pub use speak::Plans;

/// Time limit of a request, without the time of a wait.
const WITHIN: Duration = Duration::from_secs(60);

/// Bytes read of a problem when another kind of body was expected.
const REFUSAL_BYTES_MAX: u64 = 64 * 1_024;

/// A server and the caller's identity. Clones share their connections.
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
    carrier: Arc<dyn Carrier>,
    base: String,
    token: Option<String>,
    by: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at this address: the mount point of its router, without `/api/v1`.
    pub fn new(address: &str) -> Self {
        Self::over(Arc::new(OverHttp::new(is_near(address), None)), address)
    }

    /// The same over TLS, trusting only certificates signed by those of a text in PEM.
    ///
    /// # Errors
    ///
    /// The text is no PEM, or has no certificate.
    pub fn trusting(address: &str, pem: &[u8]) -> Result<Self, ClientError> {
        let carrier = OverHttp::new(is_near(address), Some(trusting(pem)?));
        Ok(Self::over(Arc::new(carrier), address))
    }

    /// A client that uses this carrier with this address.
    pub fn over(carrier: Arc<dyn Carrier>, address: &str) -> Self {
        let base = format!("{}/api/v1", address.trim_end_matches('/'));
        Self { carrier, base, token: None, by: None }
    }

    /// Sets the caller's name: a world of this process notes it with each order, and so does a
    /// server without tokens.
    pub fn by(mut self, name: &str) -> Self {
        self.by = Some(name.to_owned());
        self
    }

    /// Sets the caller's token.
    pub fn token(mut self, secret: &str) -> Self {
        self.token = Some(secret.to_owned());
        self
    }

    /// Returns whether the server works, with its problem if not.
    ///
    /// # Errors
    ///
    /// The server does not answer.
    pub fn health(&self) -> Result<api::Health, ClientError> {
        let base = self.base.trim_end_matches("/api/v1");
        let (_, text) = self.exchange("GET", &format!("{base}/health"), &[], None, WITHIN)?;
        understand(&text)
    }

    /// The state of its world.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
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

    /// Any operation of the API, by its method and its path below `/api/v1`: for operations without
    /// a method of this type. The answer is JSON; `null` if it has no body.
    ///
    /// # Errors
    ///
    /// The server refuses or does not answer.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<serde_json::Value, ClientError> {
        match self.ask(method, path, headers, body, WITHIN)? {
            empty if empty.is_empty() => Ok(serde_json::Value::Null),
            text => understand(&text),
        }
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
        Err(refusal(status, &text))
    }

    /// An operation whose answer is a stream of server-sent events, by its path below `/api/v1`.
    ///
    /// # Errors
    ///
    /// The server refuses or does not answer.
    pub fn open(&self, path: &str) -> Result<Box<dyn Read + Send>, ClientError> {
        let url = format!("{}{path}", self.base);
        let accept = [("accept", "text/event-stream")];
        let request = self.request("GET", &url, &accept, None)?;
        let (status, mut stream) = self.carrier.open(request, WITHIN)?;
        if status == 200 {
            return Ok(stream);
        }
        let mut text = String::new();
        let read = stream.by_ref().take(REFUSAL_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| lost(&url, &error))?;
        Err(refusal(status, &text))
    }

    fn exchange(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
        within: Duration,
    ) -> Result<(u16, String), ClientError> {
        self.carrier.carry(self.request(method, url, headers, body)?, within)
    }

    fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Request, ClientError> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(by) = &self.by {
            request = request.header("x-turnwheel-by", by);
        }
        let is_typed = headers.iter().any(|(name, _)| *name == "content-type");
        if body.is_some() && !is_typed {
            request = request.header("content-type", "application/json");
        }
        request.body(body.unwrap_or_default()).map_err(|error| lost(url, &error))
    }
}

/// Whether an address is of this machine.
fn is_near(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    ["localhost", "127.", "[::1]"].iter().any(|near| host.starts_with(near))
}

/// The error of an unsuccessful answer.
fn refusal(status: u16, text: &str) -> ClientError {
    match serde_json::from_str::<api::Problem>(text) {
        Ok(problem) => ClientError::Refused(Box::new(problem)),
        Err(_) => ClientError::Foreign { status, text: text.chars().take(300).collect() },
    }
}

fn understand<T: DeserializeOwned>(text: &str) -> Result<T, ClientError> {
    serde_json::from_str(text).map_err(ClientError::Unreadable)
}

/// A query with these parts.
fn query(parts: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        parts.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() {
        return String::new();
    }
    format!("?{}", pairs.join("&"))
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
