//! The thread that sends spans, and the bounded queue before it.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender, TrySendError};
use serde_json::Value;

use super::span::request;
use super::{
    dropped, sent, Environment, OtlpError, ANSWER_WITHIN, BATCH_MAX, QUEUE_MAX, SENT_WITHIN,
};

/// Message to the thread.
enum Message {
    Span(Value),
    /// Send the queued spans, then notify.
    Flush(Sender<()>),
}

/// Queue of spans to be sent.
#[derive(Clone, Debug)]
pub(super) struct Queue(Sender<Message>);

impl Queue {
    /// Queues a span; without room it is dropped and counted.
    pub(super) fn put(&self, span: Value) {
        if self.0.try_send(Message::Span(span)).is_err() {
            dropped(1);
        }
    }
}

/// Sends spans until the process ends.
#[derive(Debug)]
pub struct Exporter {
    queue: Queue,
}

impl Exporter {
    pub(super) fn start(address: &str, environment: Environment) -> Result<Self, OtlpError> {
        let (queue, waiting) = bounded(QUEUE_MAX);
        let within = environment.timeout.unwrap_or(ANSWER_WITHIN);
        let config = ureq::Agent::config_builder().timeout_global(Some(within)).build();
        let address = address.to_owned();
        let post = Post { agent: config.into(), address, environment, is_failing: false };
        let thread = thread::Builder::new().name("otlp".to_owned());
        let running = thread.spawn(move || send(&waiting, post)).map_err(OtlpError::Thread)?;
        // It ends with the process.
        drop(running);
        Ok(Self { queue: Queue(queue) })
    }

    pub(super) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Sends the queued spans, within a time limit. Returns whether all of them were tried.
    #[must_use = "spans that were not sent are lost"]
    pub fn flush(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let (told, flushed) = bounded(1);
        let mut message = Message::Flush(told);
        // A full queue has room again when the thread has taken a batch.
        while let Err(error) = self.queue.0.try_send(message) {
            let TrySendError::Full(back) = error else { return false };
            message = back;
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        flushed.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

/// Sends queued spans, in batches, until the queue is closed.
fn send(waiting: &Receiver<Message>, mut post: Post) {
    let mut batch: Vec<Value> = Vec::new();
    let mut until = Instant::now();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let next = match batch.is_empty() {
            true => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => waiting.recv_timeout(left),
        };
        match next {
            Ok(Message::Span(span)) => {
                if batch.is_empty() {
                    until = Instant::now() + SENT_WITHIN;
                }
                batch.push(span);
                if batch.len() >= BATCH_MAX {
                    post.post(&mut batch);
                }
            }
            Ok(Message::Flush(told)) => {
                post.post(&mut batch);
                // The waiting thread may have given up.
                let _gone = told.send(());
            }
            Err(RecvTimeoutError::Timeout) => post.post(&mut batch),
            Err(RecvTimeoutError::Disconnected) => return post.post(&mut batch),
        }
    }
}

/// The way to the collector.
struct Post {
    agent: ureq::Agent,
    address: String,
    environment: Environment,
    /// Whether the last batch was not taken: that is said once, until one is taken again.
    is_failing: bool,
}

impl Post {
    fn post(&mut self, batch: &mut Vec<Value>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len();
        let body = request(batch, &self.environment.resource).to_string();
        batch.clear();
        let headers = self.environment.headers.iter();
        let posted = headers.fold(self.agent.post(&self.address), |posted, (name, value)| {
            posted.header(name.as_str(), value.as_str())
        });
        let posted = posted.header("content-type", "application/json");
        match posted.send(body) {
            Ok(_) => {
                sent(count);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(collector = self.address, "traces are taken again");
                }
            }
            Err(error) => {
                dropped(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        collector = self.address, %error,
                        "traces are not taken; they are dropped and counted until they are"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::fate;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let (queue, waiting) = bounded(QUEUE_MAX);
        let queue = Queue(queue);
        let before = fate().dropped;
        for number in 0..QUEUE_MAX + 10 {
            queue.put(number.into());
        }
        assert_eq!(fate().dropped - before, 10);
        assert!(!Exporter { queue }.flush(Duration::ZERO));
        drop(waiting);
    }
}
