//! Limits of the input and output of flows.

use std::path::PathBuf;
use std::time::Duration;

use turnwheel_flow::limits::{NAMESPACE_REQUESTS_MAX, NAMESPACE_TASKS_MAX, REQUESTS_MAX};
use turnwheel_flow::{HTTP_BODY_MAX, PROCESS_OUTPUT_MAX};

use super::job::Mail;
use super::network::Network;
use super::secrets::KeptSecrets;
use super::sink::Sink;

/// Permissions and limits of flows. Every value has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoOptions {
    /// A folder with a file for each secret; without one they are in variables of the environment
    /// with names that begin with `TURNWHEEL_SECRET_`.
    pub secrets: Option<PathBuf>,
    /// Secrets that are in this process and not in its environment any more.
    pub kept_secrets: KeptSecrets,
    /// Where events that flows emit, and life-cycle events, are delivered to.
    pub sinks: Vec<Sink>,
    /// Whether commands, scripts and containers may be run, and files of this host read.
    pub allow_shell: bool,
    /// The command line of the engine of containers, a name or a path; `none` if there are to be no
    /// containers. Without it that is `docker`, else `podman`.
    pub container_engine: Option<String>,
    /// The variables of the environment that commands get.
    pub environment: Vec<String>,
    /// Time limit of a request without a limit of its own.
    pub http_timeout: Duration,
    /// The hosts that may be talked to: names, `*.example.org` for all names below, `*` for all.
    pub http_hosts: Vec<String>,
    /// The networks that may be talked to, by the addresses that names are resolved to. Link-local
    /// addresses, where clouds have their metadata, are closed unless they are named.
    pub http_networks: Vec<Network>,
    /// The ports that may be talked to, from and to; all if there are none.
    pub http_ports: Vec<(u16, u16)>,
    /// Addresses below which functions are taken whose SHA-256 a flow does not have.
    pub function_places: Vec<String>,
    /// Maximum number of redirections of a request.
    pub http_redirects: u32,
    /// The longest answer to a request, in bytes.
    pub body_max: usize,
    /// Time limit of a command without a limit of its own.
    pub command_timeout: Duration,
    /// How many tasks of flows of one namespace run commands and containers at once.
    pub namespace_tasks_max: u32,
    /// How many tasks of flows ask services at once.
    pub requests_max: u32,
    /// How many of them are of one namespace.
    pub namespace_requests_max: u32,
    /// Time between SIGTERM and SIGKILL for a command.
    pub command_grace: Duration,
    /// The most that a command may write to each of its outputs, in bytes.
    pub output_max: usize,
    /// A folder of plugins: programs that do the work of jobs.
    pub plugins: Option<PathBuf>,
    /// Whether plugins have the network of this host; else none, where the host can.
    pub plugins_network: bool,
    /// A cgroup with the controller of memory: each command of a job with a limit of its memory
    /// gets one below it.
    pub jobs_cgroup: Option<PathBuf>,
    /// The socket of the local syslog, for outputs of jobs.
    pub syslog: PathBuf,
    /// The server of mail, for notifications of jobs.
    pub mail: Option<Mail>,
}

impl Default for IoOptions {
    fn default() -> Self {
        let variables = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];
        Self {
            secrets: None,
            kept_secrets: KeptSecrets::default(),
            sinks: Vec::new(),
            allow_shell: true,
            container_engine: None,
            environment: variables.map(str::to_owned).to_vec(),
            http_timeout: Duration::from_secs(60),
            http_hosts: vec!["*".to_owned()],
            http_networks: vec![Network::Public, Network::Private, Network::Loopback],
            http_ports: Vec::new(),
            function_places: Vec::new(),
            http_redirects: 10,
            body_max: HTTP_BODY_MAX,
            namespace_tasks_max: NAMESPACE_TASKS_MAX,
            requests_max: REQUESTS_MAX,
            namespace_requests_max: NAMESPACE_REQUESTS_MAX,
            command_timeout: Duration::from_secs(3_600),
            command_grace: Duration::from_secs(5),
            output_max: PROCESS_OUTPUT_MAX,
            plugins: None,
            plugins_network: false,
            jobs_cgroup: None,
            syslog: PathBuf::from("/dev/log"),
            mail: None,
        }
    }
}

impl IoOptions {
    /// Whether a port may be talked to.
    pub(super) fn allows_port(&self, port: u16) -> bool {
        let ports = &self.http_ports;
        ports.is_empty() || ports.iter().any(|(from, to)| (*from..=*to).contains(&port))
    }

    /// Whether a host may be talked to.
    pub(super) fn allows(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.http_hosts.iter().any(|allowed| {
            let allowed = allowed.trim().to_ascii_lowercase();
            match allowed.strip_prefix("*.") {
                Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
                None => allowed == "*" || allowed == host,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_allowed_by_name_or_domain() {
        let hosts = ["api.example.org", "*.internal"].map(str::to_owned).to_vec();
        let options = IoOptions { http_hosts: hosts, ..IoOptions::default() };
        for host in ["api.example.org", "API.example.org.", "a.internal", "a.b.internal"] {
            assert!(options.allows(host), "{host}");
        }
        for host in ["example.org", "internal", "evilinternal", "api.example.org.evil.net", ""] {
            assert!(!options.allows(host), "{host}");
        }
        assert!(IoOptions::default().allows("anything"));
    }
}
