//! Plugins: programs of a folder that do the work of jobs, in any language.
//!
//! One process does one attempt: nothing is left of a plugin that crashes, floods or hangs. It speaks
//! JSON, a line for each message, over its standard streams; `docs/jobs.md` has the messages.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, Pid, Signal};
use serde_json::{json, Value};
use turnwheel_jobs::{Call, Done, Executor, Settings, Verdict, Work};

use crate::io::guard::Guard;
use crate::io::HostIo;

/// Version of the messages.
const PROTOCOL: u64 = 1;

/// Programs of the folder that are taken.
const PLUGINS_MAX: usize = 64;

/// Time limit for the hello of a plugin, and for its word on its health.
const HELLO: Duration = Duration::from_secs(5);

/// Bytes of a message.
const LINE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Messages that were read and not looked at: a plugin that floods waits.
const LINES_WAITING: usize = 16;

/// Interval of looks at the end of the attempt.
const LOOK: Duration = Duration::from_millis(20);

/// Prefixes of file names that are no part of the plugin's name.
const PREFIXES: [&str; 2] = ["turnwheel-executor-", "dkron-executor-"];

/// A program of the folder.
#[derive(Clone, Debug)]
pub(super) struct Plugin {
    pub(super) io: HostIo,
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The plugins of a folder by name: programs that may be executed.
pub(super) fn of_folder(folder: &Path) -> Vec<(String, PathBuf)> {
    let files = match fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) => {
            tracing::error!(folder = %folder.display(), %error, "there are no plugins of jobs");
            return Vec::new();
        }
    };
    let mut found: Vec<(String, PathBuf)> = files
        .flatten()
        .map(|file| file.path())
        .filter(|path| {
            let data = fs::metadata(path);
            data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
        .filter_map(|path| {
            let stem = path.file_stem()?.to_str()?.to_owned();
            let short = PREFIXES.iter().find_map(|prefix| stem.strip_prefix(prefix));
            Some((short.unwrap_or(&stem).to_owned(), path))
        })
        .filter(|(name, _)| !name.is_empty() && !name.starts_with('.'))
        .collect();
    found.sort();
    found.dedup_by(|one, other| one.0 == other.0);
    if found.len() > PLUGINS_MAX {
        tracing::error!("{PLUGINS_MAX} plugins are the limit: the others are left out");
        found.truncate(PLUGINS_MAX);
    }
    found
}

/// A plugin that runs, and what it says. It is killed with its group when this is dropped.
struct Talk {
    child: Child,
    group: Option<Pid>,
    says: SyncSender<String>,
    lines: Receiver<Result<String, String>>,
    errors: Receiver<String>,
    _guard: Guard,
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ended = self.child.wait();
    }
}

/// Reads lines of bounded length; at last why there are no more.
fn read_lines(stream: impl Read, to: &SyncSender<Result<String, String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut bytes = Vec::new();
        let read = reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        let line = match read {
            Ok(0) | Err(_) => return,
            Ok(_) if bytes.len() as u64 > LINE_BYTES_MAX => {
                Err(format!("wrote a message of more than {LINE_BYTES_MAX} bytes"))
            }
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        };
        let is_last = line.is_err();
        if to.send(line).is_err() || is_last {
            return;
        }
    }
}

/// The last line that a plugin writes to standard error, when it has ended.
fn last_line(stream: impl Read, to: &SyncSender<String>) {
    let (mut reader, mut last, mut buffer) = (stream, Vec::new(), [0; 4_096]);
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        last.extend_from_slice(&buffer[..count]);
        last.drain(..last.len().saturating_sub(buffer.len()));
    }
    let text = String::from_utf8_lossy(&last);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let _gone = to.send(line.to_owned());
}

impl Talk {
    fn begin(mut command: Command) -> std::io::Result<Self> {
        let guard = Guard::begin()?;
        let group = guard.group();
        command.process_group(group.map_or(0, |group| group.as_raw_pid()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (says, to_say) = sync_channel::<String>(LINES_WAITING);
        let (line, lines) = sync_channel(LINES_WAITING);
        let (error, errors) = sync_channel(1);
        if let Some(mut stdin) = child.stdin.take() {
            // It blocks while the plugin reads nothing, and ends with it.
            thread::Builder::new().name("plugin-in".to_owned()).spawn(move || {
                for line in to_say {
                    if stdin.write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
            })?;
        }
        if let Some(stdout) = child.stdout.take() {
            let read = move || read_lines(stdout, &line);
            thread::Builder::new().name("plugin-out".to_owned()).spawn(read)?;
        }
        if let Some(stderr) = child.stderr.take() {
            let read = move || last_line(stderr, &error);
            thread::Builder::new().name("plugin-err".to_owned()).spawn(read)?;
        }
        Ok(Self { child, group, says, lines, errors, _guard: guard })
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Says something, unless the plugin reads nothing.
    fn say(&self, message: &Value) {
        let _full = self.says.try_send(format!("{message}\n"));
    }

    /// The next message; nothing if there was none in this time.
    fn hear(&self, within: Duration) -> Result<Option<Value>, String> {
        match self.lines.recv_timeout(within) {
            Ok(Ok(line)) => match serde_json::from_str::<Value>(&line) {
                Ok(message) if message["type"].is_string() => Ok(Some(message)),
                _ => {
                    let shown: String = line.chars().take(80).collect();
                    Err(format!("wrote what is no message: «{shown}»"))
                }
            },
            Ok(Err(problem)) => Err(problem),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let last = self.errors.recv_timeout(HELLO).unwrap_or_default();
                let why = if last.is_empty() { String::new() } else { format!(": {last}") };
                Err(format!("ended without an answer{why}"))
            }
        }
    }

    /// Exchanges hellos. Returns the version that the plugin gives.
    fn hello(&self) -> Result<String, String> {
        let version = env!("CARGO_PKG_VERSION");
        self.say(&json!({"type": "hello", "protocol": PROTOCOL, "turnwheel": version}));
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
        let mut command = Command::new(&self.path);
        command.env_clear();
        for name in &self.io.inner.options.environment {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Talk::begin(command).map_err(|error| self.told(&format!("could not be started: {error}")))
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
            talk.say(&json!({
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
                    talk.say(&json!({"type": "cancel"}));
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

    fn health(&self) -> Result<String, String> {
        let talk = self.begin()?;
        let told = |problem: String| self.told(&problem);
        let version = talk.hello().map_err(told)?;
        talk.say(&json!({"type": "health"}));
        let answer = talk.hear(HELLO).map_err(told)?;
        let silent = || self.told(&format!("said nothing about its health within {HELLO:?}"));
        let answer = answer.ok_or_else(silent)?;
        match (answer["type"].as_str(), answer["ok"].as_bool()) {
            (Some("health"), Some(true)) => Ok(format!("plugin {version}")),
            (Some("health"), Some(false)) => {
                let problem = answer["message"].as_str().unwrap_or("it does not say why");
                Err(self.told(&format!("is not well: {problem}")))
            }
            _ => Err(self.told(&format!("said what is unknown: {answer}"))),
        }
    }
}
