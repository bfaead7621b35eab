//! The channel `http` of journeys: a message as a POST request.

use std::time::Duration;

use turnwheel_flow::{HttpRequest, Io, IoCall};
use turnwheel_journeys::{Channels, Message, Unsent};

use super::HostIo;

/// Time that a request may take.
const LIMIT: Duration = Duration::from_secs(30);

impl HostIo {
    /// Channels for journeys: `http` posts the field `body` of a message to its field `url`, with
    /// the message's key in the header `Idempotency-Key`; `log` writes it to the log.
    pub fn channels(&self) -> Channels {
        let io = self.clone();
        let log = |message: &Message| {
            let Message { key, user, element, body, .. } = message;
            tracing::info!(%key, user, element, %body, "message of a journey");
            Ok(())
        };
        Channels::new().with("http", move |message: &Message| post(&io, message)).with("log", log)
    }
}

fn post(io: &HostIo, message: &Message) -> Result<(), Unsent> {
    let never = |problem: &str| Unsent::Never(problem.to_owned());
    let url = message.body.get("url").and_then(|url| url.as_str());
    let url = url.ok_or_else(|| never("«with» has no «url»"))?;
    let given = message.body.get("headers").and_then(|headers| headers.as_object());
    let given = given.into_iter().flatten();
    let mut headers: Vec<(String, String)> = given
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
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
    let answer = io.http(&request, &call).map_err(|error| Unsent::Again(error.message))?;
    match answer.status {
        200..=299 => Ok(()),
        408 | 429 | 500..=599 => Err(Unsent::Again(format!("status {}", answer.status))),
        status => Err(Unsent::Never(format!("status {status}"))),
    }
}
