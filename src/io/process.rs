//! Commands in process groups of their own: their output, their time, their end.
//!
//! One thread looks after a command: it waits for its outputs and its end at once, and never for longer
//! than a few milliseconds, so that a command that floods, is silent, or ignores SIGTERM is noticed.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};
use rustix::process::{kill_process_group, Pid, Signal};
use turnwheel_flow::{IoCall, IoError, IoErrorKind, Process, ProcessResult};

pub(super) use super::command::interpreter;
use super::command::{command_line, name, prepare, SHELL};
use super::guard::Guard;
use super::options::IoOptions;
use super::scarce::patiently;

/// Shortest and longest interval of checks: a short command is not kept waiting.
const TICK_MIN: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_millis(20);

/// Time for outputs that another process holds open after the end of the command.
const LEFT_OPEN: Duration = Duration::from_millis(200);

/// Bytes that are read of an output before the other one is looked at.
const READ: usize = 64 * 1_024;

/// Runs a command until its end.
pub(super) fn run(
    options: &IoOptions,
    process: &Process,
    call: &IoCall<'_>,
    are_over: &AtomicBool,
) -> Result<ProcessResult, IoError> {
    let name = name(&process.program);
    let limit = call.limit.unwrap_or(options.command_timeout);
    let (program, arguments) = command_line(process)?;
    let mut command = Command::new(program);
    command.args(arguments);
    prepare(&mut command, options, process, call);
    let is_over = || are_over.load(Ordering::Relaxed) || call.is_cancelled();
    let limits = Limits { time: limit, grace: options.command_grace, output: options.output_max };
    supervise_told(command, &name, process.stdin.as_deref(), limits, &is_over, call.wrote)
}

/// Limits of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) time: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Bytes of each of its outputs.
    pub(super) output: usize,
}

/// Starts a command and looks after it until its end.
pub(super) fn supervise(
    command: Command,
    name: &str,
    input: Option<&str>,
    limits: Limits,
    is_over: &dyn Fn() -> bool,
) -> Result<ProcessResult, IoError> {
    supervise_told(command, name, input, limits, is_over, None)
}

/// The same, and what it writes is told as it comes.
fn supervise_told(
    command: Command,
    name: &str,
    input: Option<&str>,
    limits: Limits,
    is_over: &dyn Fn() -> bool,
    wrote: Option<Told<'_>>,
) -> Result<ProcessResult, IoError> {
    let input = input.map(|text| text.as_bytes().to_vec());
    let (mut watched, mut pipes) = begin(command, name, input, limits, is_over)?;
    pipes.wrote = wrote.map(|wrote| wrote as Wrote<'_>);
    let ended = watched.see_through(&mut pipes, is_over, limits.time, limits.grace)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(ProcessResult {
        code: code(ended),
        stdout: text(pipes.stdout.bytes),
        stderr: text(pipes.stderr.bytes),
    })
}

fn code(ended: ExitStatus) -> i32 {
    ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0))
}

/// End of a command whose output may be longer than its limit.
pub(super) struct Long {
    /// The exit code, or why it was ended.
    pub(super) ended: Result<i32, IoError>,
    /// The last bytes of its output, and then those of its error output.
    pub(super) output: Vec<u8>,
    /// Bytes that it has written.
    pub(super) bytes: u64,
}

type Wrote<'a> = &'a dyn Fn(&[u8]);

/// The same, as a call has it.
type Told<'a> = &'a (dyn Fn(&[u8]) + Sync);

/// Questions about a long command: whether it is to end, whether its group is too large; its
/// process once it has begun, and what it has written.
pub(super) struct Watch<'a> {
    pub(super) begun: &'a dyn Fn(u32),
    pub(super) is_over: &'a dyn Fn() -> bool,
    pub(super) is_too_large: &'a dyn Fn(i32) -> bool,
    pub(super) wrote: Wrote<'a>,
}

/// As [`supervise`], but the end of a long output is kept.
pub(super) fn supervise_long(
    command: Command,
    input: Option<Vec<u8>>,
    limits: Limits,
    watch: &Watch<'_>,
) -> Result<Long, IoError> {
    let Watch { begun, is_over, is_too_large, wrote } = *watch;
    let (mut watched, mut pipes) = begin(command, "the command", input, limits, is_over)?;
    begun(watched.child.id());
    (pipes.stdout.keeps_end, pipes.stderr.keeps_end) = (true, true);
    pipes.wrote = Some(wrote);
    let group = watched.group.map_or(0, Pid::as_raw_pid);
    let ends = || is_over() || is_too_large(group);
    let ended = watched.see_through(&mut pipes, &ends, limits.time, limits.grace);
    let bytes = pipes.stdout.total + pipes.stderr.total;
    let mut output = pipes.stdout.bytes;
    output.append(&mut pipes.stderr.bytes);
    output.drain(..output.len().saturating_sub(limits.output));
    Ok(Long { ended: ended.map(code), output, bytes })
}

