//! `turnwheel job history -f`: the output of a run as it is written.

use serde_json::{json, Value};
use turnwheel::engine::World;
use turnwheel::jobs::{Jobs, WithJobs};

use super::{ask, host_io, output, path, Hands, Place, Remote, Settings};
use crate::cli::exit::Exit;
use crate::cli::paint::{print, tell_line};

/// Prints the output of a launch, the newest one if none is named, until the run has ended.
pub(super) fn follow(settings: &Settings, name: &str, launch: Option<u64>) -> Result<(), Exit> {
    let launch = match launch {
        Some(launch) => launch,
        None => newest(settings, name)?,
    };
    let builder = World::builder().jobs(&host_io(settings).executors());
    match Place::of(settings).hands_with(settings, builder)? {
        Hands::Server(server) => of_server(&server, name, launch),
        Hands::Own(world) => {
            // Nothing runs without a server: there is only what was kept.
            world.shutdown()?;
            output(settings, name, launch)
        }
    }
}

fn newest(settings: &Settings, name: &str) -> Result<u64, Exit> {
    let here = |jobs: &Jobs, _: &str| {
        let found = turnwheel::runtime::completion::block_on(jobs.history(name, None, 1));
        let found = found.map_err(|refused| Exit::failed(format!("jobs: {refused}")))??;
        Ok(json!({ "launches": found.iter().map(|it| json!({"id": it.id})).collect::<Vec<_>>() }))
    };
    let path = path(name, "/history?limit=1");
    let answer = ask(settings, here, |server| server.send("GET", &path, None))?;
    let none = || Exit::not_found(format!("the job «{name}» has no launches"));
    answer["launches"][0]["id"].as_u64().ok_or_else(none)
}

fn of_server(server: &Remote, name: &str, launch: u64) -> Result<(), Exit> {
    let path = path(name, &format!("/launches/{launch}/output/live"));
    let (mut next, mut state) = (0, None);
    server.events(&path, |event, data: Value| {
        match event {
            "output" => {
                let from = data["from"].as_u64().unwrap_or(next);
                if from > next {
                    tell_line(format_args!("({} bytes are left out)", from - next));
                }
                next = data["next"].as_u64().unwrap_or(from);
                print(data["text"].as_str().unwrap_or_default())?;
            }
            "end" => state = Some(data["state"].as_str().unwrap_or("gone").to_owned()),
            _ => {}
        }
        Ok(state.is_some())
    })?;
    match state {
        Some(state) => {
            tell_line(format_args!("launch {launch} of {name}: {state}"));
            Ok(())
        }
        None => Err(Exit::failed("the server has stopped: the output goes on at its next start")),
    }
}
