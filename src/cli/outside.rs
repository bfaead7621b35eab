//! Permissions of flows, according to the settings.

use std::path::PathBuf;

use turnwheel::io::{HostIo, IoOptions, KeptSecrets, Mail, MailTls, Network};

use super::hidden;
use super::settings::{self, Settings};

pub(crate) fn host_io(settings: &Settings) -> HostIo {
    let list = |name: &str| {
        let parts = settings.text(name).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let mut options = IoOptions::default();
    options.secrets = settings.text("io.secrets").map(PathBuf::from);
    // A file that cannot be read is a problem of the settings, which were checked.
    let sinks = settings.text("flows.sinks").and_then(|file| settings::sinks(file).ok());
    options.sinks = sinks.unwrap_or_default();
    options.allow_shell = settings.flag("io.allow-shell");
    let engine = settings.text("io.container-engine").filter(|engine| !engine.is_empty());
    options.container_engine = engine.map(str::to_owned);
    options.environment = list("io.environment");
    options.http_timeout = settings.length("io.http-timeout");
    options.http_hosts = list("io.http-hosts");
    let networks: Vec<String> = list("io.http-networks");
    options.http_networks = networks.iter().filter_map(|name| Network::from_name(name)).collect();
    options.http_ports = settings::ports(settings.get("io.http-ports").0).unwrap_or_default();
    options.namespace_tasks_max = settings.count("flows.namespace-tasks-max");
    options.requests_max = settings.count("flows.requests-max");
    options.namespace_requests_max = settings.count("flows.namespace-requests-max");
    options.function_places = list("io.function-places");
    options.http_redirects = settings.count("io.http-redirects");
    options.body_max = settings.bytes("io.body-max").min(options.body_max);
    options.command_timeout = settings.length("io.command-timeout");
    options.command_grace = settings.length("io.command-grace");
    options.output_max = settings.bytes("io.output-max").min(options.output_max);
    options.syslog = PathBuf::from(settings.get("jobs.syslog").0);
    options.plugins = settings.text("jobs.plugins").map(PathBuf::from);
    options.plugins_network = settings.flag("jobs.plugins-network");
    options.jobs_cgroup = settings.text("jobs.cgroup").map(PathBuf::from);
    options.mail = mail(settings);
    options.kept_secrets = KeptSecrets::new(hidden::of_flows());
    HostIo::new(options)
}

/// The server of mail, if there is one.
fn mail(settings: &Settings) -> Option<Mail> {
    let host = settings.text("jobs.mail-host")?.to_owned();
    let tls = match settings.get("jobs.mail-tls").0 {
        "none" => MailTls::None,
        "tls" => MailTls::Tls,
        _ => MailTls::StartTls,
    };
    let text = |name: &str| settings.text(name).unwrap_or_default().to_owned();
    let name = settings.text("jobs.mail-username").map(str::to_owned);
    let login = name.map(|name| (name, text("jobs.mail-password")));
    let port = u16::try_from(settings.count("jobs.mail-port")).unwrap_or(u16::MAX);
    let (from, subject_prefix) = (text("jobs.mail-from"), text("jobs.mail-subject-prefix"));
    Some(Mail { host, port, tls, login, from, subject_prefix })
}
