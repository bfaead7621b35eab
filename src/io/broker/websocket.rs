//! WebSocket (RFC 6455): messages of a connection that a request of HTTP opens, without a broker.
//!
//! A message has no headers here: those of a flow's message are of the request. Nothing
//! acknowledges a message; that the service has read it is known when it answers the end of the connection.

use std::fmt::Display;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{client_async_with_config, WebSocketStream};
use turnwheel_flow::{header_problem, BrokerChannel, BrokerMessage, IoError, IoErrorKind};

use super::{Reception, CONNECT, LATE};
use crate::io::options::IoOptions;
use crate::io::reach::addresses;
use crate::io::tls;

/// Headers by which both sides agree about the connection begin with this.
const OF_PROTOCOL: &str = "sec-websocket-";

/// The one of them that is the flow's: what the messages are.
const KIND: &str = "sec-websocket-protocol";

/// A way of bytes to a service.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

type Socket = WebSocketStream<Box<dyn Wire>>;

/// Sends a message of a flow: a text if it is one, else its bytes.
pub(super) async fn publish(
    options: &IoOptions,
    channel: &BrokerChannel,
    message: &BrokerMessage,
) -> Result<(), IoError> {
    let mut socket = connect(options, channel, &message.headers, options.body_max).await?;
    let frame = match String::from_utf8(message.body.clone()) {
        Ok(text) => Message::text(text),
        Err(bytes) => Message::binary(bytes.into_bytes()),
    };
    socket.send(frame).await.map_err(|error| failed(channel, &error))?;
    end(&mut socket, channel).await
}

/// Receives messages for a flow.
pub(super) async fn receive(
    options: &IoOptions,
    channel: &BrokerChannel,
    reception: &mut Reception<'_>,
) -> Result<(), IoError> {
    let mut socket = connect(options, channel, &[], reception.limit).await?;
    let mut count = 0_u64;
    while let Some(next) = reception.next(socket.next()).await? {
        let body = match next {
            Some(Ok(Message::Text(text))) => text.as_bytes().to_vec(),
            Some(Ok(Message::Binary(bytes))) => bytes.to_vec(),
            Some(Ok(Message::Close(frame))) => {
                let why = frame.map(|frame| format!(" ({frame})")).unwrap_or_default();
                let problem = format!("it has ended the connection after {count} messages{why}");
                return Err(told(channel, IoErrorKind::Communication, &problem));
            }
            // The library answers a ping by itself.
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(failed(channel, &error)),
            None => {
                let problem = format!("it has ended the connection after {count} messages");
                return Err(told(channel, IoErrorKind::Communication, &problem));
            }
        };
        count += 1;
        if reception.take(&BrokerMessage { body, ..BrokerMessage::default() })? {
            break;
        }
    }
    // There are enough, whatever becomes of the connection.
    let _ended = tokio::time::timeout(LATE / 2, end(&mut socket, channel)).await;
    Ok(())
}

/// Ends a connection, and waits for the service's end of it: what was sent before has been read.
async fn end(socket: &mut Socket, channel: &BrokerChannel) -> Result<(), IoError> {
    let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    match socket.close(Some(normal)).await {
        // The service was first, and has said why.
        Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => {}
        Err(error) => return Err(failed(channel, &error)),
    }
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(Some(frame))))
                if !matches!(frame.code, CloseCode::Normal | CloseCode::Away) =>
            {
                let problem = format!("it does not take the message: {frame}");
                return Err(told(channel, IoErrorKind::Communication, &problem));
            }
            None | Some(Ok(Message::Close(_))) => return Ok(()),
            Some(Ok(_)) => {}
            Some(Err(Error::ConnectionClosed)) => return Ok(()),
            Some(Err(error)) => return Err(failed(channel, &error)),
        }
    }
}

