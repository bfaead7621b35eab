//! Commands and scripts of flows: what they may do, and how they end.
#![cfg(unix)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnwheel::flow::{
    Io, IoCall, IoError, IoErrorKind, Process, ProcessResult, Program, ScriptLanguage,
};
use turnwheel::io::{HostIo, IoOptions};

fn shell(text: &str) -> Process {
    Process {
        program: Program::Shell(text.to_owned()),
        arguments: Vec::new(),
        environment: Vec::new(),
        stdin: None,
    }
}

fn options() -> IoOptions {
    let mut options = IoOptions::default();
    options.command_grace = Duration::from_millis(200);
    options.output_max = 100_000;
    options
}

fn run(process: &Process, limit: Option<Duration>) -> Result<ProcessResult, IoError> {
    HostIo::new(options()).process(process, &IoCall::new("plan/1", &|| false).limit(limit))
}

/// A limit that is over soon; what waits longer than this test allows is stuck.
const SOON: Option<Duration> = Some(Duration::from_millis(300));
const LONG: Duration = Duration::from_secs(20);

#[test]
fn output_code_and_signal_are_what_the_command_says() {
    let ended = run(&shell("echo out; echo err >&2; exit 3"), None).expect("it runs");
    assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (3, "out\n", "err\n"));
    let ended = run(&shell("kill -KILL $$"), None).expect("it runs");
    assert_eq!(ended.code, 128 + 9);
    let mut process = shell("cat; echo \"$1-$2\"; echo \"$COLOUR\"");
    process.arguments = vec!["a b".to_owned(), "$(id)".to_owned()];
    process.environment = vec![("COLOUR".to_owned(), "green".to_owned())];
    process.stdin = Some("given\n".to_owned());
    assert_eq!(run(&process, None).expect("it runs").stdout, "given\na b-$(id)\ngreen\n");
    assert_eq!(run(&shell("printf '\\377'"), None).expect("it runs").stdout, "\u{fffd}");
}

#[test]
fn commands_see_only_the_environment_that_is_let_through() {
    // Cargo sets this one for tests.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let ended = run(&shell("echo [$CARGO_MANIFEST_DIR] [$PATH] [$TURNWHEEL_KEY]"), None);
    let text = ended.expect("it runs").stdout;
    assert!(text.starts_with("[] [/") && text.ends_with("[plan/1]\n"), "{text}");
}

#[test]
fn more_input_than_a_pipe_holds_is_no_trouble() {
    let mut process = shell("wc -c");
    process.stdin = Some("x".repeat(1_000_000));
    assert_eq!(run(&process, None).expect("it runs").stdout.trim(), "1000000");
    // Who does not want it does not have to take it.
    process.program = Program::Shell("exec true".to_owned());
    assert_eq!(run(&process, None).expect("it runs").code, 0);
    // Both directions at once.
    process.program = Program::Shell("head -c 90000".to_owned());
    assert_eq!(run(&process, None).expect("it runs").stdout.len(), 90_000);
}

#[test]
fn a_flood_is_ended_and_said() {
    let begun = Instant::now();
    for flood in ["yes", "yes >&2", "trap '' TERM; yes"] {
        let error = run(&shell(flood), Some(LONG)).expect_err("it floods");
        assert_eq!(error.kind, IoErrorKind::TooLarge, "{flood}");
        assert!(error.message.contains("100000 bytes"), "{error}");
    }
    // One that has ended by itself before it was noticed.
    let error = run(&shell("head -c 100001 /dev/zero"), None).expect_err("it is too long");
    assert_eq!(error.kind, IoErrorKind::TooLarge);
    assert_eq!(
        run(&shell("head -c 100000 /dev/zero"), None).expect("it fits").stdout.len(),
        100_000
    );
    assert!(begun.elapsed() < LONG);
}

#[test]
fn what_never_ends_is_ended_with_all_that_it_has_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("alive");
    let begun = Instant::now();
    let text =
        format!("(trap '' TERM; while :; do date > {}; sleep 0.05; done) & wait", file.display());
    let error = run(&shell(&text), SOON).expect_err("it never ends");
    assert_eq!(error.kind, IoErrorKind::TimedOut, "{error}");
    assert!(begun.elapsed() < LONG);
    // Its child ignored SIGTERM, and is gone all the same: nobody writes the file again.
    std::fs::remove_file(&file).expect("it was written");
    let again = run(&shell("sleep 0.4"), None);
    assert!(again.is_ok() && !file.exists(), "a child is left");
}

#[test]
fn who_ends_by_itself_after_sigterm_may_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("told");
    let text =
        format!("trap 'echo told > {}; exit 0' TERM; while :; do sleep 0.01; done", file.display());
    let error = run(&shell(&text), SOON).expect_err("it never ends");
    assert_eq!(error.kind, IoErrorKind::TimedOut);
    assert_eq!(std::fs::read_to_string(&file).expect("it had the time"), "told\n");
}

