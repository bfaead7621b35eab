//! `engine --case events`: very many events to one plan.

use std::path::Path;
use std::sync::mpsc::{sync_channel, SendError, SyncSender};
use std::time::Instant;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Next, RunAsync, RunsAsync, StepContext, StepId, World,
};

use super::disk::Memory;
use super::scenes::{failed, SceneRow};
use super::Options;
use crate::error::{check, BenchError};
use crate::load;

/// Events on their way at once.
const AT_ONCE: usize = 256;
/// The first and the last events are compared in parts of all of them.
const PARTS: usize = 20;
/// The run step of a plan whose root action takes the events.
const STEP: StepId = StepId(2);

/// Counts events until it is told to end, and says so of each.
struct Gather(SyncSender<()>);

#[derive(Serialize, Deserialize)]
enum Word {
    More,
    Last,
}

impl Action for Gather {
    const NAME: &'static str = "gather";
    type Input = ();
    type Output = usize;
    type Phases = RunsAsync;
}

impl RunAsync for Gather {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.cause() == Cause::Event {
            if let Some(Word::Last) = step.event::<Word>()? {
                return Ok(Next::Done);
            }
            step.output += 1;
            let gone = |error: SendError<()>| ActionError::new("nobody_listens", error);
            self.0.send(()).map_err(gone)?;
        }
        Ok(Next::suspend("an event"))
    }
}

/// Events to one plan: how many a second of the first and of the last part.
pub(super) fn to_one_plan(
    folder: &Path,
    options: &Options,
    count: usize,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let before = Memory::now()?;
    let (sender, counted) = sync_channel(AT_ONCE);
    let world = World::builder()
        .action(Gather(sender))
        .build(options.place.store(&folder.join("events.db"))?)
        .map_err(|error| failed(&error))?;
    let plan = world.trigger::<Gather>(()).wait().map_err(|error| failed(&error))?;
    bar.set_length(count as u64);
    bar.set_message("events to one plan");
    let part = (count / PARTS).max(1);
    let mut seconds = Vec::new();
    let mut begin = Instant::now();
    let mut sent = 0;
    while sent < count {
        let some = AT_ONCE.min(count - sent).min(part - sent % part);
        let send = |at: usize| {
            let id = at.to_string();
            world.event(plan.id(), STEP, Some(&id), &Word::More)
        };
        let taken: Vec<_> = (sent..sent + some).map(send).collect();
        for taken in taken {
            taken.wait().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
            counted.recv().map_err(|error| failed(&error))?;
        }
        sent += some;
        bar.inc(some as u64);
        if sent % part == 0 {
            seconds.push(begin.elapsed().as_secs_f64());
            begin = Instant::now();
        }
    }
    let memory = Memory::now()?.anonymous_mib - before.anonymous_mib;
    let last = world.event(plan.id(), STEP, None, &Word::Last).wait();
    last.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let view = plan.finished().wait().map_err(|error| failed(&error))?;
    let taken = view.output::<Gather>().map_err(|error| failed(&error))?;
    check("events that the plan has taken", taken, count)?;
    world.shutdown().map_err(|error| failed(&error))?;
    let us = |seconds: &f64| seconds * 1e6 / part as f64;
    let (first, last) = (us(&seconds[0]), us(&seconds[seconds.len() - 1]));
    let row = |metric, value: f64| SceneRow {
        workload: format!("events_{count}"),
        metric,
        value: load::rounded(value),
    };
    Ok(vec![
        row("first_us", first),
        row("last_us", last),
        row("last_to_first", last / first),
        row("anonymous_mib", memory),
    ])
}
