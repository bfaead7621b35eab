//! From the start of a process to the end of its flow, or to a server that is healthy; and the size of the binary.

use std::process::Stdio;
use std::time::Instant;

use indicatif::ProgressBar;

use super::{apart, is_interrupted, ms_since, serve, times, Options, ONE_STEP};
use crate::engine::{failed, row, SceneRow};
use crate::error::{check, BenchError};
use crate::serve_common::{binary, Place};

/// Plans of the old store before it is measured.
const OLD_RUNS: u32 = 10;

pub(super) fn cold(
    place: &Place,
    options: &Options,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let flow = place.write("one-step.yaml", ONE_STEP);
    let old = place.store().display().to_string();
    let repeat = |count, each: &mut dyn FnMut(u32) -> Result<f64, BenchError>| {
        let numbers = (0..count).take_while(|_| !is_interrupted());
        numbers.inspect(|_| bar.tick()).map(each).collect::<Result<Vec<f64>, BenchError>>()
    };
    let fresh = repeat(options.runs, &mut |number| {
        run(place, &flow, &place.path(&format!("new-{number}.db")).display().to_string())
    })?;
    repeat(OLD_RUNS, &mut |_| run(place, &flow, &old))?;
    let again = repeat(options.runs, &mut |_| run(place, &flow, &old))?;
    let mut listening = Vec::new();
    let healthy = repeat(options.runs, &mut |_| {
        let begin = Instant::now();
        let server = serve(place, &[], "full");
        listening.push(ms_since(begin));
        server.get("/health").ok();
        let took = ms_since(begin);
        server.stopped();
        Ok(took)
    })?;
    let size = binary().metadata().map_err(|error| failed(&error))?.len();
    let mut all = vec![row("binary", "mib", size as f64 / 1_048_576.0)];
    all.extend(times("cold_run_new_store", fresh));
    all.extend(times("cold_run_old_store", again));
    all.extend(times("cold_serve_listening", listening));
    all.extend(times("cold_serve_healthy", healthy));
    Ok(all)
}

/// Milliseconds of `turnwheel run` of a flow.
fn run(place: &Place, flow: &str, store: &str) -> Result<f64, BenchError> {
    let mut command = apart(place.command(&["run", flow, "--quiet", "--store", store]));
    command.stdout(Stdio::null());
    let begin = Instant::now();
    let ended = command.status().map_err(|error| failed(&error))?;
    let took = ms_since(begin);
    check("turnwheel run has succeeded", ended.success(), true)?;
    Ok(took)
}