async fn connect(
    options: &IoOptions,
    channel: &BrokerChannel,
    headers: &[(String, String)],
    limit: usize,
) -> Result<Socket, IoError> {
    let wrong = |problem: &dyn Display| told(channel, IoErrorKind::Communication, problem);
    let request = request(channel, headers)?;
    let found = addresses(options, &channel.host, channel.port).await?;
    let stream = tokio::time::timeout(CONNECT, TcpStream::connect(&*found)).await;
    let late = |_| wrong(&format_args!("no connection within {CONNECT:?}"));
    let stream = stream.map_err(late)?.map_err(|error| wrong(&error))?;
    // A message is written at once; a delay would only wait for more of it.
    stream.set_nodelay(true).map_err(|error| wrong(&error))?;
    let wire: Box<dyn Wire> = match channel.is_tls {
        false => Box::new(stream),
        true => Box::new(secured(channel, stream, Vec::new()).await?),
    };
    open(channel, request, wire, limit).await
}

/// TLS with a service. Without roots they are the built-in ones.
async fn secured(
    channel: &BrokerChannel,
    stream: TcpStream,
    roots: Vec<CertificateDer<'static>>,
) -> Result<TlsStream<TcpStream>, IoError> {
    let wrong = |problem: &dyn Display| told(channel, IoErrorKind::Communication, problem);
    let name = ServerName::try_from(channel.host.clone()).map_err(|error| wrong(&error))?;
    let config = Arc::new(tls::config(roots, None)?);
    let stream = TlsConnector::from(config).connect(name, stream).await;
    stream.map_err(|error| wrong(&format_args!("TLS: {error}")))
}

/// Asks the service to open a WebSocket.
async fn open(
    channel: &BrokerChannel,
    request: Request,
    wire: Box<dyn Wire>,
    limit: usize,
) -> Result<Socket, IoError> {
    let config =
        WebSocketConfig::default().max_message_size(Some(limit)).max_frame_size(Some(limit));
    let opened = client_async_with_config(request, wire, Some(config)).await;
    opened.map(|(socket, _)| socket).map_err(|error| failed(channel, &error))
}

/// The request that opens the connection.
fn request(channel: &BrokerChannel, headers: &[(String, String)]) -> Result<Request, IoError> {
    let invalid = |problem: &dyn Display| told(channel, IoErrorKind::Invalid, problem);
    let host = match channel.host.contains(':') {
        true => format!("[{}]", channel.host),
        false => channel.host.clone(),
    };
    let scheme = if channel.is_tls { "wss" } else { "ws" };
    let address = format!("{scheme}://{host}:{}/{}", channel.port, channel.address);
    let mut request = address.into_client_request().map_err(|error| invalid(&error))?;
    let credentials = match (&channel.login, &channel.token) {
        (Some((name, password)), _) => {
            Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
        }
        (None, Some(token)) => Some(format!("Bearer {token}")),
        (None, None) => None,
    };
    let credentials = credentials.map(|value| (AUTHORIZATION.to_string(), value));
    for (name, value) in headers.iter().chain(&credentials) {
        let lower = name.to_ascii_lowercase();
        if let Some(problem) = header_problem(name) {
            return Err(invalid(&problem));
        }
        if lower.starts_with(OF_PROTOCOL) && lower != KIND {
            return Err(invalid(&format_args!("the header «{name}» cannot be set")));
        }
        let wrong = |_| invalid(&format_args!("the header «{name}» cannot be sent"));
        let name = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| wrong(()))?;
        let value = HeaderValue::from_str(value).map_err(|_| wrong(()))?;
        request.headers_mut().insert(name, value);
    }
    Ok(request)
}

fn failed(channel: &BrokerChannel, error: &Error) -> IoError {
    let kind = match error {
        Error::Capacity(_) => IoErrorKind::TooLarge,
        Error::Http(answer) if matches!(answer.status().as_u16(), 401 | 403) => {
            IoErrorKind::Forbidden
        }
        Error::Http(answer) if answer.status().as_u16() == 404 => IoErrorKind::NotFound,
        _ => IoErrorKind::Communication,
    };
    match error {
        Error::Http(answer) => {
            let problem = format!("it does not open a WebSocket: status {}", answer.status());
            told(channel, kind, &problem)
        }
        error => told(channel, kind, error),
    }
}

