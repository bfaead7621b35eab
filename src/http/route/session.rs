//! Signing in and out, for browsers.

use axum::extract::{Request, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::Json as Answer;

use crate::api::{SessionInfo, SignIn};
use crate::http::access::{self, Principal};
use crate::http::body::{parse, Raw};
use crate::http::problem::Problem;
use crate::http::site;
use crate::http::state::Api;
use crate::http::trace;

/// The principal of the request
#[utoipa::path(
    get, path = "/session", tag = "system", operation_id = "getSession",
    responses((status = 200, description = "Who it is, and what they may do", body = SessionInfo)),
)]
pub(in crate::http) async fn get(State(api): State<Api>, request: Request) -> Response {
    match access::admit(&api, &request) {
        Ok(principal) => Answer(info(&principal)).into_response(),
        Err(problem) => access::refused(problem, &request),
    }
}

/// Signs in: a cookie stands for the token, until the session ends after twelve hours
///
/// For browsers; programs send their token with each request. Attempts are limited.
#[utoipa::path(
    post, path = "/session", tag = "system", operation_id = "signIn", request_body = SignIn,
    responses((status = 200, description = "The cookie comes with the answer", body = SessionInfo)),
)]
pub(in crate::http) async fn sign_in(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Problem> {
    site::refuse_two_hosts(&request)?;
    site::refuse_other_sites(&request)?;
    api.sessions().attempt()?;
    let is_tls = is_tls(&api, &request);
    let body = Raw::of_stranger(request, &api).await?;
    let SignIn { token } = parse(&body.0)?;
    let principal = match access::of_token(&api, &token) {
        Ok(principal) => principal,
        Err(problem) => return Ok(access::without_prompt(problem)),
    };
    let cookie = api.sessions().begin(principal.clone(), is_tls)?;
    trace::audit(&principal, "sign-in", "session", "done");
    Ok(([(header::SET_COOKIE, cookie)], Answer(info(&principal))).into_response())
}

/// Signs out: the session ends, and the cookie is taken back
#[utoipa::path(
    delete, path = "/session", tag = "system", operation_id = "signOut",
    responses((status = 204, description = "There is no session any more")),
)]
pub(in crate::http) async fn sign_out(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Problem> {
    site::refuse_two_hosts(&request)?;
    site::refuse_other_sites(&request)?;
    let cookie = api.sessions().end(request.headers(), is_tls(&api, &request))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Whether the browser speaks TLS, with us or with a proxy before us.
fn is_tls(api: &Api, request: &Request) -> bool {
    let said = request.headers().get("x-forwarded-proto");
    api.options().is_tls || said.is_some_and(|scheme| scheme == "https")
}

fn info(principal: &Principal) -> SessionInfo {
    SessionInfo { name: principal.name.to_string(), role: principal.role.name().to_owned() }
}
