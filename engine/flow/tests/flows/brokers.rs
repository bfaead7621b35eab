//! Messages of AsyncAPI at brokers: NATS and AMQP.

use serde_json::{json, Value};
use turnwheel_flow::{
    Asked, Broker, BrokerChannel, BrokerMessage, FakeIo, FlowError, HttpRequest, HttpResponse,
};

use crate::flow_common::{problems, run_with};

const DOCUMENT: &str = r##"{
  "asyncapi": "3.0.0", "defaultContentType": "application/json",
  "servers": {
    "bus": { "host": "bus.example", "protocol": "nats" },
    "rabbit": { "host": "{zone}.example:5673", "pathname": "/%2Fshop", "protocol": "amqp",
      "variables": { "zone": { "default": "eu" } } },
    "safe": { "host": "safe.example", "protocol": "amqps" },
    "chat": { "host": "chat.example", "pathname": "/v1/", "protocol": "wss" },
    "kafka": { "host": "kafka.example", "protocol": "kafka" } },
  "channels": {
    "orders": { "address": "orders.{shop}.new", "parameters": { "shop": {} },
      "servers": [ { "$ref": "#/servers/bus" } ] },
    "room": { "address": "/rooms/{room}", "parameters": { "room": {} },
      "servers": [ { "$ref": "#/servers/chat" } ] },
    "all": { "address": "orders.>", "servers": [ { "$ref": "#/servers/bus" } ] },
    "work": { "address": "work", "servers": [ { "$ref": "#/servers/rabbit" } ],
      "bindings": { "amqp": { "is": "queue", "queue": { "name": "work-queue" },
        "exchange": { "name": "ignored" } } } },
    "news": { "address": "news.{topic}", "servers": [ { "$ref": "#/servers/safe" } ],
      "bindings": { "amqp": { "is": "routingKey", "exchange": { "name": "topics" } } } } },
  "operations": {
    "order": { "channel": { "$ref": "#/channels/orders" },
      "bindings": { "nats": { "queue": "clerks" } } } }
}"##;

fn message(body: &[u8]) -> BrokerMessage {
    BrokerMessage { body: body.to_vec(), ..BrokerMessage::default() }
}

/// Brokers whose channels have these messages.
fn brokers(messages: &[BrokerMessage]) -> FakeIo {
    let messages = messages.to_vec();
    let document = |_: &HttpRequest| {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Ok(HttpResponse { status: 200, headers, body: DOCUMENT.into() })
    };
    FakeIo::new()
        .secret("bus", json!({ "username": "ann", "password": "s3cret" }))
        .secret("key", json!("t0ken"))
        .on_http(document)
        .on_broker(move |_| Ok(messages.clone()))
}

fn called(io: &FakeIo, with: &str) -> Result<Value, FlowError> {
    let flow = format!(
        "use: {{ secrets: [ bus, key ] }}\ndo: [ {{ a: {{ timeout: {{ after: PT1H }}, \
         call: asyncapi, with: {{ document: {{ endpoint: 'https://docs.example/bus.json' }}, \
         {with} }} }} }} ]\n"
    );
    run_with(io.clone(), &flow, json!({ "n": 7 })).0
}

