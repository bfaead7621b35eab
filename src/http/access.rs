//! Access control of requests.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{header, HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;

use super::code::Code;
use super::problem::Problem;
use super::session;
use super::site;
use super::state::Api;

/// Header with the name of a user of this machine, if no tokens are needed.
const BY: &str = "x-turnwheel-by";

/// Bytes of such a name, at most: it is noted with each order.
const NAME_BYTES_MAX: usize = 100;

/// Role of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Look at everything, change nothing.
    Read,
    /// Begin plans, give orders, send events, change schedules.
    Operate,
}

impl Role {
    /// In lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }

    /// The role with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Read, Self::Operate].into_iter().find(|role| role.name() == name)
    }
}

/// The identity behind a request. A host application that knows its users puts one into the
/// extensions of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Name in histories and in the audit log.
    pub name: Arc<str>,
    /// Permissions of the principal.
    pub role: Role,
}

impl Principal {
    /// A principal with a role.
    pub fn new(name: &str, role: Role) -> Self {
        Self { name: Arc::from(name), role }
    }
}

/// A secret that identifies a principal. It is given as `Authorization: Bearer <secret>`, or as
/// basic authentication with the name and the secret as password.
#[derive(Clone)]
pub struct Token {
    principal: Principal,
    secret: Arc<str>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.principal).finish()
    }
}

impl Token {
    /// A secret with the name and role of its principal.
    pub fn new(name: &str, role: Role, secret: &str) -> Self {
        Self { principal: Principal::new(name, role), secret: Arc::from(secret) }
    }
}

/// Access rule of the server.
#[derive(Clone, Debug)]
pub enum Access {
    /// Every request that the host application lets through: with the [`Principal`] in the
    /// extensions of the request, else as `anonymous` with the role «operate».
    Host,
    /// Every user of this machine, as `local`. Requests that name another host, or come from a page
    /// of another site, are refused: a web page could make the reader's browser send them.
    Loopback,
    /// Holders of one of these tokens.
    Tokens(Vec<Token>),
}

/// Determines the principal of a request and checks it.
pub(super) async fn guard(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    if let Err(problem) = site::refuse_two_hosts(&request) {
        return problem.into_response();
    }
    let principal = match admit(&api, &request) {
        Ok(principal) => principal,
        Err(problem) => return refused(problem, &request),
    };
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_read && principal.role < Role::Operate {
        let (name, method) = (&principal.name, request.method());
        let detail = format!("«{name}» may read, and {method} changes something");
        return Problem::new(Code::Forbidden, detail).into_response();
    }
    if !is_read {
        if let Err(problem) = site::refuse_other_sites(&request) {
            return problem.into_response();
        }
    }
    // Without tokens the name is what the request says: another one must not be another bucket.
    let rated = match &*api.access() {
        Access::Loopback => "local",
        Access::Host | Access::Tokens(_) => &*principal.name,
    };
    if let Err(seconds) = api.rates().take(rated) {
        let detail = format!("«{}» asks too often: wait {seconds} s", principal.name);
        let problem = Problem::new(Code::TooManyRequests, detail).again_after(seconds);
        return problem.into_response();
    }
    request.extensions_mut().insert(principal);
    next.run(request).await
}

/// The answer to a refused request. A script of a page asks for a token itself.
pub(super) fn refused(problem: Problem, request: &Request) -> Response {
    match request.headers().contains_key("x-requested-with") {
        true => without_prompt(problem),
        false => problem.into_response(),
    }
}

/// The answer to a script of a page: without a challenge for a password, for which its browser would
/// show a prompt and hold the answer back.
pub(super) fn without_prompt(problem: Problem) -> Response {
    let mut answer = problem.into_response();
    let headers = answer.headers_mut();
    if headers.contains_key(header::WWW_AUTHENTICATE) {
        let token = HeaderValue::from_static("Bearer realm=\"turnwheel\"");
        headers.insert(header::WWW_AUTHENTICATE, token);
    }
    answer
}

