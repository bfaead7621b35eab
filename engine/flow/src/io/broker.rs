//! Messages of brokers, as data.

use std::fmt;

use parking_lot::Mutex;

/// A protocol of brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broker {
    /// NATS.
    Nats,
    /// AMQP 0.9.1, as RabbitMQ speaks it.
    Amqp,
    /// WebSocket: the messages of a connection, without a broker between.
    WebSocket,
}

impl Broker {
    /// Its name in AsyncAPI.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Amqp => "amqp",
            Self::WebSocket => "ws",
        }
    }

    /// Error of an [`Io`](super::Io) without it.
    pub(crate) fn missing(self) -> String {
        format!("messages of «{}» cannot be sent or received here: it is not built in", self.name())
    }
}

/// Place of a broker where messages go to and come from.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerChannel {
    /// Protocol of the broker.
    pub protocol: Broker,
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether the connection has TLS.
    pub is_tls: bool,
    /// The virtual host of AMQP.
    pub vhost: String,
    /// Name and password.
    pub login: Option<(String, String)>,
    /// A token, in the place of both.
    pub token: Option<String>,
    /// The subject of NATS, the routing key of AMQP, or the path of a WebSocket without its first
    /// slash.
    pub address: String,
    /// The group of NATS that shares the messages, or the queue of AMQP. Without a queue it has the
    /// name of the address, or is one of its own at the exchange.
    pub queue: Option<String>,
    /// The exchange of AMQP; the default one if there is none.
    pub exchange: Option<String>,
}

impl BrokerChannel {
    /// The address of the channel, for people.
    pub fn shown(&self) -> String {
        let Self { host, port, .. } = self;
        let name = self.protocol.name();
        let place = self.exchange.as_deref().map_or(String::new(), |name| format!("{name}/"));
        let address = match (&self.queue, self.protocol) {
            (Some(queue), Broker::Amqp) if self.exchange.is_none() => queue,
            _ => &self.address,
        };
        match host.contains(':') {
            true => format!("{name}://[{host}]:{port}/{place}{address}"),
            false => format!("{name}://{host}:{port}/{place}{address}"),
        }
    }
}

impl fmt::Debug for BrokerChannel {
    /// Without what the connection is opened with, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BrokerChannel").field(&self.shown()).finish()
    }
}

/// A message of a broker.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BrokerMessage {
    /// Names as they were given.
    pub headers: Vec<(String, String)>,
    /// Type of the body, if it is known.
    pub content_type: Option<String>,
    /// The correlation id, if it has one.
    pub correlation: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl fmt::Debug for BrokerMessage {
    /// Without headers and body, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerMessage").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// Messages that were taken and are not acknowledged: the broker delivers them again if this is
/// dropped, where its protocol can. Dropping and accepting it do not block.
pub struct Receipt(Mutex<Option<Acknowledge>>);

type Acknowledge = Box<dyn FnOnce() + Send>;

impl Receipt {
    /// Of messages that nobody acknowledges.
    pub fn none() -> Self {
        Self(Mutex::new(None))
    }

    /// Of messages that are acknowledged by this.
    pub fn new(acknowledge: impl FnOnce() + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(acknowledge))))
    }

    /// Lets the broker know that the messages are kept.
    pub fn accept(self) {
        if let Some(acknowledge) = self.0.into_inner() {
            acknowledge();
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receipt").field(&self.0.lock().is_some()).finish()
    }
}
