//! Schemas and functions that a definition names by address.

use serde_json::{json, Value};
use turnwheel_engine::{MemoryStore, World};
use turnwheel_flow::{self as flow, Asked, FakeIo, FlowError, Flows, HttpResponse, WithFlows};
use turnwheel_runtime::completion::block_on;

use crate::flow_common::{add, define, load, problems, world};

const SCHEMA: &str = "{ type: object, required: [n], properties: { n: { type: integer } } }";

const DOUBLE: &str = "
input: { schema: { resource: { endpoint: 'https://a.example/n.json' } } }
set: { twice: '${ .n * 2 }' }
";

/// The SHA-256 of `DOUBLE`, and of nothing that is there.
const OF_DOUBLE: &str = "6b22b5d5618aa575b8ea61ca8ca1522e57306b02773a2375776465edee333b6a";
const OF_OTHER: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A host with a schema, a function and a catalog.
fn host() -> FakeIo {
    FakeIo::new().secret("hub", json!({ "username": "me", "password": "t0ps3cret" })).on_http(
        |request| {
            let has = |header: &str| request.headers.iter().any(|(_, value)| value == header);
            let body = match request.uri.as_str() {
                "https://a.example/n.json" => SCHEMA,
                "https://a.example/double.yaml" => DOUBLE,
                "https://hub.example/functions/double/1.0.0/function.yaml"
                    if has("Basic bWU6dDBwczNjcmV0") =>
                {
                    "call: https://a.example/double.yaml\nwith: { n: '${ .n }' }"
                }
                "https://a.example/wrong.yaml" => "sett: {}",
                "https://a.example/broken.yaml" => "set: {",
                _ => return Ok(HttpResponse { status: 404, ..HttpResponse::default() }),
            };
            Ok(HttpResponse { status: 200, body: body.into(), ..HttpResponse::default() })
        },
    )
}

fn asked(io: &FakeIo) -> usize {
    io.asked().iter().filter(|it| matches!(it, Asked::Http(..))).count()
}

const BY_ADDRESS: &str =
    "do: [ { a: { call: 'https://a.example/double.yaml', with: { n: '${ .m }' } } } ]";

#[test]
fn schema_of_a_resource_is_read_once_when_the_flow_is_added() {
    let io = host();
    let (world, flows) = world(io.clone());
    let text = "input: { schema: { resource: { name: n, endpoint: 'https://a.example/n.json' } } }
do: [ { a: { set: { got: '${ .n }' } } } ]";
    let raw = load(text);
    let early = block_on(flows.add(&raw)).expect("off the workers");
    assert!(early.is_err_and(|error| error.to_string().contains("was not read")));
    let flow = flows.resolve(&raw).expect("it is there");
    assert_eq!(flow.input_schema().map(|schema| &schema["required"]), Some(&json!(["n"])));
    add(&flows, &flow);
    let run = |input: Value| {
        let plan = flows.start(&flow, input).wait().expect("it starts");
        flow::result(&plan.finished().wait().expect("it ends"))
    };
    assert_eq!(run(json!({ "n": 3 })).expect("it fits"), json!({ "got": 3 }));
    let Err(FlowError::Faulted(fault)) = run(json!({ "n": "x" })) else { panic!("it is wrong") };
    assert!(fault.to_value()["type"].as_str().is_some_and(|it| it.ends_with("/validation")));
    assert_eq!(asked(&io), 1);
    // The same version keeps what it was added with, whatever is at the address now.
    let again = flows.resolve(&load(text)).expect("it is known");
    assert_eq!((again.hash(), asked(&io)), (flow.hash(), 1));
    world.shutdown().expect("it ends");
}

