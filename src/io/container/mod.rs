//! Containers, by the command line of an engine.
//!
//! A container lives with its engine and not with this process, so its life has steps whose outcome
//! is known before the next one begins:
//!
//! 1. Containers of an earlier call with the same key are removed; they are found by their label,
//!    whatever their name. So no step ever has two containers.
//! 2. It is created, which fetches its image. Its id is known now, and nothing runs.
//! 3. A guard is started that kills it by its id after the end of this process. Then it is started
//!    and its outputs are read as those of any command, within the same limits.
//! 4. At a time-out, a flood of output or a cancel the engine stops it: SIGTERM to the container,
//!    SIGKILL after the grace. Then the engine reports its exit.
//! 5. It is deleted if requested; `remover` does later deletions, also for earlier processes.
//!
//! Values of variables are passed to the engine's command line in its environment, since every user
//! of the host can see the arguments of a command.

mod engine;
mod remover;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use turnwheel_flow::{Cleanup, Container, IoCall, IoError, IoErrorKind, ProcessResult, PullPolicy};

use super::guard::Guard;
use super::process::{supervise, Limits};
use engine::{shown, ANSWER};

pub(super) use engine::Engine;
pub(super) use remover::Remover;

/// The label with the key of the call.
const KEY: &str = "turnwheel.key";

/// The label with the seconds after which it is removed once it has ended.
const REMOVE_AFTER: &str = "turnwheel.remove-after";

/// Attempts to create a container that find another one of the same step: an engine may finish
/// creating one for a process that is gone.
const CREATE_TRIES_MAX: usize = 3;

/// Prefixes of variables that the engine's command line reads itself: their values are passed as
/// arguments, so that they do not change its behaviour.
const ENGINE_READS: [&str; 9] = [
    "DOCKER_",
    "CONTAINER",
    "PODMAN_",
    "BUILDAH_",
    "REGISTRY_AUTH_FILE",
    "XDG_",
    "LD_",
    "SSL_CERT_",
    "SSH_AUTH_SOCK",
];

/// The same, by full name.
const ENGINE_READS_EXACTLY: [&str; 4] = ["PATH", "HOME", "USER", "TMPDIR"];

/// Runs a container until its end.
pub(super) fn run(
    engine: &Engine<'_>,
    container: &Container,
    call: &IoCall<'_>,
    remover: &Remover,
) -> Result<ProcessResult, IoError> {
    let limit = call.limit.unwrap_or(engine.options.command_timeout);
    let until = Instant::now() + limit;
    let is_over = || engine.is_over() || call.is_cancelled();
    let left = || until.saturating_duration_since(Instant::now());
    let id = created(engine, container, call, false, limit, &is_over)?;
    let ended = attached(engine, &id, container.stdin.as_deref(), left(), &is_over);
    let ended = ended.map_err(|error| in_time(error, limit));
    let ended = match ended {
        Ok(said) => told(engine, &id, said),
        Err(problem) => Err(problem),
    };
    let ended = ended.map_err(|problem| stopped(engine, &id, problem));
    match container.cleanup {
        Cleanup::Always if removed(engine, &[&id]).is_err() => remover.look(),
        Cleanup::After(_) => remover.look(),
        _ => {}
    }
    ended
}

/// Starts a container without waiting for it.
pub(super) fn detach(
    engine: &Engine<'_>,
    container: &Container,
    call: &IoCall<'_>,
    remover: &Remover,
) -> Result<(), IoError> {
    let limit = call.limit.unwrap_or(engine.options.command_timeout);
    let until = Instant::now() + limit;
    let is_over = || engine.is_over() || call.is_cancelled();
    let id = created(engine, container, call, true, limit, &is_over)?;
    let left = until.saturating_duration_since(Instant::now());
    let started = engine.ask(&["start", &id], left, &is_over);
    if matches!(container.cleanup, Cleanup::After(_)) {
        remover.look();
    }
    started.map(|_| ()).map_err(|problem| stopped(engine, &id, in_time(problem, limit)))
}

