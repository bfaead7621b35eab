//! Executors of jobs on this host, and processors of their outputs.

#[cfg(unix)]
mod account;
#[cfg(unix)]
mod cgroup;
#[cfg(unix)]
mod collectors;
mod container;
mod flow;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
mod notifier;
#[cfg(unix)]
mod outputs;
#[cfg(unix)]
mod plugin;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
mod reach;
mod requests;
#[cfg(unix)]
mod shell;
mod tls;

use base64::Engine as _;
use turnwheel_jobs::{Executors, Settings};

pub use notifier::{Mail, MailTls};

#[cfg(unix)]
use self::plugin::Role;
use super::HostIo;

/// Executors of Dkron that are not built in.
const ABSENT: [(&str, &str); 6] = [
    ("grpc", "this program was built without the feature «grpc»"),
    ("kafka", "this program was built without the feature «kafka»"),
    ("nats", "this program was built without the feature «nats»"),
    ("rabbitmq", "this program was built without the feature «rabbitmq»"),
    ("gcppubsub", PLUGIN),
    ("ecs", PLUGIN),
];

/// What to do without one.
const PLUGIN: &str =
    "this program was built without it; a plugin of this name in the folder of the \
    setting jobs.plugins does its work";

/// Refuses settings that an executor does not have.
fn only(executor: &str, config: &Settings, known: &[&str]) -> Result<(), String> {
    match config.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            Err(format!("{name}: {executor} has no such setting; it has {}", known.join(", ")))
        }
    }
}

/// The standard input that the settings of an executor give.
fn payload(config: &Settings) -> Result<Option<Vec<u8>>, String> {
    let Some(text) = config.get("payload").filter(|text| !text.is_empty()) else { return Ok(None) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    bytes.map(Some).map_err(|error| format!("payload: it is not base64: {error}"))
}

impl HostIo {
    /// The executors `shell`, `http`, `flow` and `container`, within the limits of this one: commands
    /// and containers only where they are allowed, requests only to open hosts. And the processors `log`, `files`, `syslog`, `fluent`,
    /// and notifications by webhook and mail.
    pub fn executors(&self) -> Executors {
        let executors = Executors::new()
            .with("http", requests::Requests { io: self.clone(), clients: Default::default() })
            .with("flow", flow::FlowRuns)
            .with("container", container::Containers { io: self.clone() })
            .with("docker", container::Containers { io: self.clone() })
            .with_notifier(notifier::Sender { io: self.clone() });
        #[cfg(feature = "grpc")]
        let executors = executors.with("grpc", grpc::Grpc { io: self.clone() });
        #[cfg(feature = "nats")]
        let executors = executors.with("nats", nats::Nats { io: self.clone() });
        #[cfg(feature = "rabbitmq")]
        let executors = executors.with("rabbitmq", rabbitmq::RabbitMq { io: self.clone() });
        #[cfg(feature = "kafka")]
        let executors = executors.with("kafka", kafka::Kafka { io: self.clone() });
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
        ABSENT.iter().fold(executors, |executors, (name, why)| executors.without(*name, *why))
    }

    /// Adds the plugins of the folder. A name that is taken stays with what is built in.
    #[cfg(unix)]
    fn plugins(&self, executors: Executors) -> Executors {
        let folder = self.inner.options.plugins.as_deref();
        let found = folder.map(plugin::of_folder).unwrap_or_default();
        found.into_iter().fold(executors, |executors, (role, name, path)| {
            let is_taken = match role {
                Role::Executor => executors.has(&name),
                Role::Processor => executors.has_processor(&name),
            };
            if is_taken {
                tracing::error!(plugin = name, ?role, "there is one of this name: left out");
                return executors;
            }
            let plugin = plugin::Plugin { io: self.clone(), name: name.clone(), path };
            match role {
                Role::Executor => executors.with(name, plugin),
                Role::Processor => executors.with_processor(name, plugin),
            }
        })
    }
}
