//! Requests that a page of another site makes the reader's browser send.
//!
//! A browser adds credentials by itself: a password of basic authentication, or nothing where this
//! machine is trusted. Two checks keep such requests from changing anything, for every access rule:
//!
//! 1. The browser names the origin of the page. `Sec-Fetch-Site` decides; a browser without it
//!    names the page in `Origin`, which has to be this host.
//! 2. Forms can send only three types of bodies (the safelist of the Fetch standard). A change
//!    needs another type, for which a browser sends a preflight request to another site.

use axum::extract::Request;
use axum::http::{header, HeaderMap};

use super::body::content_type;
use super::code::Code;
use super::problem::Problem;

/// Types of bodies that a form of any site can send.
const FORM_TYPES: [&str; 3] =
    ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];

/// The header of each CloudEvent in binary mode. A form cannot send it, for any type of body.
const CLOUD_EVENT: &str = "ce-specversion";

/// Refuses a change that a page of another site may have sent.
pub(super) fn refuse_other_sites(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    match text(headers, "sec-fetch-site") {
        Some("same-origin" | "none") => {}
        Some(site) => {
            let detail = format!("the browser says that the page is of another site («{site}»)");
            return Err(Problem::new(Code::OriginRefused, detail));
        }
        None => is_own_origin(request)?,
    }
    let kind = content_type(headers);
    // A page can also send bytes without a type; the browser then adds their length.
    let is_form = if kind.is_empty() {
        text(headers, header::CONTENT_LENGTH.as_str()).is_some_and(|length| length != "0")
    } else {
        FORM_TYPES.contains(&kind.as_str())
    };
    if is_form && !headers.contains_key(CLOUD_EVENT) {
        let detail = "a form of any site can send a body of this type: name its own type in \
                      «Content-Type», application/json or application/yaml";
        return Err(Problem::new(Code::BodyTypeWrong, detail));
    }
    Ok(())
}

/// Whether the page that sends the request, if the browser names it, is of the requested host.
pub(super) fn is_own_origin(request: &Request) -> Result<(), Problem> {
    let Some(origin) = text(request.headers(), header::ORIGIN.as_str()) else { return Ok(()) };
    let host = host(request).unwrap_or_default();
    let of = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    if of == host {
        return Ok(());
    }
    let detail = format!("the request comes from a page of «{origin}», not of «{host}»");
    Err(Problem::new(Code::OriginRefused, detail))
}

/// Refuses a request that names two hosts: a proxy may use the other one.
pub(super) fn refuse_two_hosts(request: &Request) -> Result<(), Problem> {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return Err(Problem::new(Code::HostRefused, "the request has two «Host» headers"));
    }
    Ok(())
}

/// The host that a request names.
pub(super) fn host(request: &Request) -> Option<&str> {
    let named = text(request.headers(), header::HOST.as_str());
    named.or_else(|| request.uri().authority().map(|authority| authority.as_str()))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}
