//! Every setting: its name, its variable, its kind of value, its default.

/// Kind of value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// The name of a file or folder.
    Path,
    /// Yes or no.
    Flag,
    /// A positive whole number.
    Count,
    /// A number of bytes, also as `64KiB` or `4MiB`.
    Bytes,
    /// A length of time.
    Length,
    /// An address to listen on: a machine, a colon, and a port.
    Address,
    /// Some of these, comma-separated.
    Several(&'static [&'static str]),
    /// Ports, comma-separated, as `443` or `8000-8999`; `*` for all.
    Ports,
    /// A file of sinks.
    Sinks,
    /// Names with values, comma-separated, as `region=eu,disk=fast`.
    Labels,
    /// One of these.
    Choice(&'static [&'static str]),
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its name; the part before the dot is its table in the file.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Its default; empty for none.
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { name, kind, default, about }
}

impl Key {
    /// The variable of the environment that sets it.
    pub(crate) fn variable(&self) -> String {
        // Settings of serve had their names before they had a table.
        let name = self.name.strip_prefix("serve.").unwrap_or(self.name);
        let name = name.replace(['.', '-'], "_").to_ascii_uppercase();
        format!("TURNWHEEL_{name}")
    }

    /// Whether its value is secret.
    pub(crate) fn is_secret(&self) -> bool {
        self.name.ends_with("token") || self.name.ends_with("password")
    }
}

/// Variables with this begin are no settings but secrets.
pub(crate) const SECRET_VARIABLES: &str = "TURNWHEEL_SECRET_";

/// The variable that names the configuration file.
pub(crate) const FILE_VARIABLE: &str = "TURNWHEEL_CONFIG";

