//! Certificates of requests: those of the client, and the roots that servers are checked by.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
#[cfg(feature = "grpc")]
use tokio_rustls::rustls;
use turnwheel_jobs::Settings;
use ureq::tls::{parse_pem, Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig};

use crate::io::http::Client;
use crate::io::HostIo;

/// Settings of Dkron for them.
pub(super) const KNOWN: [&str; 4] =
    ["tlsNoVerifyPeer", "tlsCertificateFile", "tlsCertificateKeyFile", "tlsRootCAsFile"];

/// Clients that are kept; each has connections of its own.
const CLIENTS_MAX: usize = 100;

/// Clients for certificates, by the digest of these.
pub(super) type Clients = Arc<Mutex<BTreeMap<Vec<u8>, Arc<Client>>>>;

/// The files that the settings of a job name.
pub(super) struct Tls {
    certificate: String,
    key: String,
    roots: String,
    is_unverified: bool,
}

impl Tls {
    /// Nothing if a job has no such settings.
    pub(super) fn of(config: &Settings) -> Result<Option<Self>, String> {
        let text = |name: &str| config.get(name).map_or("", |text| text.trim());
        let is_unverified = match text("tlsNoVerifyPeer") {
            "" | "false" => false,
            "true" => true,
            other => return Err(format!("tlsNoVerifyPeer: «{other}» is neither true nor false")),
        };
        let [certificate, key, roots] =
            ["tlsCertificateFile", "tlsCertificateKeyFile", "tlsRootCAsFile"]
                .map(|name| text(name).to_owned());
        match (certificate.is_empty(), key.is_empty()) {
            (true, false) => return Err("tlsCertificateFile: its key alone is no use".to_owned()),
            (false, true) => return Err("tlsCertificateKeyFile: the key is missing".to_owned()),
            (true, true) if roots.is_empty() && !is_unverified => return Ok(None),
            _ => {}
        }
        Ok(Some(Self { certificate, key, roots, is_unverified }))
    }

    /// The client for what the files hold now: a certificate that was renewed counts at once.
    pub(super) fn client(&self, io: &HostIo, clients: &Clients) -> Result<Arc<Client>, String> {
        if let Err(error) = io.may_run() {
            return Err(format!("files of certificates are not read here: {}", error.message));
        }
        let read = |setting: &str, path: &str| match path {
            "" => Ok(Vec::new()),
            path => fs::read(path).map_err(|error| format!("{setting}: {path}: {error}")),
        };
        let certificate = read("tlsCertificateFile", &self.certificate)?;
        let key = read("tlsCertificateKeyFile", &self.key)?;
        let roots = read("tlsRootCAsFile", &self.roots)?;
        let mut digest = Sha256::new();
        for part in [&certificate, &key, &roots] {
            // With their lengths: parts that look the same when joined are not the same.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.update([u8::from(self.is_unverified)]);
        let digest = digest.finalize().to_vec();
        let mut clients = clients.lock();
        if let Some(client) = clients.get(&digest) {
            return Ok(Arc::clone(client));
        }
        if clients.len() >= CLIENTS_MAX {
            // Requests that are under way keep theirs.
            clients.clear();
        }
        let config = self.config(&certificate, &key, &roots)?;
        let client = Arc::new(Client::with_tls(&io.inner.options, config));
        clients.insert(digest, Arc::clone(&client));
        Ok(client)
    }

    /// The same for calls of gRPC.
    #[cfg(feature = "grpc")]
    pub(super) fn for_grpc(&self, io: &HostIo) -> Result<Arc<rustls::ClientConfig>, String> {
        use rustls::pki_types::pem::PemObject as _;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        if let Err(error) = io.may_run() {
            return Err(format!("files of certificates are not read here: {}", error.message));
        }
        let list = |setting: &str, path: &str| -> Result<Vec<CertificateDer<'static>>, String> {
            let wrong = |problem: &dyn std::fmt::Display| format!("{setting}: {path}: {problem}");
            let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
            let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
            match found.is_empty() {
                true => Err(wrong(&"the file has no certificate in PEM")),
                false => Ok(found),
            }
        };
        let roots = match self.roots.as_str() {
            "" => Vec::new(),
            path => list("tlsRootCAsFile", path)?,
        };
        let own = match self.certificate.as_str() {
            "" => None,
            path => {
                let key = PrivateKeyDer::from_pem_file(&self.key);
                let key = key.map_err(|error| format!("tlsCertificateKeyFile: {error}"))?;
                Some((list("tlsCertificateFile", path)?, key))
            }
        };
        crate::io::grpc::tls_config(roots, own).map_err(|error| error.message)
    }

    fn config(&self, certificate: &[u8], key: &[u8], roots: &[u8]) -> Result<TlsConfig, String> {
        let mut config = TlsConfig::builder().disable_verification(self.is_unverified);
        if !self.certificate.is_empty() {
            let chain = certificates("tlsCertificateFile", certificate)?;
            let key = PrivateKey::from_pem(key)
                .map_err(|error| format!("tlsCertificateKeyFile: it has no key: {error}"))?;
            config = config.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
        }
        if !self.roots.is_empty() {
            let roots = certificates("tlsRootCAsFile", roots)?;
            config = config.root_certs(RootCerts::new_with_certs(&roots));
        }
        Ok(config.build())
    }
}

fn certificates(setting: &str, pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        let item = item.map_err(|error| format!("{setting}: it is no PEM: {error}"))?;
        if let PemItem::Certificate(certificate) = item {
            found.push(certificate);
        }
    }
    match found.is_empty() {
        true => Err(format!("{setting}: the file has no certificate in PEM")),
        false => Ok(found),
    }
}