#[test]
fn sigterm_that_is_ignored_is_followed_by_sigkill() {
    let begun = Instant::now();
    let error = run(&shell("trap '' TERM; while :; do :; done"), SOON).expect_err("it never ends");
    assert_eq!(error.kind, IoErrorKind::TimedOut);
    assert!(begun.elapsed() < LONG);
}

#[test]
fn a_command_that_nobody_waits_for_is_ended() {
    let is_cancelled = AtomicBool::new(false);
    let looks = || is_cancelled.swap(true, Ordering::Relaxed);
    let io = HostIo::new(options());
    let error =
        io.process(&shell("sleep 1000"), &IoCall::new("k", &looks)).expect_err("it is ended");
    assert_eq!(error.kind, IoErrorKind::Cancelled, "{error}");
}

#[test]
fn a_daemon_that_keeps_the_outputs_open_is_not_waited_for() {
    let begun = Instant::now();
    let ended = run(&shell("echo ready; sleep 1000 &"), Some(LONG)).expect("the command has ended");
    assert_eq!(ended.stdout, "ready\n");
    assert!(begun.elapsed() < LONG / 2);
}

#[test]
fn what_cannot_be_started_is_said_without_its_text() {
    let long = format!("echo secret-word {}", "x".repeat(200_000));
    let error = run(&shell(&long), None).expect_err("it is too long");
    assert_eq!(error.kind, IoErrorKind::TooLarge);
    assert!(!error.message.contains("secret-word") && error.message.contains("bytes"), "{error}");
    let ended = run(&shell("no-such-program-here"), None).expect("the shell runs");
    assert_eq!(ended.code, 127);
    let mut options = options();
    options.allow_shell = false;
    let io = HostIo::new(options);
    let call = IoCall::new("k", &|| false);
    for error in [
        io.process(&shell("true"), &call).expect_err("it is not allowed"),
        io.process_detached(&shell("true"), &call).expect_err("it is not allowed"),
    ] {
        assert_eq!(error.kind, IoErrorKind::Forbidden);
        assert!(error.message.contains("io.allow-shell"), "{error}");
    }
    assert!(io
        .script_problem(ScriptLanguage::Python)
        .is_some_and(|it| it.contains("io.allow-shell")));
}

#[test]
fn scripts_are_run_by_their_interpreters() {
    let io = HostIo::new(options());
    for (language, code) in [
        (ScriptLanguage::Python, "import sys; print(sys.argv[1], sys.stdin.read())"),
        (
            ScriptLanguage::JavaScript,
            "console.log(process.argv[2], require('fs').readFileSync(0, 'utf8'))",
        ),
    ] {
        let code = code.to_owned();
        let process = Process {
            program: Program::Script { language, code },
            arguments: vec!["a".to_owned()],
            environment: Vec::new(),
            stdin: Some("b".to_owned()),
        };
        match io.script_problem(language) {
            None => {
                let ended = io.process(&process, &IoCall::new("k", &|| false)).expect("it runs");
                assert_eq!((ended.code, ended.stdout.trim()), (0, "a b"), "{}", ended.stderr);
            }
            Some(problem) => {
                let error = io.process(&process, &IoCall::new("k", &|| false)).expect_err("none");
                assert_eq!((error.kind, error.message), (IoErrorKind::Unsupported, problem));
            }
        }
    }
}

#[test]
fn a_detached_command_goes_on_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, done) = (folder.path().join("gate"), folder.path().join("done"));
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    assert!(made.is_ok_and(|status| status.success()), "a system with pipes");
    let mut process =
        shell("read line < \"$1\"; echo \"$line\" > \"$2.part\"; mv \"$2.part\" \"$2\"");
    process.arguments = [&gate, &done].map(|file| file.display().to_string()).to_vec();
    let io = HostIo::new(options());
    io.process_detached(&process, &IoCall::new("k", &|| false)).expect("it begins");
    std::fs::write(&gate, "go\n").expect("it reads");
    let waits = format!("until test -e {}; do sleep 0.01; done", done.display());
    run(&shell(&waits), Some(LONG)).expect("it is done");
    assert_eq!(std::fs::read_to_string(&done).expect("it is there"), "go\n");
}

#[test]
fn commands_end_with_the_process_that_has_begun_them() {
    let io = HostIo::new(options());
    let begun = Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let text =
        format!("trap '' TERM; touch {0}; sleep 1000", folder.path().join("begun").display());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| io.process(&shell(&text), &IoCall::new("k", &|| false)));
        while !folder.path().join("begun").exists() {
            std::thread::yield_now();
        }
        assert!(io.end(LONG), "it has ended");
        let error = running.join().expect("no panic").expect_err("it was ended");
        assert_eq!(error.kind, IoErrorKind::Cancelled, "{error}");
    });
    let error =
        io.process(&shell("sleep 1000"), &IoCall::new("k", &|| false)).expect_err("too late");
    assert_eq!(error.kind, IoErrorKind::Cancelled, "{error}");
    assert!(begun.elapsed() < LONG);
}
