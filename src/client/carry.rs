//! Transport between client and world: over HTTP, or inside this process.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{parse_pem, Certificate, PemItem, RootCerts, TlsConfig};

use super::ClientError;

/// A request: its method, address, headers and body.
pub type Request = ureq::http::Request<Vec<u8>>;

/// Sends requests to a world. [`Client::over`](super::Client::over) uses one.
///
/// There are two: HTTP, and (feature `server`) the router of a world of this process. A test may
/// have its own.
pub trait Carrier: Send + Sync + fmt::Debug {
    /// Sends a request, and returns status and text of the answer. It blocks the thread at most for
    /// `within`.
    ///
    /// # Errors
    ///
    /// There is no answer: [`ClientError::Lost`].
    fn carry(&self, request: Request, within: Duration) -> Result<(u16, String), ClientError>;

    /// Sends a request whose answer has no end, and returns its status and body as a stream.
    /// `within` limits the wait for the begin of the answer.
    ///
    /// # Errors
    ///
    /// There is no answer: [`ClientError::Lost`]. The default implementation answers that the
    /// carrier has no streams.
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

/// Time limit of connecting.
const CONNECT: Duration = Duration::from_secs(60);

/// Time for which one stream is read before the next one continues after its last place: this
/// bounds the time in which a vanished peer goes unnoticed.
const STREAM: Duration = Duration::from_secs(300);

/// Bytes of an answer: a plan of a hundred thousand steps has less.
const ANSWER_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

impl OverHttp {
    /// `is_near`: the server is on this machine, where a proxy would not find it.
    pub(super) fn new(is_near: bool, trusted: Option<TlsConfig>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = config.timeout_connect(Some(CONNECT));
        let config = if is_near { config.proxy(None) } else { config };
        let config = match trusted {
            Some(trusted) => config.tls_config(trusted),
            None => config,
        };
        Self { agent: config.build().into() }
    }
}

/// TLS that trusts only certificates signed by those of a text in PEM.
pub(super) fn trusting(pem: &[u8]) -> Result<TlsConfig, ClientError> {
    let wrong = |problem: &dyn fmt::Display| ClientError::Untrusted(problem.to_string());
    let mut trusted: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(&error))? {
            trusted.push(certificate);
        }
    }
    if trusted.is_empty() {
        return Err(wrong(&"it holds no certificate"));
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(trusted))).build())
}

pub(super) fn lost(url: &str, error: &dyn fmt::Display) -> ClientError {
    ClientError::Lost { url: url.to_owned(), problem: error.to_string() }
}

impl Carrier for OverHttp {
    fn carry(&self, request: Request, within: Duration) -> Result<(u16, String), ClientError> {
        let url = request.uri().to_string();
        let agent = &self.agent;
        // Without a body there is no header about it.
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
