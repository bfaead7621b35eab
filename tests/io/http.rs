//! Requests of flows against a server on this host that is slow, dying or lying; secrets and files.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel::engine::{MemoryStore, World};
use turnwheel::flow::{
    FlowError, Flows, HttpRequest, HttpResponse, Io, IoCall, IoError, IoErrorKind, WithFlows,
};
use turnwheel::io::{HostIo, IoOptions, Network};
use turnwheel::runtime::completion::block_on;

/// How a server treats a connection: it has the head and the body of the request.
type Treat = dyn Fn(&str, &str, &mut TcpStream) + Send + Sync;

/// A server on this host. It ends with its last connection.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(treat: impl Fn(&str, &str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (treat, kept): (Arc<Treat>, _) = (Arc::new(treat), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (treat, kept) = (Arc::clone(&treat), Arc::clone(&kept));
                thread::spawn(move || serve(stream, &*treat, &kept));
            }
        });
        Self { address, asked }
    }

    fn get(&self, path: &str) -> HttpRequest {
        HttpRequest {
            method: "GET".to_owned(),
            uri: format!("{}{path}", self.address),
            headers: Vec::new(),
            body: None,
            follows_redirects: true,
            digest: None,
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic while it is held").clone()
    }
}

fn serve(mut stream: TcpStream, treat: &Treat, kept: &Mutex<Vec<String>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.to_ascii_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    kept.lock().expect("no panic while it is held").push(format!("{head}{body}"));
    treat(&head, &body, &mut stream);
}

fn answer(stream: &mut TcpStream, status: u16, headers: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    // Who has asked may have gone.
    let _gone = stream.write_all(format!("{head}{body}").as_bytes());
}

pub(super) fn options() -> IoOptions {
    let mut options = IoOptions::default();
    options.body_max = 100_000;
    options.http_timeout = Duration::from_secs(10);
    options
}

fn send(request: &HttpRequest) -> Result<HttpResponse, IoError> {
    HostIo::new(options()).http(request, &IoCall::new("plan/1", &|| false))
}

const SOON: Option<Duration> = Some(Duration::from_millis(300));

#[test]
fn a_request_is_sent_whole_and_its_answer_read() {
    let server = Server::new(|_, body, stream| answer(stream, 418, "x-tea: yes\r\n", body));
    let mut request = server.get("/a?b=c");
    request.method = "PATCH".to_owned();
    request.headers = vec![("X-Name".to_owned(), "Ann".to_owned())];
    request.body = Some(b"{}".to_vec());
    let mut call = IoCall::new("plan/1", &|| false);
    call.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let response = HostIo::new(options()).http(&request, &call).expect("it answers");
    assert_eq!((response.status, response.header("X-Tea")), (418, Some("yes")));
    assert_eq!(response.body, b"{}");
    let asked = server.asked().remove(0).to_ascii_lowercase();
    for said in [
        "patch /a?b=c http/1.1",
        "x-name: ann",
        "idempotency-key: plan/1",
        "traceparent: 00-0af",
        "user-agent: turnwheel/",
    ] {
        assert!(asked.contains(said), "{said}: {asked}");
    }
    send(&server.get("/")).expect("it answers");
    assert!(!server.asked()[1].to_ascii_lowercase().contains("idempotency-key"));
    for method in ["DELETE", "GET"] {
        let request =
            HttpRequest { method: method.to_owned(), body: Some(b"x".to_vec()), ..server.get("/") };
        assert_eq!(send(&request).expect("it answers").body, b"x", "{method}");
    }
}

#[test]
fn redirections_are_followed_as_far_as_is_allowed() {
    let server = Server::new(|head, body, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/end" | "/x/end" => answer(
                stream,
                200,
                "",
                &format!("{} {body}", head.split(' ').next().unwrap_or_default()),
            ),
            "/x/relative" => answer(stream, 302, "location: end\r\n", ""),
            "/307" => answer(stream, 307, "location: /end\r\n", ""),
            "/303" => answer(stream, 303, "location: /end\r\n", ""),
            "/file" => answer(stream, 302, "location: file:///etc/passwd\r\n", ""),
            _ => answer(stream, 301, "location: /round\r\n", ""),
        }
    });
    assert_eq!(send(&server.get("/x/relative")).expect("it answers").body, b"GET ");
    let post = |path| HttpRequest {
        method: "POST".to_owned(),
        body: Some(b"b".to_vec()),
        ..server.get(path)
    };
    assert_eq!(send(&post("/307")).expect("it answers").body, b"POST b");
    assert_eq!(send(&post("/303")).expect("it answers").body, b"GET ");
    let stays = HttpRequest { follows_redirects: false, ..server.get("/303") };
    assert_eq!(send(&stays).expect("it answers").status, 303);
    let error = send(&server.get("/round")).expect_err("it never ends");
    assert!(error.message.contains("more than 10 times"), "{error}");
    let error = send(&server.get("/file")).expect_err("it is no HTTP");
    assert!(error.message.contains("no address of HTTP"), "{error}");
}

