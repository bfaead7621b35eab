//! Jobs that send messages, to Debian's servers of NATS and RabbitMQ. `cargo test` alone needs neither:
//! these tests run only when they are asked for, by `.ci/run messages`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{kill_process_group, Pid, Signal};
use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{eventually, Place, Serve};

/// Asks for these tests.
const ASKED: &str = "TURNWHEEL_TEST_MESSAGES";

pub(super) fn is_asked() -> bool {
    let is_asked = std::env::var_os(ASKED).is_some();
    if !is_asked {
        eprintln!("LEFT OUT: no message was sent, because {ASKED} is not set");
    }
    is_asked
}

/// A server of messages, which ends with the test.
pub(super) struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        // With all that it has started: RabbitMQ is a script.
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _gone = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ended = self.0.wait();
    }
}

/// A port that nobody has just now.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    listener.local_addr().expect("it has one").port()
}

pub(super) fn begin(command: &mut Command) -> Broker {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let command = command.process_group(0);
    Broker(command.spawn().expect("the server is installed"))
}

fn run(server: &Serve, executor: &str, config: &Value, number: u64) -> Value {
    let job = json!({"schedule": "@manually", "executor": executor, "config": config});
    let path = format!("/api/v1/jobs/m{number}");
    server.send("PUT", &path, &[], Some(&job.to_string())).ok();
    server.post(&format!("{path}/run"), &json!({})).ok();
    over(server, &format!("m{number}"))
}

#[test]
fn a_job_sends_a_message_to_nats_and_knows_that_it_was_taken() {
    if !is_asked() {
        return;
    }
    let (place, port) = (Place::new(), free_port());
    let nats = begin(Command::new("nats-server").args([
        "--addr",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--user",
        "ann",
        "--pass",
        "secret",
    ]));
    let stream = eventually("NATS listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
    let mut next = || lines.next().expect("it is open").expect("it is read");
    assert!(next().starts_with("INFO "));
    let hello = "CONNECT {\"verbose\":false,\"user\":\"ann\",\"pass\":\"secret\",\"headers\":true}";
    (&stream).write_all(format!("{hello}\r\nSUB cron.> 1\r\nPING\r\n").as_bytes()).expect("sent");
    assert_eq!(next(), "PONG");
    let server = place.serve(&[]);
    let mut config = json!({
        "url": format!("nats://127.0.0.1:{port}"), "subject": "cron.done", "message": "hello",
        "userName": "ann", "password": "secret",
    });
    let launch = run(&server, "nats", &config, 1);
    assert_eq!(launch["state"], "succeeded", "{launch}");
    assert!(next().starts_with("HMSG cron.done 1 "));
    assert_eq!(next(), "NATS/1.0");
    assert!(next().starts_with("Nats-Msg-Id: job/m1/"), "a stream recognises it");
    assert_eq!((next().as_str(), next().as_str()), ("", "hello"));
    config["password"] = json!("wrong");
    let refused = run(&server, "nats", &config, 2);
    assert_eq!(refused["state"], "failed");
    let reason = refused["reason"].as_str().expect("a reason");
    assert!(reason.contains("authorization") && !reason.contains("wrong"), "{reason}");
    drop(nats);
    let lost = run(&server, "nats", &config, 3);
    assert!(lost["reason"].as_str().is_some_and(|it| it.starts_with("NATS: ")), "{lost}");
    for (setting, value, says) in [
        ("subject", "a b", "is no subject"),
        ("url", "", "url: it is empty"),
        ("topic", "a", "nats has no such setting"),
    ] {
        let mut config = config.clone();
        config[setting] = json!(value);
        let job = json!({"schedule": "@manually", "executor": "nats", "config": config});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&job.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(says), "{}", answer.text);
    }
    server.stopped();
}

