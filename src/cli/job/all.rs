//! All jobs of a store, whoever has it, and the form in which they are exported.

use serde_json::{json, Value};
use turnwheel::jobs::{show, Jobs};

use super::{ask, done};
use crate::cli::exit::Exit;
use crate::cli::remote::{encoded, Remote};
use crate::cli::settings::Settings;

/// All jobs, as the API shows them.
pub(super) fn all(settings: &Settings) -> Result<Vec<Value>, Exit> {
    let here = |jobs: &Jobs, _: &str| {
        let views = done(jobs.list())?;
        Ok(json!({ "jobs": views.iter().map(show::job).collect::<Vec<_>>() }))
    };
    let mut answer = ask(settings, here, all_of)?;
    Ok(answer["jobs"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// All jobs of a server, page by page.
fn all_of(server: &Remote) -> Result<Value, Exit> {
    let (mut jobs, mut path) = (Vec::new(), "/jobs".to_owned());
    loop {
        let mut page = server.send("GET", &path, None)?;
        jobs.append(page["jobs"].as_array_mut().unwrap_or(&mut Vec::new()));
        match page["next"].as_str() {
            Some(next) => path = format!("/jobs?cursor={}", encoded(next)),
            None => return Ok(json!({ "jobs": jobs })),
        }
    }
}

/// The settings of a job for an import. A parent that is gone is not needed there either.
pub(super) fn exported(mut job: Value) -> Value {
    let gone = job["gone"].take();
    let mut spec = job["spec"].take();
    for after in spec["after"].as_array_mut().into_iter().flatten() {
        if gone.as_array().is_some_and(|gone| gone.contains(&after["job"])) {
            after["missing"] = json!(true);
        }
    }
    spec
}