/// All settings, in the order in which they are shown.
pub(crate) const KEYS: &[Key] = &[
    key(
        "store",
        Kind::Path,
        "turnwheel.db",
        "the file that holds plans, schedules and their history, or a postgres:// URL",
    ),
    key(
        "sync",
        Kind::Choice(&["full", "normal", "off"]),
        "full",
        "when a commit waits for the disk: full survives a loss of power, normal a killed process",
    ),
    key(
        "store-max",
        Kind::Bytes,
        "",
        "how large the store may become; as large as the disk has room for if nothing is said",
    ),
    key(
        "store-reserve",
        Kind::Bytes,
        "64MiB",
        "the room that is kept for plans under way: with less left, new plans are refused",
    ),
    key(
        "store-ballast",
        Kind::Bytes,
        "16MiB",
        "the room of a file beside the store that a start or a removal of plans on a full disk gets",
    ),
    key("by", Kind::Text, "", "who is noted in histories for what is done; else the user's name"),
    key("colour", Kind::Choice(&["auto", "always", "never"]), "auto", "whether output is coloured"),
    key(
        "token",
        Kind::Text,
        "",
        "the token for a server that asks for one; better in the environment",
    ),
    key(
        "retention.stopped",
        Kind::Length,
        "",
        "how long plans that are over are kept by serve, such as 30d; for ever if nothing is said",
    ),
    key(
        "retention.export",
        Kind::Path,
        "",
        "a folder in which plans are written down, a file a day, before they are removed",
    ),
    key(
        "server",
        Kind::Text,
        "",
        "a server that verbs ask in place of the store; --store on the command line goes before it",
    ),
    key(
        "server-certificates",
        Kind::Path,
        "",
        "a file with the certificates (PEM) to trust when a server is asked over TLS",
    ),
    key(
        "otlp",
        Kind::Text,
        "",
        "the address of a collector of traces, OTLP over HTTP, such as http://localhost:4318",
    ),
    key(
        "io.secrets",
        Kind::Path,
        "",
        "a folder with a file for each secret, instead of the environment",
    ),
    key(
        "flows.life-cycle",
        Kind::Flag,
        "false",
        "whether serve publishes what happens to flows, as events that other flows can listen for",
    ),
    key(
        "flows.sinks",
        Kind::Sinks,
        "",
        "a file of sinks, to which events of flows are delivered: name, address, types and «ordered» in a line",
    ),
    key(
        "flows.tasks-max",
        Kind::Count,
        "64",
        "how many tasks of flows run commands and containers at once",
    ),
    key(
        "flows.namespace-tasks-max",
        Kind::Count,
        "48",
        "how many of them one namespace may have; half of the rest is kept for those without any",
    ),
    key("flows.requests-max", Kind::Count, "64", "how many tasks of flows ask services at once"),
    key(
        "flows.namespace-requests-max",
        Kind::Count,
        "48",
        "how many of them one namespace may have; half of the rest is kept for those without any",
    ),
    key("jobs.node", Kind::Text, "", "the name of this node in runs of jobs; else the host's"),
    key(
        "jobs.labels",
        Kind::Labels,
        "",
        "the labels of this node, for targets of jobs: region=eu,disk=fast",
    ),
    key("jobs.cgroup", Kind::Path, "", "a cgroup below which mem_limit of jobs is kept by the kernel"),
    key("jobs.plugins", Kind::Path, "", "a folder of programs that do the work of jobs"),
    key("jobs.plugins-network", Kind::Flag, "false", "whether plugins have the host's network"),
    key("jobs.runs-max", Kind::Count, "64", "how many runs of jobs are under way at once"),
    key(
        "jobs.notify",
        Kind::Path,
        "",
        "a file (JSON) with notifications of all jobs, as a list of the setting «notify» of a job",
    ),
    key("jobs.mail-host", Kind::Text, "", "the server of mail for notifications of jobs"),
    key("jobs.mail-port", Kind::Count, "587", "its port"),
    key(
        "jobs.mail-tls",
        Kind::Choice(&["starttls", "tls", "none"]),
        "starttls",
        "how the connection to it is encrypted: later, from its begin, or not at all",
    ),
    key("jobs.mail-username", Kind::Text, "", "the name of the account there; none if empty"),
    key("jobs.mail-password", Kind::Text, "", "its password; better in the environment"),
    key("jobs.mail-from", Kind::Text, "", "the address of the sender"),
    key("jobs.mail-subject-prefix", Kind::Text, "", "text before each subject"),
    key("jobs.syslog", Kind::Path, "/dev/log", "the socket of the processor syslog of jobs"),
    key(
        "serve.listen",
        Kind::Address,
        "127.0.0.1:7070",
        "where serve listens; port 0 takes a free one",
    ),
    key(
        "serve.node",
        Kind::Text,
        "",
        "the name of this process among those that share a store on PostgreSQL; alone if nothing is said",
    ),
    key("serve.labels", Kind::Text, "", "labels of the node, such as region=eu,zone=a"),
    key(
        "serve.lease",
        Kind::Length,
        "3s",
        "how long a node may be silent before others have its plans; the same for all of them",
    ),
    key(
        "serve.address",
        Kind::Text,
        "",
        "the URL under which others reach this node, if it is not the one that it listens on",
    ),
    key("serve.tokens", Kind::Path, "", "a file of tokens; requests to the server need one of them"),
    key(
        "serve.token",
        Kind::Text,
        "",
        "one more token, which operates; better in the environment, which sets «token» by it too",
    ),
    key("serve.tls-certificates", Kind::Path, "", "the chain of certificates for TLS, in PEM"),
    key("serve.tls-key", Kind::Path, "", "the key for TLS, in PEM"),
    key("serve.connections-max", Kind::Count, "4096", "connections at once; idle ones make way for further ones"),
    key(
        "serve.rate",
        Kind::Count,
        "",
        "requests a second of each token in the long run; as many as there are if nothing is said",
    ),
    key("serve.body-bytes-max", Kind::Bytes, "", "the longest body of a request to the server"),
    key(
        "serve.head-within",
        Kind::Length,
        "60s",
        "how long the head of a request may take, with the time between two of a connection",
    ),
    key(
        "serve.write-within",
        Kind::Length,
        "30s",
        "how long a peer may take nothing of what is sent to it",
    ),
    key(
        "serve.stop-within",
        Kind::Length,
        "10s",
        "how long requests, and then steps, may take to end when the server stops",
    ),
    key(
        "serve.unclean-ends-max",
        Kind::Count,
        "3",
        "how often in a row serve may crash or be killed while a step runs before its plan is paused",
    ),
    key("serve.log-format", Kind::Choice(&["text", "json"]), "text", "how lines of the log look"),
    key(
        "serve.log",
        Kind::Text,
        "info",
        "what is logged: a level, or levels by target such as info,turnwheel::http=debug",
    ),
    key(
        "io.allow-shell",
        Kind::Flag,
        "true",
        "whether flows may run commands, scripts and containers; not by itself without tokens",
    ),
    key(
        "io.container-engine",
        Kind::Text,
        "",
        "the command line of the engine of containers, none for no containers; else docker or podman",
    ),
    key(
        "io.environment",
        Kind::Text,
        "PATH,HOME,LANG,LC_ALL,TZ,TMPDIR",
        "the variables that commands of flows get",
    ),
    key(
        "io.http-timeout",
        Kind::Length,
        "60s",
        "how long a request of a flow may take if the flow says nothing",
    ),
    key(
        "io.http-hosts",
        Kind::Text,
        "*",
        "the hosts that flows may talk to, comma-separated; *.example.org for all below",
    ),
    key(
        "io.http-networks",
        Kind::Several(&["public", "private", "loopback", "link-local"]),
        "public,private,loopback",
        "the networks that flows may talk to, by resolved address; link-local has metadata of clouds",
    ),
    key("io.http-ports", Kind::Ports, "*", "the ports that flows may talk to, such as 443,8000-8999"),
    key(
        "io.function-places",
        Kind::Text,
        "",
        "addresses, comma-separated, of functions that flows take without knowing their SHA-256",
    ),
    key("io.http-redirects", Kind::Count, "10", "how many redirections a request follows"),
    key("io.body-max", Kind::Bytes, "4MiB", "the longest answer to a request of a flow"),
    key(
        "io.command-timeout",
        Kind::Length,
        "1h",
        "how long a command may run if the flow says nothing",
    ),
    key(
        "io.command-grace",
        Kind::Length,
        "5s",
        "how long a command has to end itself after SIGTERM",
    ),
    key(
        "io.output-max",
        Kind::Bytes,
        "4MiB",
        "the most that a command may write to each of its outputs",
    ),
];

