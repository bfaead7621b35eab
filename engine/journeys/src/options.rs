//! Options of journeys.

use crate::channel::Channels;
use crate::limits::{DESKS_MAX, REQUESTS_MAX, SENDING_MAX};

/// Options with which the journeys of a world are opened.
#[derive(Clone, Debug)]
pub struct JourneysOptions {
    pub(crate) channels: Channels,
    pub(crate) desks: usize,
    pub(crate) is_at_rest: bool,
    pub(crate) requests_max: usize,
    pub(crate) sending_max: usize,
}

impl JourneysOptions {
    /// The channels through which messages leave.
    pub fn new(channels: Channels) -> Self {
        Self {
            channels,
            desks: 1,
            is_at_rest: false,
            requests_max: REQUESTS_MAX,
            sending_max: SENDING_MAX,
        }
    }

    /// Number of tasks that users are spread over: that of the workers of the group, at most
    /// [`DESKS_MAX`](crate::limits::DESKS_MAX).
    #[must_use]
    pub fn desks(mut self, desks: usize) -> Self {
        self.desks = desks.clamp(1, DESKS_MAX);
        self
    }

    /// Number of requests that each task has under way at once; more are refused with
    /// [`JourneyError::Busy`](crate::JourneyError::Busy).
    #[must_use]
    pub fn requests_max(mut self, requests: usize) -> Self {
        self.requests_max = requests.max(1);
        self
    }

    /// Number of messages that each task sends at once; more wait in the store.
    #[must_use]
    pub fn sending_max(mut self, messages: usize) -> Self {
        self.sending_max = messages.max(1);
        self
    }

    /// Default lines are not taken and messages do not leave, as by a command beside no server.
    #[must_use]
    pub fn at_rest(mut self) -> Self {
        self.is_at_rest = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_desks_is_bounded() {
        let desks = [0, 1, 32, 33, 1_000].map(|desks| {
            let options = JourneysOptions::new(Channels::new());
            options.desks(desks).desks
        });
        assert_eq!(desks, [1, 1, 32, 32, 32]);
    }
}
