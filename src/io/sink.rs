//! Sinks: where events of flows are delivered to, CloudEvents in structured mode over HTTP.
//!
//! A delivery is signed as [Standard Webhooks](https://www.standardwebhooks.com) says, if there is a
//! secret for the sink: HMAC-SHA-256 over id, time and body.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;
use turnwheel_flow::{HttpRequest, HttpResponse, IoError, IoErrorKind};

/// A sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// Its address.
    pub url: String,
    /// The types of the events that it gets; `org.example.*` for all that begin so. All if there are
    /// none.
    pub types: Vec<String>,
    /// Whether it gets them one after the other: an event that it does not take holds up those after it
    /// until it is given up.
    pub is_ordered: bool,
}

impl Sink {
    /// Reads a file of sinks. A line has a name, an address, comma-separated types, and `ordered` if its
    /// order matters; without types `*` stands for them. Empty lines and lines that begin with `#` say
    /// nothing.
    ///
    /// # Errors
    ///
    /// A line has something else.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let mut sinks: Vec<Self> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let wrong = |problem: &str| Err(format!("line {}: {problem}", number + 1));
            let (name, url, types, is_ordered) = match words[..] {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [name, url] => (name, url, "", false),
                [name, url, types] => (name, url, types, false),
                [name, url, types, "ordered"] => (name, url, types, true),
                _ => return wrong("a sink is a name, an address and perhaps types and «ordered»"),
            };
            if !name.chars().all(|sign| sign.is_ascii_alphanumeric() || "-_".contains(sign)) {
                return wrong("the name of a sink has letters, digits, - and _");
            }
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                return wrong("the address of a sink begins with http:// or https://");
            }
            if sinks.iter().any(|sink| sink.name == name) {
                return wrong("another sink has this name");
            }
            let types = types.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned);
            let (name, url) = (name.to_owned(), url.to_owned());
            sinks.push(Self { name, url, types: types.collect(), is_ordered });
        }
        Ok(sinks)
    }

    /// Whether it gets events of a type.
    pub(super) fn wants(&self, kind: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(begin) => kind.starts_with(begin),
            None => pattern == kind,
        };
        self.types.is_empty() || self.types.iter().any(fits)
    }

    /// The name of the secret that its deliveries are signed with.
    pub(super) fn secret(&self) -> String {
        format!("sink-{}", self.name)
    }

    /// The request that delivers an event.
    pub(super) fn request(&self, event: &Value, id: &str, secret: Option<&Value>) -> HttpRequest {
        let body = event.to_string();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut headers = vec![
            ("content-type".to_owned(), "application/cloudevents+json; charset=utf-8".to_owned()),
            ("webhook-id".to_owned(), id.to_owned()),
            ("webhook-timestamp".to_owned(), time.to_string()),
        ];
        if let Some(Value::String(secret)) = secret {
            let signed = format!("{id}.{time}.{body}");
            let signature = STANDARD.encode(hmac(&key_of(secret), signed.as_bytes()));
            headers.push(("webhook-signature".to_owned(), format!("v1,{signature}")));
        }
        HttpRequest {
            method: "POST".to_owned(),
            uri: self.url.clone(),
            headers,
            body: Some(body.into_bytes()),
            follows_redirects: false,
            digest: None,
        }
    }

    /// Whether an answer says that the event was taken. An answer that says that it never will be is of
    /// the kind [`IoErrorKind::Forbidden`].
    pub(super) fn taken(&self, answer: &HttpResponse) -> Result<(), IoError> {
        let kind = match answer.status {
            200..=299 => return Ok(()),
            // Too early, too late, too many: another time.
            408 | 425 | 429 => IoErrorKind::Communication,
            300..=499 => IoErrorKind::Forbidden,
            _ => IoErrorKind::Communication,
        };
        let message = format!("the sink «{}» has answered {}", self.name, answer.status);
        Err(IoError::new(kind, message))
    }
}

/// The bytes of a secret: those behind `whsec_` are in base64.
fn key_of(secret: &str) -> Vec<u8> {
    let coded = secret.trim().strip_prefix("whsec_");
    let decoded = coded.and_then(|coded| STANDARD.decode(coded).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// HMAC-SHA-256.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let keyed = Hmac::<Sha256>::new_from_slice(key).expect("keys of all lengths are taken");
    keyed.chain_update(message).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn signature_is_that_of_the_standard() {
        // RFC 4231, cases 2 and 6.
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(
            hex(&hmac(&[0xaa; 131], long)),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
        assert_eq!(key_of("whsec_AQID"), [1, 2, 3]);
        assert_eq!(key_of("plain"), b"plain");
    }

    #[test]
    fn file_of_sinks_has_a_line_for_each() {
        let text =
            "# sinks\naudit https://a.example/in io.serverlessworkflow.*,x.y\n\nall http://b/\nrow http://c/ * ordered\n";
        let sinks = Sink::read_all(text).expect("it is right");
        assert_eq!((sinks.len(), sinks[1].url.as_str()), (3, "http://b/"));
        assert_eq!([0, 1, 2].map(|at| sinks[at].is_ordered), [false, false, true]);
        assert!(sinks[2].wants("anything"));
        assert!(sinks[0].wants("io.serverlessworkflow.task.started.v1") && sinks[0].wants("x.y"));
        assert!(!sinks[0].wants("x.y.z") && sinks[1].wants("x.y.z"));
        for wrong in [
            "a",
            "a ftp://x",
            "a http://x y z",
            "a http://x ordered z ordered",
            "a/b http://x",
            "a http://x\na http://y",
        ] {
            let problem = Sink::read_all(wrong).expect_err("it is wrong");
            assert!(problem.starts_with("line "), "{problem}");
        }
    }
}