/// RabbitMQ in a folder of its own, and the register of names that its runtime needs: without one it
/// starts a daemon that stays.
pub(super) fn rabbit(place: &Place, port: u16) -> (Broker, Broker) {
    let folder = place.path("rabbit");
    std::fs::create_dir_all(&folder).expect("the folder is writable");
    let path = |name: &str| -> PathBuf { folder.join(name) };
    let config = format!("listeners.tcp.default = 127.0.0.1:{port}\n");
    std::fs::write(path("rabbitmq.conf"), config).expect("the folder is writable");
    let (dist, names) = (free_port(), free_port().to_string());
    let register = begin(Command::new("epmd").env("ERL_EPMD_PORT", &names));
    eventually("names are registered", || {
        TcpStream::connect(format!("127.0.0.1:{names}")).ok().map(drop)
    });
    let rabbit = begin(
        Command::new("/usr/lib/rabbitmq/bin/rabbitmq-server")
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("RABBITMQ_NODENAME", format!("turnwheel{port}@localhost"))
            .env("RABBITMQ_CONFIG_FILE", path("rabbitmq"))
            .env("RABBITMQ_MNESIA_BASE", path("mnesia"))
            .env("RABBITMQ_LOG_BASE", path("log"))
            .env("RABBITMQ_PID_FILE", path("pid"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins"))
            .env("RABBITMQ_DIST_PORT", dist.to_string())
            .env("ERL_EPMD_PORT", names),
    );
    (rabbit, register)
}

#[test]
fn a_job_sends_a_message_to_rabbitmq_and_knows_that_a_queue_took_it() {
    if !is_asked() {
        return;
    }
    let (place, port) = (Place::new(), free_port());
    let _rabbit = rabbit(&place, port);
    let url = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
    let server = place.serve(&[]);
    let mut number = 0;
    let mut send = |config: &Value| {
        number += 1;
        run(&server, "rabbitmq", config, number)
    };
    let mut config = json!({
        "url": url, "queue.name": "cron", "queue.create": "true", "queue.durable": "true",
        "message.body": "hello", "message.content_type": "text/plain",
    });
    let launch = eventually("RabbitMQ is there", || {
        let launch = send(&config);
        (launch["state"] == "succeeded").then_some(launch)
    });
    assert!(launch["ended_at"].is_string());
    let taken = turnwheel_runtime::completion::block_on(async {
        let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default());
        let connection = connection.await.expect("it is there");
        let channel = connection.create_channel().await.expect("a channel");
        let got = channel.basic_get("cron", lapin::options::BasicGetOptions { no_ack: true }).await;
        got.expect("it is asked").expect("there is a message").delivery
    });
    let taken = taken.expect("it ends");
    assert_eq!(taken.data, b"hello");
    let id = taken.properties.message_id().clone().expect("an id");
    assert!(id.as_str().starts_with("job/m"), "{id}");
    // Without a queue nobody has the message.
    config["queue.create"] = json!("false");
    config["queue.name"] = json!("nobody");
    let lost = send(&config);
    let reason = lost["reason"].as_str().expect("a reason");
    assert!(reason.contains("no queue takes messages for «nobody»"), "{reason}");
    config["url"] = json!(url.replace("guest:guest", "ann:secret"));
    let refused = send(&config);
    let reason = refused["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("RabbitMQ: ") && !reason.contains("secret"), "{reason}");
    config["message.base64Body"] = json!("aGk=");
    let job = json!({"schedule": "@manually", "executor": "rabbitmq", "config": config});
    let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&job.to_string()));
    answer.is_problem(400, "job-invalid");
    assert!(answer.text.contains("give one of them"), "{}", answer.text);
    server.stopped();
}

/// Kafka as librdkafka stands in for it: brokers that live in a consumer, which prints what comes.
#[test]
fn a_job_sends_a_record_to_kafka_and_knows_its_place() {
    if !is_asked() {
        return;
    }
    let place = Place::new();
    let mut consumer = Command::new("kcat");
    let consumer = consumer.args(["-b", "none", "-X", "test.mock.num.brokers=2", "-E"]);
    let consumer = consumer.args(["-X", "allow.auto.create.topics=true"]);
    let consumer = consumer.args(["-C", "-t", "cron.done", "-o", "beginning", "-u"]);
    let consumer = consumer.args(["-f", "%k %s %h\n"]).stdin(Stdio::null()).process_group(0);
    let consumer = consumer.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut kafka = Broker(consumer.spawn().expect("kcat is installed"));
    let mut said = BufReader::new(kafka.0.stderr.take().expect("it is piped")).lines();
    let mark = "replaced with ";
    let broker = said.by_ref().find_map(|line| {
        let line = line.expect("it is read");
        line.split_once(mark).map(|(_, address)| address.trim().to_owned())
    });
    // Both pipes are read to their ends, or the consumer would stop for one that is full.
    let reader = std::thread::spawn(move || said.for_each(drop));
    let mut came = BufReader::new(kafka.0.stdout.take().expect("it is piped")).lines();
    let server = place.serve(&[]);
    let broker = broker.expect("it names its brokers");
    let broker = broker.split(',').next().expect("one at least");
    let mut config = json!({
        "brokerAddress": broker, "topic": "cron.done", "key": "42", "message": "hello",
    });
    let launch = eventually("the topic is there", || {
        static TRIES: AtomicU64 = AtomicU64::new(10);
        let launch = run(&server, "kafka", &config, TRIES.fetch_add(1, Ordering::Relaxed));
        (launch["state"] == "succeeded").then_some(launch)
    });
    assert!(launch["ended_at"].is_string());
    let line = came.next().expect("it is open").expect("it is read");
    assert!(line.starts_with("42 hello idempotency-key=job/m1"), "{line}");
    config["topic"] = json!("nobody");
    let lost = run(&server, "kafka", &config, 2);
    assert_eq!(lost["state"], "failed", "{lost}");
    drop(kafka);
    reader.join().expect("it has read all");
    for (setting, value, says) in [
        ("brokerAddress", "", "brokerAddress: it is empty"),
        ("brokerAddress", "host", "write it as host:9092"),
        ("topic", "a b", "is no topic"),
        ("saslMechanism", "PLAIN", "saslUsername: it is empty"),
        ("tlsInsecureSkipVerify", "true", "by tlsRootCAsFile"),
        ("tlsRootCAsFile", "a.pem", "of no use without tlsEnable"),
        ("timeout", "2s", "kafka has no such setting"),
    ] {
        let mut config = json!({"brokerAddress": broker, "topic": "a"});
        config[setting] = json!(value);
        let job = json!({"schedule": "@manually", "executor": "kafka", "config": config});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&job.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(says), "{}", answer.text);
    }
    server.stopped();
}