#[test]
fn credentials_stay_with_their_origin() {
    let other = Server::new(|_, _, stream| answer(stream, 200, "", "other"));
    let location = format!("location: {}/\r\n", other.address);
    let server = Server::new(move |_, _, stream| answer(stream, 302, &location, ""));
    let mut request = server.get("/");
    for name in ["Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Name"] {
        request.headers.push((name.to_owned(), "secret".to_owned()));
    }
    assert_eq!(send(&request).expect("it answers").body, b"other");
    assert!(server.asked()[0].to_ascii_lowercase().contains("authorization: secret"));
    let asked = other.asked()[0].to_ascii_lowercase();
    for name in ["authorization", "cookie", "x-api-key", "x-auth-token"] {
        assert!(!asked.contains(name), "{asked}");
    }
    assert!(asked.contains("x-name: secret"));
}

#[test]
fn digest_is_answered_once() {
    let server = Server::new(|head, _, stream| {
        if head.to_ascii_lowercase().contains("username=\"ann\"") && head.contains("/x") {
            answer(stream, 200, "", "in")
        } else {
            answer(
                stream,
                401,
                "www-authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n",
                "",
            )
        }
    });
    let as_user = |user: &str, path| HttpRequest {
        digest: Some((user.to_owned(), "secret".to_owned())),
        ..server.get(path)
    };
    assert_eq!(send(&as_user("ann", "/x")).expect("it answers").body, b"in");
    assert_eq!(send(&as_user("bob", "/x")).expect("it answers").status, 401);
    assert_eq!(server.asked().len(), 4, "each is tried twice");
    assert!(!server.asked().concat().contains("secret"));
    assert_eq!(send(&server.get("/x")).expect("it answers").status, 401);
}

