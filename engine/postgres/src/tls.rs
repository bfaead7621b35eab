//! Encrypted connections, by rustls.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use turnwheel_engine::StoreError;

use crate::settings::Check;

/// Where systems keep the authorities that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

#[derive(Clone)]
pub(crate) struct Tls(pub(crate) MakeRustlsConnect);

pub(crate) fn connector(check: &Check) -> Result<Tls, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Failed(format!("TLS cannot be used: {error}")))?;
    let config = match check {
        Check::Authority(file) => {
            builder.with_root_certificates(roots(file.as_deref())?).with_no_client_auth()
        }
        Check::Nothing => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
            .with_no_client_auth(),
    };
    Ok(Tls(MakeRustlsConnect::new(config)))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, StoreError> {
    let known = SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.is_file());
    let Some(file) = file.map(Path::to_owned).or(known) else {
        return Err(StoreError::Failed(
            "no file with trusted authorities is found on this system: name one by \
             sslrootcert=FILE in the URL of the store"
                .to_owned(),
        ));
    };
    let failed = |problem: &dyn fmt::Display| {
        StoreError::Failed(format!(
            "the authorities of {} (sslrootcert): {problem}",
            file.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&file).map_err(|error| failed(&error))?;
    for certificate in certificates {
        // A bundle of a system may have some that rustls does not take.
        let _unusable = roots.add(certificate.map_err(|error| failed(&error))?);
    }
    if roots.is_empty() {
        return Err(failed(&"it has no certificate"));
    }
    Ok(roots)
}

/// Takes every certificate: `sslmode=prefer` encrypts where the server can, and checks nothing,
/// as in
/// libpq.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
