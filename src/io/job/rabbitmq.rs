//! The executor `rabbitmq`: one message to an exchange or a queue, confirmed by the server.

use base64::Engine as _;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::BasicProperties;
use turnwheel_jobs::{Call, Executor, Settings, Verdict, Work};

use super::only;
use super::reach::{allow, is_on, text, within};
use crate::io::broker::amqp::{confirming, connect, send, Sent};
use crate::io::HostIo;

/// Settings that the executor knows: those of Dkron.
const KNOWN: [&str; 13] = [
    "url",
    "exchange",
    "queue.name",
    "queue.create",
    "queue.durable",
    "queue.auto_delete",
    "queue.exclusive",
    "message.content_type",
    "message.delivery_mode",
    "message.messageId",
    "message.body",
    "message.base64Body",
    "debug",
];

/// Sends messages.
#[derive(Clone, Debug)]
pub(super) struct RabbitMq {
    pub(super) io: HostIo,
}

/// Settings, understood.
struct Parsed {
    uri: AMQPUri,
    /// How the queue is made, if it is.
    queue: Option<QueueDeclareOptions>,
    mode: u8,
    body: Vec<u8>,
}

fn parse(config: &Settings) -> Result<Parsed, String> {
    only("rabbitmq", config, &KNOWN)?;
    let address = text(config, "url");
    if address.is_empty() {
        return Err("url: it is empty: give one such as amqp://user:password@host:5672".to_owned());
    }
    // The address may have a password: it is not repeated.
    let uri = address.parse().map_err(|problem| format!("url: it is no address: {problem}"))?;
    if text(config, "queue.name").is_empty() {
        return Err("queue.name: it is empty: it names the queue, or the routing key".to_owned());
    }
    let queue = match is_on(config, "queue.create")? {
        false => None,
        true => Some(QueueDeclareOptions {
            durable: is_on(config, "queue.durable")?,
            auto_delete: is_on(config, "queue.auto_delete")?,
            exclusive: is_on(config, "queue.exclusive")?,
            ..QueueDeclareOptions::default()
        }),
    };
    let mode = match text(config, "message.delivery_mode") {
        "" | "2" => 2,
        "1" | "0" => 1,
        other => return Err(format!("message.delivery_mode: «{other}» is none of 1 and 2")),
    };
    let body = match (text(config, "message.base64Body"), config.get("message.body")) {
        ("", body) => body.cloned().unwrap_or_default().into_bytes(),
        (text, None) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| format!("message.base64Body: it is not base64: {error}"))?,
        _ => return Err("message.body and message.base64Body: give one of them".to_owned()),
    };
    Ok(Parsed { uri, queue, mode, body })
}

impl Executor for RabbitMq {
    fn check(&self, config: &Settings) -> Result<(), String> {
        parse(config).map(drop)
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        within(work, call, self.send(work))
    }
}

impl RabbitMq {
    async fn send(&self, work: &Work) -> Result<String, String> {
        let config = &work.config;
        let Parsed { uri, queue, mode, body } = parse(config)?;
        allow(&self.io, &uri.authority.host, uri.authority.port).await?;
        let failed = |error: lapin::Error| format!("RabbitMQ: {error}");
        let connection = connect(uri).await.map_err(failed)?;
        let channel = confirming(&connection).await.map_err(failed)?;
        let (name, exchange) = (text(config, "queue.name"), text(config, "exchange"));
        if let Some(options) = queue {
            let made = channel.queue_declare(name, options, FieldTable::default()).await;
            made.map_err(failed)?;
        }
        let id = match text(config, "message.messageId") {
            "" => work.key.as_str(),
            id => id,
        };
        let properties = BasicProperties::default().with_delivery_mode(mode);
        let properties = properties.with_message_id(id.into());
        let properties = match text(config, "message.content_type") {
            "" => properties,
            kind => properties.with_content_type(kind.into()),
        };
        // A message that no queue takes comes back.
        let sent = send(&channel, (exchange, name), &body, properties, true).await;
        let sent = sent.map_err(failed)?;
        // The message is stored by now, whatever becomes of the connection.
        let _closed = connection.close(200, "done").await;
        match sent {
            Sent::Returned => Err(format!("RabbitMQ: no queue takes messages for «{name}»")),
            Sent::Refused => Err("RabbitMQ: the server has refused the message".to_owned()),
            Sent::Taken => Ok(format!("sent to {name}")),
        }
    }
}