/// The problem of a value, if there is one.
pub(crate) fn problem(key: &Key, value: &str) -> Option<String> {
    match key.kind {
        Kind::Text => None,
        Kind::Path => value.is_empty().then(|| "is empty".to_owned()),
        Kind::Flag => {
            (!matches!(value, "true" | "false")).then(|| "must be true or false".to_owned())
        }
        Kind::Count => {
            let is_count = value.parse::<u32>().is_ok_and(|count| count > 0);
            (!is_count).then(|| "must be a whole number from 1 on".to_owned())
        }
        Kind::Bytes => bytes(value)
            .is_none()
            .then(|| "must be a number of bytes, such as 512KiB or 4MiB".to_owned()),
        Kind::Length => crate::cli::span::duration(value)
            .is_err()
            .then(|| "must be a length of time, such as 90s, 15m or 2h".to_owned()),
        Kind::Address => (!is_address(value)).then(|| {
            "must be an address to listen on, such as 127.0.0.1:7070 or localhost:7070".to_owned()
        }),
        Kind::Several(all) => {
            let is_known = |part: &str| all.contains(&part.trim());
            (!value.split(',').all(is_known)).then(|| format!("must be some of {}", all.join(",")))
        }
        Kind::Ports => ports(value)
            .is_none()
            .then(|| "must be ports, such as 443,8000-8999, or * for all".to_owned()),
        Kind::Sinks => sinks(value).err(),
        Kind::Labels => labels(value)
            .is_none()
            .then(|| "must be labels with values, such as region=eu,disk=fast".to_owned()),
        Kind::Choice(all) => {
            (!all.contains(&value)).then(|| format!("must be one of {}", all.join(", ")))
        }
    }
}

/// Whether it is a machine, a colon, and a port.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        !host.is_empty() && is_bare && port.parse::<u16>().is_ok()
    })
}

/// Ports from and to; none for all.
pub(crate) fn ports(text: &str) -> Option<Vec<(u16, u16)>> {
    if text.trim() == "*" {
        return Some(Vec::new());
    }
    let part = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        (from <= to).then_some((from, to))
    };
    text.split(',').map(part).collect()
}

/// Labels with their values.
pub(crate) fn labels(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// The sinks of a file.
pub(crate) fn sinks(file: &str) -> Result<Vec<turnwheel::io::Sink>, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("names {file}, which cannot be read: {error}"))?;
    turnwheel::io::Sink::read_all(&text).map_err(|problem| format!("names {file}: {problem}"))
}

/// A number of bytes.
pub(crate) fn bytes(text: &str) -> Option<usize> {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: usize = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_allowed() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            assert_eq!(problem(key, key.default), None, "{}", key.name);
        }
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("4MiB"), Some(4 << 20));
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("4MB"), None);
        assert_eq!(bytes("99999999999999999999GiB"), None);
    }

    #[test]
    fn ports_are_numbers_and_ranges() {
        assert_eq!(ports("*"), Some(Vec::new()));
        assert_eq!(ports("443, 8000-8999"), Some(vec![(443, 443), (8000, 8999)]));
        for wrong in ["", "9-8", "65536", "http", "80,"] {
            assert_eq!(ports(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn variables_follow_names() {
        let key = KEYS.iter().find(|key| key.name == "io.http-timeout").expect("it is there");
        assert_eq!(key.variable(), "TURNWHEEL_IO_HTTP_TIMEOUT");
        let key = KEYS.iter().find(|key| key.name == "serve.listen").expect("it is there");
        assert_eq!(key.variable(), "TURNWHEEL_LISTEN");
    }

    #[test]
    fn addresses_have_a_machine_and_a_port() {
        for right in ["127.0.0.1:0", "localhost:7070", "[::1]:80", "0.0.0.0:65535"] {
            assert!(is_address(right), "{right}");
        }
        for wrong in ["", "7070", ":7070", "::1:80", "localhost:", "a:b", "localhost:65536"] {
            assert!(!is_address(wrong), "{wrong}");
        }
    }
}
