//! The server that has a store: changes are requested from it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::tls::{parse_pem, Certificate, PemItem, RootCerts, TlsConfig};

use super::exit::{Exit, NOT_FOUND};
use super::settings::Settings;

/// Time limit of a server's answer.
const ANSWER: Duration = Duration::from_secs(60);

/// The most that is read of an answer, in bytes.
const ANSWER_MAX: u64 = 64 * 1_024 * 1_024;

/// A server with the API of `turnwheel serve`.
#[derive(Debug)]
pub(crate) struct Remote {
    agent: ureq::Agent,
    address: String,
    token: Option<String>,
    by: String,
}

impl Remote {
    /// The server at its announced address, or at the one of the settings.
    pub(crate) fn new(announced: &str, settings: &Settings) -> Result<Self, Exit> {
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER))
            .http_status_as_error(false)
            // The server is on this machine, where a proxy would not find it.
            .proxy(None);
        if let Some(file) = settings.text("server-certificates") {
            config = config.tls_config(trusting(file)?);
        }
        let address = settings.text("server").unwrap_or(announced);
        Ok(Self {
            agent: config.build().into(),
            address: address.trim_end_matches('/').to_owned(),
            token: settings.text("token").map(str::to_owned),
            by: settings.by(),
        })
    }

    /// Its address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request under `/api/v1`.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Exit> {
        let body = body.map(|body| ("application/json", body.to_string()));
        self.ask(method, path, body, None)
    }

    /// Posts a text with its content type, and an idempotency key if there is one.
    pub(crate) fn post(
        &self,
        path: &str,
        kind: &str,
        text: String,
        key: Option<&str>,
    ) -> Result<Value, Exit> {
        self.ask("POST", path, Some((kind, text)), key)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, String)>,
        key: Option<&str>,
    ) -> Result<Value, Exit> {
        let uri = format!("{}/api/v1{path}", self.address);
        let mut request = Request::builder()
            .method(method)
            .uri(&uri)
            .header("accept", "application/json")
            .header("x-turnwheel-by", &self.by);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let sent = match body {
            Some((kind, text)) => {
                let request = request.header("content-type", kind);
                self.agent.run(request.body(text).map_err(|error| self.unsendable(&error))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| self.unsendable(&error))?),
        };
        self.read(sent)
    }

    fn read(&self, sent: Result<Response<ureq::Body>, ureq::Error>) -> Result<Value, Exit> {
        let mut answer = sent.map_err(|error| {
            let failed =
                Exit::failed(format!("the server {} does not answer: {error}", self.address));
            if self.address.starts_with("https:") && error.to_string().contains("certificate") {
                return failed.advice(
                    "name the file with the certificates to trust as server-certificates in the \
                     configuration, and the address that they are for as server",
                );
            }
            failed.advice("it has the store; look whether it is alive, or stop it")
        })?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string();
        let text = text.map_err(|error| {
            Exit::failed(format!("the answer of the server {} broke off: {error}", self.address))
        })?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let detail = value["detail"].as_str().or(value["title"].as_str()).unwrap_or(&text);
        let message = format!("the server {} says: {detail}", self.address);
        Err(match status {
            401 | 403 => Exit::failed(message)
                .advice("give its token in TURNWHEEL_TOKEN or as token in the configuration"),
            404 => Exit::new(NOT_FOUND, message),
            _ => Exit::failed(message),
        })
    }

    fn unsendable(&self, error: &ureq::http::Error) -> Exit {
        Exit::failed(format!("nothing can be asked of the server {}: {error}", self.address))
    }
}

/// TLS that trusts only certificates signed by those of a file.
fn trusting(file: &str) -> Result<TlsConfig, Exit> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Exit::usage(format!("the certificates {file}: {problem}"))
            .advice("server-certificates names a file in PEM; turnwheel config print shows it")
    };
    let text = std::fs::read(file).map_err(|error| wrong(&error))?;
    let mut trusted: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(&error))? {
            trusted.push(certificate);
        }
    }
    if trusted.is_empty() {
        return Err(wrong(&"it holds no certificate"));
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(trusted))).build())
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
