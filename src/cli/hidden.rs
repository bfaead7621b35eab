//! Secrets leave the environment before commands of flows are run.
//!
//! A command runs as the same user as this process, and a process shows its first environment for
//! as long as it lives (`/proc/PID/environ`), even if it removes variables later. So the program
//! executes itself again without its secrets, which it passes in a file without a name
//! (`memfd_create`), and empties that file after reading. It also forbids dumps, so that only root
//! can read its memory.
//!
//! On systems other than Linux secrets stay in the environment.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::exit::Exit;
use super::settings::{KEYS, SECRET_VARIABLES};

/// Variables removed from the environment, by name.
static HIDDEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// A variable of the environment, or a removed one.
pub(crate) fn variable(name: &str) -> Option<std::ffi::OsString> {
    let hidden = HIDDEN.get().and_then(|hidden| hidden.get(name));
    hidden.map(std::ffi::OsString::from).or_else(|| std::env::var_os(name))
}

/// Secrets for flows that have left the environment, by the names of their variables.
pub(crate) fn of_flows() -> BTreeMap<String, String> {
    let all = HIDDEN.get().into_iter().flatten();
    let ours = all.filter(|(name, _)| name.starts_with(SECRET_VARIABLES));
    ours.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes the secrets from the environment. Only while there is no other thread.
///
/// # Errors
///
/// The program cannot be executed again, or the passed secrets cannot be read.
pub(crate) fn leave() -> Result<(), Exit> {
    #[cfg(target_os = "linux")]
    linux::leave().map_err(|error| {
        Exit::failed(format!("secrets cannot leave the environment: {error}"))
            .advice("keep them in files: io.secrets names the folder, serve.tokens the file")
    })?;
    Ok(())
}

/// Whether a variable of this name is a secret.
fn is_secret(name: &str) -> bool {
    let of_settings = || KEYS.iter().any(|key| key.is_secret() && key.variable() == name);
    name.starts_with(SECRET_VARIABLES) || of_settings()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::env;
    use std::fs::{File, OpenOptions};
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::fs::{memfd_create, MemfdFlags};
    use rustix::process::{set_dumpable_behavior, DumpableBehavior};

    use super::{is_secret, HIDDEN};

    /// The variable with the descriptor of the passed file.
    const HANDED: &str = "TURNWHEEL_HANDED_OVER";

    pub(super) fn leave() -> io::Result<()> {
        if let Some(descriptor) = env::var_os(HANDED) {
            env::remove_var(HANDED);
            let hidden = taken(&descriptor.to_string_lossy())?;
            // The first call is the only one.
            HIDDEN.get_or_init(|| hidden);
            return Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?);
        }
        let named = env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            // A value that is no text cannot be handed over and is refused where it is read.
            Some((name, value.into_string().ok()?))
        });
        let secrets: BTreeMap<String, String> = named.filter(|(name, _)| is_secret(name)).collect();
        if secrets.is_empty() {
            return Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?);
        }
        let mut file = File::from(memfd_create("turnwheel", MemfdFlags::empty())?);
        file.write_all(&serde_json::to_vec(&secrets)?)?;
        let mut again = Command::new(env::current_exe()?);
        let mut arguments = env::args_os();
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again.args(arguments).env(HANDED, file.as_raw_fd().to_string());
        for name in secrets.keys() {
            again.env_remove(name);
        }
        Err(again.exec())
    }

    /// Reads the passed file, and empties it: commands inherit the descriptor.
    fn taken(descriptor: &str) -> io::Result<BTreeMap<String, String>> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{descriptor}"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        file.set_len(0)?;
        Ok(serde_json::from_slice(&text)?)
    }
}