#[test]
fn who_is_slow_is_not_waited_for() {
    let begun = Instant::now();
    // Never an answer; a head and never a body; a byte now and then.
    let silent = Server::new(|_, _, stream| drop(stream.read(&mut [0])));
    let half = Server::new(|_, _, stream| {
        let _gone = stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nabc");
        drop(stream.read(&mut [0]));
    });
    let drip = Server::new(|_, _, stream| {
        let _gone = stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 100000\r\n\r\n");
        let _read = stream.set_read_timeout(Some(Duration::from_millis(20)));
        while stream.write_all(b"x").is_ok() {
            match stream.read(&mut [0]) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                _ => return,
            }
        }
    });
    for server in [&silent, &half, &drip] {
        let call = IoCall::new("k", &|| false).limit(SOON);
        let error = HostIo::new(options())
            .http(&server.get("/?key=secret"), &call)
            .expect_err("it is slow");
        assert_eq!(error.kind, IoErrorKind::TimedOut, "{error}");
        assert!(
            error.message.contains(&server.address) && !error.message.contains("secret"),
            "{error}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_request_that_nobody_waits_for_is_left() {
    let silent = Server::new(|_, _, stream| drop(stream.read(&mut [0])));
    let is_cancelled = AtomicBool::new(false);
    let looks = || is_cancelled.swap(true, Ordering::Relaxed);
    let error =
        HostIo::new(options()).http(&silent.get("/"), &IoCall::new("k", &looks)).expect_err("left");
    assert_eq!(error.kind, IoErrorKind::Cancelled, "{error}");
}

#[test]
fn who_dies_or_lies_is_an_error_and_no_panic() {
    let lies: [&[u8]; 7] = [
        b"",
        b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc",
        b"HTTP/9.9 999999 X\r\n\r\n",
        b"\x00\xff\x00 nothing of HTTP\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
    ];
    for lie in lies {
        let server = Server::new(move |_, _, stream| {
            let _gone = stream.write_all(lie);
        });
        let error = send(&server.get("/")).expect_err("it lies");
        assert_eq!(error.kind, IoErrorKind::Communication, "{error}");
        assert!(error.message.contains(&server.address), "{error}");
    }
    let endless = Server::new(|_, _, stream| {
        let mut head = b"HTTP/1.1 200 X\r\n".to_vec();
        while stream.write_all(&head).is_ok() {
            head = b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(100);
        }
    });
    send(&endless.get("/")).expect_err("its head never ends");
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = nobody.local_addr().expect("it is bound");
    drop(nobody);
    let request = HttpRequest { uri: format!("http://{address}/"), ..endless.get("/") };
    assert_eq!(send(&request).expect_err("nobody").kind, IoErrorKind::Communication);
}

#[test]
fn more_than_may_come_is_refused_also_when_it_comes_packed() {
    let flood = Server::new(|_, _, stream| {
        let _gone = stream.write_all(b"HTTP/1.1 200 X\r\nconnection: close\r\n\r\n");
        while stream.write_all(&[b'x'; 10_000]).is_ok() {}
    });
    let error = send(&flood.get("/")).expect_err("it floods");
    assert_eq!(error.kind, IoErrorKind::TooLarge, "{error}");
    let fits = Server::new(|_, _, stream| answer(stream, 200, "", &"x".repeat(100_000)));
    assert_eq!(send(&fits.get("/")).expect("it fits").body.len(), 100_000);
    let bomb = Server::new(|_, _, stream| {
        let _gone = stream
            .write_all(b"HTTP/1.1 200 X\r\nconnection: close\r\ncontent-encoding: gzip\r\n\r\n");
        let _gone = stream.write_all(&bomb());
    });
    let error = send(&bomb.get("/")).expect_err("it is large");
    assert_eq!(error.kind, IoErrorKind::TooLarge, "{error}");
}

/// Ten million zeros, packed by the system's gzip.
fn bomb() -> Vec<u8> {
    let output = std::process::Command::new("sh")
        .args(["-c", "head -c 10000000 /dev/zero | gzip"])
        .output()
        .expect("there is a shell");
    output.stdout
}

#[test]
fn only_hosts_that_are_allowed_are_talked_to() {
    let mut narrow = options();
    narrow.http_hosts = vec!["127.0.0.1".to_owned()];
    let server = Server::new(|head, _, stream| match head.contains("/away") {
        true => answer(stream, 302, "location: http://localhost:1/\r\n", ""),
        false => answer(stream, 200, "", "here"),
    });
    let io = HostIo::new(narrow);
    let call = IoCall::new("k", &|| false);
    assert_eq!(io.http(&server.get("/"), &call).expect("it is allowed").body, b"here");
    let error = io.http(&server.get("/away"), &call).expect_err("it leads away");
    assert_eq!(error.kind, IoErrorKind::Forbidden);
    assert!(
        error.message.contains("localhost") && error.message.contains("io.http-hosts"),
        "{error}"
    );
}

#[test]
fn metadata_and_closed_networks_and_ports_are_not_reached_by_name_number_or_redirection() {
    let server = Server::new(|head, _, stream| match head.contains("/away") {
        true => answer(stream, 302, "location: http://169.254.169.254/latest/\r\n", ""),
        false => answer(stream, 200, "", "here"),
    });
    let refused = |io: &HostIo, request: &HttpRequest| {
        let error = io.http(request, &IoCall::new("k", &|| false)).expect_err(&request.uri);
        assert_eq!(error.kind, IoErrorKind::Forbidden, "{}: {error}", request.uri);
        error.message
    };
    // Link-local addresses are closed unless they are named, however they are written.
    let usual = HostIo::new(options());
    for host in [
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "[64:ff9b::a9fe:a9fe]",
    ] {
        let request = HttpRequest { uri: format!("http://{host}/x"), ..server.get("/") };
        let message = refused(&usual, &request);
        assert!(
            message.contains("link-local") && message.contains("io.http-networks"),
            "{message}"
        );
    }
    assert!(refused(&usual, &server.get("/away")).contains("169.254.169.254"));
    assert_eq!(send(&server.get("/")).expect("loopback is open").body, b"here");
    // A name is judged by the addresses that the connection goes to.
    let mut narrow = options();
    narrow.http_networks = vec![Network::Public];
    let narrow = HostIo::new(narrow);
    let port = server.address.rsplit(':').next().expect("it has a port");
    for host in ["localhost", "127.0.0.1", "127.1", "0.0.0.0", "[::1]", "[::]"] {
        let request = HttpRequest { uri: format!("http://{host}:{port}/"), ..server.get("/") };
        assert!(refused(&narrow, &request).contains("loopback"), "{host}");
    }
    let request = HttpRequest { uri: "http://10.0.0.1/".to_owned(), ..server.get("/") };
    assert!(refused(&narrow, &request).contains("private"));
    let mut ports = options();
    ports.http_ports = vec![(1, 1), (443, 443)];
    assert!(refused(&HostIo::new(ports), &server.get("/")).contains("io.http-ports"));
}

#[test]
fn what_cannot_be_sent_is_said_without_secrets() {
    let server = Server::new(|_, _, stream| answer(stream, 200, "", ""));
    for uri in ["ftp://me:secret@x/y?secret", "nothing", "http://", "http://a b/"] {
        let error = send(&HttpRequest { uri: uri.to_owned(), ..server.get("/") }).expect_err(uri);
        assert_eq!(error.kind, IoErrorKind::Unsupported, "{error}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    let mut request = server.get("/");
    request.headers = vec![("X-Key".to_owned(), "secret\r\nX-Other: 1".to_owned())];
    let error = send(&request).expect_err("a line feed");
    assert!(error.message.contains("X-Key") || error.message.contains("x-key"), "{error}");
    assert!(!error.message.contains("secret"), "{error}");
    request.headers = vec![("bad name".to_owned(), "x".to_owned())];
    send(&request).expect_err("a space");
    request.headers.clear();
    request.method = "BAD METHOD".to_owned();
    send(&request).expect_err("a space");
}

#[test]
fn requests_of_one_call_share_its_limit() {
    let server = Server::new(|head, _, stream| match head.starts_with("GET /quick") {
        true => answer(stream, 200, "", "here"),
        false => drop(stream.read(&mut [0])),
    });
    let io = HostIo::new(options());
    let call = IoCall::new("k", &|| false).limit(SOON);
    assert_eq!(io.http(&server.get("/quick"), &call).expect("it answers").body, b"here");
    let silent = io.http(&server.get("/silent"), &call).expect_err("it is silent");
    assert_eq!(silent.kind, IoErrorKind::TimedOut, "{silent}");
    // Its time is over: nothing more is sent.
    let late = io.http(&server.get("/quick"), &call).expect_err("it is too late");
    assert_eq!((late.kind, server.asked().len()), (IoErrorKind::TimedOut, 2), "{late}");
}

/// A server of MCP that answers as a stream of events, and leaves the streams open.
fn tools() -> Server {
    Server::new(|_, body, stream| {
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let result = match asked["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": "2025-06-18" }),
            Some("tools/call") => json!({ "content": [{ "type": "text", "text": "5" }] }),
            _ => return answer(stream, 202, "", ""),
        };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress" });
        let result = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string();
        let (begin, end) = result.split_at(result.len() / 2);
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n";
        let _gone = write!(stream, "{head}data: {told}\n\ndata: {begin}");
        let _gone = stream.flush();
        let _gone = write!(stream, "{end}\r\n\r\n: and so on");
        // Until the caller leaves.
        let _left = stream.read(&mut [0]);
    })
}

#[test]
fn stream_of_a_tool_server_is_left_when_the_answer_has_come() {
    let server = tools();
    let uri = &server.address;
    let text = format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: it, version: '1.0.0' }}