fn begin(
    mut command: Command,
    name: &str,
    input: Option<Vec<u8>>,
    limits: Limits,
    is_over: &dyn Fn() -> bool,
) -> Result<(Watched, Pipes<'static>), IoError> {
    let name = name.to_owned();
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let guard = patiently(limits.time, is_over, Guard::begin);
    let guard = guard.map_err(|error| not_started(&name, &error))?;
    let group = guard.group();
    command.process_group(group.map_or(0, |group| group.as_raw_pid()));
    let child = patiently(limits.time, is_over, || command.spawn());
    let mut child = child.map_err(|error| not_started(&name, &error))?;
    let input = input.unwrap_or_default();
    let outputs = (child.stdout.take(), child.stderr.take());
    let stdin = child.stdin.take();
    let watched = Watched { child, group, name, is_reaped: false, _guard: guard };
    let (Some(stdout), Some(stderr)) = outputs else {
        return Err(watched.failed("it has no outputs"));
    };
    let pipes = Pipes {
        stdin,
        input,
        written: 0,
        stdout: Output::new(stdout),
        stderr: Output::new(stderr),
        max: limits.output,
        wrote: None,
    };
    pipes.unblock().map_err(|error| watched.failed(&error.to_string()))?;
    Ok((watched, pipes))
}

/// Starts a command without waiting for it: it belongs to the system when this returns.
pub(super) fn detach(
    options: &IoOptions,
    process: &Process,
    call: &IoCall<'_>,
) -> Result<(), IoError> {
    let name = name(&process.program);
    let (program, arguments) = command_line(process)?;
    // The shell begins it in the background and ends, so that no zombie is left here.
    let mut command = Command::new(SHELL);
    command.args(["-c", "\"$@\" </dev/null >/dev/null 2>&1 &", "sh"]).arg(program).args(arguments);
    prepare(&mut command, options, process, call);
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let limit = call.limit.unwrap_or(options.command_timeout);
    let ended = patiently(limit, &|| call.is_cancelled(), || command.status());
    let ended = ended.map_err(|error| not_started(&name, &error))?;
    if ended.success() {
        return Ok(());
    }
    Err(IoError::new(IoErrorKind::Communication, format!("{name} could not be started: {ended}")))
}

fn not_started(name: &str, error: &std::io::Error) -> IoError {
    let kind = match error.kind() {
        ErrorKind::NotFound => IoErrorKind::NotFound,
        ErrorKind::PermissionDenied => IoErrorKind::Forbidden,
        ErrorKind::ArgumentListTooLong => IoErrorKind::TooLarge,
        _ => IoErrorKind::Communication,
    };
    IoError::new(kind, format!("{name} could not be started: {error}"))
}

/// An output that is read as it arrives.
struct Output<P> {
    /// Nothing when it is at its end.
    pipe: Option<P>,
    bytes: Vec<u8>,
    /// Bytes that were written.
    total: u64,
    /// Whether the last bytes of a long output are kept, instead of ending the command.
    keeps_end: bool,
    is_too_long: bool,
}

impl<P: Read> Output<P> {
    fn new(pipe: P) -> Self {
        Self { pipe: Some(pipe), bytes: Vec::new(), total: 0, keeps_end: false, is_too_long: false }
    }

    /// Reads available bytes; bytes beyond the limit are dropped, so that the command does not
    /// block.
    fn read(&mut self, max: usize, buffer: &mut [u8], wrote: Option<Wrote<'_>>) {
        let Some(pipe) = &mut self.pipe else { return };
        let tell = |bytes: &[u8]| wrote.into_iter().for_each(|wrote| wrote(bytes));
        match pipe.read(buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) if self.keeps_end => {
                tell(&buffer[..count]);
                self.total += count as u64;
                self.bytes.extend_from_slice(&buffer[..count]);
                // Seldom, so that each byte is moved a few times at most.
                if self.bytes.len() > 2 * max.max(READ) {
                    self.bytes.drain(..self.bytes.len() - max);
                }
            }
            Ok(count) => {
                tell(&buffer[..count]);
                let room = max.saturating_sub(self.bytes.len());
                self.is_too_long |= count > room;
                self.bytes.extend_from_slice(&buffer[..count.min(room)]);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.pipe = None,
        }
    }
}

/// Input and outputs of a command.
struct Pipes<'a> {
    stdin: Option<ChildStdin>,
    input: Vec<u8>,
    written: usize,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
    max: usize,
    wrote: Option<Wrote<'a>>,
}

