//! Talks with programs: lines to their standard input, and lines of their standard output.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process_group, Pid, Signal};
use turnwheel_flow::{IoCall, IoError, IoErrorKind, Process, Program, Reply};

use super::command::{name, prepare};
use super::guard::Guard;
use super::options::IoOptions;
use super::scarce::patiently;

/// Lines that were read and not looked at: a program that floods waits.
const LINES_WAITING: usize = 16;

/// Interval of looks at the end of the talk.
const LOOK: Duration = Duration::from_millis(20);

/// Time for the last words of a program that has ended.
const LAST: Duration = Duration::from_secs(5);

/// A program that runs, and what it says. It is killed with its group when this is dropped.
pub(super) struct Talk {
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
fn read_lines(stream: impl Read, max: u64, to: &SyncSender<Result<String, String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut bytes = Vec::new();
        let read = reader.by_ref().take(max + 1).read_until(b'\n', &mut bytes);
        let line = match read {
            Ok(0) | Err(_) => return,
            Ok(_) if bytes.len() as u64 > max => {
                Err(format!("wrote a message of more than {max} bytes"))
            }
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        };
        let is_last = line.is_err();
        if to.send(line).is_err() || is_last {
            return;
        }
    }
}

/// The last line that a program writes to standard error, when it has ended.
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
    /// Begins a program whose lines may have so many bytes.
    pub(super) fn begin(mut command: Command, line_max: u64) -> std::io::Result<Self> {
        let guard = Guard::begin()?;
        let group = guard.group();
        command.process_group(group.map_or(0, |group| group.as_raw_pid()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (says, to_say) = sync_channel::<String>(LINES_WAITING);
        let (line, lines) = sync_channel(LINES_WAITING);
        let (error, errors) = sync_channel(1);
        if let Some(mut stdin) = child.stdin.take() {
            // It blocks while the program reads nothing, and ends with it.
            thread::Builder::new().name("talk-in".to_owned()).spawn(move || {
                for line in to_say {
                    if stdin.write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
            })?;
        }
        if let Some(stdout) = child.stdout.take() {
            let read = move || read_lines(stdout, line_max, &line);
            thread::Builder::new().name("talk-out".to_owned()).spawn(read)?;
        }
        if let Some(stderr) = child.stderr.take() {
            let read = move || last_line(stderr, &error);
            thread::Builder::new().name("talk-err".to_owned()).spawn(read)?;
        }
        Ok(Self { child, group, says, lines, errors, _guard: guard })
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Says a line, unless the program reads nothing.
    pub(super) fn say(&self, line: &str) {
        let _full = self.says.try_send(format!("{line}\n"));
    }

    /// The next line; nothing if there was none in this time.
    pub(super) fn line(&self, within: Duration) -> Result<Option<String>, String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => line.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let last = self.errors.recv_timeout(LAST).unwrap_or_default();
                let why = if last.is_empty() { String::new() } else { format!(": {last}") };
                Err(format!("ended without an answer{why}"))
            }
        }
    }
}

/// Talks with a program until enough is said, or its time is up.
pub(super) fn run(
    options: &IoOptions,
    process: &Process,
    talk: &mut dyn FnMut(Option<&str>) -> Reply,
    call: &IoCall<'_>,
    are_over: &AtomicBool,
) -> Result<(), IoError> {
    let Program::Command(program) = &process.program else {
        let message = "only a program by its name can be talked with";
        return Err(IoError::new(IoErrorKind::Unsupported, message));
    };
    let name = name(&process.program);
    let limit = call.limit.unwrap_or(options.command_timeout);
    let until = Instant::now() + limit;
    let is_over = || are_over.load(Ordering::Relaxed) || call.is_cancelled();
    let line_max = options.output_max as u64;
    let begun = patiently(limit, &is_over, || {
        let mut command = Command::new(program);
        command.args(&process.arguments);
        prepare(&mut command, options, process, call);
        Talk::begin(command, line_max)
    });
    let told = |kind, problem: String| IoError::new(kind, format!("{name} {problem}"));
    let begun = begun
        .map_err(|error| told(IoErrorKind::NotFound, format!("could not be started: {error}")))?;
    let mut line = None;
    loop {
        match talk(line.as_deref()) {
            Reply::Enough => return Ok(()),
            Reply::Say(lines) => lines.iter().for_each(|line| begun.say(line)),
        }
        line = loop {
            if is_over() {
                return Err(told(IoErrorKind::Cancelled, "was cancelled".to_owned()));
            }
            if Instant::now() >= until {
                return Err(told(IoErrorKind::TimedOut, format!("did not answer in {limit:?}")));
            }
            let heard = begun.line(LOOK);
            let heard = heard.map_err(|problem| told(IoErrorKind::Communication, problem))?;
            if heard.is_some() {
                break heard;
            }
        };
    }
}
