//! Messages of brokers, in a program that was built without their protocols.

use turnwheel_flow::{BrokerChannel, BrokerMessage, IoCall, IoError, Receipt};

use super::missing;
use super::options::IoOptions;

pub(super) fn publish(
    _: &IoOptions,
    channel: &BrokerChannel,
    _: &BrokerMessage,
    _: &IoCall<'_>,
) -> Result<(), IoError> {
    Err(missing(channel.protocol))
}

pub(super) fn receive(
    _: &IoOptions,
    channel: &BrokerChannel,
    _: &mut dyn FnMut(Option<&BrokerMessage>) -> bool,
    _: &IoCall<'_>,
) -> Result<Receipt, IoError> {
    Err(missing(channel.protocol))
}
