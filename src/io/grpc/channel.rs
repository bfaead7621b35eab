//! A connection to a server of gRPC, and exchanges on it, one after the other.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderName, HeaderValue, Method, Request, Version};
use prost_reflect::prost::Message as _;
use prost_reflect::DynamicMessage;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::TlsConnector;
use turnwheel_flow::{header_problem, IoError, IoErrorKind};

use super::super::options::IoOptions;
use super::super::reach::addresses;
use super::super::scarce::Patience;
use super::super::tls;
use super::status::Status;

/// The protocol that is asked for by TLS.
const PROTOCOL: &[u8] = b"h2";

/// Headers of an answer together, in bytes.
const HEADERS_MAX: u32 = 64 * 1_024;

/// Bytes that a server may send before they are read.
const WINDOW: u32 = 256 * 1_024;

/// Memory beside their bytes that waiting frames may take. Servers send each message of a stream in
/// a frame of its own, and what the library allows by itself is used up by a burst of small ones.
const FRAMES: usize = 64 * WINDOW as usize;

/// The flag and the length before a message.
const PREFIX: usize = 5;

/// The longest time that a header may have in milliseconds: it has eight digits.
const MILLISECONDS_MAX: u128 = 99_999_999;

/// Common parts of the exchanges of one call.
pub(super) struct Head<'a> {
    pub(super) metadata: &'a [(String, String)],
    pub(super) deadline: Instant,
    /// Bytes of an answer.
    pub(super) limit: usize,
}

/// TLS for HTTP/2. Without roots they are those of other requests.
pub(in crate::io) fn tls_config(
    roots: Vec<CertificateDer<'static>>,
    own: Option<tls::Own>,
) -> Result<Arc<ClientConfig>, IoError> {
    let mut config = tls::config(roots, own)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// An open connection.
pub(super) struct Channel {
    sender: SendRequest<Bytes>,
    /// Scheme and authority.
    origin: String,
}

impl Channel {
    /// Connects to an address that may be reached.
    pub(super) async fn open(
        options: &IoOptions,
        host: &str,
        port: u16,
        tls: Option<Arc<ClientConfig>>,
        deadline: Instant,
    ) -> Result<Self, IoError> {
        let addresses = addresses(options, host, port).await?;
        let authority = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let failed = |error: &dyn std::fmt::Display| {
            IoError::new(IoErrorKind::Communication, format!("{authority}: {error}"))
        };
        let attempt = || TcpStream::connect(&*addresses);
        let stream = connect(attempt, deadline).await;
        let stream = stream.map_err(|error| failed(&error))?;
        // A message is written at once; a delay would only wait for more of it.
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let sender = match tls {
            None => handshake(stream).await.map_err(|error| failed(&error))?,
            Some(config) => {
                let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
                let stream = TlsConnector::from(config).connect(name, stream).await;
                let stream = stream.map_err(|error| failed(&format_args!("TLS: {error}")))?;
                if stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
                    return Err(failed(&"the server does not speak HTTP/2, which gRPC needs"));
                }
                handshake(stream).await.map_err(|error| failed(&error))?
            }
        };
        Ok(Self { sender, origin: format!("{scheme}://{authority}") })
    }

    /// Sends messages, and gives each message of the answer to `take`.
    pub(super) async fn exchange(
        &mut self,
        path: &str,
        head: &Head<'_>,
        messages: &[DynamicMessage],
        take: &mut dyn FnMut(Bytes) -> Result<(), IoError>,
    ) -> Result<Status, IoError> {
        let shown = format!("{}{path}", self.origin);
        let failed = |error: h2::Error| {
            IoError::new(IoErrorKind::Communication, format!("{shown}: {error}"))
        };
        let request = self.request(path, head)?;
        let mut sender = self.sender.clone().ready().await.map_err(failed)?;
        let (response, mut body) = sender.send_request(request, false).map_err(failed)?;
        for (at, message) in messages.iter().enumerate() {
            let is_last = at + 1 == messages.len();
            body.send_data(framed(message), is_last).map_err(failed)?;
        }
        if messages.is_empty() {
            body.send_data(Bytes::new(), true).map_err(failed)?;
        }
        let (head_of, mut body) = response.await.map_err(failed)?.into_parts();
        // An error without a message has its status among the first headers.
        if let Some(status) = Status::of(&head_of.headers) {
            return Ok(status);
        }
        let kind = head_of.headers.get(http::header::CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if head_of.status != http::StatusCode::OK || !is_grpc {
            let status = head_of.status.as_u16();
            let message = format!("{shown} answered the status {status} of HTTP, and not by gRPC");
            return Err(IoError::new(IoErrorKind::Communication, message));
        }
        let mut frames = Frames { waiting: BytesMut::new(), total: 0, limit: head.limit };
        while let Some(data) = body.data().await {
            let data = data.map_err(failed)?;
            body.flow_control().release_capacity(data.len()).map_err(failed)?;
            frames.waiting.extend_from_slice(&data);
            while let Some(message) = frames.next(&shown)? {
                take(message)?;
            }
        }
        let trailers = body.trailers().await.map_err(failed)?;
        let status = trailers.as_ref().and_then(Status::of).ok_or_else(|| {
            let message = format!("{shown} has ended its answer without a status");
            IoError::new(IoErrorKind::Communication, message)
        })?;
        if status.code == 0 && !frames.waiting.is_empty() {
            let message = format!("{shown} has ended its answer inside of a message");
            return Err(IoError::new(IoErrorKind::Communication, message));
        }
        Ok(status)
    }

    fn request(&self, path: &str, head: &Head<'_>) -> Result<Request<()>, IoError> {
        let left = head.deadline.saturating_duration_since(Instant::now());
        let request = Request::builder()
            .version(Version::HTTP_2)
            .method(Method::POST)
            .uri(format!("{}{path}", self.origin))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("user-agent", concat!("turnwheel/", env!("CARGO_PKG_VERSION")))
            .header("grpc-timeout", timeout(left));
        let wrong = |what: &dyn std::fmt::Display| {
            IoError::new(IoErrorKind::Unsupported, format!("{path} cannot be called: {what}"))
        };
        let mut request = request.body(()).map_err(|error| wrong(&error))?;
        for (name, value) in head.metadata {
            if let Some(problem) = header_problem(name) {
                return Err(wrong(&problem));
            }
            let known = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes());
            let known = known.map_err(|_| wrong(&format_args!("«{name}» is no metadata")))?;
            let value = HeaderValue::from_str(value)
                .map_err(|_| wrong(&format_args!("the value of «{name}» is not allowed")))?;
            request.headers_mut().insert(known, value);
        }
        Ok(request)
    }
}

