//! Executors of jobs on this host, and processors of their outputs.

#[cfg(unix)]
mod collectors;
mod notifier;
#[cfg(unix)]
mod outputs;
#[cfg(unix)]
mod plugin;
mod requests;
#[cfg(unix)]
mod shell;

use turnwheel_jobs::Executors;

pub use notifier::{Mail, MailTls};

use super::HostIo;

impl HostIo {
    /// The executors `shell` and `http`, within the limits of this one: commands only where they are
    /// allowed, requests only to open hosts. And the processors `log`, `files`, `syslog`, `fluent`,
    /// and notifications by webhook and mail.
    pub fn executors(&self) -> Executors {
        let executors = Executors::new()
            .with("http", requests::Requests { io: self.clone() })
            .with_notifier(notifier::Sender { io: self.clone() });
        #[cfg(unix)]
        let executors = executors
            .with("shell", shell::Shell { io: self.clone() })
            .with_processor("log", outputs::Log)
            .with_processor("files", outputs::Files { io: self.clone() })
            .with_processor(
                "syslog",
                collectors::Syslog { socket: self.inner.options.syslog.clone() },
            )
            .with_processor("fluent", collectors::Fluent);
        #[cfg(unix)]
        let executors = self.plugins(executors);
        executors
    }

    /// Adds the plugins of the folder. A name that is taken stays with what is built in.
    #[cfg(unix)]
    fn plugins(&self, executors: Executors) -> Executors {
        let folder = self.inner.options.plugins.as_deref();
        let found = folder.map(plugin::of_folder).unwrap_or_default();
        found.into_iter().fold(executors, |executors, (name, path)| {
            if matches!(name.as_str(), "shell" | "http") {
                tracing::error!(plugin = name, "there is an executor of this name: left out");
                return executors;
            }
            let plugin = plugin::Plugin { io: self.clone(), name: name.clone(), path };
            executors.with(name, plugin)
        })
    }
}
