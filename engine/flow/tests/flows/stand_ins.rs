//! Stand-ins for the services that the specification's kit and examples name: no request leaves the test.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{json, Value};
use turnwheel_flow::{
    BrokerMessage, FakeIo, GrpcResponse, HttpRequest, HttpResponse, ProcessResult, Program,
};

/// A description of the pet store, as far as the flows of the specification use it.
fn petstore() -> Value {
    let parameter =
        |name: &str, place: &str| json!([{ "name": name, "in": place, "type": "string" }]);
    json!({
        "swagger": "2.0", "host": "petstore.swagger.io", "basePath": "/v2", "schemes": ["https"],
        "paths": {
            "/pet/findByStatus": { "get": {
                "operationId": "findPetsByStatus", "parameters": parameter("status", "query"),
            } },
            "/pet/{petId}": { "get": {
                "operationId": "getPetById", "parameters": parameter("petId", "path"),
            } },
        },
    })
}

/// A description of messages about pets.
fn asyncapi() -> Value {
    json!({
        "asyncapi": "3.0.0",
        "servers": {
            "bus": { "host": "bus.fake.com", "protocol": "kafka" },
            "staging": { "host": "staging.fake.com", "protocol": "https" },
            "web": { "host": "push.fake.com", "protocol": "ws" },
        },
        "channels": {
            "wanted": { "address": "pets/wanted" },
            "/notifications": { "address": "notifications" },
        },
        "operations": {
            "getNotifications": {
                "action": "receive", "channel": { "$ref": "#/channels/~1notifications" },
            },
            "findPetsByStatus": { "action": "receive", "channel": { "$ref": "#/channels/wanted" } },
        },
    })
}

/// The numbers of requests so far, by their addresses.
type Asked = Mutex<HashMap<String, u64>>;

/// Answers of the services.
fn answer(request: &HttpRequest, asked: &Asked) -> (u16, Value) {
    let header = |name: &str| {
        let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    };
    let body = || -> Value {
        let body = request.body.as_deref().unwrap_or_default();
        serde_json::from_slice(body).unwrap_or(Value::Null)
    };
    let address = request.uri.split_once("://").map_or("", |(_, address)| address);
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let pet = |id: u64| json!({ "id": id, "name": "Milou", "status": "available" });
    let times = {
        let mut asked = asked.lock().expect("no panic while it is held");
        let times = asked.entry(path.to_owned()).or_default();
        *times += 1;
        *times
    };
    if let Some(Ok(failures)) = path.strip_prefix("flaky.example/").map(str::parse::<u64>) {
        let status = if times > failures { 200 } else { 503 };
        return (status, json!({ "ok": times - 1 }));
    }
    match path {
        "job.example/state" => {
            let state = if times < 3 { "running" } else { "done" };
            (200, json!({ "state": state, "asked": times }))
        }
        "petstore.swagger.io/v2/swagger.json" => (200, petstore()),
        "petstore.swagger.io/v2/pet/findByStatus" => match query {
            "status=available" => (200, json!([pet(1), pet(2)])),
            _ => (200, json!([])),
        },
        "httpbin.org/basic-auth/serverless-workflow/conformance-test" => {
            let known = "Basic c2VydmVybGVzcy13b3JrZmxvdzpjb25mb3JtYW5jZS10ZXN0";
            (if header("authorization") == Some(known) { 200 } else { 401 }, json!({}))
        }
        "keycloak/realms/fake-authority/.well-known/openid-configuration" => {
            (200, json!({ "token_endpoint": "http://keycloak/realms/fake-authority/oidc/token" }))
        }
        "keycloak/realms/fake-authority/auth/token"
        | "keycloak/realms/fake-authority/oidc/token" => {
            (200, json!({ "access_token": "t0ken", "token_type": "Bearer" }))
        }
        "raw.githubusercontent.com/serverlessworkflow/catalog/main/functions/log/1.0.0/function.yaml" => {
            (200, json!({ "set": { "logged": "${ .message }" } }))
        }
        "fake.com/docs/asyncapi.json" => (200, asyncapi()),
        "staging.fake.com/pets/wanted" => {
            let to = format!("/{}", path.split_once('/').map_or("", |(_, path)| path));
            (202, json!({ "published": body(), "to": to, "token": header("authorization") }))
        }
        "swapi.dev/api/people/" => (200, json!({ "found": query })),
        "swapi.dev/api/people/1" => {
            (200, json!({ "homeworld": "https://swapi.dev/api/planets/1" }))
        }
        "swapi.dev/api/planets/1" => (200, json!({ "name": "Tatooine" })),
        _ => match path.strip_prefix("petstore.swagger.io/v2/pet/").map(str::parse) {
            Some(Ok(id)) if request.method == "PUT" => (200, json!({ "id": id, "got": body() })),
            Some(Ok(503)) => (503, Value::Null),
            Some(Ok(401)) => (200, json!({ "token": header("authorization") })),
            Some(Ok(id)) => (200, pet(id)),
            Some(Err(_)) => (404, json!({ "message": "there is no such pet" })),
            None => (200, json!({ "asked": path, "got": body() })),
        },
    }
}

/// Effects with all of them, and with processes and containers that show what they got.
pub(crate) fn services() -> FakeIo {
    let shows =
        |what: String| Ok(ProcessResult { code: 0, stdout: what, stderr: "none".to_owned() });
    let asked = Asked::default();
    FakeIo::new()
        .secret("token", json!({ "token": "t0ken" }))
        .secret(
            "mySecret",
            json!({
                "authority": "http://keycloak/realms/fake-authority",
                "grant": "client_credentials",
                "client": { "id": "workflow-runtime-id", "secret": "workflow-runtime-secret" },
                "endpoints": { "token": "/auth/token" },
            }),
        )
        .on_http(move |request| {
            let (status, body) = answer(request, &asked);
            if request.uri.ends_with("/notifications") {
                // A message that passes the filters of the examples, and the end.
                let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
                let body = b"data: {\"from\":{}}\n\n".to_vec();
                return Ok(HttpResponse { status: 200, headers, body });
            }
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
            Ok(HttpResponse { status, headers, body })
        })
        .on_broker(|_| {
            // More than the examples want, all of which pass their filters.
            let message =
                BrokerMessage { body: b"{\"from\":{}}".to_vec(), ..BrokerMessage::default() };
            Ok(vec![message; 9])
        })
        .resource("file://app/greet.proto", "syntax = \"proto3\";")
        .on_grpc(|request| {
            let name = &request.arguments["name"];
            let output = json!({ "message": format!("{} {name}", request.shown()) });
            Ok(GrpcResponse { output, ..GrpcResponse::default() })
        })
        .on_process(move |it| shows(format!("{:?} {:?}", it.stdin, it.arguments)))
        .on_talk(|process, line| {
            let asked: Value = serde_json::from_str(line).expect("it is JSON");
            let result = match asked["method"].as_str() {
                Some("initialize") => json!({ "protocolVersion": "2025-06-18" }),
                Some("tools/call") => {
                    let Program::Command(command) = &process.program else { panic!("{process:?}") };
                    let tool = asked["params"]["name"].as_str().unwrap_or_default();
                    json!({ "content": [{ "type": "text", "text": format!("{tool} {command}") }] })
                }
                _ => return Vec::new(),
            };
            vec![json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string()]
        })
        .on_container(move |it| shows(format!("{} {:?} {:?}", it.image, it.stdin, it.arguments)))
}
