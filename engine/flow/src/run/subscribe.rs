//! Messages that a service sends over HTTP, as a stream of events (SSE), or a broker, until enough
//! have come.
//!
//! The request has a thread of its own, which waits after each message for the verdict of this one:
//! expressions are evaluated here.

use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Map, Value};

use super::effect::{fault_of, Effect};
use super::http::{add_headers, status_fault};
use super::mcp::{events, is_stream};
use super::uri;
use crate::fault::Fault;
use crate::io::{
    BrokerChannel, BrokerMessage, HttpRequest, HttpResponse, IoErrorKind, HTTP_BODY_MAX,
};
use crate::limits::SUBSCRIPTION_MESSAGES_MAX;
use crate::model::{Span, Subscription};
use crate::scope::Stage;

const EFFECT: Stage = Stage::Definition { is_effect: true };

/// Interval of looks whether the request has ended: its reader may stay after that, as one that was
/// cancelled does.
const LOOK: Duration = Duration::from_millis(20);

/// The messages of a subscription.
pub(super) fn subscribe(
    effect: &Effect<'_, '_>,
    mut request: HttpRequest,
    it: &Subscription,
) -> Result<Value, Fault> {
    add_headers(&mut request, &json!({ "Accept": "text/event-stream" }))?;
    let mut taken = Taken { effect, it, messages: json!([]), count: 0, size: 0 };
    if taken.is_over()? {
        return Ok(json!([]));
    }
    let (limit, has_end) = time_of(effect, it)?;
    let call = effect.call.within(limit);
    let (message, messages) = sync_channel(0);
    let (verdict, verdicts) = sync_channel(0);
    let parts = Parts { message, verdicts };
    let is_enough = Box::new(move |answer: &mut HttpResponse| parts.are_enough(answer));
    let io = effect.io;
    let (answer, judged) = thread::scope(|scope| {
        let sent = scope.spawn(|| io.http_until(&request, is_enough, &call));
        let judged = judge(&mut taken, &messages, &verdict, &|| sent.is_finished());
        // Its further messages find nobody.
        drop((messages, verdict));
        (sent.join(), judged)
    });
    let mut is_complete = judged?;
    let lost = |_| Fault::runtime("the thread of the subscription has panicked");
    let answer = answer.map_err(lost)?;
    if let Ok(response) = &answer {
        // The rest of it; an implementation may read all of it and then tell.
        let is_good = is_stream(response) && (200..300).contains(&response.status);
        let (events, _) = whole_events(&response.body);
        for event in events.iter().filter(|_| is_good) {
            is_complete = is_complete || taken.take(event)?;
        }
    }
    match answer {
        _ if is_complete => {}
        Err(error) if error.kind == IoErrorKind::TimedOut && has_end => {}
        Err(error) => return Err(fault_of(error)),
        Ok(response) if !(200..300).contains(&response.status) => {
            return Err(status_fault(effect, &request, &response));
        }
        Ok(response) if !is_stream(&response) => {
            let problem = format!("{} answered no stream of events", uri::shown(&request.uri));
            return Err(Fault::communication(500, problem));
        }
        Ok(_) => {
            let count = taken.count;
            let problem =
                format!("{} has ended its stream after {count} messages", uri::shown(&request.uri));
            return Err(Fault::communication(500, problem));
        }
    }
    Ok(taken.messages)
}

/// Time of a subscription, and whether its end is one as it should be: that of «for» is, that of
/// the task is not.
fn time_of(effect: &Effect<'_, '_>, it: &Subscription) -> Result<(Option<Duration>, bool), Fault> {
    let passed = effect.since.map(|since| effect.env.around.now.since(since)).unwrap_or_default();
    let left = |span: &Option<Span>| {
        let whole = span.as_ref().map(|span| effect.env.duration(span)).transpose()?;
        Ok::<_, Fault>(whole.map(|whole| whole.saturating_sub(passed)))
    };
    let (during, limit) = (left(&it.during)?, left(&it.limit)?.or(effect.call.limit));
    let has_end = during.is_some_and(|during| limit.is_none_or(|limit| during < limit));
    Ok((if has_end { during } else { limit }, has_end))
}

/// The messages of a subscription at a broker. They are acknowledged when they are stored.
pub(super) fn receive(
    effect: &mut Effect<'_, '_>,
    channel: &BrokerChannel,
    it: &Subscription,
) -> Result<Value, Fault> {
    let (received, messages) = {
        let effect = &*effect;
        let mut taken = Taken { effect, it, messages: json!([]), count: 0, size: 0 };
        if taken.is_over()? {
            return Ok(json!([]));
        }
        let (limit, has_end) = time_of(effect, it)?;
        let mut fault = None;
        let mut is_enough = |message: Option<&BrokerMessage>| match message {
            None => has_end,
            Some(message) => taken.take_message(message).unwrap_or_else(|wrong| {
                fault = Some(wrong);
                true
            }),
        };
        let received = effect.io.receive(channel, &mut is_enough, &effect.call.within(limit));
        if let Some(fault) = fault {
            return Err(fault);
        }
        let is_late = |kind| kind == IoErrorKind::TimedOut && has_end && taken.count == 0;
        match received {
            Err(error) if is_late(error.kind) => return Ok(taken.messages),
            received => (received.map_err(fault_of)?, taken.messages),
        }
    };
    effect.receipt = Some(received);
    Ok(messages)
}

