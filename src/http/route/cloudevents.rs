//! Events from outside: CloudEvents 1.0 over HTTP, in structured, binary and batch mode.

use std::borrow::Cow;

use axum::extract::State;
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::Json as Answer;
use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use turnwheel_flow::limits::RECENT_EVENTS;
use turnwheel_flow::{CloudEvent, Flows};
use utoipa::IntoParams;

use super::plans::page;
use crate::api::{EventTaker, EventsDone, PublishedEvent, RecentEvent, RecentEvents};
use crate::http::body::{content_type, parse, Query, Raw, Who};
use crate::http::code::Code;
use crate::http::limits::EVENTS_AT_ONCE;
use crate::http::problem::Problem;
use crate::http::state::Api;
use crate::http::trace;
use crate::shape;

/// Publishes events: CloudEvents 1.0 in structured, binary or batch mode
///
/// The answer comes when each is durable with all its listeners. The same event again, by source
/// and id, changes nothing for steps that have got it and plans that began with it, so a request
/// may be repeated: `repeated` is the number of those, and they do not count as `delivered`. A step
/// that waits no more, such as one that has ended with the event, is not asked. A task whose filter
/// has a variable or a correlation decides itself whether it takes an event: `undecided` is the
/// number of those. `each` has the outcome of each event of a batch.
#[utoipa::path(
    post, path = "/events", tag = "flows", operation_id = "publishEvents",
    request_body(content(
        (Value = "application/cloudevents+json"), (Vec<Value> = "application/cloudevents-batch+json"),
    )),
    responses((status = 200, description = "They are durable", body = EventsDone)),
)]
pub(in crate::http) async fn publish(
    State(api): State<Api>,
    Who(who): Who,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Answer<EventsDone>, Problem> {
    api.takes_work()?;
    let flows = Flows::new(api.world())?;
    let events = read(&headers, &body)?;
    let mut done = EventsDone { events: events.len() as u32, ..EventsDone::default() };
    for event in events {
        let (source, id) = (event.source.clone(), event.id.clone());
        let on = format!("{source} {id}");
        let published = flows.publish(event).await;
        let outcome = published.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
        trace::audit(&who, "publish", &on, &outcome);
        let published = published?;
        let event = PublishedEvent {
            source,
            id,
            is_repeated: published.is_repeated(),
            delivered: number(published.delivered),
            undecided: number(published.undecided),
            repeated: number(published.repeated),
            started: published.started.iter().map(ToString::to_string).collect(),
        };
        done.delivered += event.delivered;
        done.undecided += event.undecided;
        done.repeated += event.repeated;
        done.started.extend(event.started.iter().cloned());
        done.each.push(event);
    }
    Ok(Answer(done))
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The requested events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct RecentQuery {
    /// Maximum number of events; 500 at most.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// Events that were published on this node lately, newest first
///
/// Each with the tasks that got it and the plans that began with it; events that nobody took are
/// there too. They are in memory only: a node that has begun anew knows none of before.
#[utoipa::path(
    get, path = "/events/recent", tag = "flows", operation_id = "listRecentEvents",
    params(RecentQuery),
    responses((status = 200, description = "The newest events", body = RecentEvents)),
)]
pub(in crate::http) async fn recent(
    State(api): State<Api>,
    Query(query): Query<RecentQuery>,
) -> Result<Answer<RecentEvents>, Problem> {
    let limit = page(query.limit, RECENT_EVENTS)?;
    let flows = Flows::new(api.world())?;
    let events = flows.recent(limit).into_iter().map(shown).collect();
    Ok(Answer(RecentEvents { events, unheard: flows.unheard() }))
}

/// A published event as the API shows it.
fn shown(event: turnwheel_flow::RecentEvent) -> RecentEvent {
    let taker = |it: turnwheel_flow::Taker| EventTaker {
        plan: it.plan.to_string(),
        step: it.step.0,
        flow: it.flow,
        task: it.task,
    };
    let published = event.published;
    RecentEvent {
        at: shape::time(event.at),
        kind: event.kind,
        source: event.source,
        subject: event.subject,
        id: event.id,
        delivered: number(published.delivered),
        undecided: number(published.undecided),
        repeated: number(published.repeated),
        takers: published.takers.into_iter().map(taker).collect(),
        started: published.started.iter().map(ToString::to_string).collect(),
    }
}

/// Allows a sender of events to use this address (the handshake of HTTP webhooks for CloudEvents)
///
/// The sender names itself in `WebHook-Request-Origin`, and the answer allows it: whoever has a token
/// that may send events may send them at any rate that the server takes.
#[utoipa::path(
    options, path = "/events", tag = "flows", operation_id = "allowEvents",
    params(("WebHook-Request-Origin" = Option<String>, Header, description = "The sender")),
    responses((status = 204, description = "`WebHook-Allowed-Origin` and `WebHook-Allowed-Rate`")),
)]
pub(in crate::http) async fn allow(headers: HeaderMap) -> Response {
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let told = answer.headers_mut();
    told.insert(header::ALLOW, HeaderValue::from_static("GET, POST, OPTIONS"));
    if let Some(origin) = headers.get("webhook-request-origin") {
        told.insert("webhook-allowed-origin", origin.clone());
        told.insert("webhook-allowed-rate", HeaderValue::from_static("*"));
    }
    answer
}

