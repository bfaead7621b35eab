//! The next times of a job.

use serde_json::json;
use turnwheel::jobs::Jobs;

use super::{ask, done, path};
use crate::cli::exit::Exit;
use crate::cli::format::Output;
use crate::cli::settings::Settings;

pub(super) fn next(
    settings: &Settings,
    name: &str,
    count: u32,
    output: &Output,
) -> Result<(), Exit> {
    let here = |jobs: &Jobs, _: &str| {
        let times = done(jobs.next(name, count as usize))?;
        Ok(json!({ "times": times.iter().map(ToString::to_string).collect::<Vec<_>>() }))
    };
    let path = path(name, &format!("/times?limit={count}"));
    let answer = ask(settings, here, |server| server.send("GET", &path, None))?;
    output.times(&answer)
}
