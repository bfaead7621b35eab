//! The console: pages that a browser shows, embedded in the binary.
//!
//! The pages are components of Preact with htm: files in `assets/` and two modules of others in
//! `vendored/`, served as they are, without a build step and with nothing from other sites. They call
//! the API of the same router by relative addresses, so they work under any path. They hold no
//! secrets and need no token; the API does. `tests/http/console.rs` checks that every link leads to a
//! served file, every request to an operation of the API, and the hashes of `vendored/VENDORED`.
//!
//! | file | content |
//! | --- | --- |
//! | `app.js`, `keys.js` | the shell: pages by address, navigation, keys, zone and colours, the token |
//! | `api.js`, `sse.js`, `live.js`, `resource.js` | requests, streams of events, what a view has loaded |
//! | `pointer.js` | presses of a mouse or a finger, which lose no click to news |
//! | `settings.js`, `theme.js`, `format.js` | what the reader chose; times, durations and numbers |
//! | `ui.js`, `dialogs.js`, `charts.js` | components that every view uses |
//! | `flow-graph.js`, `dag.js`, `step-graph.js` | drawings: a definition, boxes and arrows, steps |
//! | `overview.js`, `recent.js` | what fails, waits and was done lately |
//! | `runs.js`, `bulk.js` | the list of runs, orders for many |
//! | `run.js`, `run-state.js`, `run-orders.js`, `task.js`, `timeline.js`, `steps.js` | one run |
//! | `flows.js`, `flow.js`, `flow-start.js`, `editor.js`, `yaml.js` | flows, their start, and a flow as a text |
//! | `schedules.js`, `events.js` | schedules with their runs; events and dead letters |
//! | `jobs.js`, `job.js`, `job-form.js` | jobs, one job, its form |
//! | `journeys.js`, `journey.js`, `journey-graph.js`, `walk.js` | journeys, one with counts or a user, a walk by hand |
//! | `cluster.js`, `system.js`, `runtime.js`, `entities.js` | nodes and slots; queues, workers, entities |

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

/// Of files by their names alone: another version of the program has other files with these names.
const ASKED_AGAIN: &str = "no-cache";

/// Of files in the folder of their version, which never change: a year.
const KEPT: &str = "public, max-age=31536000, immutable";

/// The pages as a router; it needs no state and no token.
pub(crate) fn pages<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(onward))
        .route("/console", get(onward))
        .route("/console/", get(document))
        .route("/console/{file}", get(file))
        .route("/console/{version}/{file}", get(kept))
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
    answer(Asset::document(), ASKED_AGAIN, &headers)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match &*name {
        "index.html" => document(headers).await,
        _ => answer(Asset::find(&name), ASKED_AGAIN, &headers),
    }
}

/// A file in the folder of its version. A page of another version gets the file of now, and does
/// not keep it.
async fn kept(Path((version, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let is_now = version == asset::version();
    answer(Asset::find(&name), if is_now { KEPT } else { ASKED_AGAIN }, &headers)
}

fn answer(asset: Option<Asset>, keeps: &'static str, asked: &HeaderMap) -> Response {
    let Some(asset) = asset else {
        let advice = "there is no such file: begin at ./\n";
        return (StatusCode::NOT_FOUND, advice).into_response();
    };
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_static;
    headers.insert(header::CONTENT_SECURITY_POLICY, value(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, value("nosniff"));
    headers.insert(header::REFERRER_POLICY, value("no-referrer"));
    headers.insert(header::CACHE_CONTROL, value(keeps));
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
    (headers, asset.text.into_owned()).into_response()
}
