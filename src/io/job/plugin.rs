//! Plugins: programs of a folder that do the work of jobs, in any language.
//!
//! One process does one attempt: nothing is left of a plugin that crashes, floods or hangs. It speaks
//! JSON, a line for each message, over its standard streams; `docs/jobs.md` has the messages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{json, Value};
use turnwheel_jobs::{Call, Done, Executor, Processed, Processor, Settings, Verdict, Work};

use crate::io::talk::Talk;
use crate::io::HostIo;

/// Version of the messages.
const PROTOCOL: u64 = 1;

/// Programs of the folder that are taken.
const PLUGINS_MAX: usize = 64;

/// Time limit for the hello of a plugin, and for its word on its health.
const HELLO: Duration = Duration::from_secs(5);

/// Bytes of a message.
const LINE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Interval of looks at the end of the attempt.
const LOOK: Duration = Duration::from_millis(20);

/// Prefixes of file names that are no part of the plugin's name, and the work of such plugins.
const PREFIXES: [(&str, Role); 4] = [
    ("turnwheel-executor-", Role::Executor),
    ("dkron-executor-", Role::Executor),
    ("turnwheel-processor-", Role::Processor),
    ("dkron-processor-", Role::Processor),
];

/// Time limit of a processor: the end of the attempt is stored after it.
const PROCESS: Duration = Duration::from_secs(30);

/// The work of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// It does the work of runs.
    Executor,
    /// It takes their outputs.
    Processor,
}

/// A program of the folder.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    pub(super) io: HostIo,
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The plugins of a folder by role and name: programs that may be executed.
pub(super) fn of_folder(folder: &Path) -> Vec<(Role, String, PathBuf)> {
    let files = match fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) => {
            tracing::error!(folder = %folder.display(), %error, "there are no plugins of jobs");
            return Vec::new();
        }
    };
    let mut found: Vec<(Role, String, PathBuf)> = files
        .flatten()
        .map(|file| file.path())
        .filter(|path| {
            let data = fs::metadata(path);
            data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
        .filter_map(|path| {
            let stem = path.file_stem()?.to_str()?.to_owned();
            let short = |(prefix, role): &(&str, Role)| Some((*role, stem.strip_prefix(prefix)?));
            let short = PREFIXES.iter().find_map(short);
            let (role, name) = short.unwrap_or((Role::Executor, &stem));
            Some((role, name.to_owned(), path))
        })
        .filter(|(_, name, _)| !name.is_empty() && !name.starts_with('.'))
        .collect();
    found.sort();
    found.dedup_by(|one, other| (one.0, &one.1) == (other.0, &other.1));
    if found.len() > PLUGINS_MAX {
        tracing::error!("{PLUGINS_MAX} plugins are the limit: the others are left out");
        found.truncate(PLUGINS_MAX);
    }
    found
}

/// Where the program that gives a process a network of its own is, and what it needs to be told.
const UNSHARE: [&str; 2] = ["/usr/bin/unshare", "/bin/unshare"];

/// How this host starts a process without its network; nothing if it cannot.
fn isolation() -> Option<&'static [&'static str]> {
    static FOUND: OnceLock<Option<&[&str]>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let program = UNSHARE.iter().find(|path| Path::new(path).is_file())?;
        let ways: [&[&str]; 2] = match *program {
            "/usr/bin/unshare" => [
                &["/usr/bin/unshare", "--net", "--"],
                &["/usr/bin/unshare", "--user", "--map-current-user", "--net", "--"],
            ],
            _ => [
                &["/bin/unshare", "--net", "--"],
                &["/bin/unshare", "--user", "--map-current-user", "--net", "--"],
            ],
        };
        ways.into_iter().find(|way| {
            let mut tried = Command::new(way[0]);
            tried.args(&way[1..]).arg("true").stdin(Stdio::null());
            let tried = tried.stdout(Stdio::null()).stderr(Stdio::null()).status();
            tried.is_ok_and(|status| status.success())
        })
    })
}

/// A command for a plugin: without the network, unless it may have it or the host cannot.
fn alone(path: &Path, has_network: bool) -> Command {
    match isolation().filter(|_| !has_network) {
        Some(way) => {
            let mut command = Command::new(way[0]);
            command.args(&way[1..]).arg(path);
            command
        }
        None => Command::new(path),
    }
}

