//! Encrypted connections: what each `sslmode` checks, and what a refusal says.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use turnwheel_engine::Store;
use turnwheel_postgres::LocalServer;

use crate::refusals::{refusal, says};
use crate::server::{name, sql, start, store_of};
use crate::worlds::{check, world, Chain, Runs};

/// A server that takes encrypted connections on a port of this machine, under the name `localhost`.
struct Encrypted {
    _server: LocalServer,
    folder: tempfile::TempDir,
    port: u16,
    /// A connection over the socket.
    direct: String,
}

/// Someone who vouches for names.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut root = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = root.self_signed(&key).expect("a root").pem();
        Self { issuer: rcgen::Issuer::new(root, key), pem }
    }

    /// The certificate and the key of a name.
    fn certify(&self, name: &str) -> [String; 2] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let leaf = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&key, &self.issuer).expect("a certificate");
        [leaf.pem(), key.serialize_pem()]
    }
}

/// A file in the folder of the data of a server, which only the server may read.
fn give(data: &Path, name: &str, text: &str) {
    let file = data.join(name);
    fs::write(&file, text).expect("it is writable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let of = fs::metadata(data).expect("it is there");
    chown(&file, Some(of.uid()), Some(of.gid())).expect("it is ours");
}

impl Encrypted {
    fn start(authority: &Authority) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
        let port = port.expect("it has one").port();
        let listens = [format!("listen_addresses = '127.0.0.1'\nport = {port}")];
        let server = start(&listens.each_ref().map(String::as_str));
        let direct = server.url("postgres").replace("/postgres", &format!(":{port}/postgres"));
        let data = PathBuf::from(sql(&direct, "SHOW data_directory").remove(0));
        let [certificate, key] = authority.certify("localhost");
        give(&data, "server.crt", &certificate);
        give(&data, "server.key", &key);
        // Nobody comes in from the network without encryption.
        give(&data, "pg_hba.conf", "local all all trust\nhostssl all all 127.0.0.1/32 trust\n");
        sql(&direct, "ALTER SYSTEM SET ssl = on");
        sql(&direct, "SELECT pg_reload_conf()");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("root.pem"), &authority.pem).expect("it is writable");
        fs::write(folder.path().join("other.pem"), Authority::new().pem).expect("it is writable");
        Self { _server: server, folder, port, direct }
    }

    fn url(&self, host: &str, mode: &str, root: Option<&str>) -> String {
        let file = root.map(|name| self.folder.path().join(name).display().to_string());
        let root = file.map(|file| format!("sslrootcert={}&", file.replace('/', "%2F")));
        let (port, root) = (self.port, root.unwrap_or_default());
        let schema = name();
        format!(
            "postgres://turnwheel@{host}:{port}/postgres?sslmode={mode}&{root}schema={schema}&\
             application_name={schema}"
        )
    }

    /// Whether all connections of a store are encrypted; it has some.
    fn is_encrypted(&self, url: &str) -> bool {
        let name = url.rsplit('=').next().expect("it is the last setting");
        let counted = format!(
            "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                WHERE a.application_name = '{name}'"
        );
        sql(&self.direct, &counted) == ["t"]
    }
}

#[test]
fn required_encryption_takes_the_server_that_the_authority_names_and_no_other() {
    let server = Encrypted::start(&Authority::new());
    let url = server.url("localhost", "verify-full", Some("root.pem"));
    let runs = Runs::default();
    let world = world(store_of(&url), &runs);
    let plan = world.trigger::<Chain>(3).wait().expect("it is taken");
    check(&plan.finished().wait().expect("it ends"), 3);
    assert!(server.is_encrypted(&url));
    world.shutdown().expect("it ends");
    runs.check(10);

    let remedy = ["certificate", "sslrootcert=FILE", "sslmode=prefer"];
    says(&refusal(&server.url("localhost", "require", Some("other.pem"))), &remedy);
    // The certificate is for another name.
    says(&refusal(&server.url("127.0.0.1", "require", Some("root.pem"))), &remedy);
    let missing = store_error(&server.url("localhost", "require", Some("nowhere.pem")));
    says(&missing, &["nowhere.pem", "sslrootcert"]);
}

#[test]
fn preferred_encryption_checks_nothing_and_none_is_refused_where_it_is_demanded() {
    let server = Encrypted::start(&Authority::new());
    let url = server.url("127.0.0.1", "prefer", None);
    let writer = store_of(&url).writer().expect("it is opened");
    assert!(server.is_encrypted(&url));
    drop(writer);
    let refused = refusal(&server.url("127.0.0.1", "disable", None));
    says(&refused, &["no encryption", "pg_hba.conf", "sslmode=require"]);
}

#[test]
fn server_without_encryption_is_told_where_encryption_is_required() {
    let server = Encrypted::start(&Authority::new());
    sql(&server.direct, "ALTER SYSTEM SET ssl = off");
    sql(&server.direct, "SELECT pg_reload_conf()");
    let refused = refusal(&server.url("localhost", "require", Some("root.pem")));
    says(&refused, &["TLS", "ssl = on", "sslmode"]);
}

/// Why a URL makes no store.
fn store_error(url: &str) -> String {
    match turnwheel_postgres::PostgresStore::new(url) {
        Ok(store) => store.writer().err().expect("it is refused").to_string(),
        Err(error) => error.to_string(),
    }
}