/// The only channel that a broker was asked for, and the message that was sent to it.
fn asked(io: &FakeIo) -> (BrokerChannel, Option<BrokerMessage>) {
    let of = |it: Asked| match it {
        Asked::Published(channel, message, _) => Some((channel, Some(message))),
        Asked::Received(channel, _) => Some((channel, None)),
        _ => None,
    };
    let mut all: Vec<_> = io.asked().into_iter().filter_map(of).collect();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn acknowledged(io: &FakeIo) -> bool {
    io.asked().iter().any(|asked| matches!(asked, Asked::Acknowledged(_)))
}

#[test]
fn message_is_sent_to_the_channel_of_a_broker_that_its_document_describes() {
    let io = brokers(&[]);
    let shop = "server: { name: bus, variables: { shop: a-1 } }";
    let message = "message: { payload: { n: '${ .n }' }, headers: { X-Key: 5, none: null } }";
    let basic = "authentication: { basic: { use: bus } }";
    let output = called(&io, &format!("operation: order, {shop}, {message}, {basic}"));
    assert_eq!(output.expect("it is sent"), Value::Null);
    let (channel, sent) = asked(&io);
    let sent = sent.expect("a message");
    assert_eq!(channel.shown(), "nats://bus.example:4222/orders.a-1.new");
    assert_eq!((channel.queue.as_deref(), channel.is_tls), (Some("clerks"), false));
    assert_eq!(channel.login, Some(("ann".to_owned(), "s3cret".to_owned())));
    assert!(!format!("{channel:?}{sent:?}").contains("s3cret"));
    assert_eq!(sent.body, b"{\"n\":7}");
    assert_eq!(sent.content_type.as_deref(), Some("application/json"));
    assert_eq!(sent.headers, [("X-Key".to_owned(), "5".to_owned())]);

    let io = brokers(&[]);
    called(&io, "channel: work, message: { payload: hello }").expect("it is sent");
    let (channel, _) = asked(&io);
    assert_eq!(channel.shown(), "amqp://eu.example:5673/work-queue");
    assert_eq!((channel.vhost.as_str(), channel.exchange), ("/shop", None));

    let io = brokers(&[]);
    let token = "authentication: { bearer: { token: '${ $secrets.key }' } }";
    let server = "server: { name: safe, variables: { topic: eu.north } }";
    called(&io, &format!("channel: news, {server}, message: {{}}, {token}")).expect("it is sent");
    let (channel, sent) = asked(&io);
    assert_eq!(channel.shown(), "amqp://safe.example:5671/topics/news.eu.north");
    assert_eq!((channel.protocol, channel.is_tls), (Broker::Amqp, true));
    assert_eq!((channel.token.as_deref(), channel.vhost.as_str()), (Some("t0ken"), "/"));
    assert_eq!(sent.expect("a message").body, b"");

    let io = brokers(&[]);
    let room = "channel: room, server: { name: chat, variables: { room: a b/c } }";
    called(&io, &format!("{room}, message: {{ payload: hello }}, {basic}")).expect("it is sent");
    let (channel, _) = asked(&io);
    assert_eq!(channel.shown(), "ws://chat.example:443/v1/rooms/a%20b%2Fc");
    assert_eq!((channel.protocol, channel.is_tls), (Broker::WebSocket, true));
    assert_eq!(channel.login, Some(("ann".to_owned(), "s3cret".to_owned())));
}

#[test]
fn messages_of_a_broker_are_taken_until_a_condition_says_so_and_then_acknowledged() {
    let numbers = ["{\"n\":0}", "{\"n\":1}", "{\"n\":2}"].map(|text| message(text.as_bytes()));
    let list = |numbers: &[u64]| {
        Value::Array(numbers.iter().map(|n| json!({ "payload": { "n": n } })).collect())
    };
    for (subscription, expected) in [
        ("consume: { amount: 2 }", list(&[0, 1])),
        ("filter: '${ .payload.n > 0 }', consume: { amount: 1 }", list(&[1])),
        ("consume: { while: '${ length < 2 }' }", list(&[0, 1])),
        ("consume: { until: '${ length == 1 }' }", list(&[0])),
        ("consume: { for: PT10S }", list(&[0, 1, 2])),
    ] {
        let io = brokers(&numbers);
        let with = format!("channel: all, protocol: nats, subscription: {{ {subscription} }}");
        assert_eq!(called(&io, &with).expect(subscription), expected, "{subscription}");
        assert!(acknowledged(&io), "{subscription}");
    }
    let io = brokers(&numbers);
    called(&io, "channel: work, subscription: { consume: { amount: 0 } }").expect("it ends");
    assert!(!acknowledged(&io), "nobody is asked for messages that nobody wants");
}

#[test]
fn message_of_a_broker_has_its_data_headers_and_correlation() {
    let headers = vec![("kind".to_owned(), "new".to_owned())];
    let full = BrokerMessage {
        headers,
        correlation: Some("c-1".to_owned()),
        ..message(b"of s3cret things")
    };
    let io = brokers(&[full, message(&[0xff, 0]), message(b"")]);
    let basic = "authentication: { basic: { use: bus } }";
    let with = format!("channel: work, {basic}, subscription: {{ consume: {{ amount: 3 }} }}");
    let output = called(&io, &with).expect("it ends");
    let expected = json!([
        { "payload": "of •••• things", "headers": { "kind": "new" }, "correlationId": "c-1" },
        { "payload": "/wA=" },
        { "payload": null },
    ]);
    assert_eq!(output, expected, "secrets are masked");
}

#[test]
fn messages_that_are_part_of_no_result_are_not_acknowledged() {
    for with in [
        "subscription: { filter: '${ error(\"no\") }', consume: { amount: 1 } }",
        "subscription: { consume: { amount: 5 } }",
        "subscription: { consume: { amount: 1 } } }, output: { as: '${ error(\"no\") }'",
    ] {
        let io = brokers(&[message(b"1"), message(b"2")]);
        let outcome = called(&io, &format!("channel: work, {with}"));
        assert!(matches!(outcome, Err(FlowError::Faulted(_))), "{with}: {outcome:?}");
        assert!(!acknowledged(&io), "{with}: the broker delivers them again");
    }
}

#[test]
fn what_is_wrong_with_a_channel_of_a_broker_is_a_fault_that_says_so() {
    let shop = |value: &str| {
        format!("operation: order, server: {{ name: bus, variables: {{ shop: '{value}' }} }}")
    };
    for (with, said) in [
        (shop("*"), "would lead to another channel"),
        (shop("a.b"), "would lead to another channel"),
        (shop("a b"), "would lead to another channel"),
        (shop(""), "would lead to another channel"),
        ("channel: news, server: { name: safe, variables: { topic: '#' } }".into(), "to another"),
        ("channel: all".into(), "is a pattern: nothing can be sent to it"),
        ("channel: all, server: { name: kafka }".into(), "«kafka» speaks «kafka», and not http"),
        ("channel: all, protocol: amqp".into(), "has no server of the channel that speaks amqp"),
        ("channel: all, protocol: amqp, server: { name: bus }".into(), "and not amqp"),
        (
            "channel: work, server: { name: rabbit, variables: { zone: 'evil.example/' } }".into(),
            "to another server",
        ),
        (
            "channel: work, authentication: { digest: { username: a, password: b } }".into(),
            "«digest» is one of HTTP",
        ),
    ] {
        let outcome = called(&brokers(&[]), &format!("{with}, message: {{}}"));
        let error = outcome.expect_err(said).to_string();
        assert!(error.contains(said), "{with}: {error}");
    }
}

#[test]
fn protocol_that_a_host_does_not_speak_is_named_before_a_flow_is_added() {
    let flow = |protocol: &str| {
        format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: it, version: '1.0.0' }}\n\
             do: [ {{ a: {{ call: asyncapi, with: {{ document: {{ endpoint: 'http://a/b' }}, \
             channel: c, protocol: {protocol}, message: {{}} }} }} }} ]\n"
        )
    };
    let load =
        |protocol: &str| turnwheel_flow::load(&flow(protocol), "it.yaml").expect("it is right");
    let unmet = load("nats").unmet(&FakeIo::new(), "it.yaml").expect("it has none").to_string();
    assert!(unmet.contains("messages of «nats» cannot be sent or received here"), "{unmet}");
    assert!(load("amqp").unmet(&brokers(&[]), "it.yaml").is_none());
    assert!(load("http").unmet(&FakeIo::new(), "it.yaml").is_none());
    let mqtt = problems(flow("mqtt").split_once('\n').expect("two lines").1);
    assert!(mqtt.contains("«http», «ws», «nats» and «amqp» are"), "{mqtt}");
}

