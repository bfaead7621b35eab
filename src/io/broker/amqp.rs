//! AMQP 0.9.1: messages to exchanges and queues, and from queues.
//!
//! Each message is acknowledged by its number in the channel that has delivered it, so the channel
//! stays open until the messages are stored.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, Error, ErrorKind,
};
use turnwheel_flow::{BrokerChannel, BrokerMessage, IoError, IoErrorKind};

use super::{Acknowledge, Reception, CONNECT};

/// Messages that a server sends before they are taken. One: what is sent and not taken comes back as
/// delivered once more, and queues may give up what was delivered too often.
const WINDOW: u16 = 1;

/// Bytes of names and of the type of a message.
const NAME_BYTES_MAX: usize = 255;

/// A message that is kept on a disk.
const PERSISTENT: u8 = 2;

/// Codes of AMQP for what is not there, and for what is refused.
const NOT_FOUND: u16 = 404;
const REFUSED: u16 = 403;

/// End of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) enum Sent {
    /// The server has it.
    Taken,
    /// No queue takes it.
    Returned,
    /// The server has refused it.
    Refused,
}

/// Connects to a server.
pub(in crate::io) async fn connect(uri: AMQPUri) -> Result<Connection, Error> {
    Connection::connect_uri(uri, ConnectionProperties::default()).await
}

/// A channel whose messages are confirmed by the server.
pub(in crate::io) async fn confirming(connection: &Connection) -> Result<Channel, Error> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

/// Sends a message by such a channel, and waits for the confirmation. One that must have a queue
/// comes back if none takes it.
pub(in crate::io) async fn send(
    channel: &Channel,
    (exchange, key): (&str, &str),
    body: &[u8],
    properties: BasicProperties,
    must_have_queue: bool,
) -> Result<Sent, Error> {
    let options =
        BasicPublishOptions { mandatory: must_have_queue, ..BasicPublishOptions::default() };
    let confirmed = channel.basic_publish(exchange, key, options, body, properties).await?.await?;
    Ok(match (confirmed.is_ack(), confirmed.take_message().is_some()) {
        (_, true) => Sent::Returned,
        (false, _) => Sent::Refused,
        (true, false) => Sent::Taken,
    })
}

/// Sends a message of a flow. At the default exchange it must have a queue; others may have none
/// just now.
pub(super) async fn publish(
    channel: &BrokerChannel,
    hosts: &[String],
    message: &BrokerMessage,
    key: &str,
) -> Result<(), IoError> {
    let failed = |error: Error| told(channel, &error);
    check_names(message.headers.iter().map(|(name, _)| name).chain(&message.content_type))?;
    let connection = open(channel, hosts).await?;
    let confirming = confirming(&connection).await.map_err(failed)?;
    let place = match &channel.exchange {
        Some(exchange) => (exchange.as_str(), channel.address.as_str()),
        None => ("", queue_of(channel)),
    };
    let (properties, has_queue) = (properties(message, key), channel.exchange.is_none());
    let sent = send(&confirming, place, &message.body, properties, has_queue).await;
    let sent = sent.map_err(failed)?;
    // The message is stored by now, whatever becomes of the connection.
    let _closed = connection.close(200, "done").await;
    let wrong =
        |kind, problem: &str| Err(IoError::new(kind, format!("{}: {problem}", channel.shown())));
    match sent {
        Sent::Taken => Ok(()),
        Sent::Returned => wrong(IoErrorKind::NotFound, "no queue takes the message"),
        Sent::Refused => wrong(IoErrorKind::Communication, "the server has refused the message"),
    }
}

/// Receives messages for a flow.
pub(super) async fn receive(
    channel: &BrokerChannel,
    hosts: &[String],
    reception: &mut Reception<'_>,
) -> Result<Option<Acknowledge>, IoError> {
    let failed = |error: Error| told(channel, &error);
    let connection = open(channel, hosts).await?;
    let open = connection.create_channel().await.map_err(failed)?;
    let queue = queue(channel, &open).await.map_err(failed)?;
    open.basic_qos(WINDOW, BasicQosOptions::default()).await.map_err(failed)?;
    let mut consumer = consume(&open, &queue).await.map_err(failed)?;
    let (mut last, mut left) = (None, WINDOW);
    loop {
        if left == 0 {
            // Its messages are acknowledged at the end, so another consumer has to have a window of
            // its own. It comes before the former goes: a queue may end with its last consumer.
            let next = consume(&open, &queue).await.map_err(failed)?;
            let former = std::mem::replace(&mut consumer, next);
            cancel(&open, &former).await.map_err(failed)?;
            left = WINDOW;
        }
        let next = reception.next(poll_fn(|cx| Pin::new(&mut consumer).poll_next(cx))).await?;
        let Some(next) = next else { break };
        let delivery = next.ok_or_else(|| {
            let message = format!("{}: the server has ended the delivery", channel.shown());
            IoError::new(IoErrorKind::Communication, message)
        })?;
        let delivery = delivery.map_err(failed)?;
        last = Some(delivery.delivery_tag);
        left -= 1;
        if reception.take(&of(delivery))? {
            break;
        }
    }
    let Some(last) = last else { return Ok(None) };
    Ok(Some(Box::pin(async move {
        // An acknowledgement makes room for the next one, which nobody here would take.
        cancel(&open, &consumer).await.map_err(|error| error.to_string())?;
        // All up to the last one: what has come since is behind it, and is delivered again.
        let acknowledged = open.basic_ack(last, BasicAckOptions { multiple: true }).await;
        acknowledged.map_err(|error| error.to_string())?;
        connection.close(200, "done").await.map_err(|error| error.to_string())
    })))
}

