//! The console: pages that a browser shows, embedded in the binary.
//!
//! The pages are files in `assets/`: one document, one style sheet, a few modules of JavaScript,
//! nothing from other sites. They call the API of the same router by relative addresses, so they
//! work under any path. They hold no secrets and need no token; the API does.
//! `tests/http/console.rs` checks that every link leads to a served file, and every request to an
//! operation of the API.
//!
//! | file | content |
//! | --- | --- |
//! | `app.js` | pages by address, navigation, keys, the token |
//! | `api.js` | requests, problems, events sent by the server |
//! | `dom.js` | elements from data, always as text |
//! | `format.js` | times, durations and numbers as people read them |
//! | `editor.js`, `flowgraph.js` | a flow as a text with problems at their lines, and as a graph |
//! | `overview.js`, `plans.js`, `plan.js`, `steps.js`, `picture.js`, `flows.js`, `schedules.js`, `entities.js`, `runtime.js`, `world.js` | the pages |

mod asset;

use axum::extract::{OriginalUri, Path};
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;

use asset::Asset;

/// Permissions of the pages: scripts, styles, pictures and requests of this server only; nothing
/// in-line; no page of another site may frame them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The pages as a router; it needs no state and no token.
pub(crate) fn pages<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(onward))
        .route("/console", get(onward))
        .route("/console/", get(document))
        .route("/console/{file}", get(file))
}

/// Redirects to the document. The address is relative to the requested one, so the prefix of a host
/// application or a proxy stays.
async fn onward(OriginalUri(uri): OriginalUri) -> Response {
    let (_, last) = uri.path().rsplit_once('/').unwrap_or_default();
    let to = match last {
        "" | "console" => "console/".to_owned(),
        mounted => format!("{mounted}/console/"),
    };
    let Ok(to) = HeaderValue::from_str(&to) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response()
}

async fn document(headers: HeaderMap) -> Response {
    answer("index.html", &headers)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, asked: &HeaderMap) -> Response {
    let Some(asset) = Asset::find(name) else {
        let advice = "there is no such file: begin at ./\n";
        return (StatusCode::NOT_FOUND, advice).into_response();
    };
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_static;
    headers.insert(header::CONTENT_SECURITY_POLICY, value(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, value("nosniff"));
    headers.insert(header::REFERRER_POLICY, value("no-referrer"));
    // A browser revalidates each time: another version of the program has other files with the same
    // names.
    headers.insert(header::CACHE_CONTROL, value("no-cache"));
    let tag = asset.tag();
    let known = asked.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| {
        known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag || one.trim() == "*")
    });
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    headers.insert(header::CONTENT_TYPE, value(asset.kind()));
    (headers, asset.text).into_response()
}
