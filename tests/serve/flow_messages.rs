//! Flows that send and receive messages, at Debian's servers of NATS and RabbitMQ. `cargo test`
//! alone needs neither: these tests run only when they are asked for, by `.ci/run messages`.

use std::future::Future;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use lapin::options::{
    BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties, ExchangeKind};
use serde_json::{json, Value};

use super::job_messages::{begin, free_port, is_asked, rabbit, Broker};
use crate::serve_common::{eventually, Place, Serve};

/// The secrets of both servers.
const SECRETS: [(&str, &str); 2] = [
    ("TURNWHEEL_SECRET_BUS", "{\"username\":\"ann\",\"password\":\"s3cret\"}"),
    ("TURNWHEEL_SECRET_WRONG", "{\"username\":\"ann\",\"password\":\"wr0ng\"}"),
];

/// A flow with one call of the document of the test; its task may take a minute.
fn start(server: &Serve, place: &Place, name: &str, with: &str) -> String {
    let document = place.path("bus.json");
    let text = format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '1.0.0' }}
use: {{ secrets: [ bus, wrong ] }}
do:
  - it:
      timeout: {{ after: PT1M }}
      call: asyncapi
      with: {{ document: {{ endpoint: 'file://{}' }}, {with} }}
",
        document.display()
    );
    let yaml = [("content-type", "application/yaml")];
    server.send("POST", "/api/v1/flows", &yaml, Some(&text)).ok();
    let started = server.post(&format!("/api/v1/flows/test/{name}/1.0.0/start"), &json!({})).ok();
    started["id"].as_str().expect("an id").to_owned()
}

/// The output of a flow that ends well.
fn output(server: &Serve, plan: &str) -> Value {
    let ended = server.ended_plan(plan);
    assert_eq!(ended["result"], "success", "{ended}");
    ended["output"].clone()
}

/// The text of a plan that fails.
fn failure(server: &Serve, plan: &str) -> String {
    let ended = server.ended_plan(plan);
    assert_eq!(ended["result"], "error", "{ended}");
    ended.to_string()
}

fn is_over(server: &Serve, plan: &str) -> bool {
    server.get(&format!("/api/v1/plans/{plan}")).ok()["state"] == "stopped"
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("it can be built").block_on(work)
}

