//! Messages of flows at brokers and on WebSockets, and the connections that jobs share with them.
//!
//! A call has a connection of its own, on the thread of its caller. That of a subscription lives on
//! until its messages are stored, and acknowledges them then; if it ends before, the broker
//! delivers them again, as far as its protocol does so.
//!
//! | part | what it does |
//! | --- | --- |
//! | `nats` | NATS: subjects, groups, and streams that want acknowledgements |
//! | `amqp` | AMQP 0.9.1: queues and exchanges |
//! | `websocket` | WebSockets, on which nothing is acknowledged |
//! | `receipt` | acknowledges what was stored |

#[cfg(feature = "rabbitmq")]
pub(in crate::io) mod amqp;
#[cfg(feature = "nats")]
pub(in crate::io) mod nats;
mod receipt;
#[cfg(feature = "websocket")]
mod websocket;

use std::future::Future;
use std::time::{Duration, Instant};

use turnwheel_flow::{Broker, BrokerChannel, BrokerMessage, IoCall, IoError, IoErrorKind, Receipt};

use self::receipt::{Acknowledge, Kept};
use super::missing;
use super::options::IoOptions;
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
use super::reach::{addresses, check};
use super::waiting::{on_runtime, runtime};

/// Time limit of one attempt to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// Time of a subscription beyond its limit, in which it ends by itself.
const LATE: Duration = Duration::from_millis(500);

/// Sends a message, and waits until the broker has it.
pub(super) fn publish(
    options: &IoOptions,
    channel: &BrokerChannel,
    message: &BrokerMessage,
    call: &IoCall<'_>,
) -> Result<(), IoError> {
    let shown = channel.shown();
    let deadline = call.until(Instant::now(), options.http_timeout);
    let mut message = message.clone();
    let has_parent = message.headers.iter().any(|(name, _)| name == "traceparent");
    if let Some(parent) = call.trace.filter(|_| !has_parent) {
        message.headers.push(("traceparent".to_owned(), parent.to_owned()));
    }
    let work = async {
        match channel.protocol {
            #[cfg(feature = "nats")]
            Broker::Nats => {
                let hosts = hosts(options, channel).await?;
                nats::publish(channel, &hosts, &message, call.key).await
            }
            #[cfg(feature = "rabbitmq")]
            Broker::Amqp => {
                let hosts = hosts(options, channel).await?;
                amqp::publish(channel, &hosts, &message, call.key).await
            }
            #[cfg(feature = "websocket")]
            Broker::WebSocket => websocket::publish(options, channel, &message).await,
            protocol => Err(missing(protocol)),
        }
    };
    let runtime = runtime(&shown, deadline, call)?;
    let outcome = on_runtime(&runtime, &shown, deadline, call, work);
    // A name that is being resolved would hold up the end.
    runtime.shutdown_background();
    outcome
}

/// Receives messages until there are enough.
pub(super) fn receive(
    options: &IoOptions,
    channel: &BrokerChannel,
    is_enough: &mut dyn FnMut(Option<&BrokerMessage>) -> bool,
    call: &IoCall<'_>,
) -> Result<Receipt, IoError> {
    let shown = channel.shown();
    let begun = Instant::now();
    let deadline = call.until(begun, options.http_timeout);
    let runtime = runtime(&shown, deadline, call)?;
    let limit = options.body_max;
    let mut reception = Reception { shown: &shown, begun, deadline, limit, is_enough };
    let work = async {
        match channel.protocol {
            #[cfg(feature = "nats")]
            Broker::Nats => {
                let hosts = hosts(options, channel).await?;
                nats::receive(channel, &hosts, &mut reception).await
            }
            #[cfg(feature = "rabbitmq")]
            Broker::Amqp => {
                let hosts = hosts(options, channel).await?;
                amqp::receive(channel, &hosts, &mut reception).await
            }
            #[cfg(feature = "websocket")]
            Broker::WebSocket => websocket::receive(options, channel, &mut reception)
                .await
                .map(|()| None::<Acknowledge>),
            protocol => Err(missing(protocol)),
        }
    };
    let last = deadline.checked_add(LATE).unwrap_or(deadline);
    match on_runtime(&runtime, &shown, last, call, work) {
        Ok(Some(acknowledge)) => Ok(Kept::new(runtime, acknowledge, shown).receipt()),
        outcome => {
            runtime.shutdown_background();
            outcome.map(|_| Receipt::none())
        }
    }
}

/// The hosts of a broker to connect to. Without TLS they are addresses that may be reached, and
/// names are not resolved again. With TLS it is the name, for which the server has a certificate.
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
async fn hosts(options: &IoOptions, channel: &BrokerChannel) -> Result<Vec<String>, IoError> {
    let (host, port) = (&channel.host, channel.port);
    if channel.is_tls {
        check(options, host, port).await?;
        return Ok(vec![host.clone()]);
    }
    let found = addresses(options, host, port).await?;
    Ok(found.into_iter().map(|address| address.ip().to_string()).collect())
}

/// A subscription that is under way.
struct Reception<'a> {
    shown: &'a str,
    begun: Instant,
    deadline: Instant,
    /// Bytes of a message.
    limit: usize,
    is_enough: &'a mut dyn FnMut(Option<&BrokerMessage>) -> bool,
}

impl Reception<'_> {
    /// Waits for what comes next; nothing if the time is over, as it should be.
    async fn next<T>(&mut self, coming: impl Future<Output = T>) -> Result<Option<T>, IoError> {
        // Where messages are always there, the end of the time would not be seen.
        let came = match Instant::now() < self.deadline {
            true => tokio::time::timeout_at(self.deadline.into(), coming).await.ok(),
            false => None,
        };
        match came {
            Some(came) => Ok(Some(came)),
            None if (self.is_enough)(None) => Ok(None),
            None => {
                let (shown, limit) = (self.shown, self.deadline.duration_since(self.begun));
                let message = format!("the messages of {shown} have not come within {limit:?}");
                Err(IoError::new(IoErrorKind::TimedOut, message))
            }
        }
    }

    /// Gives a message on. True if there are enough.
    fn take(&mut self, message: &BrokerMessage) -> Result<bool, IoError> {
        if message.body.len() > self.limit {
            let message = format!("a message of {} has more than {} bytes", self.shown, self.limit);
            return Err(IoError::new(IoErrorKind::TooLarge, message));
        }
        Ok((self.is_enough)(Some(message)))
    }
}
