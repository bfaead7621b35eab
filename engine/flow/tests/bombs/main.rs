//! Programs that are written to take a server down: none ends its process, and none needs more than
//! the memory and the time that `docs/security.md` states.
//!
//! A child process evaluates them one after the other and says how each ended. If the child dies, the
//! program that it was at has failed, and another child goes on behind it.

mod programs;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

use programs::End;
use serde_json::json;
use turnwheel_flow::internal::Expression;

/// Set in the child: the first program, and how many programs one is apart from the next.
const PART: &str = "TURNWHEEL_TEST_BOMBS";

/// Mark before each line that the child prints itself.
const SAYS: &str = "bomb: ";

/// Children at once.
const CHILDREN: usize = 2;

/// Memory of a process that evaluates one program.
const MEMORY_KIB_MAX: u64 = 1 << 20;

/// Time for one program. Code of tests is not optimized, and tests share their machine.
const PATIENCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 240 } else { 60 });

/// Stack of a thread that evaluates: the least that any thread of flows has.
const STACK: usize = 2 << 20;

/// How one program ended.
#[derive(Debug)]
struct Report {
    index: usize,
    is_value: bool,
    milliseconds: u64,
    memory_kib: u64,
    text: String,
}

#[test]
fn no_program_ends_its_process_or_exceeds_its_memory_and_time() {
    let all = programs::all();
    if let Ok(part) = std::env::var(PART) {
        return evaluate(&all, &part);
    }
    assert!(all.len() >= 80, "{} programs", all.len());
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let (name, all) = (&name, &all);
        let halves = (0..CHILDREN).map(|first| scope.spawn(move || run(name, all, first)));
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().expect("it does not panic")).collect()
    });
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

/// Evaluates a part of the programs and says how each ended.
fn evaluate(all: &[(End, String)], part: &str) {
    let (first, step) = part.split_once('/').expect("two numbers");
    let (first, step): (usize, usize) =
        (first.parse().expect("a number"), step.parse().expect("a number"));
    for index in (first..all.len()).step_by(step) {
        let text = all[index].1.clone();
        say(&format!("begin {index}"));
        let begun = Instant::now();
        // The peak begins anew with each program.
        std::fs::write("/proc/self/clear_refs", "5").ok();
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            let input = json!([0, 1, 2, 3, 4, 5, 6, 7]);
            Expression::compile(&text)?.run(&input, 0.0)
        });
        let outcome = thread.expect("it begins").join().expect("no program panics");
        let milliseconds = begun.elapsed().as_millis();
        let (is_value, text) = match outcome {
            Ok(value) => (true, value.to_string()),
            Err(error) => (false, error),
        };
        let text: String = text.chars().filter(|c| !c.is_control()).take(120).collect();
        say(&format!("end {index} {is_value} {milliseconds} {} {text}", peak_kib()));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{SAYS}{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// The most memory that this process had, where the system says it.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn begin(name: &str, first: usize) -> (Child, Receiver<String>) {
    let mut child = Command::new(std::env::current_exe().expect("a test has a program"))
        .args(["--exact", name, "--nocapture"])
        .env(PART, format!("{first}/{CHILDREN}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test's own program runs");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let Some(line) = line.strip_prefix(SAYS) else { continue };
            if send.send(line.to_owned()).is_err() {
                break;
            }
        }
    });
    (child, receive)
}

/// Evaluates every second program in child processes; what is wrong.
fn run(name: &str, all: &[(End, String)], mut first: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    while first < all.len() {
        let (mut child, lines) = begin(name, first);
        let mut at = None;
        let is_late = loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.strip_prefix("end ") {
                    Some(report) => {
                        let report = read(report);
                        first = report.index + CHILDREN;
                        at = None;
                        wrong.extend(judge(&all[report.index], &report));
                    }
                    None => at = Some(first),
                },
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break true,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break false,
            }
        };
        if is_late {
            child.kill().expect("it can be killed");
        }
        let status = child.wait().expect("it ends");
        let Some(at) = at else {
            assert!(status.success() && first >= all.len(), "{status} before {first}");
            break;
        };
        let what = if is_late { "does not end".to_owned() } else { format!("dies: {status}") };
        wrong.push(format!("{at} {} {what}", shown(&all[at].1)));
        first = at + CHILDREN;
    }
    wrong
}

fn read(line: &str) -> Report {
    let mut parts = line.splitn(5, ' ');
    let mut next = || parts.next().expect("five parts");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    Report {
        index: number(next()) as usize,
        is_value: next() == "true",
        milliseconds: number(next()),
        memory_kib: number(next()),
        text: next().to_owned(),
    }
}

/// The fault in the end of a program, if there is one.
fn judge((end, program): &(End, String), report: &Report) -> Option<String> {
    let Report { index, is_value, milliseconds, memory_kib, text } = report;
    let is_expected = match end {
        End::Value => *is_value,
        End::Error => !is_value,
        End::Either => true,
    };
    let is_right = is_expected
        && *memory_kib <= MEMORY_KIB_MAX
        && Duration::from_millis(*milliseconds) <= PATIENCE;
    let mut line =
        format!("{index} {} {milliseconds} ms, {memory_kib} KiB: {text}", shown(program));
    if std::env::var_os("TURNWHEEL_TEST_BOMBS_SHOW").is_some() {
        eprintln!("{line}");
    }
    line.push_str(if is_expected { "" } else { " (not expected)" });
    (!is_right).then_some(line)
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(70).collect()
}
