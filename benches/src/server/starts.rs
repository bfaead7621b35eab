//! Starts of a flow over HTTP, each durable before its answer.

use std::time::{Duration, Instant};

use super::{add, is_interrupted, serve, Options, ONE_STEP};
use crate::engine::{row, rows, SceneRow, Usage};
use crate::error::{check, BenchError};
use crate::requests::Requests;
use crate::serve_common::{Place, Serve};

/// Time before the measurement: the first plans find no warm caches.
const WARM_UP: Duration = Duration::from_secs(1);

pub(super) fn starts(
    place: &Place,
    options: &Options,
    sync_us: f64,
) -> Result<Vec<SceneRow>, BenchError> {
    let server = serve(place, &[], "full");
    add(&server, ONE_STEP);
    let addresses = [server.address().to_owned()];
    let each = |_| ("/api/v1/flows/bench/one-step/1.0.0/start".to_owned(), "{}".to_owned());
    let requests =
        Requests { each, content_type: "application/json", status: "201", part: "\"id\":" };
    let send = |time| {
        let until = Instant::now() + time;
        let go_on = || Instant::now() < until && !is_interrupted();
        requests.send(&addresses, options.connections, 0..u64::MAX, go_on)
    };
    send(WARM_UP)?;
    let (before, own_before, served_before) =
        (figures(&server), Usage::now()?.cpu_ms, Usage::of(server.id())?.cpu_ms);
    let sent = send(Duration::from_secs(options.seconds))?;
    let (after, own_after, served_after) =
        (figures(&server), Usage::now()?.cpu_ms, Usage::of(server.id())?.cpu_ms);
    server.stopped();
    let (count, seconds) = (sent.0.len() as f64, sent.1);
    check("plans begun", after.0 - before.0, count)?;
    if count == 0.0 {
        return Ok(Vec::new());
    }
    let workload = format!("starts_{}_connections", options.connections);
    let mut all = rows(&workload, "starts_per_s", sent);
    all.extend(
        [
            ("starts_per_sync", count / seconds * sync_us / 1e6),
            ("ended_per_s", (after.1 - before.1) / seconds),
            ("client_cpu_us", (own_after - own_before) * 1_000.0 / count),
            ("server_cpu_us", (served_after - served_before) * 1_000.0 / count),
        ]
        .map(|(metric, value)| row(&workload, metric, value)),
    );
    Ok(all)
}

/// Plans that have begun and that have ended since the start of a server.
fn figures(server: &Serve) -> (f64, f64) {
    let stats = server.get("/api/v1/stats").ok();
    let figure = |name: &str| stats["figures"][name].as_f64().unwrap_or(f64::NAN);
    (figure("plans_begun"), figure("plans_ended"))
}
