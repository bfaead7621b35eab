//! Flows: requests as URI templates and descriptions of services say.

use serde_json::{json, Value};
use turnwheel_flow::{FakeIo, FlowError, HttpRequest, HttpResponse, IoError};

use crate::flow_common::run_with;

const SERVICE: &str = r##"{
  "openapi": "3.0.0", "servers": [ { "url": "api/v3/" } ],
  "paths": {
    "/pets/{id}": {
      "parameters": [ { "name": "id", "in": "path", "required": true } ],
      "get": { "operationId": "getPet", "parameters": [
        { "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } },
        { "name": "one", "in": "cookie" }, { "name": "two", "in": "cookie" },
        { "name": "tags", "in": "query" },
        { "name": "sort", "in": "query", "explode": false },
        { "name": "pipe", "in": "query", "style": "pipeDelimited" } ] } },
    "/form": { "post": { "operationId": "form", "requestBody": { "$ref": "#/components/form" } } },
    "/file": { "post": { "operationId": "file",
      "requestBody": { "content": { "multipart/form-data": {} } } } },
    "/patch": { "patch": { "operationId": "patch", "requestBody": { "content": {
      "application/merge-patch+json": {}, "application/x-www-form-urlencoded": {} } } } },
    "/own": { "servers": [ { "url": "https://path.example" } ],
      "get": { "operationId": "ofPath" },
      "put": { "operationId": "ofOperation", "servers": [ { "url": "/other" } ] } }
  },
  "components": { "form": { "content": { "application/x-www-form-urlencoded": {} } } }
}"##;

const OLD: &str = r##"{
  "swagger": "2.0", "basePath": "/v2",
  "paths": { "/pets": { "get": { "operationId": "find", "parameters": [
    { "name": "status", "in": "query" },
    { "name": "tag", "in": "query", "collectionFormat": "multi" } ] } } }
}"##;

fn answer(body: &str) -> Result<HttpResponse, IoError> {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    Ok(HttpResponse { status: 200, headers, body: body.as_bytes().to_vec() })
}

/// The method and the URI of a request, its body, its cookies and the type of its body.
fn echo(request: &HttpRequest) -> Result<HttpResponse, IoError> {
    let header = |name: &str| {
        let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    };
    let body = String::from_utf8(request.body.clone().unwrap_or_default()).expect("it is a text");
    let (uri, kind) = (&request.uri, header("content-type"));
    answer(&json!([request.method, uri, body, header("cookie"), kind]).to_string())
}

fn operation(document: &str, id: &str, parameters: &str) -> Result<Value, FlowError> {
    let io = FakeIo::new().on_http(|request| match request.uri.as_str() {
        "https://docs.example/pets/service.json" => answer(SERVICE),
        "https://docs.example/pets/old.json" => answer(OLD),
        _ => echo(request),
    });
    let flow = format!(
        "do: [ {{ c: {{ call: openapi, with: {{ \
         document: {{ endpoint: 'https://docs.example/pets/{document}.json' }}, \
         operationId: {id}, parameters: {parameters} }} }} }} ]\n"
    );
    run_with(io, &flow, json!({})).0
}

#[test]
fn parameters_of_a_service_go_where_its_description_says() {
    let base = "https://docs.example/pets/api/v3";
    let got = operation("service", "getPet", "{ id: [1, a/b], one: x, two: 'y z' }").unwrap();
    assert_eq!(got, json!(["GET", format!("{base}/pets/1,a%2Fb"), "", "one=x; two=y%20z", null]));
    let lists = "{ id: 1, tags: [a, b], sort: [c, d], pipe: [e, f] }";
    let got = operation("service", "getPet", lists).unwrap();
    let query = "pipe=e%7Cf&sort=c%2Cd&tags=a&tags=b";
    assert_eq!(got[1], json!(format!("{base}/pets/1?{query}")));
    let got = operation("old", "find", "{ status: [a, b], tag: [c, d] }").unwrap();
    let query = "status=a%2Cb&tag=c&tag=d";
    assert_eq!(got[1], json!(format!("https://docs.example/v2/pets?{query}")));
    let missing = operation("service", "getPet", "{}").unwrap_err();
    assert!(missing.to_string().contains("«id»"), "{missing}");
}

#[test]
fn bodies_have_the_type_that_an_operation_takes() {
    let form = "application/x-www-form-urlencoded";
    let got = operation("service", "form", "{ a: 1, b: 'x y' }").unwrap();
    assert_eq!((&got[2], &got[4]), (&json!("a=1&b=x%20y"), &json!(form)));
    let got = operation("service", "patch", "{ body: { a: 1 } }").unwrap();
    assert_eq!((&got[2], &got[4]), (&json!("{\"a\":1}"), &json!("application/merge-patch+json")));
    let refused = operation("service", "file", "{ a: 1 }").unwrap_err();
    assert!(refused.to_string().contains("multipart/form-data"), "{refused}");
}

#[test]
fn servers_of_an_operation_or_a_path_stand_before_those_of_the_document() {
    let of = |id: &str| operation("service", id, "{}").unwrap()[1].clone();
    assert_eq!(of("ofPath"), json!("https://path.example/own"));
    assert_eq!(of("ofOperation"), json!("https://docs.example/other/own"));
}

