//! The actions of notifications: the plan of one is its place in the outbox.
//!
//! Webhooks and mails have queues of their own, and one receiver gets only some of the places of
//! its queue: a receiver that hangs holds up what goes to itself.

use turnwheel_engine::{
    Action, ActionError, ActionView, Concurrency, Next, Payload, Rescue, RetryPolicy, Run, Runs,
    StepContext,
};

use crate::limits::{NOTICE_ATTEMPTS, RECEIVER_PLACES};
use crate::mask;
use crate::notify::Message;
use crate::registry::Executors;

/// Kind of the error of an attempt.
const FAILED: &str = "failed";

/// The queue of webhooks.
pub(crate) const WEBHOOK_QUEUE: &str = "jobs.notify";

/// The queue of mails.
pub(crate) const MAIL_QUEUE: &str = "jobs.mail";

/// The action of a webhook.
#[derive(Debug)]
pub(crate) struct SendWebhook {
    pub(crate) executors: Executors,
}

/// The action of a mail.
#[derive(Debug)]
pub(crate) struct SendMail {
    pub(crate) executors: Executors,
}

/// The receiver of a webhook: host and port of its address.
fn receiver(message: &Message) -> String {
    let address = message.webhook.split_once("://").map_or(&*message.webhook, |(_, rest)| rest);
    let host = address.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("webhook {host}")
}

impl Action for SendWebhook {
    const NAME: &'static str = "job.notify";
    type Input = Message;
    type Output = ();
    type Phases = Runs;

    fn queue(&self) -> Option<&str> {
        Some(WEBHOOK_QUEUE)
    }

    fn concurrency(&self) -> Concurrency<Message> {
        Concurrency::shared(RECEIVER_PLACES, receiver)
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(NOTICE_ATTEMPTS)
    }

    fn rescue(&self, _error: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn takes_events(&self) -> bool {
        false
    }

    fn present(&self, view: &mut ActionView<'_>) {
        mask::shown(&mut view.shown.input);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        mask::edited(stored, input)
    }
}

impl Run for SendWebhook {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let sent = send(&self.executors, &step.input, &|| step.is_cancelled());
        // All who may look see the error of a plan.
        done(sent.map_err(|problem| mask::error(&problem)))
    }
}

impl Action for SendMail {
    const NAME: &'static str = "job.mail";
    type Input = Message;
    type Output = ();
    type Phases = Runs;

    fn queue(&self) -> Option<&str> {
        Some(MAIL_QUEUE)
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy::attempts(NOTICE_ATTEMPTS)
    }

    fn rescue(&self, _error: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn takes_events(&self) -> bool {
        false
    }
}

impl Run for SendMail {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        done(send(&self.executors, &step.input, &|| step.is_cancelled()))
    }
}

fn send(
    executors: &Executors,
    message: &Message,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<(), String> {
    executors.notifier().and_then(|notifier| notifier.send(message, is_cancelled))
}

fn done(sent: Result<(), String>) -> Result<Next, ActionError> {
    sent.map(|()| Next::Done).map_err(|problem| ActionError::new(FAILED, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_of_a_webhook_is_its_host_with_the_port() {
        for (webhook, host) in [
            ("https://hooks.example/a?b", "webhook hooks.example"),
            ("http://ann:secret@10.0.0.7:8080", "webhook 10.0.0.7:8080"),
            ("nowhere", "webhook nowhere"),
        ] {
            let message = Message { webhook: webhook.to_owned(), ..Message::default() };
            assert_eq!(receiver(&message), host);
        }
    }
}
