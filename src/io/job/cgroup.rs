//! A cgroup of its own for a command, which the kernel keeps within its memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{kill_process, waitid, Pid, Signal, WaitId, WaitIdOptions};

use crate::io::command::SHELL;

/// How the names of the cgroups of commands begin.
const NAME: &str = "turnwheel-run-";

/// Looks whether the last process is gone, and their interval.
const LOOKS_MAX: usize = 100;
const LOOK: Duration = Duration::from_millis(10);

/// Numbers the cgroups of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Removed when it is dropped, with all processes that are left in it.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    /// The file that counts processes which the kernel has ended for their memory.
    ended: &'static str,
}

impl Cgroup {
    /// Makes one below the folder, for so many bytes. Of both versions of cgroups.
    pub(super) fn below(parent: &Path, bytes: u64) -> Result<Self, String> {
        let failed = |doing: &str, error: io::Error| {
            let folder = parent.display();
            format!(
                "mem_limit: jobs.cgroup {folder}: {doing}: {error}: give a cgroup with the controller \
                 of memory that this server may write and that has no processes of its own"
            )
        };
        sweep(parent);
        let is_first = parent.join("memory.limit_in_bytes").exists();
        if !is_first {
            let told = fs::write(parent.join("cgroup.subtree_control"), "+memory");
            told.map_err(|error| failed("its memory cannot be handed on", error))?;
        }
        let folder = loop {
            let own = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = parent.join(format!("{NAME}{}-{own}", std::process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                // One of a process with the same number, in a container of its own or killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("no cgroup can be made in it", error)),
            }
        };
        let limit = if is_first { "memory.limit_in_bytes" } else { "memory.max" };
        let ended = if is_first { "memory.oom_control" } else { "memory.events" };
        let cgroup = Self { folder, ended };
        cgroup.write(limit, bytes).map_err(|error| failed("it takes no limit", error))?;
        // Without swap the limit is that of all memory, and all processes end together. Not
        // every kernel has these.
        let further = match is_first {
            true => [("memory.memsw.limit_in_bytes", bytes), ("memory.swappiness", 0)],
            false => [("memory.swap.max", 0), ("memory.oom.group", 1)],
        };
        for (name, value) in further {
            let _absent = cgroup.write(name, value);
        }
        Ok(cgroup)
    }

    fn write(&self, name: &str, value: u64) -> io::Result<()> {
        fs::write(self.folder.join(name), value.to_string())
    }

    /// The same command, which stops before it begins, and goes on when it was taken in: so all of
    /// its processes are.
    pub(super) fn before(command: &Command) -> Command {
        let mut stopped = Command::new(SHELL);
        stopped.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]);
        stopped.arg(command.get_program()).args(command.get_args());
        stopped
    }

    /// Takes the process of such a command in.
    pub(super) fn take(&self, process: u32) -> io::Result<()> {
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        let process = process.ok_or(io::ErrorKind::InvalidInput)?;
        let looks = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let taken = match retry_on_intr(|| waitid(WaitId::Pid(process), looks)) {
            Ok(Some(seen)) if seen.stopped() => {
                fs::write(self.folder.join("cgroup.procs"), process.as_raw_nonzero().to_string())
            }
            // It has ended: whoever looks after it tells why.
            Ok(_) => return Ok(()),
            Err(error) => Err(error.into()),
        };
        kill_process(process, Signal::CONT)?;
        taken
    }

    /// Whether the kernel has ended one of its processes.
    pub(super) fn has_ended_one(&self) -> bool {
        let text = fs::read_to_string(self.folder.join(self.ended)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.is_some_and(|count| count.trim() != "0")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..LOOKS_MAX {
            let left = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
            for process in left.lines().filter_map(|line| line.trim().parse().ok()) {
                let process = Pid::from_raw(process);
                let _gone = process.map(|process| kill_process(process, Signal::KILL));
            }
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(LOOK);
        }
        tracing::warn!(cgroup = %self.folder.display(), "processes of a job do not end");
    }
}

/// Removes what processes that were killed have left. One with processes stays, as the kernel says.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(|name| name.strip_prefix(NAME)) else { continue };
        let owner = owner.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            let _busy = fs::remove_dir(entry.path());
        }
    }
}