do:
  - ask:
      call: mcp
      with:
        method: tools/call
        parameters: {{ name: add }}
        transport: {{ http: {{ endpoint: '{uri}/mcp' }} }}
"
    );
    let output = ended(&text).expect("it ends well");
    assert_eq!(output["content"][0]["text"], "5");
    assert_eq!(server.asked().len(), 3, "hello, ready, and the call");
}

/// Runs a flow whose requests may take an hour.
fn ended(text: &str) -> Result<Value, FlowError> {
    let mut long = options();
    long.http_timeout = Duration::from_secs(3_600);
    let world = World::builder().flows(HostIo::new(long)).build(MemoryStore::new());
    let world = world.expect("it can be built");
    let flows = Flows::new(&world).expect("it has flows");
    let flow = turnwheel::flow::load(text, "it.yaml").unwrap_or_else(|wrong| panic!("{wrong}"));
    block_on(flows.add(&flow)).expect("off the workers").expect("it can be added");
    let plan = flows.start(&flow, json!({})).wait().expect("it starts");
    let output = turnwheel::flow::result(&plan.finished().wait().expect("it ends"));
    world.shutdown().expect("it ends");
    output
}

/// Sends more in all than a body may have, in messages that are small, and then one of this size.
fn news(last: usize) -> Server {
    Server::new(move |head, _, stream| {
        if head.starts_with("GET /doc") {
            let document = r##"{ "asyncapi": "3.0.0", "channels": { "news": { "address": "news" } },
                "servers": { "web": { "host": "{host}", "protocol": "http" } } }"##;
            return answer(stream, 200, "content-type: application/json\r\n", document);
        }
        let kind = "content-type: text/event-stream";
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{kind}\r\n\r\n");
        let _gone = stream.write_all(head.as_bytes());
        for n in 0..30 {
            let long = "x".repeat(if n == 29 { last } else { 10_000 });
            let _gone = write!(stream, "data: {{\"n\":{n},\"long\":\"{long}\"}}\n\n");
        }
        // Until the caller leaves.
        let _left = stream.read(&mut [0]);
    })
}