#[test]
fn uris_are_templates_and_data_in_them_is_none() {
    let uri = |endpoint: &str| {
        let flow = format!(
            "do: [ {{ c: {{ call: http, with: {{ method: get, endpoint: '{endpoint}', \
             query: {{ q: 1 }} }} }} }} ]\n"
        );
        let input = json!({ "id": "a/b", "list": [1, 2], "braces": "{id}" });
        run_with(FakeIo::new().on_http(echo), &flow, input).0.map(|got| got[1].clone())
    };
    assert_eq!(uri("https://a.b/{id}").unwrap(), json!("https://a.b/a%2Fb?q=1"));
    assert_eq!(uri("https://a.b{/list*}#x").unwrap(), json!("https://a.b/1/2?q=1#x"));
    assert_eq!(uri("https://a.b/{?id,none}").unwrap(), json!("https://a.b/?id=a%2Fb&q=1"));
    assert_eq!(uri("https://a.b/${ .braces }/{+id}").unwrap(), json!("https://a.b/{id}/a/b?q=1"));
    let refused = uri("https://a.b/{|id}").unwrap_err();
    assert!(refused.to_string().contains("RFC 6570"), "{refused}");
}

const MESSAGES: &str = r##"{
  "asyncapi": "3.0.0", "defaultContentType": "application/vnd.shop+json",
  "servers": {
    "bus": { "host": "bus.example:9092", "protocol": "kafka" },
    "web": { "host": "{zone}.shop.example", "pathname": "/v1/", "protocol": "https",
      "variables": { "zone": { "default": "eu" } } },
    "other": { "host": "other.example", "protocol": "http" } },
  "channels": {
    "orders": { "address": "orders/{shop}", "parameters": { "shop": {} },
      "servers": [ { "$ref": "#/servers/bus" }, { "$ref": "#/servers/web" } ] },
    "plain": { "address": "/plain", "servers": [ { "$ref": "#/servers/other" } ],
      "messages": { "text": { "contentType": "text/csv" } } } },
  "operations": {
    "order": { "channel": { "$ref": "#/channels/orders" } },
    "plain": { "channel": { "$ref": "#/channels/plain" },
      "bindings": { "http": { "method": "PUT" } } } }
}"##;

const OLD_MESSAGES: &str = r##"{
  "asyncapi": "2.6.0",
  "servers": { "web": { "url": "http://old.example/base", "protocol": "http" } },
  "channels": { "orders": { "publish": { "operationId": "order" } }, "users/{id}": {} }
}"##;

fn published(document: &str, with: &str) -> Result<Value, FlowError> {
    let io = FakeIo::new().on_http(|request| match request.uri.as_str() {
        "https://docs.example/new.json" => answer(MESSAGES),
        "https://docs.example/old.json" => answer(OLD_MESSAGES),
        "https://docs.example/none.json" => answer("{}"),
        _ => echo(request),
    });
    let flow = format!(
        "do: [ {{ c: {{ call: asyncapi, with: {{ \
         document: {{ endpoint: 'https://docs.example/{document}.json' }}, {with} }} }} }} ]\n"
    );
    run_with(io, &flow, json!({ "n": 7 })).0
}

#[test]
fn messages_are_published_over_http_as_their_description_says() {
    let published = |document: &str, with: &str| published(document, with).expect("it is sent");
    let sent =
        |method: &str, uri: &str, body: &str, kind: &str| json!([method, uri, body, null, kind]);
    let shop = "server: { name: web, variables: { shop: a b, zone: us } }";
    let payload = "message: { payload: { n: '${ .n }' } }";
    assert_eq!(
        published("new", &format!("operation: order, {shop}, {payload}")),
        sent(
            "POST",
            "https://us.shop.example/v1/orders/a%20b",
            "{\"n\":7}",
            "application/vnd.shop+json"
        ),
    );
    let plain = "operation: plain, message: { payload: '1,2', headers: { X-Key: 5 } }";
    let expected = sent("PUT", "http://other.example/plain", "1,2", "text/csv");
    assert_eq!(published("new", plain), expected, "the first server of the channel");
    let own = "operation: plain, message: { payload: {}, headers: { content-type: a/b } }";
    assert_eq!(published("new", own), sent("PUT", "http://other.example/plain", "{}", "a/b"));
    let old = sent("POST", "http://old.example/base/orders", "{\"n\":7}", "application/json");
    assert_eq!(published("old", &format!("channel: orders, {payload}")), old);
    assert_eq!(published("old", &format!("operation: order, {payload}")), old);
}

#[test]
fn what_is_wrong_with_a_message_is_a_fault_that_says_so() {
    let wrong = [
        ("new", "operation: none, message: {}", "has no operation «none»"),
        ("old", "channel: none, message: {}", "has no channel «none»"),
        ("old", "channel: 'users/{id}', message: {}", "needs a value for «id»"),
        ("new", "operation: order, server: { name: bus }, message: {}", "«bus» speaks «kafka»"),
        ("new", "operation: order, server: { name: x }, message: {}", "has no server «x»"),
        ("new", "operation: order, message: {}", "needs a value for «shop»"),
        ("none", "operation: order, message: {}", "is no AsyncAPI document"),
        (
            "new",
            "operation: order, server: { name: web, variables: { shop: a, zone: 'evil.example/' } }, \
             message: {}",
            "lead from «{zone}.shop.example/v1/» to another server, «evil.example»",
        ),
        (
            "new",
            "operation: order, server: { name: web, variables: { shop: a, zone: 'ann@evil' } }, \
             message: {}",
            "to another server",
        ),
    ];
    for (document, with, said) in wrong {
        let error = published(document, with).expect_err("it is wrong").to_string();
        assert!(error.contains(said), "{with}: {error}");
    }
}
