//! The URL of a store, and the settings of its connections.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::Config;
use turnwheel_engine::StoreError;

/// The schema of a store unless the URL names one.
const SCHEMA: &str = "turnwheel";

/// PostgreSQL cuts longer names.
const SCHEMA_BYTES_MAX: usize = 63;

/// Bytes of the name of a cluster.
const CLUSTER_BYTES_MAX: usize = 63;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is cut is noticed after at most about 25 s, by both sides.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Settings of the session on the server. A pooler in transaction mode takes none of them.
const OPTIONS: &str = "-c idle_in_transaction_session_timeout=60000 -c lock_timeout=20000 \
    -c default_transaction_isolation=read\\ committed -c client_min_messages=warning -c jit=off \
    -c search_path=pg_catalog -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 \
    -c tcp_keepalives_count=3 -c tcp_user_timeout=20000 -c turnwheel.session=on";

/// How the certificate of the server is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Not at all.
    Nothing,
    /// It names the host and is signed by an authority of this file, or else of the files of this
    /// system.
    Authority(Option<PathBuf>),
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    pub(crate) schema: String,
    /// The cluster that the schema must be of, if the URL names one.
    pub(crate) cluster: Option<String>,
    /// Whether a pooler in transaction mode is in between.
    pub(crate) is_pooled: bool,
    pub(crate) check: Check,
    /// The URL without the password.
    pub(crate) name: String,
}

impl Settings {
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let refused = |problem: String| {
            StoreError::Failed(format!(
                "the URL of the store {problem}; it has the form \
                 postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME&sslmode=require"
            ))
        };
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        if !is_url {
            return Err(refused("does not begin with postgres://".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut cluster) = (SCHEMA.to_owned(), None);
        let (mut is_pooled, mut mode, mut root) = (false, SslMode::Prefer, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (name, value) {
                ("schema", name) => schema = checked_schema(name).map_err(refused)?,
                ("cluster", name) => {
                    cluster = Some(checked_cluster(decoded(name)).map_err(refused)?);
                }
                ("pooler", "transaction") => is_pooled = true,
                ("pooler", "none") => is_pooled = false,
                ("sslmode", "disable") => mode = SslMode::Disable,
                ("sslmode", "prefer" | "allow") => mode = SslMode::Prefer,
                ("sslmode", "require" | "verify-ca" | "verify-full") => mode = SslMode::Require,
                ("sslrootcert", file) => root = Some(PathBuf::from(decoded(file))),
                ("pooler" | "sslmode", value) => {
                    return Err(refused(format!("has the unknown value {name}={value}")));
                }
                _ => rest.push(pair),
            }
        }
        let bare =
            if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        // The text of this error repeats no value of the URL.
        let mut config: Config =
            bare.parse().map_err(|error| refused(format!("cannot be understood ({error})")))?;
        complete(&mut config, is_pooled);
        config.ssl_mode(mode);
        let check = match mode {
            SslMode::Require => Check::Authority(root),
            _ => Check::Nothing,
        };
        let name = name(&config, &schema);
        Ok(Self { config, schema, cluster, is_pooled, check, name })
    }
}

/// Defaults for settings that are not in the URL.
fn complete(config: &mut Config, is_pooled: bool) {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host(variable("PGHOST").as_deref().unwrap_or("localhost"));
    }
    if config.get_user().is_none() {
        let user = variable("PGUSER").or_else(|| variable("USER"));
        config.user(user.unwrap_or_else(|| "turnwheel".to_owned()));
    }
    if config.get_dbname().is_none() {
        let database = config.get_user().unwrap_or_default().to_owned();
        config.dbname(variable("PGDATABASE").unwrap_or(database));
    }
    if config.get_password().is_none() {
        if let Some(password) = variable("PGPASSWORD") {
            config.password(password);
        }
    }
    if config.get_application_name().is_none() {
        config.application_name("turnwheel");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if !is_pooled {
        let own = config.get_options().unwrap_or_default();
        let options = format!("{OPTIONS} {own}");
        config.options(options.trim_end());
    }
}

/// The name of a schema stands in the text of statements: only letters, digits and underscores.
fn checked_schema(name: &str) -> Result<String, String> {
    let is_first = |first: char| first.is_ascii_lowercase() || first == '_';
    let is_next = |next: char| is_first(next) || next.is_ascii_digit();
    let is_fine = name.starts_with(is_first)
        && name.chars().all(is_next)
        && name.len() <= SCHEMA_BYTES_MAX
        && !name.starts_with("pg_");
    if is_fine {
        return Ok(name.to_owned());
    }
    Err(format!(
        "has the schema «{name}», and a schema here is at most {SCHEMA_BYTES_MAX} lower-case \
         letters, digits and underscores, without pg_ at its beginning"
    ))
}

/// The name of a cluster, which is a row of the schema.
fn checked_cluster(name: String) -> Result<String, String> {
    let is_fine = |part: char| part.is_ascii_alphanumeric() || "._-".contains(part);
    if !name.is_empty() && name.len() <= CLUSTER_BYTES_MAX && name.chars().all(is_fine) {
        return Ok(name);
    }
    Err(format!(
        "has the cluster «{name}», and a cluster here is 1 to {CLUSTER_BYTES_MAX} letters, digits, \
         dots, hyphens and underscores"
    ))
}

/// Undoes the percent-encoding of a value.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match (first, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The store in messages: without its password.
fn name(config: &Config, schema: &str) -> String {
    let ports = config.get_ports();
    let address = |(index, host): (usize, &Host)| {
        let host = match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        };
        match ports.get(index).or(ports.first()) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    };
    let hosts: Vec<String> = config.get_hosts().iter().enumerate().map(address).collect();
    let (user, database) = (config.get_user(), config.get_dbname());
    let (user, database) = (user.unwrap_or_default(), database.unwrap_or_default());
    format!("postgres://{user}@{}/{database}?schema={schema}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Settings {
        Settings::parse(url).expect("it is a URL")
    }

