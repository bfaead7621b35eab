//! How a request gets to a world and its answer back: over HTTP, or inside this process.

use std::fmt;
use std::io::Read;
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

    /// Carries a request whose answer has no end, and answers its status and what comes. Only the begin of
    /// the answer is waited for so long.
    ///
    /// # Errors
    ///
    /// There is no answer: [`ClientError::Lost`]. A carrier that has no streams says so, which is what this
    /// does if it is not written.
    fn open(
        &self,
        request: Request,
        _within: Duration,
    ) -> Result<(u16, Box<dyn Read + Send>), ClientError> {
        Err(lost(&request.uri().to_string(), &"this carrier has no streams"))
    }
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

/// How long one stream is read before another one goes on after its last place: so long the end of a peer
/// that has vanished without a word may go unseen.
const STREAM: Duration = Duration::from_secs(300);

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

    fn open(
        &self,
        request: Request,
        within: Duration,
    ) -> Result<(u16, Box<dyn Read + Send>), ClientError> {
        let url = request.uri().to_string();
        let request = self.agent.configure_request(request.map(|_| ()));
        let request = request.timeout_recv_response(Some(within)).timeout_recv_body(Some(STREAM));
        let answer = self.agent.run(request.build()).map_err(|error| lost(&url, &error))?;
        let status = answer.status().as_u16();
        Ok((status, Box::new(answer.into_body().into_reader())))
    }
}