/// Takes messages until there are enough; false if the stream has ended before.
fn judge(
    taken: &mut Taken<'_, '_, '_>,
    messages: &Receiver<String>,
    verdict: &SyncSender<bool>,
    has_ended: &dyn Fn() -> bool,
) -> Result<bool, Fault> {
    loop {
        let text = match messages.recv_timeout(LOOK) {
            Ok(text) => text,
            Err(RecvTimeoutError::Timeout) if !has_ended() => continue,
            Err(_) => return Ok(false),
        };
        let is_over = taken.take(&text);
        // The request may have ended meanwhile, and its end is told by its answer.
        let _gone = verdict.send(!matches!(is_over, Ok(false)));
        if is_over? {
            return Ok(true);
        }
    }
}

/// The events that are there to their end, an empty line, and how many bytes they have.
fn whole_events(bytes: &[u8]) -> (Vec<String>, usize) {
    let end = |mark: &[u8]| {
        let at = bytes.windows(mark.len()).rposition(|part| part == mark);
        at.map_or(0, |at| at + mark.len())
    };
    let end = end(b"\n\n").max(end(b"\r\n\r\n"));
    let all = events(&String::from_utf8_lossy(&bytes[..end]));
    (all.into_iter().filter(|event| !event.is_empty()).collect(), end)
}

/// The way of messages to their judge.
struct Parts {
    message: SyncSender<String>,
    verdicts: Receiver<bool>,
}

impl Parts {
    /// Takes the messages that have come out of the answer: the limit of a body counts for each of
    /// them, and a stream may go on for as long as it likes.
    fn are_enough(&self, answer: &mut HttpResponse) -> bool {
        if !is_stream(answer) || !(200..300).contains(&answer.status) {
            return false;
        }
        let (events, end) = whole_events(&answer.body);
        answer.body.drain(..end);
        events.into_iter().any(|event| {
            // Without a judge there are enough.
            self.message.send(event).is_err() || self.verdicts.recv().unwrap_or(true)
        })
    }
}

/// The messages so far.
struct Taken<'a, 'b, 'e> {
    effect: &'a Effect<'b, 'e>,
    it: &'a Subscription,
    /// A list, as expressions want it.
    messages: Value,
    count: u64,
    size: usize,
}

impl Taken<'_, '_, '_> {
    /// Takes an event of a stream.
    fn take(&mut self, text: &str) -> Result<bool, Fault> {
        let payload = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        self.take_value(json!({ "payload": payload }), text.len())
    }

    /// Takes a message of a broker: its body is JSON, else a text, else base64.
    fn take_message(&mut self, message: &BrokerMessage) -> Result<bool, Fault> {
        let payload = match std::str::from_utf8(&message.body) {
            Ok("") => Value::Null,
            Ok(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            Err(_) => json!(STANDARD.encode(&message.body)),
        };
        let mut size = message.body.len();
        let mut value = json!({ "payload": payload });
        let headers = message.headers.iter().map(|(name, value)| {
            size += name.len() + value.len();
            (name.clone(), json!(value))
        });
        let headers: Map<String, Value> = headers.collect();
        if !headers.is_empty() {
            value["headers"] = Value::Object(headers);
        }
        if let Some(correlation) = &message.correlation {
            value["correlationId"] = json!(correlation);
        }
        self.take_value(value, size)
    }

    /// Takes a message if it passes the filter. True if no further ones are wanted.
    fn take_value(&mut self, message: Value, size: usize) -> Result<bool, Fault> {
        let env = &self.effect.env;
        if let Some(filter) = &self.it.filter {
            if !env.holds(filter, &message, EFFECT)? {
                return Ok(false);
            }
        }
        self.size += size;
        self.count += 1;
        if self.size > HTTP_BODY_MAX || self.count > SUBSCRIPTION_MESSAGES_MAX {
            let problem = "the messages are too many: at most";
            let problem =
                format!("{problem} {SUBSCRIPTION_MESSAGES_MAX} of {HTTP_BODY_MAX} bytes are taken");
            return Err(Fault::runtime(problem));
        }
        if let Value::Array(messages) = &mut self.messages {
            messages.push(message);
        }
        if self.it.is_single {
            return Ok(true);
        }
        if let Some(condition) = &self.it.whilst {
            if !env.holds(condition, &self.messages, EFFECT)? {
                return Ok(true);
            }
        }
        self.is_over()
    }

    /// Whether there are enough, before the next message.
    fn is_over(&self) -> Result<bool, Fault> {
        if self.it.is_single {
            return Ok(false);
        }
        if self.it.amount.is_some_and(|amount| self.count >= amount) {
            return Ok(true);
        }
        match &self.it.until {
            Some(text) => self.effect.env.holds(text, &self.messages, EFFECT),
            None => Ok(false),
        }
    }
}
