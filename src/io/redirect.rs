//! Requests that an answer sends elsewhere: what goes along.

use turnwheel_flow::{HttpRequest, IoError, IoErrorKind};

use super::target::Target;

/// Words in the names of headers that are meant for one origin alone, such as `X-Api-Key`.
const CREDENTIALS: [&str; 10] = [
    "auth",
    "cookie",
    "credential",
    "jwt",
    "key",
    "pass",
    "secret",
    "session",
    "signature",
    "token",
];

/// A header with such a word that is no secret.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Headers that say something of a body.
const OF_BODY: [&str; 3] = ["content-type", "content-length", "transfer-encoding"];

/// Shorter texts of secrets are part of others by chance.
const SECRET_LENGTH_MIN: usize = 4;

/// Changes a request for a redirection from a target to another one.
///
/// # Errors
///
/// A body with a secret would be sent to another origin.
pub(super) fn redirect(
    request: &mut HttpRequest,
    status: u16,
    (from, to): (&Target, &Target),
    secrets: &[String],
) -> Result<(), IoError> {
    let becomes_get = match status {
        303 => request.method != "HEAD",
        301 | 302 => request.method == "POST",
        _ => false,
    };
    if becomes_get {
        request.method = "GET".to_owned();
        request.body = None;
        let is_of_body = |name: &str| OF_BODY.iter().any(|known| known.eq_ignore_ascii_case(name));
        request.headers.retain(|(name, _)| !is_of_body(name));
    }
    if !from.is_same_origin(to) {
        let is_secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            name != IDEMPOTENCY_KEY && CREDENTIALS.iter().any(|word| name.contains(word))
        };
        request.headers.retain(|(name, value)| !is_secret(name) && !has_secret(value, secrets));
        request.digest = None;
        let body = request.body.as_deref().map(String::from_utf8_lossy);
        if body.is_some_and(|body| has_secret(&body, secrets)) {
            let message = format!(
                "{} redirects to {}, which is another origin, and the body of the request holds a secret: \
                 ask that address itself, or leave the secret out",
                from.shown(),
                to.shown()
            );
            return Err(IoError::new(IoErrorKind::Forbidden, message));
        }
    }
    request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
    Ok(())
}

fn has_secret(text: &str, secrets: &[String]) -> bool {
    let is_in = |secret: &String| {
        text == secret || (secret.len() >= SECRET_LENGTH_MIN && text.contains(secret.as_str()))
    };
    secrets.iter().any(is_in)
}
