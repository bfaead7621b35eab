//! Messages of brokers, in a program that was built without their protocols.

use turnwheel_flow::{Broker, BrokerChannel, BrokerMessage, IoCall, IoError, IoErrorKind, Receipt};

use super::options::IoOptions;

pub(super) fn problem(protocol: Broker) -> Option<String> {
    let feature = match protocol {
        Broker::Amqp => "rabbitmq",
        protocol => protocol.name(),
    };
    let name = protocol.name();
    Some(format!(
        "messages of «{name}» are not sent and received here: this program was built without the \
         feature «{feature}»"
    ))
}

fn nothing(channel: &BrokerChannel) -> IoError {
    let problem = problem(channel.protocol).unwrap_or_default();
    IoError::new(IoErrorKind::Unsupported, problem)
}

pub(super) fn publish(
    _: &IoOptions,
    channel: &BrokerChannel,
    _: &BrokerMessage,
    _: &IoCall<'_>,
) -> Result<(), IoError> {
    Err(nothing(channel))
}

pub(super) fn receive(
    _: &IoOptions,
    channel: &BrokerChannel,
    _: &mut dyn FnMut(Option<&BrokerMessage>) -> bool,
    _: &IoCall<'_>,
) -> Result<Receipt, IoError> {
    Err(nothing(channel))
}
