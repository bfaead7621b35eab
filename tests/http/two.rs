//! HTTP/2 beside HTTP/1.1: by prior knowledge on a plain connection, by agreement over TLS; an orderly stop.
#![cfg(all(feature = "server", feature = "tls"))]

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use axum::body::Body;
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{pki_types, ClientConfig, RootCertStore};
use turnwheel::engine::MemoryStore;
use turnwheel::http::{Access, Options, Role, Token};

use crate::http_common::{world, Served};

/// Requests at once over one connection.
const AT_ONCE: usize = 200;

/// Begins to speak HTTP/2.
async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Body> {
    let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = shaken.await.expect("it speaks HTTP/2");
    tokio::spawn(async move { drop(connection.await) });
    sender
}

/// The status and the body of an answer.
async fn ask(sender: &mut SendRequest<Body>, request: Request<Body>) -> (StatusCode, Value) {
    sender.ready().await.expect("the connection is there");
    let answer = sender.send_request(request).await.expect("an answer");
    assert_eq!(answer.version(), Version::HTTP_2);
    let status = answer.status();
    let bytes = axum::body::to_bytes(Body::new(answer.into_body()), 1 << 20).await.expect("all");
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

fn post(address: &str, text: &str) -> Request<Body> {
    let body = serde_json::json!({ "action": "echo", "input": { "text": text } }).to_string();
    Request::post(format!("http://{address}/api/v1/plans"))
        .header("content-type", "application/json")
        .body(Body::from(body))
        .expect("a request")
}

fn get(uri: String) -> Request<Body> {
    Request::get(uri).body(Body::empty()).expect("a request")
}

#[test]
fn plain_connections_speak_the_protocol_that_they_begin_with() {
    let served = Served::new();
    let address = served.address().to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sender = runtime.block_on(async {
        let mut sender = speak(TcpStream::connect(&address).await.unwrap()).await;
        // More than may be under way at once: the rest waits its turn.
        let all: Vec<_> = (0..AT_ONCE)
            .map(|number| {
                let (mut sender, request) = (sender.clone(), post(&address, &number.to_string()));
                tokio::spawn(async move { ask(&mut sender, request).await })
            })
            .collect();
        for one in all {
            let (status, started) = one.await.unwrap();
            assert_eq!(status, StatusCode::CREATED, "{started}");
        }
        // The one who asks is known by the address of the request: there is no header «host».
        let strange = get("http://evil.example/api/v1/stats".to_owned());
        let (status, problem) = ask(&mut sender, strange).await;
        assert_eq!((status.as_u16(), problem["code"].as_str()), (421, Some("host-refused")));
        sender
    });
    // HTTP/1.1 on the same port, meanwhile.
    let stats = served.get("/api/v1/stats").json();
    let plans = stats["plans"].as_array().expect("groups").iter();
    let count: u64 = plans.map(|group| group["plans"].as_u64().expect("a number")).sum();
    assert_eq!(count, AT_ONCE as u64, "{stats:#}");
    let world = served.world.clone();
    assert!(served.stopped().is_drained);
    drop(sender);
    world.shutdown().unwrap();
}

#[test]
fn who_says_nothing_does_not_hold_up_the_stop() {
    let served = Served::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let silent = runtime.block_on(TcpStream::connect(served.address())).unwrap();
    let world = served.world.clone();
    assert_eq!(served.get("/health/live").status, 204);
    assert!(served.stopped().is_drained);
    drop(silent);
    world.shutdown().unwrap();
}

#[test]
fn connections_in_http_2_that_come_at_a_stop_are_refused_in_order() {
    let mut served = Served::new();
    let plan = served.start("ask", &Value::Null);
    let step = served.suspended(&plan);
    // A request under way, whose body has not come, holds up the stop.
    let event = r#"{"event": 1}"#;
    let mut open = std::net::TcpStream::connect(served.address()).unwrap();
    let head = format!(
        "POST /api/v1/plans/{plan}/steps/{step}/events HTTP/1.1\r\nhost: {}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        served.address(),
        event.len()
    );
    open.write_all(head.as_bytes()).unwrap();
    while !served.get("/metrics").text.contains("turnwheel_http_requests_under_way 2") {
        std::thread::yield_now();
    }
    served.tell_to_stop();
    let address = served.address().to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        loop {
            let mut sender = speak(TcpStream::connect(&address).await.unwrap()).await;
            let (status, answer) = match sender.ready().await {
                Ok(()) => ask(&mut sender, get(format!("http://{address}/health"))).await,
                // It was accepted just before.
                Err(_) => continue,
            };
            if status == StatusCode::OK {
                continue;
            }
            assert_eq!((status.as_u16(), &answer["is_taking_work"]), (503, &Value::Bool(false)));
            let (status, refused) = ask(&mut sender, post(&address, "late")).await;
            assert_eq!((status.as_u16(), &refused["code"]), (503, &"stop-under-way".into()));
            return;
        }
    });
    open.write_all(event.as_bytes()).unwrap();
    let mut answered = String::new();
    open.read_to_string(&mut answered).unwrap();
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    assert!(served.stopped().is_drained);
}

#[test]
fn over_tls_the_protocol_is_agreed_on() {
    let files = crate::http_common::certificates::Files::make();
    let tokens = vec![Token::new("ci", Role::Read, "a secret")];
    let (chain, key) = (files.path("chain.pem"), files.path("key.pem"));
    let world = world(MemoryStore::new());
    let served =
        Served::listening(world.clone(), Options::new(Access::Tokens(tokens)), move |listen| {
            listen.tls(&chain, &key)
        });
    let address = served.url.strip_prefix("https://").expect("it is TLS").to_owned();
    let mut roots = RootCertStore::empty();
    let root = pki_types::CertificateDer::from_pem_slice(files.root.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(&address).await.unwrap();
        let name = pki_types::ServerName::try_from("localhost").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut sender = speak(stream).await;
        let mut request = get("https://localhost/api/v1/stats".to_owned());
        let (status, problem) = ask(&mut sender, get(request.uri().to_string())).await;
        assert_eq!((status.as_u16(), problem["code"].as_str()), (401, Some("unauthorized")));
        let secret = "Bearer a secret".parse().unwrap();
        request.headers_mut().insert("authorization", secret);
        assert_eq!(ask(&mut sender, request).await.0, StatusCode::OK);
    });
    assert!(served.stopped().is_drained);
    world.shutdown().unwrap();
}
