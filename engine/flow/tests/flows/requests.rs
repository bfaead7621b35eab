//! Flows: what a request cannot say, and where it cannot go.

use serde_json::json;
use turnwheel_flow::{FakeIo, FlowError, HttpResponse};

use crate::flow_common::run_with;

/// The fault of a flow that must not ask anything but for a document.
fn refused(io: FakeIo, flow: &str, input: serde_json::Value) -> turnwheel_flow::Fault {
    let documents = io.on_http(|request| {
        assert!(request.uri.ends_with("/api.json"), "it was sent: {}", request.uri);
        let parameter = |name: &str, place: &str| json!({ "name": name, "in": place });
        let document = json!({
            "openapi": "3.0.0", "servers": [{ "url": "https://shop.example/v1" }],
            "paths": { "/pets/{id}": { "get": {
                "operationId": "pet",
                "parameters": [parameter("id", "path"), parameter("Transfer-Encoding", "header")],
            } } },
        });
        Ok(HttpResponse {
            status: 200,
            body: document.to_string().into_bytes(),
            ..Default::default()
        })
    });
    match run_with(documents, flow, input).0 {
        Err(FlowError::Faulted(fault)) => *fault,
        other => panic!("{flow}: {other:?}"),
    }
}

#[test]
fn headers_of_the_connection_are_a_fault_and_nothing_is_sent() {
    for name in [
        "Content-Length",
        "transfer-encoding",
        "Host",
        "Connection",
        "Upgrade",
        "TE",
        "Trailer",
        "Keep-Alive",
        "Proxy-Authorization",
        "Proxy-Connection",
    ] {
        let http = format!(
            "do: [ {{ ask: {{ call: http, with: {{ method: post, endpoint: 'https://a.b/', \
             headers: {{ '{name}': '5' }}, body: hello }} }} }} ]"
        );
        let mcp = format!(
            "do: [ {{ ask: {{ call: mcp, with: {{ method: tools/list, \
             transport: {{ http: {{ endpoint: 'https://a.b/', headers: {{ '{name}': '5' }} }} }} }} }} }} ]"
        );
        for flow in [http, mcp] {
            let fault = refused(FakeIo::new(), &flow, json!({}));
            let detail = fault.detail.as_deref().unwrap_or_default();
            assert!(fault.status == 400 && detail.contains(name), "{fault}");
        }
    }
    let openapi = "
do:
  - ask:
      call: openapi
      with:
        document: { endpoint: 'https://shop.example/api.json' }
        operationId: pet
        parameters: { id: 1, Transfer-Encoding: chunked }
";
    let fault = refused(FakeIo::new(), openapi, json!({}));
    assert!(fault.to_string().contains("Transfer-Encoding"), "{fault}");
}

#[test]
fn data_does_not_lead_a_call_to_another_place_of_its_service() {
    let http = |uri: &str| {
        format!("do: [ {{ ask: {{ call: http, with: {{ method: get, endpoint: '{uri}' }} }} }} ]")
    };
    let openapi = "
do:
  - ask:
      call: openapi
      with:
        document: { endpoint: 'https://shop.example/api.json' }
        operationId: pet
        parameters: { id: '${ .id }' }
";
    for flow in [
        http("https://shop.example/v1/pets/{id}/food"),
        http("https://shop.example/v1/pets/${ .id }"),
        openapi.to_owned(),
    ] {
        for id in ["..", "."] {
            let fault = refused(FakeIo::new(), &flow, json!({ "id": id }));
            let detail = fault.detail.as_deref().unwrap_or_default();
            assert!(fault.status == 400 && detail.contains("path segment"), "{fault}");
        }
    }
    let io = FakeIo::new().on_http(|request| {
        assert_eq!(request.uri, "https://shop.example/v1/../pets/..7");
        Ok(HttpResponse { status: 200, ..Default::default() })
    });
    run_with(io, &http("https://shop.example/v1/../pets/{id}"), json!({ "id": "..7" }))
        .0
        .expect("the author has written it");
}

#[test]
fn errors_leave_user_password_and_query_of_an_address_out() {
    let io = FakeIo::new()
        .on_http(|_| Ok(HttpResponse { status: 500, body: b"no".to_vec(), ..Default::default() }));
    let flow = "
do:
  - ask:
      call: http
      with: { method: get, endpoint: 'http://ann:pw12345@h.example/bad?k=s3cretvalue99' }
";
    match run_with(io, flow, json!({})).0 {
        Err(FlowError::Faulted(fault)) => {
            let detail = fault.detail.as_deref().unwrap_or_default();
            assert!(detail.contains("GET http://h.example/bad answered 500"), "{detail}");
            assert!(!detail.contains("s3cretvalue99") && !detail.contains("pw12345"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}