fn nats(place: &Place, port: u16) -> Broker {
    let store = place.path("jetstream");
    let mut command = Command::new("nats-server");
    command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream"]);
    command.args(["--store_dir", &store.display().to_string(), "--user", "ann"]);
    let nats = begin(command.args(["--pass", "s3cret"]));
    eventually("NATS listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    nats
}

async fn client(port: u16) -> async_nats::Client {
    let login = ("ann".to_owned(), "s3cret".to_owned());
    let options = async_nats::ConnectOptions::with_user_and_password(login.0, login.1);
    options.connect(format!("127.0.0.1:{port}")).await.expect("it listens")
}

async fn next(messages: &mut async_nats::Subscriber) -> async_nats::Message {
    use futures_core::Stream as _;
    let next = std::future::poll_fn(|cx| std::pin::Pin::new(&mut *messages).poll_next(cx));
    let soon = tokio::time::timeout(Duration::from_secs(30), next).await;
    soon.expect("it comes soon").expect("it is open")
}

/// Asks the server about its streams.
async fn asked(client: &async_nats::Client, what: &str, body: Value) -> Value {
    let body = body.to_string().into();
    let answer = client.request(format!("$JS.API.{what}"), body).await.expect("it answers");
    let answer: Value = serde_json::from_slice(&answer.payload).expect("JSON");
    assert!(answer.get("error").is_none(), "{what}: {answer}");
    answer
}

#[test]
fn flow_sends_and_receives_messages_of_nats() {
    if !is_asked() {
        return;
    }
    let (place, port) = (Place::new(), free_port());
    let nats = nats(&place, port);
    let document = json!({
        "asyncapi": "3.0.0",
        "servers": { "bus": { "host": format!("127.0.0.1:{port}"), "protocol": "nats" } },
        "channels": {
            "orders": { "address": "orders.{shop}", "parameters": { "shop": {} } },
            "news": { "address": "news.>" },
        },
    });
    place.write("bus.json", &document.to_string());
    let server = place.serve_with(&["--allow-shell"], &SECRETS);
    let login = "authentication: { basic: { use: bus } }";
    run(async {
        let client = client(port).await;
        let mut orders = client.subscribe("orders.*").await.expect("it is open");
        client.flush().await.expect("it is open");
        let shop = "server: { name: bus, variables: { shop: a-1 } }";
        let message = "message: { payload: { n: 7 }, headers: { X-Key: k } }";
        let tell =
            start(&server, &place, "tell", &format!("channel: orders, {shop}, {login}, {message}"));
        let came = next(&mut orders).await;
        assert_eq!((came.subject.as_str(), &*came.payload), ("orders.a-1", &b"{\"n\":7}"[..]));
        let headers = came.headers.expect("it has some");
        let header = |name: &str| {
            let known: async_nats::HeaderName = name.parse().expect("a name");
            headers.get(known).map(|value| value.as_str().to_owned())
        };
        assert_eq!(header("X-Key").as_deref(), Some("k"));
        assert_eq!(header("Content-Type").as_deref(), Some("application/json"));
        // A stream recognises a message that comes again.
        assert!(header("Nats-Msg-Id").is_some_and(|key| key.starts_with(&tell)), "{headers:?}");
        assert_eq!(output(&server, &tell), Value::Null);

        // A message has to come while the flow listens, and nothing else tells that.
        let consume = "filter: '${ .payload.n > 1 }', consume: { amount: 2 }";
        let hear = format!("channel: news, {login}, subscription: {{ {consume} }}");
        let hear = start(&server, &place, "hear", &hear);
        let until = Instant::now() + Duration::from_secs(30);
        while !is_over(&server, &hear) {
            assert!(Instant::now() < until, "it hears nothing");
            for n in 1..4 {
                let body = json!({ "n": n }).to_string();
                client.publish(format!("news.{n}"), body.into()).await.expect("it is open");
            }
            client.flush().await.expect("it is open");
        }
        let expected = json!([{ "payload": { "n": 2 } }, { "payload": { "n": 3 } }]);
        assert_eq!(output(&server, &hear), expected);

        // Its time is an end as it should be, also without a message.
        let quiet = format!("channel: orders, {shop}, {login}, subscription: ");
        let quiet = start(
            &server,
            &place,
            "quiet",
            &format!("{quiet} {{ consume: {{ for: PT0.3S, amount: 1 }} }}"),
        );
        assert_eq!(output(&server, &quiet), json!([]));
    });
    let wrong = "channel: news, authentication: { basic: { use: wrong } }, subscription: ";
    let wrong = format!("{wrong} {{ consume: {{ amount: 1 }} }}");
    let said = failure(&server, &start(&server, &place, "wrong", &wrong));
    assert!(said.contains("(403)"), "{said}");
    assert!(said.contains("authorization violation") && !said.contains("wr0ng"), "{said}");
    drop(nats);
    let lost = format!("channel: news, {login}, subscription: {{ consume: {{ amount: 1 }} }}");
    let said = failure(&server, &start(&server, &place, "lost", &lost));
    assert!(said.contains("(500)") || said.contains("(503)"), "{said}");
    server.stopped();
}

#[test]
fn messages_of_a_stream_of_nats_are_acknowledged_when_they_are_stored() {
    if !is_asked() {
        return;
    }
    let (place, port) = (Place::new(), free_port());
    let _nats = nats(&place, port);
    let document = json!({
        "asyncapi": "3.0.0",
        "servers": { "bus": { "host": format!("127.0.0.1:{port}"), "protocol": "nats" } },
        "channels": { "work": { "address": "deliver.work" } },
    });
    place.write("bus.json", &document.to_string());
    let server = place.serve_with(&["--allow-shell"], &SECRETS);
    run(async {
        let client = client(port).await;
        let stream = json!({ "name": "WORK", "subjects": ["work.*"], "storage": "memory" });
        asked(&client, "STREAM.CREATE.WORK", stream).await;
        let consumer = json!({
            "durable_name": "flow", "deliver_subject": "deliver.work",
            "ack_policy": "explicit", "ack_wait": 60_000_000_000_u64,
        });
        let consumer = json!({ "stream_name": "WORK", "config": consumer });
        asked(&client, "CONSUMER.DURABLE.CREATE.WORK.flow", consumer).await;
        for n in 0..3 {
            let body = json!({ "n": n }).to_string();
            client.request(format!("work.{n}"), body.into()).await.expect("it is stored");
        }
        let with = "channel: work, authentication: { basic: { use: bus } }, subscription: ";
        let with = format!("{with} {{ consume: {{ amount: 2 }} }}");
        let plan = start(&server, &place, "take", &with);
        let expected = json!([{ "payload": { "n": 0 } }, { "payload": { "n": 1 } }]);
        assert_eq!(output(&server, &plan), expected);
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let info = asked(&client, "CONSUMER.INFO.WORK.flow", json!({})).await;
            if info["ack_floor"]["stream_seq"] == 2 {
                break;
            }
            assert!(Instant::now() < until, "the two are acknowledged: {info}");
        }
        // The third was given back: nobody waits a minute for it.
        let mut others = client.subscribe("deliver.work").await.expect("it is open");
        assert_eq!(&*next(&mut others).await.payload, b"{\"n\":2}");
    });
    server.stopped();
}

