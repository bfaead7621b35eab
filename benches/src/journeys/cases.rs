//! The cases in this process, and the server that only waits.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use turnwheel_engine::store::StateScan;
use turnwheel_engine::Time;
use turnwheel_runtime::completion::block_on;

use super::stage::{definition, other, Stage, SILENT, TOLD};
use super::Options;
use crate::compare::trial::Random;
use crate::engine::{failed, row, rows, SceneRow};
use crate::error::BenchError;
use crate::serve_common::Place;

/// A user does something every so often while default lines are due.
const INTAKE: Duration = Duration::from_millis(5);

/// Pause between two looks at what is due.
const LOOK: Duration = Duration::from_millis(100);

/// A folder that goes with its files.
fn folder(options: &Options) -> Result<tempfile::TempDir, BenchError> {
    let made = match &options.folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    made.map_err(|error| failed(&error))
}

/// Users who wait without a message.
fn fill(stage: &Stage, users: u64, bar: &ProgressBar) -> Result<f64, BenchError> {
    let (_, seconds) = stage.send(0..users, (SILENT, "first"), true, bar)?;
    Ok(seconds)
}

/// Events that nobody waits for, with one definition and with many.
pub(super) fn idle(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let folder = folder(options)?;
    let stage = Stage::open(&folder.path().join("idle.db"), options, false)?;
    stage.put(&definition("P30D"))?;
    fill(&stage, options.users, bar)?;
    let mut all = Vec::new();
    for definitions in [1, options.definitions] {
        (1..definitions).try_for_each(|number| stage.put(&other(number)))?;
        for (name, kind) in [("unheard", "page.viewed"), ("under_way", TOLD)] {
            let mut random = Random::new(7);
            let users = (0..options.events).map(|_| random.below(options.users));
            let sent = stage.send(users, (kind, name), false, bar)?;
            let workload = format!("{name}_{}_users_{definitions}_definitions", options.users);
            all.extend(rows(&workload, "events_per_s", sent));
        }
    }
    stage.close()?;
    Ok(all)
}

/// Events that move a user: state, timer, one message.
pub(super) fn moves(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let folder = folder(options)?;
    let stage = Stage::open(&folder.path().join("moves.db"), options, false)?;
    stage.put(&definition("P30D"))?;
    let sent = stage.send(0..options.events, (TOLD, "first"), true, bar)?;
    let mut all = rows("moves_in_process", "moves_per_s", sent);
    let begin = Instant::now();
    while has_batches(&stage)? {
        std::thread::sleep(LOOK);
    }
    all.push(row("moves_in_process", "all_sent_after_s", begin.elapsed().as_secs_f64()));
    stage.close()?;
    Ok(all)
}

/// Whether messages are left that are not known to be sent.
fn has_batches(stage: &Stage) -> Result<bool, BenchError> {
    let scan = StateScan::After(String::new());
    let rows = block_on(async { stage.world.timed_states().list("tw.batch", scan, 1).await });
    let rows = rows.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(!rows.is_empty())
}

/// The earliest time at which a user has to be looked at.
fn first_due(stage: &Stage) -> Result<Option<Time>, BenchError> {
    let scan = StateScan::Due(Time(i64::MAX as u64));
    let rows = block_on(async { stage.world.timed_states().list("tw.user", scan, 1).await });
    let rows = rows.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(rows.first().and_then(|row| row.due))
}

/// Users at a wait: bytes of the file, and a server that starts over it.
pub(super) fn waiting(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let place = Place::new();
    let workload = format!("waiting_{}", options.users);
    let empty = Stage::open(&place.store(), options, true)?;
    empty.put(&definition("P30D").replace("channel: none", "channel: log"))?;
    empty.close()?;
    let before = size(&place.store())?;
    let stage = Stage::open(&place.store(), options, true)?;
    let seconds = fill(&stage, options.users, bar)?;
    stage.close()?;
    let bytes = (size(&place.store())? - before) / options.users as f64;
    let begin = Instant::now();
    let server = place.serve(&[]);
    let started = begin.elapsed().as_secs_f64();
    let user = format!("/api/v1/users/shop/{}", super::stage::user(1));
    let waits = server.get(&user).ok()["passes"][0]["waits"][0]["element"].clone();
    crate::error::check("element", waits.as_str().unwrap_or_default(), "wait")?;
    let answered = begin.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_secs(2));
    let memory = resident_mib(server.id())?;
    server.stopped();
    Ok(vec![
        row(&workload, "made_per_s", options.users as f64 / seconds),
        row(&workload, "bytes_per_user", bytes),
        row(&workload, "start_s", started),
        row(&workload, "first_answer_s", answered),
        row(&workload, "resident_mib", memory),
    ])
}

/// Bytes of a store that is closed.
fn size(path: &Path) -> Result<f64, BenchError> {
    let size = |end: &str| {
        let path = PathBuf::from(format!("{}{end}", path.display()));
        std::fs::metadata(path).map_or(0, |data| data.len())
    };
    Ok((size("") + size("-wal")) as f64)
}

fn resident_mib(process: u32) -> Result<f64, BenchError> {
    let path = format!("/proc/{process}/status");
    let status =
        std::fs::read_to_string(&path).map_err(|source| BenchError::File { path, source })?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.unwrap_or(0.0) / 1_024.0)
}

/// Default lines of all users, which are due together, while others do something.
pub(super) fn due(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let folder = folder(options)?;
    let path = folder.path().join("due.db");
    let stage = Stage::open(&path, options, true)?;
    stage.put(&definition("PT1S"))?;
    fill(&stage, options.users, bar)?;
    // New users wait for longer than the measurement.
    stage.put(&definition("P30D"))?;
    stage.close()?;
    std::thread::sleep(Duration::from_secs(1));
    // All are due by now; messages of the intake are due later.
    let wave = Time::from(std::time::SystemTime::now());
    let begin = Instant::now();
    let stage = Stage::open(&path, options, false)?;
    let (mut us, mut number) = (Vec::new(), options.users);
    while first_due(&stage)?.is_some_and(|due| due <= wave) {
        let (mut one, _) = stage.send(number..number + 1, (TOLD, "intake"), true, bar)?;
        us.append(&mut one);
        number += 1;
        std::thread::sleep(INTAKE);
    }
    let seconds = begin.elapsed().as_secs_f64();
    us.sort_unstable_by(f64::total_cmp);
    stage.close()?;
    let workload = format!("due_{}", options.users);
    let p99 = crate::report::percentile(&us, 0.99) / 1_000.0;
    Ok(vec![
        row(&workload, "done_s", seconds),
        row(&workload, "intake_events", us.len() as f64),
        row(&workload, "intake_p99_ms", p99),
    ])
}