/// A time as its header has it.
fn timeout(left: Duration) -> String {
    match left.as_millis().max(1) {
        milliseconds @ ..=MILLISECONDS_MAX => format!("{milliseconds}m"),
        _ => format!("{}S", u128::from(left.as_secs()).min(MILLISECONDS_MAX)),
    }
}

fn framed(message: &DynamicMessage) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    // Arguments are a part of a plan, and far smaller than 4 GiB.
    frame.put_u32(u32::try_from(length).expect("a payload is limited"));
    frame.extend_from_slice(&message.encode_to_vec());
    frame.freeze()
}

/// The messages in what has come.
struct Frames {
    waiting: BytesMut,
    total: usize,
    limit: usize,
}

impl Frames {
    /// The next message that is there to its end.
    fn next(&mut self, shown: &str) -> Result<Option<Bytes>, IoError> {
        let Some((prefix, rest)) = self.waiting.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *prefix;
        let length = u32::from_be_bytes(length) as usize;
        if flag != 0 {
            let message = format!("{shown} answered a compressed message, which nobody asked for");
            return Err(IoError::new(IoErrorKind::Communication, message));
        }
        // Before its bytes have come: they are not collected for nothing.
        let size = PREFIX.saturating_add(length);
        if self.total.saturating_add(size) > self.limit {
            let message = format!("the answer of {shown} has more than {} bytes", self.limit);
            return Err(IoError::new(IoErrorKind::TooLarge, message));
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.waiting.advance(PREFIX);
        self.total += size;
        Ok(Some(self.waiting.split_to(length).freeze()))
    }
}

/// Connects, when there is a descriptor for it. It can be left while it waits for one.
async fn connect<T, F: Future<Output = std::io::Result<T>>>(
    attempt: impl Fn() -> F,
    deadline: Instant,
) -> std::io::Result<T> {
    let mut patience = Patience::new(deadline.saturating_duration_since(Instant::now()));
    loop {
        let error = match attempt().await {
            Err(error) => error,
            connected => return connected,
        };
        match patience.pause_after(&error) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error),
        }
    }
}

async fn handshake<T>(stream: T) -> Result<SendRequest<Bytes>, h2::Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).max_header_list_size(HEADERS_MAX).data_frame_budget(FRAMES);
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let (sender, connection) = builder.handshake(stream).await?;
    // It ends with the runtime of its call; its errors are those of the exchanges.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn wait_for_a_descriptor_ends_with_the_call() {
        let scarce = || std::io::Error::from(rustix::io::Errno::MFILE);
        let wait = |deadline: Duration, limit: Duration| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let begun = Instant::now();
            let outcome = runtime.expect("it can be built").block_on(async {
                let attempt = || async { Err::<(), _>(scarce()) };
                tokio::time::timeout(limit, connect(attempt, begun + deadline)).await
            });
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            outcome
        };
        let (short, hour) = (Duration::from_millis(300), Duration::from_secs(3_600));
        let outcome = wait(short, hour).expect("its own time is over before");
        assert_eq!(outcome.expect_err("no descriptor").raw_os_error(), scarce().raw_os_error());
        assert!(wait(hour, short).is_err(), "it is left, as by a cancel");
    }

    #[test]
    fn a_timeout_has_at_most_eight_digits() {
        for (left, expected) in [
            (Duration::ZERO, "1m"),
            (Duration::from_millis(1_500), "1500m"),
            (Duration::from_secs(365 * 86_400), "31536000S"),
        ] {
            assert_eq!(timeout(left), expected);
        }
    }
}
