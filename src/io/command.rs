//! Programs, arguments and environments of commands.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use turnwheel_flow::{IoCall, IoError, IoErrorKind, Process, Program, ScriptLanguage};

use super::options::IoOptions;

/// The shell of the system.
pub(super) const SHELL: &str = "/bin/sh";

/// Bytes of a command line or script that the system takes as one argument.
const CODE_BYTES_MAX: usize = 100 * 1_024;

/// The interpreter of a language.
pub(super) fn interpreter(language: ScriptLanguage) -> Result<PathBuf, IoError> {
    let (names, what): (&[&str], &str) = match language {
        ScriptLanguage::Python => (&["python3", "python"], "Python"),
        ScriptLanguage::JavaScript => (&["node", "nodejs"], "JavaScript"),
        _ => (&[], "this language"),
    };
    installed(names).ok_or_else(|| {
        let names = names.join(" or ");
        let message = format!("scripts in {what} cannot be run here: no {names} is installed");
        IoError::new(IoErrorKind::Unsupported, message)
    })
}

/// The first program with one of these names, which the earlier folders of `PATH` have.
pub(super) fn installed(names: &[&str]) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&folders)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    files.find(|file| fs::metadata(file).is_ok_and(|data| data.is_file()))
}

/// Its name in messages: its text may have secrets.
pub(super) fn name(program: &Program) -> String {
    match program {
        Program::Shell(_) => "the command".to_owned(),
        Program::Script { language, .. } => format!("the {language:?} script"),
        _ => "the program".to_owned(),
    }
}

pub(super) fn command_line(process: &Process) -> Result<(PathBuf, Vec<String>), IoError> {
    let (program, before, code) = match &process.program {
        Program::Shell(code) => (PathBuf::from(SHELL), vec!["-c"], code),
        Program::Script { language, code } => {
            let option = if *language == ScriptLanguage::Python { "-c" } else { "-e" };
            (interpreter(*language)?, vec![option], code)
        }
        other => {
            let message = format!("a program such as {other:?} cannot be run here");
            return Err(IoError::new(IoErrorKind::Unsupported, message));
        }
    };
    if code.len() > CODE_BYTES_MAX {
        let (name, bytes) = (name(&process.program), code.len());
        let message = format!(
            "{name} has {bytes} bytes and {CODE_BYTES_MAX} are the limit: keep it in a file and run that"
        );
        return Err(IoError::new(IoErrorKind::TooLarge, message));
    }
    let mut arguments: Vec<String> = before.into_iter().map(str::to_owned).collect();
    arguments.push(code.clone());
    if matches!(&process.program, Program::Script { language: ScriptLanguage::JavaScript, .. }) {
        // The position of a script's name.
        arguments.push("script".to_owned());
    }
    if matches!(process.program, Program::Shell(_)) {
        // `$0`.
        arguments.push("sh".to_owned());
    }
    arguments.extend(process.arguments.iter().cloned());
    Ok((program, arguments))
}

pub(super) fn prepare(
    command: &mut Command,
    options: &IoOptions,
    process: &Process,
    call: &IoCall<'_>,
) {
    command.env_clear();
    for name in &options.environment {
        if let Some(value) = env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("TURNWHEEL_KEY", call.key);
    if let Some(trace) = call.trace {
        command.env("TRACEPARENT", trace);
        if let Some(state) = call.trace_state {
            command.env("TRACESTATE", state);
        }
    }
    command.envs(process.environment.iter().map(|(name, value)| (name, value)));
}