#[test]
fn long_subscription_goes_on_and_its_messages_have_the_limit_of_a_body() {
    for (last, is_taken) in [(10_000, true), (200_000, false)] {
        let server = news(last);
        let host = server.address.trim_start_matches("http://");
        let text = format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: it, version: '1.0.0' }}
do:
  - hear:
      call: asyncapi
      with:
        document: {{ endpoint: '{}/doc' }}
        channel: news
        server: {{ name: web, variables: {{ host: '{host}' }} }}
        subscription: {{ filter: '${{ .payload.n == 29 }}', consume: {{ amount: 1 }} }}
      output: {{ as: '${{ .[0].payload.n }}' }}
",
            server.address
        );
        let outcome = ended(&text);
        match is_taken {
            true => assert_eq!(outcome.expect("it ends well"), json!(29)),
            false => {
                let error = outcome.expect_err("one is too long").to_string();
                assert!(error.contains("more than 100000 bytes"), "{error}");
            }
        }
    }
}

#[test]
fn functions_without_a_hash_are_taken_from_places_that_are_named_only() {
    let mut named = options();
    named.function_places = vec!["https://hub.example/team".to_owned()];
    let io = HostIo::new(named);
    for allowed in ["https://hub.example/team/f.yaml", "https://hub.example/team/a/b.yaml"] {
        assert_eq!(io.function_problem(allowed), None, "{allowed}");
    }
    for closed in [
        "https://hub.example/teams/f.yaml",
        "https://hub.example/team/../other/f.yaml",
        "https://hub.example/team/%2e%2E/other/f.yaml",
        "https://hub.example.evil.net/team/f.yaml",
        "http://hub.example/team/f.yaml",
    ] {
        let problem = io.function_problem(closed).expect(closed);
        assert!(problem.contains("io.function-places"), "{problem}");
    }
    assert!(HostIo::new(options()).function_problem("https://hub.example/team/f.yaml").is_some());
}

#[test]
fn headers_of_the_connection_are_never_sent() {
    let server = Server::new(|_, _, stream| answer(stream, 200, "", "sent"));
    for name in ["Content-Length", "transfer-encoding", "HOST", "Connection", "Proxy-Connection"] {
        let mut request = server.get("/");
        request.headers.push((name.to_owned(), "0".to_owned()));
        let error = send(&request).expect_err("it cannot be set");
        assert!(error.message.contains(name), "{error}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn secrets_in_headers_and_bodies_stay_with_their_origin() {
    let other = Server::new(|_, body, stream| answer(stream, 200, "", body));
    let location = format!("location: {}/\r\n", other.address);
    let server = Server::new(move |head, _, stream| {
        let status = if head.starts_with("POST /moved") { 307 } else { 302 };
        answer(stream, status, &location, "");
    });
    let mut call = IoCall::new("plan/1", &|| false);
    call.secrets = vec!["s3cret".to_owned(), "1".to_owned()];
    let send = |request: &HttpRequest| HostIo::new(options()).http(request, &call);
    let request = |path: &str, body: &str| {
        let headers =
            [("X-Name", "Ann"), ("X-Team", "its s3cret"), ("X-Pin", "1"), ("X-Count", "11")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let body = Some(body.as_bytes().to_vec());
        HttpRequest { method: "POST".to_owned(), headers, body, ..server.get(path) }
    };
    assert_eq!(send(&request("/moved", "plain")).expect("it answers").body, b"plain");
    let asked = other.asked()[0].to_ascii_lowercase();
    assert!(asked.contains("x-name: ann") && asked.contains("x-count: 11"), "{asked}");
    assert!(!asked.contains("s3cret") && !asked.contains("x-pin"), "{asked}");
    let error = send(&request("/moved", "{\"key\":\"s3cret\"}")).expect_err("it is not sent on");
    assert_eq!(error.kind, IoErrorKind::Forbidden);
    assert!(error.message.contains("another origin"), "{error}");
    // A redirection that asks for the place alone takes no body along.
    send(&request("/found", "s3cret")).expect("it answers");
    assert!(!other.asked().join("").contains("s3cret"));
}
