//! Who may ask for what, how often, and what is kept out.
#![cfg(feature = "server")]

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use turnwheel::engine::MemoryStore;
use turnwheel::http::serve::{Listen, ServeError, Server};
use turnwheel::http::{Access, Options, Role, Token};

use crate::http_common::{world, Served};

fn guarded() -> Served {
    let tokens = vec![
        Token::new("ann", Role::Operate, "s3cret"),
        Token::new("viewer", Role::Read, "only-look"),
    ];
    Served::with(world(MemoryStore::new()), Options::new(Access::Tokens(tokens)))
}

#[test]
fn without_a_token_nothing_but_health_is_answered() {
    let served = guarded();
    for path in ["/api/v1/plans", "/metrics", "/api/v1/openapi.json", "/api/v1/none"] {
        let answer = served.get(path);
        answer.is_problem(401, "unauthorized");
        assert!(answer.header("www-authenticate").contains("Bearer"));
    }
    assert_eq!(served.get("/health").status, 200);
    assert_eq!(served.get("/health/live").status, 204);
    for wrong in
        ["Bearer s3cre", "Bearer s3cret2", "Basic !", "Basic dmlld2VyOnMzY3JldA==", "Digest a"]
    {
        let headers = [("authorization", wrong)];
        let answer = served.send("GET", "/api/v1/plans", &headers, None);
        answer.is_problem(401, "unauthorized");
    }
}

#[test]
fn roles_allow_to_look_or_to_change_and_changes_are_noted_by_name() {
    let served = guarded();
    let viewer = [("authorization", "Bearer only-look")];
    let body = json!({"action": "ask"});
    assert_eq!(served.send("GET", "/api/v1/plans", &viewer, None).status, 200);
    let refused = served.send("POST", "/api/v1/plans", &viewer, Some(&body));
    refused.is_problem(403, "forbidden");
    // The same by name and password: ann:s3cret.
    let ann = [("authorization", "Basic YW5uOnMzY3JldA==")];
    let started = served.send("POST", "/api/v1/plans", &ann, Some(&body));
    assert_eq!(started.status, 201, "{}", started.text);
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let order = json!({"order": "cancel"});
    let done = served.send("POST", &format!("/api/v1/plans/{id}/orders"), &ann, Some(&order));
    assert_eq!(done.json()["by"], "ann");
    let path = format!("/api/v1/plans/{id}?wait_ms=60000");
    let plan = served.send("GET", &path, &viewer, None).json();
    assert_eq!((&plan["by"], &plan["cancel"]["by"]), (&json!("ann"), &json!("ann")));
}

#[test]
fn two_principals_with_the_same_key_begin_two_plans() {
    let served = Served::with(
        world(MemoryStore::new()),
        Options::new(Access::Tokens(vec![
            Token::new("ann", Role::Operate, "a"),
            Token::new("bob", Role::Operate, "b"),
        ])),
    );
    let body = json!({"action": "echo", "input": {"text": "x"}});
    let start = |token: &str| {
        let headers = [("authorization", token), ("idempotency-key", "1")];
        served.send("POST", "/api/v1/plans", &headers, Some(&body)).json()
    };
    assert_ne!(start("Bearer a")["id"], start("Bearer b")["id"]);
    assert_eq!(start("Bearer a")["is_repeated"], true);
}

