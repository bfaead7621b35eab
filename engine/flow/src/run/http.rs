//! HTTP calls.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Map, Value};

use super::auth;
use super::effect::{content, fault_of, Effect};
use super::uri::{self, encoded, with_query};
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::{header_problem, HttpRequest, HttpResponse};
use crate::model::{Http, HttpOutput};

/// Headers whose values are nobody's business.
const SECRET_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &Http) -> Result<Value, Fault> {
    let method = as_text(&effect.env.fill_own(&it.method)?).to_ascii_uppercase();
    let uri = uri::of(effect, &it.endpoint)?;
    let uri = match &it.query {
        Some(query) => with_query(&uri, &effect.env.fill_own(query)?)?,
        None => uri,
    };
    let mut request = HttpRequest {
        method,
        uri,
        headers: Vec::new(),
        body: None,
        follows_redirects: it.redirects,
        digest: None,
    };
    // First, because expressions of the request may show it.
    if let Some(policy) = &it.endpoint.authentication {
        auth::authenticate(effect, policy, &mut request)?;
    }
    if let Some(headers) = &it.headers {
        let headers = effect.env.fill_own(headers)?;
        add_headers(&mut request, &headers)?;
    }
    if let Some(body) = &it.body {
        let body = effect.env.fill_own(body)?;
        set_body(&mut request, &body);
    }
    send(effect, request, it.output, it.redirects)
}

pub(super) fn add_headers(request: &mut HttpRequest, headers: &Value) -> Result<(), Fault> {
    let Value::Object(fields) = headers else {
        return Err(Fault::expression(format!("headers must be an object, not {headers}")));
    };
    // A header that evaluates to null is left out, as in a query.
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let value = as_text(value);
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) || value.contains(['\r', '\n', '\0']) {
            return Err(Fault::configuration(format!("the header «{name}» cannot be sent")));
        }
        if let Some(problem) = header_problem(name) {
            return Err(Fault::configuration(problem));
        }
        request.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        request.headers.push((name.clone(), value));
    }
    Ok(())
}

/// Sends data: a text as it is, everything else as JSON, unless a header says that it is a form.
pub(super) fn set_body(request: &mut HttpRequest, body: &Value) {
    let kind = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map(|(_, value)| value.clone());
    let is_form = kind.as_deref().is_some_and(|kind| kind.contains("x-www-form-urlencoded"));
    let (bytes, default) = match body {
        Value::Null => return,
        Value::Object(fields) if is_form => (form(fields).into_bytes(), ""),
        Value::String(text) if kind.as_deref().is_none_or(|kind| !kind.contains("json")) => {
            (text.clone().into_bytes(), "text/plain; charset=utf-8")
        }
        body => (body.to_string().into_bytes(), "application/json"),
    };
    if kind.is_none() {
        request.headers.push(("Content-Type".to_owned(), default.to_owned()));
    }
    request.body = Some(bytes);
}

pub(super) fn form(fields: &Map<String, Value>) -> String {
    let fields = fields.iter().filter(|(_, value)| !value.is_null());
    let fields = fields.map(|(name, value)| (name, as_text(value)));
    let fields = fields.map(|(name, value)| format!("{}={}", encoded(name), encoded(&value)));
    fields.collect::<Vec<_>>().join("&")
}

/// Sends a request, and makes the output of the answer.
pub(super) fn send(
    effect: &Effect<'_, '_>,
    request: HttpRequest,
    output: HttpOutput,
    redirects: bool,
) -> Result<Value, Fault> {
    let mut shown = request.uri.clone();
    effect.mask(&mut shown);
    let mut response = effect.io.http(&request, &effect.call).map_err(fault_of)?;
    let limit = if redirects { 399 } else { 299 };
    if !(200..=limit).contains(&response.status) {
        return Err(status_fault(effect, &request, &response));
    }
    if output == HttpOutput::Raw || std::str::from_utf8(&response.body).is_err() {
        effect.hidden.mask_bytes(&mut response.body);
    }
    match output {
        HttpOutput::Raw => Ok(Value::String(STANDARD.encode(&response.body))),
        HttpOutput::Content => content(response.header("content-type"), &response.body),
        HttpOutput::Response => answer(effect, &request, &response, shown),
    }
}

/// A status that means failure, as a fault.
pub(super) fn status_fault(
    effect: &Effect<'_, '_>,
    request: &HttpRequest,
    response: &HttpResponse,
) -> Fault {
    let mut shown = uri::shown(&request.uri);
    effect.mask(&mut shown);
    let said = effect.said(&String::from_utf8_lossy(&response.body));
    let detail = format!("{} {shown} answered {}: {said}", request.method, response.status);
    Fault::communication(response.status, detail)
}

/// The full answer, as the DSL describes it. Secrets are masked.
fn answer(
    effect: &Effect<'_, '_>,
    request: &HttpRequest,
    response: &HttpResponse,
    uri: String,
) -> Result<Value, Fault> {
    let headers = |headers: &[(String, String)]| {
        let mut all = Map::new();
        for (name, value) in headers {
            let mut value = value.clone();
            effect.mask(&mut value);
            if SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
                "••••".clone_into(&mut value);
            }
            // A repeated header is a list, whose elements commas divide (RFC 9110, 5.2).
            match all.get_mut(name) {
                Some(Value::String(before)) => before.push_str(&format!(", {value}")),
                _ => drop(all.insert(name.clone(), Value::String(value))),
            }
        }
        Value::Object(all)
    };
    Ok(json!({
        "request": {
            "method": request.method.to_ascii_lowercase(),
            "uri": uri,
            "headers": headers(&request.headers),
        },
        "statusCode": response.status,
        "headers": headers(&response.headers),
        "content": content(response.header("content-type"), &response.body)?,
    }))
}