fn wrong(detail: impl Into<String>) -> Problem {
    Problem::new(Code::EventInvalid, detail)
}

/// The events of a body, whatever their mode.
pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<Vec<CloudEvent>, Problem> {
    let event =
        |value: Value| CloudEvent::from_value(value).map_err(|error| wrong(error.to_string()));
    let nth = |(number, value): (usize, Value)| {
        let id = value.get("id").and_then(Value::as_str).map(|id| format!(" («{id}»)"));
        CloudEvent::from_value(value).map_err(|error| {
            wrong(format!(
                "event {}{}, and none was taken: {error}",
                number + 1,
                id.unwrap_or_default()
            ))
        })
    };
    match content_type(headers).as_str() {
        "application/cloudevents+json" => Ok(vec![event(parse(body)?)?]),
        "application/cloudevents-batch+json" => {
            let values: Vec<Value> = parse(body)?;
            if values.len() > EVENTS_AT_ONCE {
                return Err(wrong(format!("a batch has at most {EVENTS_AT_ONCE} events")));
            }
            values.into_iter().enumerate().map(nth).collect()
        }
        _ if headers.contains_key("ce-specversion") => Ok(vec![event(binary(headers, body)?)?]),
        kind => Err(Problem::new(
            Code::BodyTypeWrong,
            format!(
                "«{kind}» is no event: send application/cloudevents+json, a batch of them as \
                 application/cloudevents-batch+json, or the attributes in headers that begin with ce-"
            ),
        )),
    }
}

/// An event whose attributes are headers, and whose data is the body.
fn binary(headers: &HeaderMap, body: &[u8]) -> Result<Value, Problem> {
    let mut fields = Map::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix("ce-") else { continue };
        let text = value.to_str().map_err(|_| wrong(format!("the header ce-{name} is no text")))?;
        fields.insert(name.to_owned(), Value::String(decoded(&unquoted(text))));
    }
    let kind = content_type(headers);
    if let Some(given) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) {
        fields.insert("datacontenttype".to_owned(), Value::String(given.to_owned()));
    }
    let is_json = kind == "application/json" || kind.ends_with("+json");
    if body.is_empty() {
        return Ok(Value::Object(fields));
    }
    if is_json {
        fields.insert("data".to_owned(), parse(body)?);
    } else if let (true, Ok(text)) = (kind.starts_with("text/"), std::str::from_utf8(body)) {
        fields.insert("data".to_owned(), Value::String(text.to_owned()));
    } else {
        let text = base64::engine::general_purpose::STANDARD.encode(body);
        fields.insert("data_base64".to_owned(), Value::String(text));
    }
    Ok(Value::Object(fields))
}

/// The value of a header without its quotes, if it has some: senders may quote a value with spaces.
fn unquoted(text: &str) -> Cow<'_, str> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let Some(inner) = inner else { return Cow::Borrowed(text) };
    let (mut plain, mut is_escaped) = (String::with_capacity(inner.len()), false);
    for sign in inner.chars() {
        is_escaped = sign == '\\' && !is_escaped;
        if !is_escaped {
            plain.push(sign);
        }
    }
    Cow::Owned(plain)
}

/// The value of a header, in which anything but visible ASCII is written with `%`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_headers_are_decoded() {
        assert_eq!(decoded("a%20b%C3%A4"), "a bä");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
        assert_eq!(decoded("%FF"), "%FF");
        assert_eq!(unquoted(r#""a \"b\" \\ c""#), r#"a "b" \ c"#);
        assert_eq!(unquoted("plain"), "plain");
        assert_eq!(unquoted("\""), "\"");
    }
}
