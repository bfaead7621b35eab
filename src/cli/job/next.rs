//! The next times of a job.

use turnwheel::jobs::{show, Jobs};

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
    let here = |jobs: &Jobs, _: &str| Ok(show::next(&done(jobs.next(name, count as usize))?));
    let path = path(name, &format!("/times?limit={count}"));
    let answer = ask(settings, here, |server| server.send("GET", &path, None))?;
    output.times(&answer)
}
