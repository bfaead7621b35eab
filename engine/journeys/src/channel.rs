//! Channels: how messages leave.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use serde_json::Value;
use turnwheel_flow::Problems;

use crate::check::Offered;
use crate::definition::Definition;
use crate::outbox::{Message, Unsent};
use crate::places::Receiver;

/// A way for messages to users: mail, chat, a request, a flow, or code.
///
/// It is called on a pool of threads and may block. It may be called again with the same
/// [key](Message::key), after a crash or an answer that was lost: a receiver that remembers keys
/// gets each message once.
pub trait Channel: Send + Sync + 'static {
    /// Sends a message.
    ///
    /// # Errors
    ///
    /// It was not sent, and whether it is tried again.
    fn send(&self, message: &Message) -> Result<(), Unsent>;

    /// Names the receiver of a message, such as the host of its address. One receiver has at most
    /// two thirds of the threads that send, so that others go on while it hangs. All messages of a
    /// channel that does not tell have one receiver.
    ///
    /// It is called by the task that writes users, and has to return at once.
    fn receiver(&self, message: &Message) -> String {
        let _of_all = message;
        String::new()
    }

    /// Refuses content that it could never send: no definition with it is stored. Texts of the form
    /// `${ .. }` are expressions, whose values are not known then.
    ///
    /// # Errors
    ///
    /// The reason, such as «"with" has no "url"».
    fn check(&self, with: &Value) -> Result<(), String> {
        let _any = with;
        Ok(())
    }
}

impl<F: Fn(&Message) -> Result<(), Unsent> + Send + Sync + 'static> Channel for F {
    fn send(&self, message: &Message) -> Result<(), Unsent> {
        self(message)
    }
}

impl Offered for Channels {
    fn names(&self) -> Vec<&str> {
        Self::names(self).collect()
    }

    fn refusal(&self, channel: &str, with: &Value) -> Option<String> {
        let known = self.all.get(channel)?;
        let checked = catch_unwind(AssertUnwindSafe(|| known.channel.check(with)));
        checked.unwrap_or_else(|_| Err("it panics at this content".to_owned())).err()
    }
}

/// A channel, and how it is called.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) channel: Arc<dyn Channel>,
    /// Whether it is called where the step was written, and not on a pool.
    pub(crate) is_direct: bool,
}

/// Channels by name.
#[derive(Clone, Default)]
pub struct Channels {
    all: BTreeMap<String, Known>,
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.keys()).finish()
    }
}

impl Channels {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more, which may block: it is called on a pool of threads.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, channel: impl Channel) -> Self {
        self.all.insert(name.into(), Known { channel: Arc::new(channel), is_direct: false });
        self
    }

    /// The same with one more that returns at once, such as one that puts messages into a queue in
    /// memory: the task that writes users calls it, and all users wait while it works.
    ///
    /// Cost: that of the call. [`Channels::with`] adds two changes of threads to each message.
    #[must_use]
    pub fn with_direct(mut self, name: impl Into<String>, channel: impl Channel) -> Self {
        self.all.insert(name.into(), Known { channel: Arc::new(channel), is_direct: true });
        self
    }

    /// The receiver of a message.
    pub(crate) fn receiver(&self, name: &str, message: &Message) -> Receiver {
        let known = self.all.get(name);
        let told = catch_unwind(AssertUnwindSafe(|| {
            known.map(|known| known.channel.receiver(message)).unwrap_or_default()
        }));
        // One that panics here does so again when it sends.
        (name.to_owned(), told.unwrap_or_default())
    }

    pub(crate) fn get(&self, name: &str) -> Option<Known> {
        self.all.get(name).cloned()
    }

    /// Reads a definition as [`Definition::read`] does. Messages through other channels are wrong, and those
    /// that a channel could never send.
    ///
    /// ```
    /// use turnwheel_journeys::{Channels, Message};
    ///
    /// let channels = Channels::new().with("mail", |_: &Message| Ok(()));
    /// let text = "
    /// journey: welcome
    /// platform: shop
    /// elements:
    ///   hello: { start: { on: customer.created }, then: greet }
    ///   greet: { send: { channel: mial }, then: end }
    /// ";
    /// let wrong = channels.definition(text, "welcome.yaml").expect_err("there is no such channel");
    /// assert!(wrong.to_string().contains("did you mean «mail»?"));
    /// ```
    ///
    /// # Errors
    ///
    /// All that is wrong, each with its place.
    pub fn definition(&self, text: &str, path: &str) -> Result<Definition, Problems> {
        Definition::read_for(text, path, self)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }
}