impl Talk {
    fn tell(&self, message: &Value) {
        self.say(&message.to_string());
    }

    /// The next message; nothing if there was none in this time.
    fn hear(&self, within: Duration) -> Result<Option<Value>, String> {
        let Some(line) = self.line(within)? else { return Ok(None) };
        match serde_json::from_str::<Value>(&line) {
            Ok(message) if message["type"].is_string() => Ok(Some(message)),
            _ => {
                let shown: String = line.chars().take(80).collect();
                Err(format!("wrote what is no message: «{shown}»"))
            }
        }
    }

    /// Exchanges hellos. Returns the version that the plugin gives.
    fn hello(&self) -> Result<String, String> {
        let version = env!("CARGO_PKG_VERSION");
        self.tell(&json!({"type": "hello", "protocol": PROTOCOL, "turnwheel": version}));
        let hello = self.hear(HELLO)?.ok_or(format!("said no hello within {HELLO:?}"))?;
        match (hello["type"].as_str(), &hello["protocol"]) {
            (Some("hello"), protocol) if protocol.as_u64() == Some(PROTOCOL) => {
                Ok(hello["version"].as_str().unwrap_or_default().to_owned())
            }
            (Some("hello"), other) => {
                Err(format!("speaks protocol {other}, and {PROTOCOL} is wanted"))
            }
            (other, _) => Err(format!("said {} instead of hello", other.unwrap_or_default())),
        }
    }
}

/// Output of a plugin, as far as it is kept.
struct Written {
    text: String,
    bytes: u64,
    max: usize,
}

impl Written {
    fn add(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.text.push_str(text);
        if self.text.len() > 2 * self.max.max(4_096) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let from = self.text.len().saturating_sub(self.max);
        let from = (from..=self.text.len()).find(|at| self.text.is_char_boundary(*at));
        self.text.drain(..from.unwrap_or(0));
    }

    fn done(mut self, outcome: Result<(), String>) -> Done {
        self.cut();
        let (is_success, reason) = (outcome.is_ok(), outcome.err().unwrap_or_default());
        Done { is_success, reason, output: self.text, output_bytes: self.bytes }
    }
}

impl Plugin {
    fn begin(&self) -> Result<Talk, String> {
        self.io.may_run().map_err(|error| error.message)?;
        let mut command = alone(&self.path, self.io.inner.options.plugins_network);
        command.env_clear();
        for name in &self.io.inner.options.environment {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Talk::begin(command, LINE_BYTES_MAX)
            .map_err(|error| self.told(&format!("could not be started: {error}")))
    }

    fn has_network(&self) -> bool {
        self.io.inner.options.plugins_network || isolation().is_none()
    }

    fn told(&self, problem: &str) -> String {
        format!("the plugin {} {problem}", self.name)
    }

    fn run(&self, work: &Work, call: &Call<'_>) -> Done {
        let max = usize::try_from(work.output_max).unwrap_or(usize::MAX);
        let mut written = Written { text: String::new(), bytes: 0, max };
        let outcome = self.begin().and_then(|talk| {
            let told = |problem: String| self.told(&problem);
            talk.hello().map_err(told)?;
            talk.tell(&json!({
                "type": "execute", "job": work.job, "launch": work.launch,
                "planned": work.planned.to_string(), "attempt": work.attempt,
                "node": work.node, "key": work.key, "config": work.config,
            }));
            self.follow(&talk, work, call, &mut written)
        });
        written.done(outcome)
    }

    /// Hears a plugin until its result.
    fn follow(
        &self,
        talk: &Talk,
        work: &Work,
        call: &Call<'_>,
        written: &mut Written,
    ) -> Result<(), String> {
        let deadline = work.timeout.map(|limit| (Instant::now() + limit.0, limit));
        let are_over = &self.io.inner.commands.are_over;
        let mut ends: Option<(Instant, String)> = None;
        loop {
            match talk.hear(LOOK) {
                Ok(Some(message)) => {
                    let text = message["output"].as_str().unwrap_or_default();
                    written.add(text);
                    call.wrote(text.as_bytes());
                    match (message["type"].as_str(), message["success"].as_bool()) {
                        (Some("progress"), _) => {}
                        (Some("result"), Some(is_success)) if ends.is_none() => {
                            let error = message["error"].as_str().unwrap_or("it failed");
                            return is_success.then_some(()).ok_or(error.to_owned());
                        }
                        // A result after its end counts no more.
                        (Some("result"), _) if ends.is_some() => {}
                        _ => return Err(self.told(&format!("said what is unknown: {message}"))),
                    }
                }
                Ok(None) => {}
                Err(problem) => {
                    return Err(ends.map_or_else(|| self.told(&problem), |(_, why)| why));
                }
            }
            let now = Instant::now();
            let why = match deadline {
                Some((at, limit)) if now >= at => Some(format!("ran longer than {limit}")),
                _ if call.is_cancelled() || are_over.load(Ordering::Relaxed) => {
                    Some("was cancelled".to_owned())
                }
                _ => None,
            };
            match (&ends, why) {
                (None, Some(why)) => {
                    talk.tell(&json!({"type": "cancel"}));
                    talk.signal(Signal::TERM);
                    ends = Some((now + self.io.inner.options.command_grace, self.told(&why)));
                }
                (Some((at, why)), _) if now >= *at => return Err(why.clone()),
                _ => {}
            }
        }
    }
}

impl Executor for Plugin {
    fn check(&self, _config: &Settings) -> Result<(), String> {
        Ok(())
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        Verdict::Done(self.io.counted(|| self.run(work, call)))
    }