/// Creates a container, alone, and gives its id.
fn created(
    engine: &Engine<'_>,
    container: &Container,
    call: &IoCall<'_>,
    is_detached: bool,
    limit: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<String, IoError> {
    let until = Instant::now() + limit;
    remove_old(engine, call.key, is_over)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let command = create(engine, container, call, is_detached);
        let left = until.saturating_duration_since(Instant::now());
        let problem = match engine.run(command, "create", left, is_over) {
            Ok(said) => return id_of(engine, &said),
            Err(problem) => in_time(problem, limit),
        };
        // Perhaps it is there all the same.
        let count = remove_old(engine, call.key, &|| false).unwrap_or(0);
        if count == 0 || tries == CREATE_TRIES_MAX || problem.kind != IoErrorKind::Communication {
            return Err(problem);
        }
    }
}

/// The last line is the id; lines before it may be about the fetched image.
fn id_of(engine: &Engine<'_>, said: &str) -> Result<String, IoError> {
    let id = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    if !id.is_empty() && id.chars().all(|sign| sign.is_ascii_alphanumeric()) {
        return Ok(id.to_owned());
    }
    let shown: String = id.chars().take(100).collect();
    let message = format!("{} create says «{shown}», which is no id", engine.name());
    Err(IoError::new(IoErrorKind::Communication, message))
}