impl Pipes<'_> {
    fn unblock(&self) -> rustix::io::Result<()> {
        fn unblock(pipe: Option<&impl AsFd>) -> rustix::io::Result<()> {
            let Some(pipe) = pipe else { return Ok(()) };
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)
        }
        unblock(self.stdin.as_ref())?;
        unblock(self.stdout.pipe.as_ref())?;
        unblock(self.stderr.pipe.as_ref())
    }

    /// Waits for a moment, or until something can be read or written, and does that.
    fn step(&mut self, tick: Duration, buffer: &mut [u8]) {
        let mut fds = Vec::with_capacity(3);
        let stdout = self.stdout.pipe.as_ref().map(AsFd::as_fd);
        let stderr = self.stderr.pipe.as_ref().map(AsFd::as_fd);
        let stdin = self.stdin.as_ref().map(AsFd::as_fd);
        fds.extend(
            stdout.into_iter().chain(stderr).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
        );
        fds.extend(stdin.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(tick.subsec_nanos()) };
        // If it fails the pipes are read without: they do not block.
        let _ready = poll(&mut fds, Some(&timeout));
        drop(fds);
        self.stdout.read(self.max, buffer, self.wrote);
        self.stderr.read(self.max, buffer, self.wrote);
        self.write();
    }

    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.input[self.written..]) {
            Ok(count) => self.written += count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // The command does not read its input, which is no error.
            Err(_) => self.written = self.input.len(),
        }
        if self.written >= self.input.len() {
            self.stdin = None;
        }
    }

    fn are_at_end(&self) -> bool {
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    fn is_too_long(&self) -> bool {
        self.stdout.is_too_long || self.stderr.is_too_long
    }
}

/// A running command, which is ended when this is dropped.
struct Watched {
    child: Child,
    group: Option<Pid>,
    name: String,
    is_reaped: bool,
    /// The last one to go: it keeps the number of the group.
    _guard: Guard,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.signal(Signal::KILL);
            // After SIGKILL nothing more can be done.
            let _ended = self.child.wait();
        }
    }
}

impl Watched {
    fn failed(&self, problem: &str) -> IoError {
        IoError::new(IoErrorKind::Communication, format!("{}: {problem}", self.name))
    }

    /// Signals the command and all that it has started. The group may be gone.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _gone = kill_process_group(group, signal);
        }
    }

    /// Looks after the command until it has ended.
    fn see_through(
        &mut self,
        pipes: &mut Pipes<'_>,
        is_over: &dyn Fn() -> bool,
        limit: Duration,
        grace: Duration,
    ) -> Result<ExitStatus, IoError> {
        let deadline = Instant::now() + limit;
        let (mut tick, mut buffer) = (TICK_MIN, vec![0; READ]);
        let mut problem: Option<IoError> = None;
        let mut kill_at: Option<Instant> = None;
        let ended = loop {
            let was_at_end = pipes.are_at_end();
            pipes.step(tick, &mut buffer);
            // Closed outputs are the only sign that its end is near.
            let is_news = pipes.are_at_end() && !was_at_end;
            tick = if is_news { TICK_MIN } else { (tick * 2).min(TICK_MAX) };
            if let Some(ended) = self.child.try_wait().map_err(|e| self.failed(&e.to_string()))? {
                self.is_reaped = true;
                break ended;
            }
            let now = Instant::now();
            if problem.is_none() {
                problem = self.problem(pipes, is_over, limit, now >= deadline);
                if problem.is_some() {
                    self.signal(Signal::TERM);
                    kill_at = Some(now + grace);
                }
            }
            if kill_at.is_some_and(|at| now >= at) {
                self.signal(Signal::KILL);
                kill_at = None;
            }
        };
        self.read_rest(pipes, &mut buffer);
        if problem.is_none() && pipes.is_too_long() {
            problem = self.problem(pipes, is_over, limit, false);
        }
        problem.map_or(Ok(ended), Err)
    }

    /// Why it is to end, if it is.
    fn problem(
        &self,
        pipes: &Pipes<'_>,
        is_over: &dyn Fn() -> bool,
        limit: Duration,
        is_late: bool,
    ) -> Option<IoError> {
        let name = &self.name;
        let (kind, message) = if pipes.is_too_long() {
            let max = pipes.max;
            let message = format!("{name} has written more than {max} bytes and was ended");
            (IoErrorKind::TooLarge, message)
        } else if is_late {
            (IoErrorKind::TimedOut, format!("{name} ran longer than {limit:?} and was ended"))
        } else if is_over() {
            (IoErrorKind::Cancelled, format!("{name} was ended: nobody waits for it any longer"))
        } else {
            return None;
        };
        Some(IoError::new(kind, message))
    }

    /// Reads the rest of the pipes. A process of the group that still holds them open gets a
    /// moment, and is then ended.
    fn read_rest(&self, pipes: &mut Pipes<'_>, buffer: &mut [u8]) {
        let until = Instant::now() + LEFT_OPEN;
        while !pipes.are_at_end() && Instant::now() < until {
            pipes.stdin = None;
            pipes.step(TICK_MIN, buffer);
        }
        if !pipes.are_at_end() {
            // While a process of the group is left, no other group gets its number.
            self.signal(Signal::KILL);
        }
    }
}
