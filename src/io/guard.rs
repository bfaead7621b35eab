//! Guards that end commands after the end of this process.
//!
//! A killed process cannot end its commands. So each command has a guard: a shell that waits for
//! the end of a pipe whose other side only this process holds, and then ends its group. The guard
//! starts before the command, and leads the group that the command joins, so no command is ever
//! without one. A command that leaves its group escapes its guard.

use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

use super::command::SHELL;

/// Signals that are meant for the command alone leave the guard alone.
const GUARD: &str = "trap '' TERM INT HUP; read -r _; kill -KILL 0";

/// The guard of one command. When it is dropped, it is gone, and the group is left alone.
pub(super) struct Guard {
    shell: Child,
}

/// Shell script that runs a command after the end of its process.
const LAST_WORD: &str = "trap '' TERM INT HUP; read -r _; exec \"$@\" >/dev/null 2>&1";

impl Guard {
    /// A guard that runs a command after the end of this process: for work outside of its group.
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

    /// The group that it leads. While the guard lives, no other group gets its number.
    pub(super) fn group(&self) -> Option<Pid> {
        i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Ended before its pipe is closed, so it ends no group. It may have been ended with its
        // group already.
        let _gone = self.shell.kill();
        let _ended = self.shell.wait();
    }
}