#[test]
fn functions_of_catalogs_and_addresses_run_with_what_they_name_themselves() {
    let of_catalog = "use:
  secrets: [hub]
  catalogs: { hub: { endpoint: { uri: 'https://hub.example/', authentication: { basic: { use: hub } } } } }
do: [ { a: { call: 'double:1.0.0@hub', with: { n: '${ .m }' } } } ]";
    for text in [BY_ADDRESS, of_catalog] {
        let store = MemoryStore::new();
        let first = World::builder().flows(host()).build(store.clone()).expect("it can be built");
        let flows = Flows::new(&first).expect("it has flows");
        let flow = flows.resolve(&load(text)).unwrap_or_else(|error| panic!("{error}"));
        add(&flows, &flow);
        first.shutdown().expect("it ends");
        // A later world asks nobody.
        let (io, later) = (FakeIo::new(), World::builder());
        let later = later.flows(io.clone()).build(store).expect("it can be built");
        let flows = Flows::new(&later).expect("it has flows");
        let flow = flows.find("test", "it", "1.0.0").expect("it is there");
        let plan = flows.start(&flow, json!({ "m": 4 })).wait().expect("it starts");
        let output = flow::result(&plan.finished().wait().expect("it ends"));
        assert_eq!(output.expect("it ends well"), json!({ "twice": 8 }));
        let plan = flows.start(&flow, json!({ "m": "x" })).wait().expect("it starts");
        let wrong = flow::result(&plan.finished().wait().expect("it ends"));
        assert!(wrong.is_err(), "the schema of the function counts");
        assert_eq!(io.asked(), []);
        later.shutdown().expect("it ends");
    }
}

#[test]
fn resource_with_another_sha_256_is_refused_and_a_pinned_one_is_taken() {
    let pinned = |hash: &str| {
        let metadata =
            format!("{{ resources: {{ 'https://a.example/double.yaml': {{ sha256: {hash} }} }} }}");
        let text = define(BY_ADDRESS).replacen(
            "version: '1.0.0'",
            &format!("version: '1.0.0', metadata: {metadata}"),
            1,
        );
        flow::load(&text, "it.yaml")
            .unwrap_or_else(|wrong| panic!("{wrong}"))
            .resolved(&host(), "it.yaml")
    };
    let wrong = pinned(OF_OTHER).expect_err("it is another one").to_string();
    assert!(wrong.contains("has the SHA-256") && wrong.starts_with("it.yaml:2:"), "{wrong}");
    assert!(pinned(OF_DOUBLE).is_ok());
    // A text that was changed in the definition itself does not agree with its hash.
    let whole = load(BY_ADDRESS).resolved(&host(), "it.yaml").expect("it is there");
    let changed = whole.source().to_string().replace("* 2", "* 3");
    let wrong = flow::load(&changed, "it.json").expect_err("it was changed").to_string();
    assert!(wrong.contains("has another SHA-256"), "{wrong}");
    assert!(flow::load(&whole.source().to_string(), "it.json").is_ok());
}

#[test]
fn what_is_wrong_with_a_resource_is_said_at_the_place_that_names_it() {
    let refused = |uri: &str| {
        let text = format!("do: [ {{ a: {{ call: '{uri}' }} }} ]");
        load(&text).resolved(&host(), "it.yaml").expect_err(uri).to_string()
    };
    for (uri, why) in [
        ("https://a.example/wrong.yaml", "in https://a.example/wrong.yaml: "),
        ("https://a.example/broken.yaml", "https://a.example/broken.yaml:"),
        ("https://a.example/none.yaml", "the answer has the status 404"),
        ("file:///none.yaml", "there is no file:///none.yaml"),
    ] {
        let said = refused(uri);
        assert!(said.contains(why) && said.starts_with("it.yaml:2:"), "{said}");
    }
    let one = "do: [ { a: { set: { x: 1 } } } ]";
    for (text, why) in [
        ("do: [ { a: { call: 'log:1.0.0@global' } } ]".to_owned(), "there is no catalog «global»"),
        (format!("use: {{ catalogs: {{ a: {{ uri: x }} }} }}\n{one}"), "no field «uri»"),
        (
            format!("use: {{ catalogs: {{ a: {{ endpoint: 'https://a.b/${{ .x }}' }} }} }}\n{one}"),
            "has no variables",
        ),
        (
            "use: { catalogs: { a: { endpoint: 'https://a.b' } } }\ndo: [ { a: { call: 'log@a' } } ]"
                .to_owned(),
            "names no version",
        ),
        (
            format!("input: {{ schema: {{ document: {{}}, resource: {{ endpoint: 'https://a.b' }} }} }}\n{one}"),
            "must have the field «document», or «resource»",
        ),
    ] {
        let said = problems(&text);
        assert!(said.contains(why), "{said}");
    }
}