fn told(channel: &BrokerChannel, kind: IoErrorKind, problem: &dyn Display) -> IoError {
    IoError::new(kind, format!("{}: {problem}", channel.shown()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};
    use turnwheel_flow::Broker;

    use super::*;

    /// A WebSocket over TLS on loopback that takes one connection.
    struct Service {
        port: u16,
        /// The root that vouches for its certificate.
        root: CertificateDer<'static>,
        /// The texts that it has read; nothing if there was no connection of TLS.
        work: JoinHandle<Option<Vec<String>>>,
    }

    impl Service {
        fn begin(name: &str) -> Self {
            let mut root = rcgen::CertificateParams::new(Vec::new()).expect("no names");
            root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let root_key = rcgen::KeyPair::generate().expect("a key");
            let made = root.self_signed(&root_key).expect("a root");
            let issuer = rcgen::Issuer::new(root, root_key);
            let key = rcgen::KeyPair::generate().expect("a key");
            let leaf = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
            let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(vec![leaf.der().clone()], key)
                .expect("a certificate");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("bound").port();
            let work = thread::spawn(move || {
                let (stream, _) = listener.accept().expect("a connection");
                let tls = ServerConnection::new(Arc::new(config)).expect("a configuration");
                let mut socket = tungstenite::accept(StreamOwned::new(tls, stream)).ok()?;
                socket.send(Message::text("welcome")).expect("it listens");
                let mut texts = Vec::new();
                while let Ok(message) = socket.read() {
                    texts.extend(message.is_text().then(|| message.to_string()));
                }
                Some(texts)
            });
            Self { port, root: made.der().clone(), work }
        }
    }

    /// Sends a text and reads one.
    async fn talk(
        channel: &BrokerChannel,
        root: CertificateDer<'static>,
    ) -> Result<String, IoError> {
        let request = request(channel, &[])?;
        assert!(request.uri().to_string().starts_with("wss://"), "{}", request.uri());
        let stream = TcpStream::connect(("127.0.0.1", channel.port)).await.expect("it listens");
        let wire = secured(channel, stream, vec![root]).await?;
        let mut socket = open(channel, request, Box::new(wire), 1_024).await?;
        socket.send(Message::text("hello")).await.expect("it listens");
        let first = socket.next().await.expect("a message").expect("a message");
        end(&mut socket, channel).await?;
        Ok(first.to_string())
    }

    fn channel(host: &str, port: u16) -> BrokerChannel {
        BrokerChannel {
            protocol: Broker::WebSocket,
            host: host.to_owned(),
            port,
            is_tls: true,
            vhost: "/".to_owned(),
            login: None,
            token: None,
            address: "v1/rooms/7".to_owned(),
            queue: None,
            exchange: None,
        }
    }

    #[tokio::test]
    async fn messages_go_over_tls_to_a_service_whose_name_its_root_vouches_for() {
        for name in ["localhost", "127.0.0.1"] {
            let service = Service::begin(name);
            let told = talk(&channel(name, service.port), service.root).await;
            assert_eq!(told.expect("it is trusted"), "welcome");
            let read = service.work.join().expect("it does not panic");
            assert_eq!(read, Some(vec!["hello".to_owned()]));
        }
    }

    #[tokio::test]
    async fn a_service_of_another_name_or_of_another_root_gets_no_message() {
        let service = Service::begin("shop.example.org");
        let refused = talk(&channel("localhost", service.port), service.root).await;
        let error = refused.expect_err("it has another name");
        assert_eq!(error.kind, IoErrorKind::Communication);
        assert!(error.message.contains("TLS") && error.message.contains("shop"), "{error:?}");
        assert_eq!(service.work.join().expect("it does not panic"), None);

        let (service, other) = (Service::begin("localhost"), Service::begin("localhost"));
        let refused = talk(&channel("localhost", service.port), other.root).await;
        let error = refused.expect_err("nobody vouches for it");
        assert!(error.message.contains("TLS: invalid peer certificate"), "{error:?}");
        assert_eq!(service.work.join().expect("it does not panic"), None);
        // The other one waits for a connection.
        drop(TcpStream::connect(("127.0.0.1", other.port)).await.expect("it listens"));
        assert_eq!(other.work.join().expect("it does not panic"), None);
    }
}