#[test]
fn messages_of_a_subscription_are_processed_one_after_the_other_when_they_are_stored() {
    let bodies = [b"{\"n\":1}", b"{\"n\":2}", b"{\"n\":3}", b"{\"n\":4}"];
    let each = "foreach: { item: it, at: place, do: [ { add: { set: { \
                sum: '${ $it.payload.n + ($context.sum // 0) }', place: '${ $place }' } } } ], \
                output: { as: '.sum' }, export: { as: '${ { sum: $output } }' } }";
    for (consume, expected) in [
        ("consume: { amount: 3 }", json!([1, 3, 6])),
        ("consume: { while: '${ (.[-1]) < 3 }' }", json!([1, 3])),
        ("consume: { until: '${ length == 2 }' }", json!([1, 3])),
        ("consume: { amount: 0 }", json!([])),
        ("filter: '${ .payload.n % 2 == 0 }', consume: { amount: 2 }", json!([2, 6])),
        // The fifth does not come, and the time is over as it should be.
        ("consume: { for: PT10S }", json!([1, 3, 6, 10])),
    ] {
        let io = brokers(&bodies.map(|body| message(body)));
        let with = format!("channel: work, subscription: {{ {consume}, {each} }}");
        assert_eq!(called(&io, &with).expect(consume), expected, "{consume}");
    }
    // A message is stored before it is processed: a task that fails at it does not get it again.
    let error = "{ type: 'https://a.example/e', status: 500 }";
    let failing = format!("foreach: {{ do: [ {{ fail: {{ raise: {{ error: {error} }} }} }} ] }}");
    let io = brokers(&bodies.map(|body| message(body)));
    let with = format!("channel: work, subscription: {{ consume: {{ amount: 2 }}, {failing} }}");
    assert!(matches!(called(&io, &with), Err(FlowError::Faulted(_))));
    assert_eq!(io.asked().iter().filter(|it| matches!(it, Asked::Acknowledged(_))).count(), 1);
}
