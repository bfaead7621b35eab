//! Subscriptions of AsyncAPI over HTTP.

use serde_json::{json, Value};
use turnwheel_flow::{Asked, FakeIo, FlowError, HttpRequest, HttpResponse, IoError, IoErrorKind};

use crate::flow_common::{problems, run_with};

const DOCUMENT: &str = r##"{
  "asyncapi": "3.0.0",
  "servers": { "web": { "host": "news.example", "protocol": "https" } },
  "channels": { "news": { "address": "news/{topic}" } },
  "operations": { "read": { "action": "receive", "channel": { "$ref": "#/channels/news" } } }
}"##;

fn response(kind: &str, body: &str) -> HttpResponse {
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    HttpResponse { status: 200, headers, body: body.into() }
}

/// A service that sends this stream.
fn service(stream: Result<HttpResponse, IoError>) -> FakeIo {
    FakeIo::new().on_http(move |request| match request.uri.as_str() {
        "https://docs.example/news.json" => Ok(response("application/json", DOCUMENT)),
        _ => stream.clone(),
    })
}

fn numbers(count: u64) -> Result<HttpResponse, IoError> {
    let events = (0..count).map(|n| format!("id: {n}\ndata: {{\"n\":\ndata: {n}}}\n\n"));
    Ok(response("text/event-stream", &events.collect::<String>()))
}

fn flow(subscription: &str) -> String {
    format!(
        "do: [ {{ a: {{ timeout: {{ after: PT1H }}, call: asyncapi, with: {{ \
         document: {{ endpoint: 'https://docs.example/news.json' }}, operation: read, \
         server: {{ name: web, variables: {{ topic: '${{ .topic }}' }} }}, \
         subscription: {{ {subscription} }} }} }} }} ]\n"
    )
}

fn subscribed(io: &FakeIo, subscription: &str) -> Result<Value, FlowError> {
    run_with(io.clone(), &flow(subscription), json!({ "topic": "a", "least": 2 })).0
}

fn requests(io: &FakeIo) -> Vec<HttpRequest> {
    let of = |it: Asked| match it {
        Asked::Http(request, _) => Some(request),
        _ => None,
    };
    io.asked().into_iter().filter_map(of).collect()
}

#[test]
fn messages_of_a_subscription_are_taken_until_its_condition_says_so() {
    let list = |numbers: &[u64]| {
        Value::Array(numbers.iter().map(|n| json!({ "payload": { "n": n } })).collect())
    };
    for (subscription, expected) in [
        ("consume: { amount: 3 }", list(&[0, 1, 2])),
        ("consume: { amount: 0 }", list(&[])),
        ("filter: '${ .payload.n % 2 == 0 }', consume: { amount: 2 }", list(&[0, 2])),
        // After a message, and before the next one.
        ("consume: { while: '${ length < 2 }' }", list(&[0, 1])),
        ("consume: { until: '${ length >= 2 }' }", list(&[0, 1])),
        ("consume: { until: '${ any(.[]; .payload.n == 3) }' }", list(&[0, 1, 2, 3])),
        ("consume: { amount: 9, until: '${ length == 1 }' }", list(&[0])),
        ("consume: { for: PT10S, amount: 1 }", list(&[0])),
    ] {
        let io = service(numbers(9));
        let messages = subscribed(&io, subscription);
        assert_eq!(messages.expect(subscription), expected, "{subscription}");
    }
    let io = service(numbers(1));
    subscribed(&io, "consume: { amount: 1 }").expect("it ends well");
    let request = requests(&io).pop().expect("it was asked");
    let expected = ("GET", "https://news.example/news/a", None);
    assert_eq!((request.method.as_str(), request.uri.as_str(), request.body), expected);
    assert!(request.headers.contains(&("Accept".to_owned(), "text/event-stream".to_owned())));
    let nothing = service(numbers(1));
    subscribed(&nothing, "consume: { until: '${ true }' }").expect("it ends well");
    assert_eq!(requests(&nothing).len(), 1, "nobody is asked for messages that nobody wants");
}

#[test]
fn the_time_of_a_subscription_is_an_end_as_it_should_be_and_that_of_its_task_is_not() {
    let late = || Err(IoError::new(IoErrorKind::TimedOut, "late"));
    let io = service(late());
    assert_eq!(subscribed(&io, "consume: { for: PT1S }").expect("it ends well"), json!([]));
    for subscription in ["consume: { for: PT2H }", "consume: { amount: 1 }"] {
        match subscribed(&io, subscription) {
            Err(FlowError::Faulted(fault)) => {
                assert!(fault.kind.ends_with("/timeout"), "{subscription}: {fault}");
            }
            other => panic!("{subscription}: {other:?}"),
        }
    }
}

#[test]
fn a_subscription_that_gets_no_messages_is_a_fault_that_says_why() {
    let three = "consume: { amount: 3 }";
    let refused = HttpResponse { status: 503, ..response("text/event-stream", "data: 1\n\n") };
    for (stream, subscription, said) in [
        (numbers(2), three, "has ended its stream after 2 messages"),
        (Ok(response("text/event-stream", "data: 1")), three, "after 0 messages"),
        (Ok(response("application/json", "[1]")), three, "answered no stream of events"),
        (Ok(refused), three, "answered 503"),
        (
            numbers(2),
            "filter: '${ .payload | keys | .[0] + 1 }', consume: { amount: 1 }",
            "Expression",
        ),
        (numbers(2), "consume: { while: '${ error(\"no\") }' }", "Expression"),
    ] {
        let error = subscribed(&service(stream), subscription).expect_err(said).to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_subscription_is_said() {
    for (subscription, said) in [
        ("filter: '${ . }'", "must have the field «consume»"),
        ("consume: {}", "does not say when it ends"),
        ("consume: { amount: 10001 }", "can be at most 10000"),
        ("consume: { amuont: 1 }", "did you mean «amount»"),
        ("consume: { amount: 1 }, foreach: { doo: [] }", "did you mean «do»"),
        ("consume: { while: '${ ( }' }", "«while»"),
    ] {
        let wrong = problems(&flow(subscription));
        assert!(wrong.contains(said), "{subscription}\n{wrong}");
    }
    let both = flow("consume: { amount: 1 } }, message: { payload: 1");
    assert!(problems(&both).contains("must have one thing to do"));
}
