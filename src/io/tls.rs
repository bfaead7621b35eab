//! TLS of connections that are no requests of HTTP/1.1.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use turnwheel_flow::{IoError, IoErrorKind};

/// The chain and the key by which a client says who it is.
pub(super) type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// TLS of a client. Without roots they are those of other requests.
pub(super) fn config(
    roots: Vec<CertificateDer<'static>>,
    own: Option<Own>,
) -> Result<ClientConfig, IoError> {
    let wrong = |error: rustls::Error| {
        IoError::new(IoErrorKind::Unsupported, format!("TLS cannot be used: {error}"))
    };
    let mut store = RootCertStore::empty();
    match roots.is_empty() {
        true => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        false => roots.into_iter().try_for_each(|root| store.add(root)).map_err(wrong)?,
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(wrong)?.with_root_certificates(store);
    match own {
        None => Ok(config.with_no_client_auth()),
        Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(wrong),
    }
}
