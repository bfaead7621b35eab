//! TLS: certificates and key from files.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::ServeError;

/// HTTP/2, as TLS names it.
pub(super) const HTTP_TWO: &[u8] = b"h2";

/// The acceptor of connections with these certificates and this key.
pub(super) fn acceptor(chain: &Path, key: &Path) -> Result<TlsAcceptor, ServeError> {
    let wrong = |file: &Path, problem: &dyn std::fmt::Display| ServeError::Tls {
        file: file.display().to_string(),
        problem: problem.to_string(),
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(chain, &error))?;
    if certificates.is_empty() {
        return Err(wrong(chain, &"it holds no certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(chain, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                wrong(key, &format!("it is not the key of the certificate in {}", chain.display()))
            }
            error => wrong(key, &error),
        })?;
    config.alpn_protocols = vec![HTTP_TWO.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