/// Removes containers of earlier calls with a key; returns their number.
fn remove_old(
    engine: &Engine<'_>,
    key: &str,
    is_over: &dyn Fn() -> bool,
) -> Result<usize, IoError> {
    let filter = format!("label={KEY}={key}");
    let all = ["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter];
    let said = engine.ask(&all, ANSWER, is_over).map_err(|problem| match problem.kind {
        IoErrorKind::TimedOut => {
            let message = format!("{}: does its daemon run?", problem.message);
            IoError::new(IoErrorKind::Communication, message)
        }
        _ => problem,
    })?;
    let old: Vec<&str> = said.lines().map(str::trim).filter(|id| !id.is_empty()).collect();
    if !old.is_empty() {
        removed(engine, &old)?;
    }
    Ok(old.len())
}

fn removed(engine: &Engine<'_>, ids: &[&str]) -> Result<(), IoError> {
    let arguments: Vec<&str> =
        ["rm", "--force", "--volumes"].into_iter().chain(ids.iter().copied()).collect();
    engine.ask(&arguments, ANSWER, &|| false).map(|_| ())
}

fn create(
    engine: &Engine<'_>,
    container: &Container,
    call: &IoCall<'_>,
    is_detached: bool,
) -> Command {
    let pull = match container.pull {
        PullPolicy::Always => "always",
        PullPolicy::Never => "never",
        _ => "missing",
    };
    let mut arguments = vec![
        "create".to_owned(),
        format!("--name={}", container.name),
        format!("--pull={pull}"),
        format!("--label={KEY}={}", call.key),
    ];
    match container.cleanup {
        Cleanup::Never => {}
        // Only the engine waits for its end.
        Cleanup::Always if is_detached => arguments.push("--rm".to_owned()),
        Cleanup::After(after) => {
            arguments.push(format!("--label={REMOVE_AFTER}={}", after.as_secs_f64()));
        }
        // If it cannot be removed at once, it is later.
        _ => arguments.push(format!("--label={REMOVE_AFTER}=0")),
    }
    if container.stdin.is_some() {
        arguments.push("--interactive".to_owned());
    }
    let with = |option: &str, pairs: &[(String, String)]| -> Vec<String> {
        pairs.iter().map(|(host, inside)| format!("--{option}={host}:{inside}")).collect()
    };
    arguments.extend(with("publish", &container.ports));
    arguments.extend(with("volume", &container.volumes));
    let state = call.trace_state.filter(|_| call.trace.is_some());
    let own =
        [("TURNWHEEL_KEY", Some(call.key)), ("TRACEPARENT", call.trace), ("TRACESTATE", state)];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let said = container.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut handed = Vec::new();
    for (name, value) in own.chain(said) {
        if is_read_by_engine(name) {
            arguments.push(format!("--env={name}={value}"));
        } else {
            arguments.push(format!("--env={name}"));
            handed.push((name, value));
        }
    }
    if container.command.is_some() {
        arguments.push("--entrypoint=sh".to_owned());
    }
    arguments.push(container.image.clone());
    if let Some(command) = &container.command {
        // `sh` is `$0`.
        arguments.extend(["-c".to_owned(), command.clone(), "sh".to_owned()]);
    }
    arguments.extend(container.arguments.iter().cloned());
    let mut command = engine.command(&arguments);
    command.envs(handed);
    command
}

/// Whether the command line of an engine would take a variable as one of its own.
fn is_read_by_engine(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.ends_with("_PROXY")
        || ENGINE_READS.iter().any(|begin| upper.starts_with(begin))
        || ENGINE_READS_EXACTLY.contains(&upper.as_str())
}

/// Starts a container and reads its output until its end.
fn attached(
    engine: &Engine<'_>,
    id: &str,
    input: Option<&str>,
    time: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<ProcessResult, IoError> {
    let list = |arguments: &[&str]| -> Vec<String> {
        arguments.iter().map(|argument| (*argument).to_owned()).collect()
    };
    let guard = Guard::with(&engine.command(&list(&["kill", id]))).map_err(|error| {
        let message = format!("the container has no guard: {error}");
        IoError::new(IoErrorKind::Communication, message)
    })?;
    let mut arguments = list(&["start", "--attach"]);
    if input.is_some() {
        arguments.push("--interactive".to_owned());
    }
    arguments.push(id.to_owned());
    // No grace for the command line itself: the container gets it.
    let limits = Limits { time, grace: Duration::ZERO, output: engine.options.output_max };
    let ended = supervise(engine.command(&arguments), "the container", input, limits, is_over);
    drop(guard);
    ended
}

/// Exit of a container as the engine knows it: the code of its command line may be its own.
fn told(engine: &Engine<'_>, id: &str, said: ProcessResult) -> Result<ProcessResult, IoError> {
    let wrong = |problem: String| Err(IoError::new(IoErrorKind::Communication, problem));
    let known = engine.inspect(&[id])?;
    let Some(state) = known.first().map(|it| &it["State"]) else {
        return wrong(format!(
            "the container was removed before its end was known: {}",
            shown(&said)
        ));
    };
    let problem = state["Error"].as_str().unwrap_or_default();
    let status = state["Status"].as_str().unwrap_or_default();
    if !problem.is_empty() {
        return wrong(format!("the container could not be started: {problem}"));
    }
    if matches!(status, "created" | "configured" | "initialized") {
        return wrong(format!("the container could not be started: {}", shown(&said)));
    }
    if state["Running"] == Value::Bool(true) {
        let problem = shown(&said);
        return wrong(format!("{} has let go of the container: {problem}", engine.name()));
    }
    let code = state["ExitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    Ok(ProcessResult { code: code.unwrap_or(said.code), ..said })
}

/// Stops a container that has to end, and says so if that cannot be done.
fn stopped(engine: &Engine<'_>, id: &str, problem: IoError) -> IoError {
    let grace = engine.options.command_grace;
    let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
    let time = Duration::from_secs(seconds) + ANSWER;
    let stop = engine.ask(&["stop", "-t", &seconds.to_string(), id], time, &|| false);
    let Err(first) = stop else { return problem };
    if engine.ask(&["kill", id], ANSWER, &|| false).is_ok() {
        return problem;
    }
    // A container that is missing or has ended need not be ended.
    let known = engine.inspect(&[id]);
    let runs =
        |known: &Vec<Value>| known.iter().any(|it| it["State"]["Running"] == Value::Bool(true));
    if known.as_ref().is_ok_and(|known| !runs(known)) {
        return problem;
    }
    let message =
        format!("{}; it may run still, for it could not be stopped: {first}", problem.message);
    IoError::new(problem.kind, message)
}

/// Errors show the limit of the entire call, not the rest that a single command had.
fn in_time(error: IoError, limit: Duration) -> IoError {
    if error.kind != IoErrorKind::TimedOut {
        return error;
    }
    let message = format!("the container took longer than {limit:?} and was ended");
    IoError::new(IoErrorKind::TimedOut, message)
}
