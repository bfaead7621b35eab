//! Bodies and queries, read with limits; errors become problems.

use std::error::Error;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{header, HeaderMap};
use serde::de::DeserializeOwned;
use turnwheel_engine::{PlanId, StepId};

use super::access::{Principal, Role};
use super::code::Code;
use super::limits::{KEY_BYTES_MAX, STRANGER_BODY_WITHIN};
use super::problem::Problem;
use super::state::Api;
use super::told::told;

/// The bytes of a body.
pub(super) struct Raw(pub(super) Bytes);

impl FromRequest<Api> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        Self::read(request, api, api.options().body_within).await
    }
}

impl Raw {
    /// Reads a body whose sender has shown no token: it has less time.
    pub(super) async fn of_stranger(request: Request, api: &Api) -> Result<Self, Problem> {
        let within = api.options().body_within.min(STRANGER_BODY_WITHIN);
        Self::read(request, api, within).await
    }

    async fn read(request: Request, api: &Api, within: Duration) -> Result<Self, Problem> {
        let max = api.options().body_bytes_max;
        let too_large = || {
            let detail = format!(
                "the body has more than {max} bytes: keep large data in a file or object store, and \
                 pass its name"
            );
            Problem::new(Code::BodyTooLarge, detail)
        };
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > max) {
            return Err(too_large());
        }
        let bytes = axum::body::to_bytes(request.into_body(), max);
        match tokio::time::timeout(within, bytes).await {
            Ok(Ok(bytes)) => Ok(Self(bytes)),
            Ok(Err(error)) if is_length(&error) => Err(too_large()),
            Ok(Err(error)) => {
                let detail = format!("the body ended too early: {error}");
                Err(Problem::new(Code::BodyNotJson, detail))
            }
            Err(_) => {
                let detail = format!("the body did not come within {within:?}");
                Err(Problem::new(Code::BodyTooSlow, detail))
            }
        }
    }
}

fn is_length(error: &axum::Error) -> bool {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        source = error.source();
    }
    false
}

/// A body in JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let detail = "the body has to be JSON: send it with «Content-Type: application/json»";
            return Err(Problem::new(Code::BodyTypeWrong, detail));
        }
        let Raw(bytes) = Raw::from_request(request, api).await?;
        parse(&bytes).map(Self)
    }
}

/// Understands a body.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let code = match error.classify() {
            serde_json::error::Category::Data => Code::BodyInvalid,
            _ => Code::BodyNotJson,
        };
        Problem::new(code, format!("the body: {}", told(&error)))
    })
}

/// The type of a body, without its parameters, in lower case.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = content_type(headers);
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The query as a type.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let query = query.map_err(|rejection| {
            let why = rejection.source().map_or_else(|| rejection.to_string(), |e| e.to_string());
            Problem::new(Code::QueryInvalid, format!("the query: {why}"))
        })?;
        Ok(Self(query.0))
    }
}

async fn segment<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<String, Problem> {
    let segments = RawPathParams::from_request_parts(parts, state).await;
    let segments = segments.map_err(|rejection: RawPathParamsRejection| {
        Problem::new(Code::IdInvalid, format!("the path: {}", rejection.body_text()))
    })?;
    let found = segments.iter().find(|(known, _)| *known == name);
    Ok(found.map(|(_, value)| value.to_owned()).unwrap_or_default())
}

/// The plan in the path.
#[derive(Debug)]
pub(super) struct PlanAt(pub(super) PlanId);

impl<S: Send + Sync> FromRequestParts<S> for PlanAt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        plan_id(&segment(parts, state, "plan").await?).map(Self)
    }
}

/// The id of a plan.
pub(super) fn plan_id(text: &str) -> Result<PlanId, Problem> {
    text.parse().map_err(|error: turnwheel_engine::PlanIdError| {
        Problem::new(Code::IdInvalid, error.to_string())
    })
}

/// The step in the path.
#[derive(Debug)]
pub(super) struct StepAt(pub(super) StepId);

impl<S: Send + Sync> FromRequestParts<S> for StepAt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = segment(parts, state, "step").await?;
        text.parse().map(|step| Self(StepId(step))).map_err(|_| {
            let detail = format!("«{text}» is not the number of a step: they are counted from 1");
            Problem::new(Code::IdInvalid, detail)
        })
    }
}

/// The name in the path.
#[derive(Debug)]
pub(super) struct NameAt(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for NameAt {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        segment(parts, state, "name").await.map(Self)
    }
}

/// The parts of a path that are named, in their order.
#[derive(Debug)]
pub(super) struct Part<const N: usize>(pub(super) [String; N]);

impl<const N: usize, S: Send + Sync> FromRequestParts<S> for Part<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = RawPathParams::from_request_parts(parts, state).await;
        let segments = segments.map_err(|rejection: RawPathParamsRejection| {
            Problem::new(Code::IdInvalid, format!("the path: {}", rejection.body_text()))
        })?;
        let mut named = segments.iter().map(|(_, value)| value.to_owned());
        Ok(Self(std::array::from_fn(|_| named.next().unwrap_or_default())))
    }
}

/// The principal of a request, put there by the guard.
#[derive(Debug)]
pub(super) struct Who(pub(super) Principal);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> Result<Self, std::convert::Infallible> {
        let known = parts.extensions.get::<Principal>().cloned();
        Ok(Self(known.unwrap_or_else(|| Principal::new("nobody", Role::Read))))
    }
}

/// The idempotency key of a request, if it has one.
#[derive(Debug)]
pub(super) struct Key(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let wrong = |problem: &str| {
            let detail = format!("the header Idempotency-Key {problem}");
            Problem::new(Code::QueryInvalid, detail)
        };
        let text = value.to_str().map_err(|_| wrong("has to be visible ASCII"))?.trim();
        // The draft of the standard has it as a quoted text, most clients send it plain.
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let text = quoted.unwrap_or(text);
        if text.is_empty() {
            return Err(wrong("is empty"));
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(wrong(&format!("is longer than {KEY_BYTES_MAX} bytes")));
        }
        Ok(Self(Some(text.to_owned())))
    }
}
