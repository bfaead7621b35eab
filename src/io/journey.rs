//! Channels of journeys: a message as a POST request, as a line of the log, or as a flow.

use std::time::Duration;

use serde_json::Value;
use turnwheel_engine::internal::WeakWorld;
use turnwheel_engine::{TriggerOptions, World};
use turnwheel_flow::{Flows, HttpRequest, Io, IoCall, IoErrorKind};
use turnwheel_journeys::{Channel, Channels, Message, Unsent};
use turnwheel_runtime::completion::block_on;

use super::flow_names::named;
use super::HostIo;

/// Time that a request may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Name of the channel of journeys that starts flows.
pub const FLOW_CHANNEL: &str = "flow";

impl HostIo {
    /// The [channels](HostIo::channels) and `flow`, which starts the flow that the field `flow` of a
    /// message names (`NAME`, `NAMESPACE/NAME` or `NAMESPACE/NAME:VERSION`) with its field `input`,
    /// once for each key of a message.
    pub fn channels_in(&self, world: &World) -> Channels {
        self.channels().with(FLOW_CHANNEL, Start(Some(WeakWorld::new(world))))
    }

    /// The same to read definitions for, without a world: a message through `flow` is not sent.
    pub fn channels_to_check(&self) -> Channels {
        self.channels().with(FLOW_CHANNEL, Start(None))
    }

    /// Channels for journeys: `http` posts the field `body` of a message to its field `url`, with
    /// the message's key in the header `Idempotency-Key`; `log` writes it to the log, and so does
    /// `message`, the channel of actions that name none.
    pub fn channels(&self) -> Channels {
        let io = self.clone();
        let log = |message: &Message| {
            let Message { key, user, element, body, .. } = message;
            tracing::info!(%key, user, element, %body, "message of a journey");
            Ok(())
        };
        let channels = Channels::new().with("http", Post(io));
        channels.with_direct("log", log).with_direct("message", log)
    }
}

/// The channel `flow`.
struct Start(Option<WeakWorld>);

impl Channel for Start {
    fn send(&self, message: &Message) -> Result<(), Unsent> {
        let world = self.0.as_ref().and_then(WeakWorld::upgrade);
        let world = world.ok_or_else(|| Unsent::Again("the world ends".to_owned()))?;
        start(&world, message)
    }

    fn check(&self, with: &Value) -> Result<(), String> {
        has_text(with, "flow", "NAME")
    }
}

/// Refuses content without a field that is a text, unless the whole of it is an expression.
fn has_text(with: &Value, field: &str, example: &str) -> Result<(), String> {
    let found = match with {
        Value::String(text) if text.trim().starts_with("${") => return Ok(()),
        with => with.get(field),
    };
    match found {
        Some(Value::String(_)) => Ok(()),
        Some(_) => Err(format!("the «{field}» of its «with» is no text")),
        None => Err(format!("its «with» has no «{field}»: with: {{ {field}: {example} }}")),
    }
}

/// The channel `http`.
struct Post(HostIo);

impl Channel for Post {
    fn send(&self, message: &Message) -> Result<(), Unsent> {
        post(&self.0, message)
    }

    fn check(&self, with: &Value) -> Result<(), String> {
        has_text(with, "url", "'https://example.org/hook'")
    }

    /// The host and port of the address.
    fn receiver(&self, message: &Message) -> String {
        let url = message.body.get("url").and_then(Value::as_str);
        url.map(receiver_of).unwrap_or_default()
    }
}

/// The host and port of an address, without the name and password of a user: others share its
/// place.
fn receiver_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.to_ascii_lowercase()
}

/// Starts a flow, with the key of the message.
fn start(world: &World, message: &Message) -> Result<(), Unsent> {
    let again = |problem: &dyn std::fmt::Display| Unsent::Again(problem.to_string());
    let name = message.body.get("flow").and_then(Value::as_str);
    let name = name.ok_or_else(|| Unsent::Never("«with» has no «flow»".to_owned()))?;
    let flows = Flows::new(world).map_err(|error| again(&error))?;
    let looked = block_on(flows.look_again()).map_err(|error| again(&error))?;
    looked.map_err(|error| again(&error))?;
    // One that is not there may be added later.
    let flow = named(&flows, name).map_err(Unsent::Again)?;
    let Message { key, user, journey, element, .. } = message;
    let options = TriggerOptions::new().by(format!("journey {journey}")).key(key);
    let options = options.label("journey", journey).label("user", user).label("element", element);
    let input = message.body.get("input").cloned().unwrap_or_default();
    let started = flows.start_with(&flow, input, options).wait();
    started.map(drop).map_err(|error| again(&error))
}

