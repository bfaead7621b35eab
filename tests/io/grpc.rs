//! Calls of gRPC to a server on loopback: what is answered, and what goes wrong.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel::flow::{
    GrpcRequest, GrpcResponse, Io, IoCall, IoError, IoErrorKind, ProtoFile, HTTP_BODY_MAX,
};
use turnwheel::io::{HostIo, IoOptions};

use crate::grpc_server::{GrpcServer, Reflection, KINDS, PETS};

/// A limit that is over soon.
const SOON: Duration = Duration::from_millis(300);

/// A call that takes longer is stuck.
const LONG: Duration = Duration::from_secs(60);

fn protos() -> Vec<ProtoFile> {
    [("pets.proto", PETS), ("test/v1/kinds.proto", KINDS)]
        .map(|(name, text)| ProtoFile { name: name.to_owned(), text: text.to_owned() })
        .to_vec()
}

fn request(server: &GrpcServer, method: &str, arguments: Value) -> GrpcRequest {
    GrpcRequest {
        host: "127.0.0.1".to_owned(),
        port: server.address.port(),
        is_tls: false,
        protos: protos(),
        service: "test.v1.Pets".to_owned(),
        method: method.to_owned(),
        arguments,
        metadata: Vec::new(),
    }
}

fn send(request: &GrpcRequest) -> Result<GrpcResponse, IoError> {
    let call = IoCall::new("plan/3", &|| false).limit(Some(LONG));
    HostIo::new(IoOptions::default()).grpc(request, &call)
}

fn find(server: &GrpcServer, name: &str) -> Result<GrpcResponse, IoError> {
    send(&request(server, "Find", json!({ "name": name })))
}

#[test]
fn a_call_answers_the_message_by_the_json_mapping() {
    let server = GrpcServer::begin(Reflection::None);
    let arguments = json!({ "name": "Rex", "id": "9007199254740993", "kinds": ["DOG"] });
    let mut request = request(&server, "Find", arguments);
    request.metadata.push(("Authorization".to_owned(), "Bearer t-1".to_owned()));
    let response = send(&request).expect("an answer");
    assert_eq!(response.status, 0);
    let pet = json!({
        "name": "Rex", "id": "9007199254740993", "kind": "CAT",
        "seen": { "authorization": "Bearer t-1", "idempotency-key": "plan/3", "te": "trailers" },
    });
    assert_eq!(response.output, pet, "numbers of 64 bits are texts, defaults are written");
}

