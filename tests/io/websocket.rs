//! Messages on a WebSocket of a service on loopback: what is sent and received, what goes wrong.
#![expect(clippy::result_large_err, reason = "the library has chosen the answer of its callback")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::CloseFrame;
use tungstenite::{accept_hdr, Message, WebSocket};
use turnwheel::flow::{
    Broker, BrokerChannel, BrokerMessage, Io, IoCall, IoError, IoErrorKind, Receipt,
};
use turnwheel::io::{HostIo, IoOptions};

/// A call that takes longer is stuck.
const LONG: Duration = Duration::from_secs(60);

/// A limit that is over soon.
const SOON: Duration = Duration::from_millis(300);

/// A service that takes one connection.
struct Service<T> {
    port: u16,
    work: JoinHandle<T>,
}

impl<T: Send + 'static> Service<T> {
    /// Its work gets the path and the headers of the request, too.
    fn begin(work: impl FnOnce(&mut WebSocket<TcpStream>, &Request) -> T + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let work = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let mut request = None;
            let mut socket = accept_hdr(stream, |asked: &Request, answer: Response| {
                request = Some(asked.clone());
                Ok(answer)
            })
            .expect("a WebSocket");
            work(&mut socket, &request.expect("it was asked"))
        });
        Self { port, work }
    }

    fn channel(&self) -> BrokerChannel {
        channel(self.port)
    }

    fn end(self) -> T {
        self.work.join().expect("it does not panic")
    }
}

fn channel(port: u16) -> BrokerChannel {
    BrokerChannel {
        protocol: Broker::WebSocket,
        host: "127.0.0.1".to_owned(),
        port,
        is_tls: false,
        vhost: "/".to_owned(),
        login: None,
        token: None,
        address: "v1/rooms/7".to_owned(),
        queue: None,
        exchange: None,
    }
}

/// Reads to the end of the connection.
fn read(socket: &mut WebSocket<TcpStream>) -> Vec<Message> {
    let mut all = Vec::new();
    while let Ok(message) = socket.read() {
        if message.is_text() || message.is_binary() {
            all.push(message);
        }
    }
    all
}

fn publish(channel: &BrokerChannel, message: &BrokerMessage) -> Result<(), IoError> {
    let call = IoCall::new("plan/3", &|| false).limit(Some(LONG));
    HostIo::new(IoOptions::default()).publish(channel, message, &call)
}

/// The messages until there are so many.
fn receive(
    options: IoOptions,
    channel: &BrokerChannel,
    count: usize,
    limit: Duration,
) -> (Result<Receipt, IoError>, Vec<BrokerMessage>) {
    let mut taken = Vec::new();
    let mut is_enough = |message: Option<&BrokerMessage>| {
        taken.extend(message.cloned());
        taken.len() >= count
    };
    let call = IoCall::new("plan/3", &|| false).limit(Some(limit));
    let received = HostIo::new(options).receive(channel, &mut is_enough, &call);
    (received, taken)
}

fn message(body: &[u8]) -> BrokerMessage {
    BrokerMessage { body: body.to_vec(), ..BrokerMessage::default() }
}

#[test]
fn a_message_is_sent_with_credentials_and_headers_of_the_request_and_was_read() {
    for (body, expected) in [
        (&b"{\"n\":7}"[..], Message::text("{\"n\":7}")),
        (&[0xff, 0][..], Message::binary(vec![0xff, 0])),
    ] {
        let service = Service::begin(|socket, request| {
            // What is said meanwhile disturbs nobody.
            socket.send(Message::text("welcome")).expect("it listens");
            let header = |name: &str| {
                let value = request.headers().get(name).expect("it has it");
                value.to_str().expect("text").to_owned()
            };
            let seen = [header("authorization"), header("x-key"), request.uri().to_string()];
            (read(socket), seen)
        });
        let mut channel = service.channel();
        channel.login = Some(("ann".to_owned(), "s3cret".to_owned()));
        let mut message = message(body);
        message.headers.push(("X-Key".to_owned(), "5".to_owned()));
        publish(&channel, &message).expect("it is sent");
        let (read, seen) = service.end();
        assert_eq!(read, [expected]);
        assert_eq!(seen, ["Basic YW5uOnMzY3JldA==", "5", "/v1/rooms/7"]);
    }
}

#[test]
fn a_message_that_the_service_does_not_take_is_an_error_that_says_why() {
    let service = Service::begin(|socket, _| {
        socket.read().expect("a message");
        let reason = CloseFrame { code: CloseCode::Policy, reason: "not in this room".into() };
        socket.close(Some(reason)).expect("it listens");
        read(socket);
    });
    let error = publish(&service.channel(), &message(b"x")).expect_err("it was refused");
    assert_eq!(error.kind, IoErrorKind::Communication);
    assert!(error.message.contains("not in this room"), "{}", error.message);
    service.end();

    // A service that is gone before it has said that it has read the message.
    let service = Service::begin(|socket, _| drop(socket.read()));
    publish(&service.channel(), &message(b"x")).expect_err("nobody knows");
    service.end();
}

