//! What ends a command when this process is gone.
//!
//! A process that is killed can end nothing any more. So each command has a guard: a shell that waits
//! for the end of a pipe whose other side only this process has, and then ends its group. The guard is
//! there before the command, and leads the group that the command joins: at no moment is there a command
//! without one. A command that leaves its group is its own master, as it always was.

use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

use super::process::SHELL;

/// Signals that are meant for the command alone leave the guard alone.
const GUARD: &str = "trap '' TERM INT HUP; read -r _; kill -KILL 0";

/// The guard of one command. When it is dropped, it is gone, and the group is left alone.
pub(super) struct Guard {
    shell: Child,
}

/// What ends something else than a group, when its process is gone.
const LAST_WORD: &str = "trap '' TERM INT HUP; read -r _; exec \"$@\" >/dev/null 2>&1";

impl Guard {
    /// One that runs a command when this process is gone: for what does not end with its group.
    pub(super) fn with(last: &Command) -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(SHELL);
        command.args(["-c", LAST_WORD, "sh"]).arg(last.get_program()).args(last.get_args());
        command.env_clear().process_group(0);
        command.envs(last.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn()? })
    }

    /// Begins one, with a group of its own.
    pub(super) fn begin() -> std::io::Result<Self> {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(SHELL);
        command.args(["-c", GUARD]).env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn()? })
    }

    /// The group that it leads. As long as the guard is not dropped, its number is nobody else's.
    pub(super) fn group(&self) -> Option<Pid> {
        i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // First it is ended, then its pipe is closed: it ends nobody else. It may have been ended with
        // its group already.
        let _gone = self.shell.kill();
        let _ended = self.shell.wait();
    }
}
