//! Executors of jobs on this host.

mod requests;
#[cfg(unix)]
mod shell;

use turnwheel_jobs::Executors;

use super::HostIo;

impl HostIo {
    /// The executors `shell` and `http`, within the limits of this one: commands only where they are
    /// allowed, requests only to open hosts.
    pub fn executors(&self) -> Executors {
        let executors = Executors::new().with("http", requests::Requests { io: self.clone() });
        #[cfg(unix)]
        let executors = executors.with("shell", shell::Shell { io: self.clone() });
        executors
    }
}
