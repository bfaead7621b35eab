//! TLS by option.
#![cfg(all(feature = "server", feature = "tls"))]

use std::sync::Arc;

use tokio::sync::oneshot;
use turnwheel::engine::MemoryStore;
use turnwheel::http::serve::{Listen, ServeError, Server};
use turnwheel::http::{Access, Options, Role, Token};

use crate::http_common::certificates::Files;
use crate::http_common::world;

#[test]
fn requests_are_answered_over_tls_and_not_without() {
    let files = Files::make();
    let world = world(MemoryStore::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listen = Listen::at("127.0.0.1:0".parse().unwrap());
    let listen = listen.tls(files.path("chain.pem"), files.path("key.pem"));
    let tokens = vec![Token::new("ann", Role::Operate, "s3cret")];
    let options = Options::new(Access::Tokens(tokens));
    let bound = Server::bind(&world, options, listen);
    let server = runtime.block_on(bound).unwrap();
    assert!(server.url().starts_with("https://"));
    let (address, closing) = (server.address(), server.closing());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async { drop(stopped.await) }));

    let root = ureq::tls::Certificate::from_pem(files.root.as_bytes()).unwrap();
    let roots = ureq::tls::RootCerts::Specific(Arc::new(vec![root]));
    let tls = ureq::tls::TlsConfig::builder().root_certs(roots).build();
    let agent: ureq::Agent = ureq::Agent::config_builder().tls_config(tls).build().into();
    let url = format!("https://localhost:{}/health", address.port());
    let answer = agent.get(&url).call().unwrap().into_body().read_to_string().unwrap();
    assert!(answer.contains("\"is_healthy\":true"), "{answer}");

    // The cookie of a session is for TLS only.
    let signed = agent.post(url.replace("/health", "/api/v1/session"));
    let signed = signed.content_type("application/json").send(r#"{"token": "s3cret"}"#).unwrap();
    let cookie = signed.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.ends_with("; Secure"), "{cookie}");

    // Who does not know the root, or speaks no TLS, gets nothing; others are answered as before.
    assert!(ureq::get(&url).call().is_err());
    assert!(ureq::get(url.replace("https", "http")).call().is_err());
    assert!(agent.get(&url).call().is_ok());
    drop(stop);
    assert!(runtime.block_on(running).unwrap().is_drained);
    // Its caller ends more than requests: new connections hear of the stop meanwhile.
    world.shutdown().unwrap();
    for path in ["/health", "/api/v1/plans"] {
        let refused = agent.get(url.replace("/health", path)).call();
        let Err(ureq::Error::StatusCode(503)) = refused else { panic!("{path}: {refused:?}") };
    }
    drop(closing);
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn new_connections_get_new_certificates_after_a_reload() {
    let (files, other) = (Files::make(), Files::make());
    let world = world(MemoryStore::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listen = Listen::at("127.0.0.1:0".parse().unwrap());
    let listen = listen.tls(files.path("chain.pem"), files.path("key.pem"));
    let bound = Server::bind(&world, Options::new(Access::Loopback), listen);
    let server = runtime.block_on(bound).unwrap();
    let (reloader, url) =
        (server.reloader(), format!("https://localhost:{}/health", server.address().port()));
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async { drop(stopped.await) }));
    // A new agent has no connection yet.
    let knows = |root: &str| {
        let root = ureq::tls::Certificate::from_pem(root.as_bytes()).unwrap();
        let roots = ureq::tls::RootCerts::Specific(Arc::new(vec![root]));
        let tls = ureq::tls::TlsConfig::builder().root_certs(roots).build();
        let agent: ureq::Agent = ureq::Agent::config_builder().tls_config(tls).build().into();
        agent.get(&url).call().is_ok()
    };
    assert!(knows(&files.root) && !knows(&other.root));
    std::fs::copy(other.path("chain.pem"), files.path("chain.pem")).unwrap();
    // The key of another certificate: nothing is changed.
    assert!(reloader.reload(Access::Loopback).is_err());
    assert!(knows(&files.root) && !knows(&other.root));
    std::fs::copy(other.path("key.pem"), files.path("key.pem")).unwrap();
    reloader.reload(Access::Loopback).unwrap();
    assert!(!knows(&files.root) && knows(&other.root));
    drop(stop);
    assert!(runtime.block_on(running).unwrap().is_drained);
    world.shutdown().unwrap();
}

#[test]
fn files_that_are_no_certificate_or_key_are_named() {
    let files = Files::make();
    let world = world(MemoryStore::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    std::fs::write(files.path("odd.pem"), "nothing of use").unwrap();
    for (chain, key, named) in [
        ("none.pem", "key.pem", "none.pem"),
        ("odd.pem", "key.pem", "odd.pem"),
        ("chain.pem", "none.pem", "none.pem"),
        ("chain.pem", "odd.pem", "odd.pem"),
    ] {
        let listen = Listen::at("127.0.0.1:0".parse().unwrap());
        let listen = listen.tls(files.path(chain), files.path(key));
        let refused =
            runtime.block_on(Server::bind(&world, Options::new(Access::Loopback), listen));
        let Err(error @ ServeError::Tls { .. }) = refused else { panic!("{chain} {key}") };
        assert!(error.to_string().contains(named), "{error}");
    }
    world.shutdown().unwrap();
}
