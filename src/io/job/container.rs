//! The executor `container`, also as `docker`: one container for each attempt.

use std::time::Duration;

use sha2::{Digest, Sha256};
use turnwheel_flow::{Cleanup, Container, Io, IoCall, PullPolicy};
use turnwheel_jobs::{Call, Done, Executor, Settings, Span, Verdict, Work};

use super::only;
use crate::io::HostIo;

/// Settings that the executor knows.
const KNOWN: [&str; 8] =
    ["image", "command", "arguments", "env", "volumes", "pull", "timeout", "payload"];

/// Time limit of a container without one.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Signs of the job's name that are in that of its container.
const NAME_MAX: usize = 40;

/// Runs containers by the engine of this host.
#[derive(Clone, Debug)]
pub(super) struct Containers {
    pub(super) io: HostIo,
}

fn text<'a>(config: &'a Settings, name: &str) -> &'a str {
    config.get(name).map_or("", |text| text.trim())
}

/// The pairs of a list separated by commas; both parts of each are there.
fn pairs(config: &Settings, name: &str, sign: char) -> Result<Vec<(String, String)>, String> {
    let parts = text(config, name).split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once(sign) {
            Some((first, second)) if !first.is_empty() && !second.is_empty() => {
                Ok((first.to_owned(), second.to_owned()))
            }
            _ => Err(format!("{name}: «{part}» is no pair: write it as a{sign}b")),
        })
        .collect()
}

/// The container of an attempt, and its time limit.
fn parse(config: &Settings, name: String) -> Result<(Container, Option<Span>), String> {
    only("container", config, &KNOWN)?;
    if text(config, "image").is_empty() {
        return Err("image: it is empty: give one such as alpine:3.20".to_owned());
    }
    let pull = match text(config, "pull") {
        "" | "missing" => PullPolicy::IfNotPresent,
        "always" => PullPolicy::Always,
        "never" => PullPolicy::Never,
        other => return Err(format!("pull: «{other}» is none of missing, always and never")),
    };
    let arguments = match text(config, "arguments") {
        "" => Vec::new(),
        list => serde_json::from_str(list)
            .map_err(|error| format!("arguments: a JSON list of texts is wanted: {error}"))?,
    };
    let limit = match text(config, "timeout") {
        "" => None,
        limit => Some(limit.parse().map_err(|problem| format!("timeout: {problem}"))?),
    };
    let stdin = super::payload(config)?;
    let stdin = stdin.map(String::from_utf8).transpose();
    let stdin = stdin.map_err(|_| "payload: the input of a container is UTF-8".to_owned())?;
    let container = Container {
        image: text(config, "image").to_owned(),
        name,
        command: Some(text(config, "command").to_owned()).filter(|command| !command.is_empty()),
        arguments,
        ports: Vec::new(),
        volumes: pairs(config, "volumes", ':')?,
        environment: pairs(config, "env", '=')?,
        stdin,
        pull,
        cleanup: Cleanup::Always,
    };
    Ok((container, limit))
}

/// A name that no other attempt has: engines know the letters of ASCII only.
fn name_of(work: &Work) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
    let job: String = work.job.chars().map(plain).take(NAME_MAX).collect();
    let digest = Sha256::digest(&work.key);
    let unique: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("turnwheel-job-{job}-{}-{}-{unique}", work.launch, work.attempt)
}

impl Executor for Containers {
    fn check(&self, config: &Settings) -> Result<(), String> {
        parse(config, String::new()).map(drop)
    }

    fn health(&self) -> Result<String, String> {
        match self.io.container_problem() {
            Some(problem) => Err(problem),
            None => Ok("built in".to_owned()),
        }
    }

    fn looks_outside(&self) -> bool {
        true
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        Verdict::Done(self.run(work, call).unwrap_or_else(|problem| Done::failure(problem, "")))
    }
}

impl Containers {
    fn run(&self, work: &Work, call: &Call<'_>) -> Result<Done, String> {
        let (mut container, own) = parse(&work.config, name_of(work))?;
        let variables = [("ENV_JOB_NAME", &work.job), ("TURNWHEEL_KEY", &work.key)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.clone()));
        container.environment.extend(variables);
        let limit = own.into_iter().chain(work.timeout).min().map_or(FOR_EVER, |limit| limit.0);
        let call_of = IoCall::new(&work.key, call.cancelled()).limit(Some(limit));
        let ended = self.io.container(&container, &call_of).map_err(|error| error.message)?;
        let mut output = ended.stdout;
        output.push_str(&ended.stderr);
        call.wrote(output.as_bytes());
        Ok(match ended.code {
            0 => Done::success(output),
            code => Done::failure(format!("its exit code is {code}"), output),
        })
    }
}
