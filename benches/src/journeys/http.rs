//! Moves over HTTP: one request after the other on each of many connections, none in a batch.

use indicatif::ProgressBar;

use super::stage::{definition, user, PLATFORM, TOLD};
use super::Options;
use crate::engine::{rows, SceneRow};
use crate::error::BenchError;
use crate::requests::Requests;
use crate::serve_common::Place;

/// Microseconds of each of the events of new users, and the seconds that all took.
pub(super) fn load(
    options: &Options,
    addresses: &[String],
    first: u64,
) -> Result<(Vec<f64>, f64), BenchError> {
    let each = |number: u64| {
        let path = format!("/api/v1/platforms/{PLATFORM}/events");
        let user = user(number);
        let body = format!(
            r#"{{"specversion":"1.0","id":"{number}","source":"bench","type":"{TOLD}","subject":"{user}"}}"#
        );
        (path, body)
    };
    let content_type = "application/cloudevents+json";
    let requests = Requests { each, content_type, status: "200", part: "\"path\":[" };
    requests.send(addresses, options.connections, first..first + options.events, || true)
}

pub(super) fn moves(options: &Options, _bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let place = Place::new();
    let server = place.serve(&[]);
    let text = definition("P30D").replace("channel: none", "channel: log");
    let file = place.write("first.yaml", &text);
    place.ok(&["journey", "add", &file]);
    let sent = load(options, &[server.address().to_owned()], 0)?;
    server.stopped();
    let workload = format!("moves_http_{}_connections", options.connections);
    Ok(rows(&workload, "moves_per_s", sent))
}
