//! The executor `shell`: a command of this host, in a process group that is ended as a whole.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use turnwheel_jobs::{Call, Done, Executor, Settings, Span, Verdict, Work};

use super::cgroup::Cgroup;
use super::{account, only, payload};
use crate::io::command::SHELL;
use crate::io::process::{supervise_long, Limits, Watch};
use crate::io::HostIo;

/// Settings that the executor knows.
const KNOWN: [&str; 9] =
    ["command", "shell", "env", "cwd", "timeout", "mem_limit", "su", "payload", "debug"];

/// Time limit of a command without one.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Units of `mem_limit`.
const UNITS: [(&str, f64); 5] = [
    ("tb", 1_099_511_627_776.0),
    ("gb", 1_073_741_824.0),
    ("mb", 1_048_576.0),
    ("kb", 1_024.0),
    ("b", 1.0),
];

/// Runs commands.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    pub(super) io: HostIo,
}

impl Executor for Shell {
    fn check(&self, config: &Settings) -> Result<(), String> {
        only("shell", config, &KNOWN)?;
        if config.get("command").is_none_or(|command| command.trim().is_empty()) {
            return Err("command: it is empty: give a program with its arguments".to_owned());
        }
        if let Some(text) = config.get("timeout").filter(|text| !text.is_empty()) {
            text.parse::<Span>().map_err(|problem| format!("timeout: {problem}"))?;
        }
        memory(config.get("mem_limit").map_or("", String::as_str))?;
        payload(config)?;
        account::check(config.get("su").map_or("", String::as_str))?;
        if !is_shell(config) {
            words(config.get("command").map_or("", String::as_str))?;
        }
        Ok(())
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        Verdict::Done(self.run(work, call).unwrap_or_else(|problem| Done::failure(problem, "")))
    }
}

impl Shell {
    fn run(&self, work: &Work, call: &Call<'_>) -> Result<Done, String> {
        self.io.may_run().map_err(|error| error.message)?;
        let config = &work.config;
        let memory = memory(config.get("mem_limit").map_or("", String::as_str))?;
        let cgroup = match (memory, &self.io.inner.options.jobs_cgroup) {
            (Some(bytes), Some(parent)) => Some(Cgroup::below(parent, bytes)?),
            _ => None,
        };
        let command = command(config)?;
        let mut command = if cgroup.is_some() { Cgroup::before(&command) } else { command };
        command.env_clear();
        for name in &self.io.inner.options.environment {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("ENV_JOB_NAME", &work.job).env("TURNWHEEL_KEY", &work.key);
        for pair in config.get("env").map_or("", String::as_str).split(',') {
            if let Some((name, value)) = pair.split_once('=') {
                command.env(name.trim(), value);
            }
        }
        account::switch(&mut command, config.get("su").map_or("", String::as_str))?;
        if let Some(folder) = config.get("cwd").filter(|folder| !folder.is_empty()) {
            if !Path::new(folder).is_dir() {
                return Err(format!("cwd: there is no folder {folder}"));
            }
            command.current_dir(folder);
        }
        let own = config.get("timeout").and_then(|text| text.parse::<Span>().ok());
        let limits = own.into_iter().chain(work.timeout).map(|span| span.0);
        let limit = limits.filter(|limit| !limit.is_zero()).min();
        let input = payload(config)?;
        let max = usize::try_from(work.output_max).unwrap_or(usize::MAX);
        let looks = Memory::new(memory, cgroup);
        let are_over = &self.io.inner.commands.are_over;
        let is_over = || are_over.load(Ordering::Relaxed) || call.is_cancelled();
        let grace = self.io.inner.options.command_grace;
        let limits = Limits { time: limit.unwrap_or(FOR_EVER), grace, output: max };
        let is_too_large = |group: i32| looks.is_over(group);
        let wrote = |bytes: &[u8]| call.wrote(bytes);
        let begun = |process: u32| looks.begun(process);
        let watch =
            Watch { begun: &begun, is_over: &is_over, is_too_large: &is_too_large, wrote: &wrote };
        let run = || supervise_long(command, input, limits, &watch);
        let long = self.io.counted(run).map_err(|error| error.message)?;
        let reason = match long.ended {
            _ if looks.was_over() => "it took more memory than mem_limit".to_owned(),
            Ok(0) => String::new(),
            Ok(code) => format!("its exit code is {code}"),
            Err(error) => error.message,
        };
        let mut output = String::from_utf8_lossy(&long.output).into_owned();
        if output.is_empty() {
            output.clone_from(&reason);
        } else if limit.is_some() && !reason.is_empty() && !reason.starts_with("its exit code") {
            output.push_str(&format!("\n{reason}"));
        }
        Ok(Done { is_success: reason.is_empty(), reason, output, output_bytes: long.bytes })
    }
}

/// Watch over the memory of a process group: by the kernel where there is a cgroup for it, and once
/// a second.
struct Memory {
    limit: Option<u64>,
    cgroup: Option<Cgroup>,
    next: Cell<Instant>,
    has_ended: Cell<bool>,
}

impl Memory {
    fn new(limit: Option<u64>, cgroup: Option<Cgroup>) -> Self {
        Self { limit, cgroup, next: Cell::new(Instant::now()), has_ended: Cell::new(false) }
    }