    fn looks_outside(&self) -> bool {
        true
    }

    fn health(&self) -> Result<String, String> {
        let talk = self.begin()?;
        let told = |problem: String| self.told(&problem);
        let version = talk.hello().map_err(told)?;
        talk.tell(&json!({"type": "health"}));
        let answer = talk.hear(HELLO).map_err(told)?;
        let silent = || self.told(&format!("said nothing about its health within {HELLO:?}"));
        let answer = answer.ok_or_else(silent)?;
        match (answer["type"].as_str(), answer["ok"].as_bool()) {
            (Some("health"), Some(true)) => Ok(match self.has_network() {
                true => format!("plugin {version}, with the network of the host"),
                false => format!("plugin {version}"),
            }),
            (Some("health"), Some(false)) => {
                let problem = answer["message"].as_str().unwrap_or("it does not say why");
                Err(self.told(&format!("is not well: {problem}")))
            }
            _ => Err(self.told(&format!("said what is unknown: {answer}"))),
        }
    }
}

impl Processor for Plugin {
    fn check(&self, _settings: &Settings) -> Result<(), String> {
        Ok(())
    }

    fn process(&self, processed: &Processed<'_>, settings: &Settings) -> Result<String, String> {
        self.io.counted(|| {
            let talk = self.begin()?;
            let told = |problem: String| self.told(&problem);
            talk.hello().map_err(told)?;
            let Processed { work, done, started_at, ended_at, .. } = processed;
            talk.tell(&json!({
                "type": "process", "job": work.job, "launch": work.launch,
                "planned": work.planned.to_string(), "attempt": work.attempt,
                "node": work.node, "key": work.key, "settings": settings,
                "success": done.is_success, "reason": done.reason, "output": done.output,
                "started_at": started_at.to_string(), "ended_at": ended_at.to_string(),
            }));
            let answer = talk.hear(PROCESS).map_err(told)?;
            let answer =
                answer.ok_or_else(|| self.told(&format!("took nothing within {PROCESS:?}")))?;
            match (answer["type"].as_str(), answer["success"].as_bool()) {
                (Some("result"), Some(true)) => {
                    let note = answer["output"].as_str().unwrap_or_default();
                    let taken = || format!("Output taken by {}", self.name);
                    Ok(if note.is_empty() { taken() } else { note.to_owned() })
                }
                (Some("result"), Some(false)) => {
                    Err(self.told(answer["error"].as_str().unwrap_or("has failed")))
                }
                _ => Err(self.told(&format!("said what is unknown: {answer}"))),
            }
        })
    }
}