#[test]
fn a_trace_is_passed_on_as_metadata() {
    let server = GrpcServer::begin(Reflection::None);
    let mut call = IoCall::new("plan/3", &|| false);
    call.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let io = HostIo::new(IoOptions::default());
    let response = io.grpc(&request(&server, "Find", json!({})), &call).expect("an answer");
    let seen = response.output["seen"]["traceparent"].as_str().expect("a trace").to_owned();
    assert!(seen.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{seen}");
}

#[test]
fn a_stream_of_messages_is_a_list() {
    let server = GrpcServer::begin(Reflection::None);
    // Many small frames that come at once are no flood.
    for count in [0, 3, 20_000] {
        let response = send(&request(&server, "List", json!({ "id": count }))).expect("an answer");
        let ids = response.output.as_array().expect("a list").iter().map(|pet| pet["id"].clone());
        let expected: Vec<Value> = (0..count).map(|id| json!(id.to_string())).collect();
        assert_eq!(ids.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn list_is_sent_as_a_stream_of_messages() {
    let server = GrpcServer::begin(Reflection::None);
    for count in [0, 1, 3_000] {
        let pets = (0..count).map(|id| json!({ "id": id, "name": "x".repeat(300) }));
        let response = send(&request(&server, "Upload", pets.collect())).expect("an answer");
        let told = json!([count.to_string(), format!("{}", count * 300)]);
        assert_eq!(json!([response.output["id"], response.output["name"]]), told);
    }
}

#[test]
fn a_method_without_a_file_is_described_by_the_server() {
    for reflection in [Reflection::V1, Reflection::V1Alpha] {
        let server = GrpcServer::begin(reflection);
        let mut request = request(&server, "Find", json!({ "name": "Rex", "kinds": ["DOG"] }));
        request.protos.clear();
        assert_eq!(send(&request).expect("an answer").output["name"], "Rex");
        request.service = "test.v1.Cars".to_owned();
        let error = send(&request).expect_err("there is no such service");
        assert_eq!(error.kind, IoErrorKind::Unsupported);
        assert!(error.message.contains("does not know «test.v1.Cars»"), "{error}");
    }
    let server = GrpcServer::begin(Reflection::None);
    let request = GrpcRequest { protos: Vec::new(), ..request(&server, "Find", json!({})) };
    let error = send(&request).expect_err("it does not reflect");
    assert!(error.message.contains("describe the service by «proto»"), "{error}");
}

#[test]
fn wrong_files_methods_and_arguments_are_refused_before_anything_is_sent() {
    let server = GrpcServer::begin(Reflection::None);
    let right = request(&server, "Find", json!({ "name": "Rex" }));
    let of = |text: &str| vec![ProtoFile { name: "pets.proto".into(), text: text.into() }];
    let deep = format!("syntax = \"proto3\"; {}", "message A {".repeat(50_000));
    let (unsupported, invalid) = (IoErrorKind::Unsupported, IoErrorKind::Invalid);
    for (wrong, kind, said) in [
        (GrpcRequest { protos: of("message {"), ..right.clone() }, unsupported, "pets.proto"),
        (GrpcRequest { protos: of(&deep), ..right.clone() }, unsupported, "nested more than 100"),
        (GrpcRequest { protos: of(PETS), ..right.clone() }, unsupported, "test/v1/kinds.proto"),
        (
            GrpcRequest { protos: of("import \"pets.proto\";"), ..right.clone() },
            unsupported,
            "pets.proto",
        ),
        (
            GrpcRequest { service: "Pets".into(), ..right.clone() },
            unsupported,
            "no service «Pets»; it has test.v1.Pets",
        ),
        (
            GrpcRequest { method: "Fnd".into(), ..right.clone() },
            unsupported,
            "it has Find, List, Upload",
        ),
        (
            GrpcRequest { method: "Upload".into(), ..right.clone() },
            invalid,
            "takes a stream of messages: give a list of objects",
        ),
        (
            GrpcRequest { arguments: json!([{ "name": "Rex" }]), ..right.clone() },
            invalid,
            "takes one message: give an object",
        ),
        (
            GrpcRequest {
                method: "Upload".into(),
                arguments: json!([{ "name": "Rex" }, { "nam": 1 }]),
                ..right.clone()
            },
            invalid,
            "nam",
        ),
        (GrpcRequest { arguments: json!({ "nam": 1 }), ..right.clone() }, invalid, "nam"),
        (GrpcRequest { arguments: json!({ "name": 1 }), ..right.clone() }, invalid, "string"),
        (GrpcRequest { arguments: json!({ "id": "x" }), ..right.clone() }, invalid, "FindRequest"),
        (GrpcRequest { arguments: json!({ "kinds": ["BIRD"] }), ..right.clone() }, invalid, "BIRD"),
    ] {
        let error = send(&wrong).expect_err(said);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(said), "{said}\n{error}");
    }
    assert_eq!(server.paths(), Vec::<String>::new());
    assert_eq!(send(&right).expect("an answer").status, 0);
}

#[test]
fn a_status_that_means_failure_is_an_answer() {
    let server = GrpcServer::begin(Reflection::None);
    for (name, status, message) in [("missing", 5, "no pet"), ("odd", 8, "enough")] {
        let response = find(&server, name).expect("an answer");
        let expected = (status, message, Value::Null);
        assert_eq!((response.status, response.message.as_str(), response.output), expected);
    }
    let mut unknown = request(&server, "Find", json!({}));
    unknown.protos[0].text = PETS.replace("rpc List", "rpc Other");
    unknown.method = "Other".to_owned();
    assert_eq!(send(&unknown).expect("an answer").status, 12);
}

#[test]
fn a_server_that_answers_badly_is_an_error_that_says_how() {
    let server = GrpcServer::begin(Reflection::None);
    let (bad, large) = (IoErrorKind::Communication, IoErrorKind::TooLarge);
    for (name, kind, said) in [
        ("reset", bad, "/test.v1.Pets/Find"),
        ("html", bad, "answered the status 502 of HTTP, and not by gRPC"),
        ("silent", bad, "without a status"),
        ("part", bad, "inside of a message"),
        ("garbage", bad, "answered no message test.v1.Pet"),
        ("compressed", bad, "a compressed message"),
        ("twice", bad, "answered 2 messages in place of one"),
        ("nothing", bad, "answered 0 messages in place of one"),
        ("huge", large, "has more than"),
        ("flood", large, "too large"),
    ] {
        let error = find(&server, name).expect_err(name);
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.message.contains(said), "{name}: {error}");
    }
    const { assert!(HTTP_BODY_MAX < 0x4000_0000, "that of «huge» is beyond the limit") };
}

#[test]
fn a_server_that_hangs_is_given_up_at_the_limit_and_its_connection_ends() {
    let mut server = GrpcServer::begin(Reflection::None);
    let begun = Instant::now();
    let call = IoCall::new("plan/3", &|| false).limit(Some(SOON));
    let io = HostIo::new(IoOptions::default());
    let hang = request(&server, "Find", json!({ "name": "hang" }));
    let error = io.grpc(&hang, &call).expect_err("it hangs");
    assert_eq!(error.kind, IoErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() < LONG);
    server.wait_closed(1);
    // A server that accepts and does not even begin to speak.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut to_silent = hang.clone();
    to_silent.port = silent.local_addr().expect("it has one").port();
    let call = IoCall::new("plan/3", &|| false).limit(Some(SOON));
    assert_eq!(io.grpc(&to_silent, &call).expect_err("silence").kind, IoErrorKind::TimedOut);
    to_silent.is_tls = true;
    let call = IoCall::new("plan/3", &|| false).limit(Some(SOON));
    assert_eq!(io.grpc(&to_silent, &call).expect_err("silence").kind, IoErrorKind::TimedOut);
}

#[test]
fn a_cancelled_call_ends_at_once() {
    let mut server = GrpcServer::begin(Reflection::None);
    let is_cancelled = AtomicBool::new(false);
    let hang = request(&server, "Find", json!({ "name": "hang" }));
    let error = thread::scope(|scope| {
        let looked = || is_cancelled.load(Ordering::Relaxed);
        let called = scope.spawn(move || {
            HostIo::new(IoOptions::default()).grpc(&hang, &IoCall::new("plan/3", &looked))
        });
        while server.paths().is_empty() {
            thread::yield_now();
        }
        is_cancelled.store(true, Ordering::Relaxed);
        called.join().expect("no panic").expect_err("it was cancelled")
    });
    assert_eq!(error.kind, IoErrorKind::Cancelled);
    server.wait_closed(1);
}

#[test]
fn a_closed_address_is_not_connected_to() {
    let server = GrpcServer::begin(Reflection::V1);
    let right = request(&server, "Find", json!({}));
    let send = |options: IoOptions, request: &GrpcRequest| {
        let error = HostIo::new(options).grpc(request, &IoCall::new("plan/3", &|| false));
        let error = error.expect_err("it is closed");
        assert_eq!(error.kind, IoErrorKind::Forbidden, "{error}");
        error.message
    };
    let metadata = GrpcRequest { host: "169.254.169.254".into(), ..right.clone() };
    assert!(send(IoOptions::default(), &metadata).contains("link-local"));
    let mut options = IoOptions::default();
    options.http_hosts = vec!["api.example.org".to_owned()];
    assert!(send(options, &right).contains("io.http-hosts"));
    let mut options = IoOptions::default();
    options.http_ports = vec![(1, 2)];
    assert!(send(options, &right).contains("io.http-ports"));
    let mut options = IoOptions::default();
    options.http_networks = vec![turnwheel::io::Network::Public];
    let named = GrpcRequest { host: "localhost".into(), ..right };
    assert!(send(options, &named).contains("loopback"), "by the address that the name has");
    assert_eq!(server.paths(), Vec::<String>::new());
}

#[test]
fn a_server_that_is_not_there_or_speaks_something_else_is_an_error() {
    let server = GrpcServer::begin(Reflection::None);
    let mut request = request(&server, "Find", json!({}));
    request.is_tls = true;
    let error = send(&request).expect_err("it has no TLS");
    assert_eq!(error.kind, IoErrorKind::Communication);
    assert!(error.message.contains("TLS"), "{error}");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it has one");
    request.port = free.port();
    let error = send(&request).expect_err("nobody listens");
    assert_eq!(error.kind, IoErrorKind::Communication);
    assert!(error.message.contains(&format!("127.0.0.1:{}", free.port())), "{error}");
    request.host = "no-such-host.invalid".to_owned();
    assert_eq!(send(&request).expect_err("no host").kind, IoErrorKind::NotFound);
}