pub(super) fn admit(api: &Api, request: &Request) -> Result<Principal, Problem> {
    match &*api.access() {
        Access::Host => {
            let known = request.extensions().get::<Principal>().cloned();
            Ok(known.unwrap_or_else(|| Principal::new("anonymous", Role::Operate)))
        }
        Access::Loopback => {
            refuse_strangers(request)?;
            Ok(Principal::new(name_of(request).unwrap_or("local"), Role::Operate))
        }
        Access::Tokens(tokens) => {
            let headers = request.headers();
            if headers.contains_key(header::AUTHORIZATION) || !session::has_session(headers) {
                return known(tokens, headers);
            }
            let found = api.sessions().find(headers);
            found.ok_or_else(|| Problem::new(Code::Unauthorized, "the session is over: sign in"))
        }
    }
}

fn known(tokens: &[Token], headers: &HeaderMap) -> Result<Principal, Problem> {
    let refused = |what: &str| {
        let detail =
            format!("{what}: send «Authorization: Bearer <token>», or the token as a password");
        Err(Problem::new(Code::Unauthorized, detail))
    };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, value)) = given.and_then(|given| given.split_once(' ')) else {
        return refused("the request has no token");
    };
    let (name, secret) = if scheme.eq_ignore_ascii_case("bearer") {
        (None, value.trim().to_owned())
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = base64::engine::general_purpose::STANDARD.decode(value.trim()).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let Some((name, secret)) = decoded.as_deref().and_then(|text| text.split_once(':')) else {
            return refused("the basic authentication cannot be understood");
        };
        (Some(name.to_owned()), secret.to_owned())
    } else {
        return refused("the scheme of the authorization is not known");
    };
    find(tokens, name.as_deref(), &secret).map_or_else(|| refused("the token is not known"), Ok)
}

/// The principal of a token with which a browser signs in.
pub(super) fn of_token(api: &Api, secret: &str) -> Result<Principal, Problem> {
    let found = match &*api.access() {
        Access::Tokens(tokens) => find(tokens, None, secret),
        Access::Host | Access::Loopback => None,
    };
    found.ok_or_else(|| Problem::new(Code::Unauthorized, "the token is not known"))
}

fn find(tokens: &[Token], name: Option<&str>, secret: &str) -> Option<Principal> {
    // All are compared, so that the time does not tell which one nearly fitted.
    let mut found = None;
    for token in tokens {
        let fits_name = name.is_none_or(|name| *name == *token.principal.name);
        if is_same(token.secret.as_bytes(), secret.as_bytes()) && fits_name {
            found = Some(token.principal.clone());
        }
    }
    found
}

/// Compares without telling by its time where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(differences) == 0 && one.len() == other.len()
}

/// The name that a user of this machine gives; without tokens it is not checked.
fn name_of(request: &Request) -> Option<&str> {
    let name = request.headers().get(BY)?.to_str().ok()?.trim();
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}

fn refuse_strangers(request: &Request) -> Result<(), Problem> {
    let Some(host) = site::host(request) else {
        return Err(Problem::new(Code::HostRefused, "the request names no host"));
    };
    if !is_local(host) {
        let detail = format!(
            "the request is for «{host}», and without tokens only this machine may ask, as \
             localhost, 127.0.0.1 or [::1]"
        );
        return Err(Problem::new(Code::HostRefused, detail));
    }
    site::is_own_origin(request)
}

fn is_local(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => inner.split_once(']').unwrap_or((inner, "]")),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |text: &str| text.bytes().all(|sign| sign.is_ascii_digit());
    if !rest.is_empty() && !rest.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:9", "127.1.2.3"] {
            assert!(is_local(host), "{host}");
        }
        let written = ["127.0.0.1:80.evil.example", "[::1].evil.example", "[::1", "localhost:x"];
        let others = ["evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]:80", ""];
        for host in others.into_iter().chain(written) {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn secrets_are_the_same_only_if_all_of_them_is() {
        assert!(is_same(b"abc", b"abc"));
        assert!(!is_same(b"abc", b"ab"));
        assert!(!is_same(b"abc", b"abcd"));
        assert!(!is_same(b"abc", b"abd"));
        assert!(!is_same(b"", b"a"));
    }
}