#[test]
fn a_request_that_names_two_hosts_is_refused() {
    let served = Served::new();
    let mut stream = TcpStream::connect(served.address()).expect("it listens");
    let own = served.address();
    let request = format!(
        "GET /api/v1/plans HTTP/1.1\r\nhost: {own}\r\nhost: evil.example\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("host-refused"), "{answer}");
}

#[test]
fn a_page_of_another_site_cannot_use_the_readers_browser() {
    let served = Served::new();
    let host = [("host", "evil.example")];
    served.send("GET", "/api/v1/plans", &host, None).is_problem(421, "host-refused");
    let origin = [("origin", "http://evil.example")];
    let body = json!({"action": "ask"});
    let refused = served.send("POST", "/api/v1/plans", &origin, Some(&body));
    refused.is_problem(403, "origin-refused");
    let own = [("origin", served.url.as_str())];
    assert_eq!(served.send("POST", "/api/v1/plans", &own, Some(&body)).status, 201);
}

#[test]
fn a_page_of_another_site_cannot_use_a_browser_that_knows_a_password() {
    let served = guarded();
    // ann:s3cret, as the browser sends it again by itself.
    let ann = ("authorization", "Basic YW5uOnMzY3JldA==");
    let evil = ("origin", "http://evil.example");
    let text = ("content-type", "text/plain");
    let json = ("content-type", "application/json");
    let body = json!({"action": "ask"});
    for path in ["/api/v1/flows", "/api/v1/plans", "/api/v1/schedules/s/trigger", "/api/v1/orders"]
    {
        for kind in [text, json] {
            let refused = served.send("POST", path, &[ann, evil, kind], Some(&body));
            refused.is_problem(403, "origin-refused");
        }
        served
            .send("POST", path, &[ann, ("origin", "null")], None)
            .is_problem(403, "origin-refused");
        for site in ["cross-site", "same-site"] {
            let refused =
                served.send("POST", path, &[ann, json, ("sec-fetch-site", site)], Some(&body));
            refused.is_problem(403, "origin-refused");
        }
        // A form can say these types only; a browser of an old kind names no origin.
        for kind in
            ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
        {
            let refused = served.send("POST", path, &[ann, ("content-type", kind)], Some(&body));
            refused.is_problem(415, "body-type-wrong");
        }
    }
    let own = ("origin", served.url.as_str());
    let started = served.send("POST", "/api/v1/plans", &[ann, own, json], Some(&body));
    assert_eq!(started.status, 201, "{}", started.text);
    // Behind a proxy the host is another one; the browser itself says that the page is the server's own.
    let proxied =
        [ann, json, ("origin", "https://wheel.example"), ("sec-fetch-site", "same-origin")];
    assert_eq!(served.send("POST", "/api/v1/plans", &proxied, Some(&body)).status, 201);
}

#[test]
fn each_way_to_say_who_one_is_has_a_header_of_its_own() {
    let answer = guarded().get("/api/v1/plans");
    let ways: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
    assert_eq!(ways, ["Bearer realm=\"turnwheel\"", "Basic realm=\"turnwheel\""]);
    // A script of a page asks by itself: its browser is not to ask for a password.
    let script = [("x-requested-with", "turnwheel-console")];
    for path in ["/api/v1/plans", "/api/v1/session"] {
        let answer = guarded().send("GET", path, &script, None);
        let ways: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
        assert_eq!(ways, ["Bearer realm=\"turnwheel\""], "{path}");
    }
}

#[test]
fn whoever_asks_too_often_is_told_when_to_come_back() {
    let options = Options::new(Access::Loopback).rate(1, 3);
    let served = Served::with(world(MemoryStore::new()), options);
    let statuses: Vec<u16> = (0..5).map(|_| served.get("/api/v1/queues").status).collect();
    assert_eq!(statuses[..3], [200, 200, 200]);
    let refused = served.get("/api/v1/queues");
    refused.is_problem(429, "too-many-requests");
    assert_eq!(refused.header("retry-after"), "1");
    // Another name is not another rate: a request says it itself.
    let eva = [("x-turnwheel-by", "eva")];
    served.send("GET", "/api/v1/queues", &eva, None).is_problem(429, "too-many-requests");
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn other_machines_are_served_with_tokens_only() {
    let world = world(MemoryStore::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let everywhere = || Listen::at("0.0.0.0:0".parse().unwrap());
    for access in [Access::Loopback, Access::Host, Access::Tokens(Vec::new())] {
        let refused = runtime.block_on(Server::bind(&world, Options::new(access), everywhere()));
        assert!(matches!(refused, Err(ServeError::Open { .. })), "{refused:?}");
    }
    let tokens = Access::Tokens(vec![Token::new("ann", Role::Read, "x")]);
    let bound = runtime.block_on(Server::bind(&world, Options::new(tokens), everywhere()));
    assert!(bound.is_ok());
    drop(bound);
    world.shutdown().unwrap();
}

#[test]
fn without_tokens_somebody_on_this_machine_says_who_they_are() {
    let served = Served::new();
    let body = json!({"action": "ask"});
    let eva = [("x-turnwheel-by", "eva")];
    let started = served.send("POST", "/api/v1/plans", &eva, Some(&body)).json();
    let plan = served.get(&format!("/api/v1/plans/{}", started["id"].as_str().unwrap())).json();
    assert_eq!(plan["by"], "eva");
    let found = served.get("/api/v1/plans?by=eva").json();
    assert_eq!(found["plans"][0]["id"], started["id"]);
}

#[test]
fn a_trace_goes_in_and_comes_out() {
    let served = Served::new();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str())];
    let answer = served.send("GET", "/api/v1/none", &headers, None);
    assert_eq!(answer.is_problem(404, "path-unknown")["trace"], trace);
    assert!(answer.header("traceparent").starts_with(&format!("00-{trace}-")));
    let body = json!({"action": "echo", "input": {"text": "x"}});
    let started = served.send("POST", "/api/v1/plans", &headers, Some(&body)).json();
    let plan = served.ended(started["id"].as_str().unwrap());
    assert!(plan["traceparent"].as_str().unwrap().contains(trace), "{plan}");
    // Without one there is a new one.
    assert_eq!(served.get("/api/v1/queues").header("traceparent").len(), parent.len());
}

#[test]
fn the_router_can_be_mounted_under_a_path() {
    let world = world(MemoryStore::new());
    let api = turnwheel::http::router(&world, Options::new(Access::Host));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}/wheel", listener.local_addr().unwrap());
    let app = axum::Router::new().nest("/wheel", api);
    runtime.spawn(async move {
        let served = hyper_serve(listener, app).await;
        drop(served);
    });
    let get = |path: &str| {
        let answer = ureq::get(format!("{url}{path}")).call().unwrap();
        answer.into_body().read_to_string().unwrap()
    };
    assert!(get("/api/v1/actions").contains("echo"));
    assert!(get("/health").contains("\"is_healthy\":true"));
    assert!(get("/metrics").contains("turnwheel_queue_size"));
    drop(runtime);
    world.shutdown().unwrap();
}

/// What a host application would do with `axum::serve`.
async fn hyper_serve(listener: tokio::net::TcpListener, app: axum::Router) -> std::io::Result<()> {
    axum::serve(listener, app).await
}