/// A connection of the test, when RabbitMQ is there.
fn connected(url: &str) -> Connection {
    eventually("RabbitMQ is there", || {
        run(Connection::connect(url, ConnectionProperties::default())).ok()
    })
}

/// How many messages wait in a queue, and nobody has them.
async fn ready(channel: &lapin::Channel, queue: &str) -> u32 {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(queue, passive, FieldTable::default()).await;
    queue.expect("it is there").message_count()
}

async fn put(channel: &lapin::Channel, exchange: &str, key: &str, body: &str) {
    let properties = BasicProperties::default().with_correlation_id("c-1".into());
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish(exchange, key, options, body.as_bytes(), properties).await;
    sent.expect("it is sent").await.expect("it is taken");
}

/// A channel of the test, with a queue and an exchange.
async fn prepared(connection: &Connection) -> lapin::Channel {
    let channel = connection.create_channel().await.expect("a channel");
    let confirm = ConfirmSelectOptions::default();
    channel.confirm_select(confirm).await.expect("it confirms");
    let queue = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("work", queue, FieldTable::default()).await.expect("a queue");
    let (kind, none) = (ExchangeKind::Topic, FieldTable::default());
    let options = ExchangeDeclareOptions::default();
    let made = channel.exchange_declare("topics", kind, options, none).await;
    made.expect("an exchange");
    channel
}