async fn consume(open: &Channel, queue: &str) -> Result<Consumer, Error> {
    open.basic_consume(queue, "", BasicConsumeOptions::default(), FieldTable::default()).await
}

async fn cancel(open: &Channel, consumer: &Consumer) -> Result<(), Error> {
    open.basic_cancel(consumer.tag().as_str(), BasicCancelOptions::default()).await
}

/// The queue that messages are taken from: a known one, or one of this connection at the exchange.
async fn queue(channel: &BrokerChannel, open: &Channel) -> Result<String, Error> {
    let (Some(exchange), None) = (&channel.exchange, &channel.queue) else {
        return Ok(queue_of(channel).to_owned());
    };
    let own = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let queue = open.queue_declare("", own, FieldTable::default()).await?;
    let name = queue.name().as_str().to_owned();
    let bound = QueueBindOptions::default();
    open.queue_bind(&name, exchange, &channel.address, bound, FieldTable::default()).await?;
    Ok(name)
}

fn queue_of(channel: &BrokerChannel) -> &str {
    channel.queue.as_deref().unwrap_or(&channel.address)
}

/// A connection to the first host that answers.
async fn open(channel: &BrokerChannel, hosts: &[String]) -> Result<Connection, IoError> {
    let BrokerChannel { vhost, queue, exchange, .. } = channel;
    check_names([vhost].into_iter().chain(queue).chain(exchange))?;
    let mut last = None;
    for host in hosts {
        match connect(uri(channel, host)).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) => told(channel, &error),
        None => IoError::new(IoErrorKind::NotFound, format!("{}: no address", channel.shown())),
    })
}

fn uri(channel: &BrokerChannel, host: &str) -> AMQPUri {
    let login = |name: &str, password: &str| AMQPUserInfo {
        username: name.to_owned(),
        password: password.to_owned(),
    };
    let userinfo = match (&channel.login, &channel.token) {
        (Some((name, password)), _) => login(name, password),
        // Servers that take tokens want them as passwords.
        (None, Some(token)) => login("", token),
        (None, None) => AMQPUserInfo::default(),
    };
    let scheme = if channel.is_tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP };
    let authority = AMQPAuthority { userinfo, host: host.to_owned(), port: channel.port };
    let connection_timeout = u64::try_from(CONNECT.as_millis()).ok();
    let query = AMQPQueryString { connection_timeout, ..AMQPQueryString::default() };
    AMQPUri { scheme, authority, vhost: channel.vhost.clone(), query }
}

fn told(channel: &BrokerChannel, error: &Error) -> IoError {
    let kind = match error.kind() {
        ErrorKind::ProtocolError(error) if error.get_id() == NOT_FOUND => IoErrorKind::NotFound,
        ErrorKind::ProtocolError(error) if error.get_id() == REFUSED => IoErrorKind::Forbidden,
        _ => IoErrorKind::Communication,
    };
    IoError::new(kind, format!("{}: {error}", channel.shown()))
}

/// Refuses names that the protocol cannot write: their length has one byte, and what is behind it
/// would be read as something else.
fn check_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), IoError> {
    match names.into_iter().find(|name| name.len() > NAME_BYTES_MAX) {
        None => Ok(()),
        Some(name) => {
            let begin: String = name.chars().take(32).collect();
            let message =
                format!("«{begin}…» has more than {NAME_BYTES_MAX} bytes, the most of AMQP");
            Err(IoError::new(IoErrorKind::Invalid, message))
        }
    }
}

fn properties(message: &BrokerMessage, key: &str) -> BasicProperties {
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let mut properties = properties.with_message_id(key.into());
    if let Some(kind) = &message.content_type {
        properties = properties.with_content_type(kind.as_str().into());
    }
    if message.headers.is_empty() {
        return properties;
    }
    let mut headers = FieldTable::default();
    for (name, value) in &message.headers {
        headers.insert(name.as_str().into(), AMQPValue::LongString(value.as_str().into()));
    }
    properties.with_headers(headers)
}

fn of(delivery: Delivery) -> BrokerMessage {
    let Delivery { properties, data, .. } = delivery;
    let mut headers = Vec::new();
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        headers.extend(written(value).map(|value| (name.to_string(), value)));
    }
    let text = |text: &Option<ShortString>| text.as_ref().map(ToString::to_string);
    BrokerMessage {
        headers,
        content_type: text(properties.content_type()),
        correlation: text(properties.correlation_id()),
        body: data,
    }
}

/// The value of a header as a text; nothing for tables and lists.
fn written(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Float(value) => value.to_string(),
        AMQPValue::Double(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        AMQPValue::ShortString(value) => value.to_string(),
        AMQPValue::LongString(value) => value.to_string(),
        _ => return None,
    })
}
