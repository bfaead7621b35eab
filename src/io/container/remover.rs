//! Removes containers that are due.
//!
//! The engine knows the containers to remove, and when: a label has the delay after their end. So
//! they are removed even if this process has ended or the host was restarted. One thread looks when
//! it is notified, and at the time of the next removal; its only state is that time.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{bounded, Receiver, RecvTimeoutError, Sender};
use serde_json::Value;
use turnwheel_engine::Time;
use turnwheel_flow::IoError;

use super::engine::{Engine, ANSWER};
use super::{removed, REMOVE_AFTER};
use crate::io::options::IoOptions;

/// Delay of the next look while a container runs, or if the engine did not answer.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Time for which a created and never started container is kept: its process may be about to start
/// it.
const UNSTARTED: Duration = Duration::from_secs(3_600);

/// Time for which an ended container is kept at least: its caller first asks for its exit.
const SETTLED: Duration = Duration::from_secs(10);

/// Containers in one query: the answer must fit its limit.
const ASKED_AT_ONCE: usize = 50;

/// The thread that removes. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Remover {
    /// Nothing if no thread could be had: then the next process removes.
    told: Option<Sender<()>>,
}

impl Remover {
    /// Starts it, with a look for containers of earlier processes.
    pub(crate) fn begin(engine: &Engine<'_>) -> Self {
        let (told, news) = bounded(1);
        let (program, options) = (engine.program(), engine.options.clone());
        let thread = thread::Builder::new().name("turnwheel-remover".to_owned());
        let begun = thread.spawn(move || look_after(program, &options, &news));
        let remover = Self { told: begun.ok().map(|_| told) };
        remover.look();
        remover
    }

    /// Lets it look.
    pub(super) fn look(&self) {
        if let Some(told) = &self.told {
            // Full: a notification is pending already.
            let _full = told.try_send(());
        }
    }
}

fn look_after(program: PathBuf, options: &IoOptions, news: &Receiver<()>) {
    let never = AtomicBool::new(false);
    let engine = Engine::with(program, options, &never);
    let mut next: Option<Duration> = None;
    loop {
        let told = match next {
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(pause) => news.recv_timeout(pause),
        };
        if told == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        next = look(&engine).unwrap_or(Some(LOOK_AGAIN));
    }
}

/// Removes due containers, and returns the time of the next look.
fn look(engine: &Engine<'_>) -> Result<Option<Duration>, IoError> {
    let filter = format!("label={REMOVE_AFTER}");
    let all = ["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter];
    let said = engine.ask(&all, ANSWER, &|| false)?;
    let ids: Vec<&str> = said.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
    let mut next: Option<Duration> = None;
    for some in ids.chunks(ASKED_AT_ONCE) {
        for known in engine.inspect(some)? {
            let Some(id) = known["Id"].as_str() else { continue };
            let pause = match due_in(&known, SystemTime::now()) {
                Some(Duration::ZERO) if removed(engine, &[id]).is_ok() => continue,
                Some(Duration::ZERO) | None => LOOK_AGAIN,
                Some(pause) => pause,
            };
            next = Some(next.map_or(pause, |next| next.min(pause)));
        }
    }
    Ok(next)
}

/// Time until a container is due; `None` if it has not ended.
fn due_in(known: &Value, now: SystemTime) -> Option<Duration> {
    let after = known["Config"]["Labels"][REMOVE_AFTER].as_str()?.parse::<f64>().ok()?;
    let after = Duration::try_from_secs_f64(after).ok()?;
    let time = |value: &Value| -> Option<SystemTime> {
        let time: Time = value.as_str()?.parse().ok()?;
        Some(time.into())
    };
    let state = &known["State"];
    let at = match state["Status"].as_str()? {
        "exited" | "stopped" | "dead" => {
            time(&state["FinishedAt"])?.checked_add(after.max(SETTLED))?
        }
        "created" | "configured" | "initialized" => {
            time(&known["Created"])?.checked_add(UNSTARTED)?
        }
        _ => return None,
    };
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_due_so_long_after_their_end() {
        let at = |text: &str| -> SystemTime {
            let time: Time = text.parse().expect("a time");
            time.into()
        };
        let known = |status: &str, after: &str| {
            serde_json::json!({
                "Created": "2024-05-01T10:00:00.5Z",
                "State": { "Status": status, "FinishedAt": "2024-05-01T12:00:00.123456789+02:00" },
                "Config": { "Labels": { REMOVE_AFTER: after } },
            })
        };
        let now = at("2024-05-01T10:00:00.123456Z");
        let due = |status: &str, after: &str| due_in(&known(status, after), now);
        assert_eq!(due("exited", "90"), Some(Duration::from_secs(90)));
        assert_eq!(due("dead", "0"), Some(SETTLED), "who has run it may still ask for its end");
        assert_eq!(due_in(&known("exited", "1.5"), now + UNSTARTED), Some(Duration::ZERO));
        assert_eq!(due("running", "0"), None);
        assert_eq!(due("exited", "soon"), None);
        assert!(due("created", "0") > Some(UNSTARTED));
    }
}