#[test]
fn flow_sends_and_receives_messages_of_rabbitmq_and_acknowledges_what_is_stored() {
    if !is_asked() {
        return;
    }
    let (place, port) = (Place::new(), free_port());
    let _rabbit = rabbit(&place, port);
    let topics = json!({ "exchange": { "name": "topics" } });
    let long = json!({ "is": "queue", "queue": { "name": "q".repeat(256) } });
    let document = json!({
        "asyncapi": "3.0.0",
        "servers": { "bus": { "host": format!("127.0.0.1:{port}"), "protocol": "amqp" } },
        "channels": {
            "work": { "address": "work" },
            "nobody": { "address": "nobody" },
            "news": { "address": "news.*", "bindings": { "amqp": topics } },
            "long": { "address": "long", "bindings": { "amqp": long } },
        },
    });
    place.write("bus.json", &document.to_string());
    let server = place.serve_with(&["--allow-shell"], &SECRETS);
    let connection = connected(&format!("amqp://guest:guest@127.0.0.1:{port}/%2f"));
    run(async {
        let channel = prepared(&connection).await;

        // More than are delivered at once.
        for n in 0..20 {
            let message = format!("channel: work, message: {{ payload: {{ n: {n} }} }}");
            if n == 0 {
                let plan = start(&server, &place, "tell", &message);
                assert_eq!(output(&server, &plan), Value::Null);
            } else {
                put(&channel, "", "work", &json!({ "n": n }).to_string()).await;
            }
        }
        assert_eq!(ready(&channel, "work").await, 20);
        let taking = |name: &str, subscription: &str| {
            let with = format!("channel: work, subscription: {{ {subscription} }}");
            start(&server, &place, name, &with)
        };
        // A flow that fails, or is too late, leaves all of them.
        let failing = "filter: '${ if .payload.n == 12 then error(\"no\") else true end }'";
        let plan = taking("fails", &format!("{failing}, consume: {{ amount: 20 }}"));
        assert!(failure(&server, &plan).contains("(400)"));
        eventually_ready(&channel, "work", 20).await;

        let plan = taking("takes", "consume: { amount: 18 }");
        let taken = output(&server, &plan);
        let numbers: Vec<_> = taken.as_array().expect("a list").iter().collect();
        assert_eq!(numbers.len(), 18);
        for (n, message) in numbers.iter().enumerate() {
            assert_eq!(message["payload"], json!({ "n": n }));
        }
        assert_eq!(numbers[1]["correlationId"], "c-1");
        eventually_ready(&channel, "work", 2).await;
        // Messages that no flow took were delivered to none: a queue may give up those that were
        // delivered too often.
        let got = channel.basic_get("work", BasicGetOptions::default()).await.expect("it is open");
        let got = got.expect("one of two");
        assert!(!got.redelivered);
        let again = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        got.nack(again).await.expect("it is given back");
        let plan = taking("rest", "consume: { for: PT1S, amount: 10 }");
        assert_eq!(output(&server, &plan).as_array().map(Vec::len), Some(2));
        eventually_ready(&channel, "work", 0).await;

        // A queue of its own at the exchange, as long as it listens: nothing else tells that.
        let with = "channel: news, subscription: { consume: { amount: 1 } }";
        let plan = start(&server, &place, "hears", with);
        let until = Instant::now() + Duration::from_secs(30);
        while !is_over(&server, &plan) {
            assert!(Instant::now() < until, "it hears nothing");
            put(&channel, "topics", "news.a", "hello").await;
        }
        assert_eq!(output(&server, &plan)[0]["payload"], "hello");
    });
    refusals_of_rabbitmq(&server, &place);
    server.stopped();
}

/// Channels without a queue, and credentials that are wrong.
fn refusals_of_rabbitmq(server: &Serve, place: &Place) {
    let said = failure(server, &start(server, place, "gone", "channel: nobody, message: {}"));
    assert!(said.contains("no queue takes the message"), "{said}");
    let with = "channel: nobody, subscription: { consume: { amount: 1 } }";
    let said = failure(server, &start(server, place, "none", with));
    assert!(said.contains("(404)"), "{said}");
    let with = "channel: work, authentication: { basic: { use: wrong } }, message: {}";
    let said = failure(server, &start(server, place, "wrong", with));
    assert!(said.contains("(403)") && !said.contains("wr0ng"), "{said}");
    // The protocol cannot write longer names: other ones would be read in their place.
    let header = format!("channel: work, message: {{ headers: {{ {}: v }} }}", "k".repeat(256));
    let told = "channel: long, message: { payload: 1 }".to_owned();
    let heard = "channel: long, subscription: { consume: { amount: 1 } }".to_owned();
    for (name, with) in [("header", header), ("told", told), ("heard", heard)] {
        let said = failure(server, &start(server, place, name, &with));
        assert!(said.contains("255 bytes"), "{name}: {said}");
    }
}

async fn eventually_ready(channel: &lapin::Channel, queue: &str, count: u32) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let found = ready(channel, queue).await;
        if found == count {
            return;
        }
        assert!(Instant::now() < until, "{found} messages wait, and {count} should");
    }
}

#[test]
fn closed_addresses_are_closed_for_brokers_too() {
    if !is_asked() {
        return;
    }
    let place = Place::new();
    let server = |host: &str, protocol: &str| json!({ "host": host, "protocol": protocol });
    let document = json!({
        "asyncapi": "3.0.0",
        "servers": {
            "meta": server("169.254.169.254:4222", "nats"),
            "rabbit": server("[::ffff:169.254.169.254]", "amqp"),
        },
        "channels": { "news": { "address": "news" } },
    });
    place.write("bus.json", &document.to_string());
    let server = place.serve(&["--allow-shell"]);
    for name in ["meta", "rabbit"] {
        let with = format!("channel: news, server: {{ name: {name} }}, message: {{}}");
        let said = failure(&server, &start(&server, &place, name, &with));
        assert!(said.contains("link-local") && said.contains("io.http-networks"), "{said}");
    }
    server.stopped();
}
