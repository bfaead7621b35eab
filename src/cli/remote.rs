//! A server that is asked in place of the store: through the client of the API.

use std::io::BufRead as _;

use serde_json::Value;
use turnwheel::client::{Client, ClientError};

use super::exit::{Exit, NOT_FOUND};
use super::settings::Settings;

/// A server with the API of `turnwheel serve`.
#[derive(Debug)]
pub(crate) struct Remote {
    client: Client,
    address: String,
}

impl Remote {
    /// The server of the settings, else the one at its announced address.
    pub(crate) fn new(announced: &str, settings: &Settings) -> Result<Self, Exit> {
        let address = settings.text("server").unwrap_or(announced).trim_end_matches('/');
        let address = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let client = match settings.text("server-certificates") {
            Some(file) => {
                let wrong = |problem: &dyn std::fmt::Display| {
                    let advice =
                        "server-certificates names a file in PEM; turnwheel config print shows it";
                    Exit::usage(format!("the certificates {file}: {problem}")).advice(advice)
                };
                let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
                Client::trusting(&address, &pem).map_err(|error| wrong(&error))?
            }
            None => Client::new(&address),
        };
        let client = client.by(&settings.by());
        let client = match settings.text("token") {
            Some(token) => client.token(token),
            None => client,
        };
        Ok(Self { client, address })
    }

    /// Its address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Asks it something.
    pub(crate) fn ask<T>(
        &self,
        what: impl FnOnce(&Client) -> Result<T, ClientError>,
    ) -> Result<T, Exit> {
        what(&self.client).map_err(|error| self.refused(error))
    }

    /// Sends a request under `/api/v1`.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Exit> {
        let body = body.map(|body| body.to_string().into_bytes());
        self.ask(|client| client.call(method, path, &[], body))
    }

    /// Posts a text with its content type, and an idempotency key if there is one.
    pub(crate) fn post(
        &self,
        path: &str,
        kind: &str,
        text: String,
        key: Option<&str>,
    ) -> Result<Value, Exit> {
        let mut headers = vec![("content-type", kind)];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        self.ask(|client| client.call("POST", path, &headers, Some(text.into_bytes())))
    }

    /// Reads a stream of events under `/api/v1`; each has a name and data. Ends with the stream, or
    /// when `take` says so.
    pub(crate) fn events(
        &self,
        path: &str,
        mut take: impl FnMut(&str, Value) -> Result<bool, Exit>,
    ) -> Result<(), Exit> {
        let stream = self.ask(|client| client.open(path))?;
        let mut name = String::new();
        for line in std::io::BufReader::new(stream).lines() {
            let line = line.map_err(|error| {
                Exit::failed(format!("the stream of the server {} broke: {error}", self.address))
            })?;
            if let Some(text) = line.strip_prefix("event:") {
                name = text.trim().to_owned();
            } else if let Some(text) = line.strip_prefix("data:") {
                let data = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
                if take(&name, data)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn answered(&self, status: u16, detail: &str) -> Exit {
        let message = format!("the server {} says: {detail}", self.address);
        match status {
            403 => Exit::failed(message).advice(
                "its token has not the role for this: give one of the role operate in TURNWHEEL_TOKEN, or \
                 use another context (turnwheel context list)",
            ),
            401 => Exit::failed(message).advice(
                "give its token in TURNWHEEL_TOKEN, as token in the configuration, or in a context \
                 (turnwheel help context)",
            ),
            404 => Exit::new(NOT_FOUND, message),
            _ => Exit::failed(message),
        }
    }

    fn refused(&self, error: ClientError) -> Exit {
        let address = &self.address;
        match error {
            ClientError::Refused(problem) => self.answered(problem.status, &problem.detail),
            ClientError::Foreign { status, text } => {
                let said: Value = serde_json::from_str(&text).unwrap_or_default();
                let detail = said["detail"].as_str().or(said["title"].as_str());
                self.answered(status, detail.unwrap_or(&text))
            }
            ClientError::Lost { problem, .. } if problem.contains("CaUsedAsEndEntity") => {
                Exit::failed(format!(
                    "the server {address} shows the certificate of an authority (CA:TRUE), which no \
                     server may have"
                ))
                .advice(
                    "give the server a certificate that this authority has signed, or make the \
                     self-signed one with «openssl req -x509 … -addext \
                     basicConstraints=critical,CA:FALSE»",
                )
            }
            ClientError::Lost { problem, .. } => {
                let failed =
                    Exit::failed(format!("the server {address} does not answer: {problem}"));
                if address.starts_with("https:") && problem.contains("certificate") {
                    return failed.advice(
                        "name the file with the certificates to trust as server-certificates in the \
                         configuration, and the address that they are for as server",
                    );
                }
                failed.advice("look whether it is alive and whether this is its address")
            }
            other => Exit::failed(format!("the server {address}: {other}")),
        }
    }
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