fn post(io: &HostIo, message: &Message) -> Result<(), Unsent> {
    let never = |problem: &str| Unsent::Never(problem.to_owned());
    let url = message.body.get("url").and_then(|url| url.as_str());
    let url = url.ok_or_else(|| never("«with» has no «url»"))?;
    let mut headers = headers(message.body.get("headers")).map_err(Unsent::Never)?;
    headers.push(("content-type".to_owned(), "application/json".to_owned()));
    headers.push(("idempotency-key".to_owned(), message.key.clone()));
    let body = message.body.get("body").unwrap_or(&message.body).to_string();
    let request = HttpRequest {
        method: "POST".to_owned(),
        uri: url.to_owned(),
        headers,
        body: Some(body.into_bytes()),
        follows_redirects: true,
        digest: None,
    };
    let is_cancelled = || false;
    let call = IoCall::new(&message.key, &is_cancelled).limit(Some(LIMIT));
    let answer = io.http(&request, &call).map_err(|error| match error.kind {
        IoErrorKind::Unsupported => Unsent::Never(error.message),
        _ => Unsent::Again(error.message),
    })?;
    taken(answer.status)
}

/// The headers of a message. Numbers and booleans are texts there; what is null is left out.
fn headers(given: Option<&Value>) -> Result<Vec<(String, String)>, String> {
    let given = match given {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err("«headers» is no object of names and values".to_owned()),
    };
    let header = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) => Some(Ok((name.clone(), text.clone()))),
        Value::Number(_) | Value::Bool(_) => Some(Ok((name.clone(), value.to_string()))),
        Value::Array(_) | Value::Object(_) => {
            Some(Err(format!("the header «{name}» is no text, number or boolean")))
        }
    };
    given.iter().filter_map(header).collect()
}

/// Whether a message was taken. One that may be taken later is sent again.
fn taken(status: u16) -> Result<(), Unsent> {
    match status {
        200..=299 => Ok(()),
        // It refuses the message itself: the same one again would change nothing.
        400 | 401 | 403 | 405 | 410 | 413 | 414 | 415 | 422 => {
            Err(Unsent::Never(format!("status {status}")))
        }
        status => Err(Unsent::Again(format!("status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_that_can_never_be_sent_is_refused() {
        let said = |with: Value| has_text(&with, "url", "U").err().unwrap_or_default();
        for fine in
            [json!({ "url": "http://a" }), json!({ "url": "${ .user.u }" }), json!("${ .data }")]
        {
            assert_eq!(said(fine.clone()), "", "{fine}");
        }
        for lacking in
            [json!(null), json!({}), json!({ "ulr": "http://a" }), json!("http://a"), json!([1])]
        {
            assert_eq!(
                said(lacking.clone()),
                "its «with» has no «url»: with: { url: U }",
                "{lacking}"
            );
        }
        assert_eq!(said(json!({ "url": 7 })), "the «url» of its «with» is no text");
    }

    #[test]
    fn headers_are_texts_or_a_problem() {
        let said = |given: Value| headers(Some(&given));
        let own = |text: &str| vec![("x".to_owned(), text.to_owned())];
        for (given, text) in [(json!("a"), "a"), (json!(7), "7"), (json!(true), "true")] {
            assert_eq!(said(json!({ "x": given })), Ok(own(text)));
        }
        assert_eq!((headers(None), said(json!(null))), (Ok(vec![]), Ok(vec![])));
        assert_eq!(said(json!({ "x": null })), Ok(vec![]));
        let problem = said(json!({ "x": ["a"] })).expect_err("a list");
        assert_eq!(problem, "the header «x» is no text, number or boolean");
        assert!(said(json!("x: a")).is_err());
    }

    #[test]
    fn messages_to_one_host_have_one_receiver() {
        for (url, receiver) in [
            ("https://Mail.example/a/b?c", "mail.example"),
            ("http://ann:word@mail.example:8080?x@y", "mail.example:8080"),
            ("http://[::1]:9/x", "[::1]:9"),
            ("mail.example/a", "mail.example"),
            ("", ""),
        ] {
            assert_eq!(receiver_of(url), receiver, "{url}");
        }
    }

    #[test]
    fn only_a_message_that_is_refused_itself_is_given_up() {
        for status in [200, 202, 204] {
            assert_eq!(taken(status), Ok(()), "{status}");
        }
        for status in [400, 401, 403, 410, 413, 422] {
            assert_eq!(taken(status), Err(Unsent::Never(format!("status {status}"))));
        }
        // A service that starts, is full, or knows the user only a moment later takes it then.
        for status in [304, 404, 408, 409, 423, 425, 429, 500, 502, 503, 504] {
            assert_eq!(taken(status), Err(Unsent::Again(format!("status {status}"))));
        }
    }
}