#[test]
fn a_service_that_opens_no_websocket_is_an_error_with_its_status() {
    for (status, kind) in [
        (401, IoErrorKind::Forbidden),
        (404, IoErrorKind::NotFound),
        (500, IoErrorKind::Communication),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let service = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let refused = accept_hdr(stream, |_: &Request, _: Response| {
                let answer = tungstenite::http::Response::builder().status(status);
                Err::<Response, ErrorResponse>(answer.body(None).expect("an answer"))
            });
            refused.expect_err("it was refused");
        });
        let error = publish(&channel(port), &message(b"x")).expect_err("it was refused");
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(&status.to_string()), "{}", error.message);
        service.join().expect("it does not panic");
    }
}

#[test]
fn messages_are_received_until_there_are_enough_and_the_service_is_told_the_end() {
    let service = Service::begin(|socket, _| {
        for message in [
            Message::text("1"),
            Message::Ping(vec![1].into()),
            Message::binary(vec![2]),
            Message::text("3"),
        ] {
            socket.send(message).expect("it listens");
        }
        let mut said = Vec::new();
        loop {
            match socket.read() {
                Ok(message) => said.push(message),
                Err(_) => return said,
            }
        }
    });
    let (received, taken) = receive(IoOptions::default(), &service.channel(), 2, LONG);
    received.expect("there are enough");
    assert_eq!(taken, [message(b"1"), message(&[2])]);
    let said = service.end();
    assert_eq!(said[0], Message::Pong(vec![1].into()));
    assert!(said[1].is_close(), "{said:?}");
}

#[test]
fn a_subscription_that_ends_too_soon_is_an_error() {
    let service = Service::begin(|socket, _| {
        socket.send(Message::text("1")).expect("it listens");
        socket.close(None).expect("it listens");
        read(socket);
    });
    let (received, _) = receive(IoOptions::default(), &service.channel(), 2, LONG);
    let error = received.expect_err("one is missing");
    assert!(error.message.contains("ended the connection after 1 messages"), "{}", error.message);
    service.end();

    let service = Service::begin(|socket, _| drop(read(socket)));
    let (received, _) = receive(IoOptions::default(), &service.channel(), 1, SOON);
    assert_eq!(received.expect_err("nothing came").kind, IoErrorKind::TimedOut);
    service.end();
}

#[test]
fn a_message_has_the_limit_of_a_body() {
    for parts in [1, 8] {
        let service = Service::begin(move |socket, _| {
            let part = 2_048 / parts;
            for at in 0..parts {
                let kind =
                    if at == 0 { OpCode::Data(Data::Text) } else { OpCode::Data(Data::Continue) };
                let frame = Frame::message(vec![b'x'; part], kind, at + 1 == parts);
                if socket.send(Message::Frame(frame)).is_err() {
                    return;
                }
            }
            read(socket);
        });
        let mut options = IoOptions::default();
        options.body_max = 1_024;
        let (received, _) = receive(options, &service.channel(), 1, LONG);
        assert_eq!(received.expect_err("it is too large").kind, IoErrorKind::TooLarge);
        service.end();
    }
}

#[test]
fn what_belongs_to_the_connection_and_closed_addresses_are_refused() {
    for name in ["Sec-WebSocket-Key", "Host", "connection", "Transfer-Encoding"] {
        let mut own = message(b"x");
        own.headers.push((name.to_owned(), "x".to_owned()));
        let error = publish(&channel(9), &own).expect_err("it was refused");
        assert_eq!(error.kind, IoErrorKind::Invalid, "{name}");
    }
    for is_tls in [false, true] {
        let mut closed = channel(80);
        closed.host = "169.254.169.254".to_owned();
        closed.is_tls = is_tls;
        let error = publish(&closed, &message(b"x")).expect_err("it is closed");
        assert_eq!(error.kind, IoErrorKind::Forbidden, "{}", error.message);
    }
}

/// A service over TLS whose certificate nobody knows, and that takes two connections: what it has
/// read of each of them.
fn untrusted() -> (u16, JoinHandle<[Vec<u8>; 2]>) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let leaf = leaf.self_signed(&key).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect("a certificate");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let work = thread::spawn(move || {
        [(); 2].map(|()| {
            let (stream, _) = listener.accept().expect("a connection");
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
            let (mut stream, mut read) = (StreamOwned::new(tls, stream), Vec::new());
            // It ends with the refusal of the client.
            let refused = stream.flush().and_then(|()| stream.read_to_end(&mut read));
            refused.expect_err("the client has ended it");
            read
        })
    });
    (port, work)
}

#[test]
fn a_service_with_a_certificate_that_nobody_vouches_for_gets_no_request() {
    let (port, service) = untrusted();
    let mut channel = channel(port);
    (channel.host, channel.is_tls) = ("localhost".to_owned(), true);
    channel.token = Some("s3cret".to_owned());
    let sent = publish(&channel, &message(b"x")).expect_err("it is not trusted");
    let (received, taken) = receive(IoOptions::default(), &channel, 1, LONG);
    for error in [sent, received.expect_err("it is not trusted")] {
        assert_eq!(error.kind, IoErrorKind::Communication);
        assert!(error.message.contains("TLS: invalid peer certificate"), "{}", error.message);
    }
    assert_eq!((taken.len(), service.join().expect("it does not panic")), (0, [vec![], vec![]]));
}