    /// Has it taken in; one that cannot be is looked at as without a cgroup.
    fn begun(&self, process: u32) {
        if let Some(Err(error)) = self.cgroup.as_ref().map(|cgroup| cgroup.take(process)) {
            tracing::error!(%error, process, "not in its cgroup: its memory is looked at each second");
        }
    }

    /// Whether it was ended for its memory, by either.
    fn was_over(&self) -> bool {
        self.has_ended.get() || self.cgroup.as_ref().is_some_and(Cgroup::has_ended_one)
    }

    /// Whether the group has more than the limit.
    fn is_over(&self, group: i32) -> bool {
        let Some(limit) = self.limit.filter(|_| Instant::now() >= self.next.get()) else {
            return self.has_ended.get();
        };
        self.next.set(Instant::now() + Duration::from_secs(1));
        if memory_of(group) > limit || self.was_over() {
            self.has_ended.set(true);
        }
        self.has_ended.get()
    }
}

/// Resident bytes of the processes of a group; 0 where the system does not tell.
fn memory_of(group: i32) -> u64 {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_group = folders.filter_map(|folder| {
        let stat = fs::read_to_string(folder.path().join("stat")).ok()?;
        // The name of the program may have blanks: the fields follow its closing bracket.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        (fields.get(2)?.parse::<i32>().ok()? == group).then_some(())?;
        let status = fs::read_to_string(folder.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    of_group.sum::<u64>() * 1_024
}

fn is_shell(config: &Settings) -> bool {
    config.get("shell").is_some_and(|shell| matches!(shell.as_str(), "true" | "1" | "t" | "yes"))
}

fn command(config: &Settings) -> Result<Command, String> {
    let text = config.get("command").map_or("", String::as_str);
    if is_shell(config) {
        let mut command = Command::new(SHELL);
        command.args(["-c", text]);
        return Ok(command);
    }
    let words = words(text)?;
    let (program, arguments) = words.split_first().ok_or("command: it is empty")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Splits a command line as a shell does, with quotes and backslashes, and nothing else.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_with(String::new);
            }
            (None | Some('"'), '\\') => {
                let next = rest.next().ok_or("command: it ends with a backslash")?;
                word.get_or_insert_with(String::new).push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_with(String::new).push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("command: a quote {open} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

/// Reads a limit of memory: bytes, or a number with B, KB, MB, GB or TB.
fn memory(text: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("mem_limit: «{text}» is no size: write it as 512MB or 1.5GB");
    let lower = text.trim().to_ascii_lowercase();
    if lower.is_empty() {
        return Ok(None);
    }
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes)));
    let (number, unit) = unit.unwrap_or((lower.as_str(), 1.0));
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    if !number.is_finite() || number <= 0.0 {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive")]
    Ok(Some((number * unit) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_memory_have_units_in_any_case() {
        for (text, bytes) in
            [("1024", 1_024), ("1kb", 1_024), ("1.5MB", 1_572_864), ("2Gb", 2_147_483_648)]
        {
            assert_eq!(memory(text), Ok(Some(bytes)), "{text}");
        }
        assert_eq!(memory(""), Ok(None));
        for text in ["-1", "0", "5XB", "lots", "1.2.3MB"] {
            assert!(memory(text).is_err_and(|error| error.contains("mem_limit")), "{text}");
        }
    }

    #[test]
    fn command_lines_are_split_at_blanks_and_quotes() {
        let split = |text: &str| words(text).expect("it is closed");
        assert_eq!(split(r#"echo 'a b' "c \"d" e\ f ''"#), ["echo", "a b", "c \"d", "e f", ""]);
        assert_eq!(split("  "), Vec::<String>::new());
        assert!(words("echo 'a").is_err());
    }
}
