//! Sessions of browsers: a token is given once, and a cookie stands for it until it ends.
//!
//! The cookie is no secret of the operator: it is random, scripts cannot read it (`HttpOnly`), and a
//! browser sends it with requests of our own pages only (`SameSite=Strict`). Sessions are in memory:
//! a restart ends them.

use std::collections::HashMap;
use std::time::Instant;

use axum::http::{header, HeaderMap, HeaderValue};
use parking_lot::Mutex;

use super::access::Principal;
use super::code::Code;
use super::limits::{SESSIONS_MAX, SESSION_LENGTH, SIGN_IN_AT_ONCE, SIGN_IN_PER_SECOND};
use super::problem::Problem;
use super::rate::Rates;

/// The name of the cookie.
const COOKIE: &str = "turnwheel-session";

/// Random bytes of a session.
const BYTES: usize = 32;

/// Under which all who try to sign in are counted: an address would be the proxy's.
const EVERYBODY: &str = "sign-in";

/// The sessions of a server.
#[derive(Debug)]
pub(super) struct Sessions {
    known: Mutex<HashMap<String, Session>>,
    attempts: Rates,
}

#[derive(Debug)]
struct Session {
    principal: Principal,
    ends: Instant,
}

impl Default for Sessions {
    fn default() -> Self {
        let attempts = Rates::new(Some((SIGN_IN_PER_SECOND, SIGN_IN_AT_ONCE)));
        Self { known: Mutex::default(), attempts }
    }
}

impl Sessions {
    /// Counts an attempt to sign in; too many have to wait.
    pub(super) fn attempt(&self) -> Result<(), Problem> {
        self.attempts.take(EVERYBODY).map_err(|seconds| {
            let detail = format!("too many have tried to sign in: wait {seconds} s");
            Problem::new(Code::TooManyRequests, detail).again_after(seconds)
        })
    }

    /// Begins a session; the value of its cookie.
    pub(super) fn begin(&self, principal: Principal, is_tls: bool) -> Result<HeaderValue, Problem> {
        let mut secret = [0; BYTES];
        getrandom::fill(&mut secret).map_err(|error| {
            Problem::new(Code::Internal, format!("there are no random numbers: {error}"))
        })?;
        let id: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let (cookie, now) = (cookie(&id, SESSION_LENGTH.as_secs(), is_tls)?, Instant::now());
        let mut known = self.known.lock();
        known.retain(|_, session| session.ends > now);
        if known.len() >= SESSIONS_MAX {
            let first = known.iter().min_by_key(|(_, session)| session.ends);
            let first = first.map(|(id, _)| id.clone()).unwrap_or_default();
            known.remove(&first);
        }
        known.insert(id, Session { principal, ends: now + SESSION_LENGTH });
        Ok(cookie)
    }

    /// The principal of the session in a request's cookie.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<Principal> {
        let id = id_of(headers)?;
        let known = self.known.lock();
        let session = known.get(id).filter(|session| session.ends > Instant::now());
        session.map(|session| session.principal.clone())
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        self.known.lock().clear();
    }

    /// Ends the session of a request; the value that takes its cookie away.
    pub(super) fn end(&self, headers: &HeaderMap, is_tls: bool) -> Result<HeaderValue, Problem> {
        if let Some(id) = id_of(headers) {
            self.known.lock().remove(id);
        }
        cookie("", 0, is_tls)
    }
}

/// Whether a request brings a session, one that is known or not.
pub(super) fn has_session(headers: &HeaderMap) -> bool {
    id_of(headers).is_some()
}

fn id_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

fn cookie(id: &str, seconds: u64, is_tls: bool) -> Result<HeaderValue, Problem> {
    let secure = if is_tls { "; Secure" } else { "" };
    let text =
        format!("{COOKIE}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}
