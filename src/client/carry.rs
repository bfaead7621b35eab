//! How a request gets to a world and its answer back: over HTTP, or inside this process.

use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use super::ClientError;

/// A request: its method, address, headers and body.
pub type Request = ureq::http::Request<Vec<u8>>;

/// Carries requests to a world. [`Client::over`](super::Client::over) speaks over one.
///
/// There are two: HTTP, and (feature `server`) the router of a world of this process. A test may have one
/// of its own.
pub trait Carrier: Send + Sync + fmt::Debug {
    /// Carries a request, and answers its status and text. It blocks the thread at most so long.
    ///
    /// # Errors
    ///
    /// There is no answer: [`ClientError::Lost`].
    fn carry(&self, request: Request, within: Duration) -> Result<(u16, String), ClientError>;
}

/// Over HTTP.
pub(super) struct OverHttp {
    agent: ureq::Agent,
}

impl fmt::Debug for OverHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverHttp")
    }
}

/// How long it may take to be connected.
const CONNECT: Duration = Duration::from_secs(60);

/// Bytes of an answer: a plan of a hundred thousand steps has less.
const ANSWER_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

impl OverHttp {
    pub(super) fn new() -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = config.timeout_connect(Some(CONNECT)).build();
        Self { agent: config.into() }
    }
}

pub(super) fn lost(url: &str, error: &dyn fmt::Display) -> ClientError {
    ClientError::Lost { url: url.to_owned(), problem: error.to_string() }
}

impl Carrier for OverHttp {
    fn carry(&self, request: Request, within: Duration) -> Result<(u16, String), ClientError> {
        let url = request.uri().to_string();
        let agent = &self.agent;
        // What has no body says nothing about it.
        let answer = if request.body().is_empty() {
            let request = request.map(|_| ());
            agent.run(agent.configure_request(request).timeout_global(Some(within)).build())
        } else {
            agent.run(agent.configure_request(request).timeout_global(Some(within)).build())
        };
        let answer = answer.map_err(|error| lost(&url, &error))?;
        let status = answer.status().as_u16();
        let mut text = String::new();
        let mut reader = answer.into_body().into_reader().take(ANSWER_BYTES_MAX);
        reader.read_to_string(&mut text).map_err(|error| lost(&url, &error))?;
        Ok((status, text))
    }
}