    #[test]
    fn name_has_no_password() {
        let settings = parsed("postgres://ann:secret@db.example:5433/plans?schema=blue");
        assert_eq!(settings.name, "postgres://ann@db.example:5433/plans?schema=blue");
        let error =
            Settings::parse("postgres://ann:secret@db/plans?port=x").err().expect("refused");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn schemas_that_are_no_plain_names_are_refused() {
        for name in ["", "A", "a b", "a\"b", "1a", "pg_x", "a;--", "ä", &"a".repeat(64)] {
            let url = format!("postgres://db/plans?schema={name}");
            assert!(Settings::parse(&url).is_err(), "{name}");
        }
        assert_eq!(parsed("postgres://db/plans?schema=_a9").schema, "_a9");
        assert_eq!(parsed("postgres://db/plans").schema, "turnwheel");
    }

    #[test]
    fn names_of_clusters_are_plain() {
        let of = |name: &str| Settings::parse(&format!("postgres://db/plans?cluster={name}"));
        assert_eq!(of("prod-1.eu").expect("it is plain").cluster.as_deref(), Some("prod-1.eu"));
        assert_eq!(parsed("postgres://db/plans").cluster, None);
        for name in ["", "a%20b", "a%27b", "ä", &"a".repeat(64)] {
            assert!(of(name).is_err(), "{name}");
        }
    }

    #[test]
    fn pooler_in_transaction_mode_gets_no_session_settings() {
        let pooled = parsed("postgres://db/plans?pooler=transaction");
        assert_eq!(pooled.config.get_options(), None);
        let options = parsed("postgres://db/plans?options=-c%20work_mem%3D1MB");
        let options = options.config.get_options().expect("there are some");
        assert!(options.contains("lock_timeout") && options.ends_with("work_mem=1MB"), "{options}");
        assert!(Settings::parse("postgres://db/plans?pooler=session").is_err());
    }

    #[test]
    fn required_encryption_checks_the_certificate() {
        let url = "postgres://db/plans?sslmode=require&sslrootcert=%2Fetc%2Fca.pem";
        assert_eq!(parsed(url).check, Check::Authority(Some(PathBuf::from("/etc/ca.pem"))));
        assert_eq!(parsed("postgres://db/plans").check, Check::Nothing);
        assert!(Settings::parse("postgres://db/plans?sslmode=maybe").is_err());
        assert!(Settings::parse("mysql://db/plans").is_err());
    }
}
