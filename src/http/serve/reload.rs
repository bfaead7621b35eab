//! New tokens and certificates for a server that runs.

#[cfg(feature = "tls")]
use std::path::PathBuf;
#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use parking_lot::RwLock;
#[cfg(feature = "tls")]
use tokio_rustls::TlsAcceptor;

use super::super::access::Access;
use super::super::state::Api;
use super::{check_access, ServeError, Server};

/// The acceptor of connections that begin, with the files it was read from.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(super) struct Tls {
    files: (PathBuf, PathBuf),
    acceptor: Arc<RwLock<TlsAcceptor>>,
}

#[cfg(feature = "tls")]
impl Tls {
    pub(super) fn read(files: &(PathBuf, PathBuf)) -> Result<Self, ServeError> {
        let acceptor = super::tls::acceptor(&files.0, &files.1)?;
        Ok(Self { files: files.clone(), acceptor: Arc::new(RwLock::new(acceptor)) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }
}

/// Replaces tokens and certificates of a server. Clones are for the same server.
#[derive(Clone)]
pub struct Reloader {
    api: Api,
    address: std::net::SocketAddr,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// For new tokens and certificates while the server runs.
    pub fn reloader(&self) -> Reloader {
        Reloader {
            api: self.api.clone(),
            address: self.address,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        }
    }
}

impl Reloader {
    /// Reads the files of TLS again and replaces the access rule, or changes nothing. Connections
    /// that are open keep their certificate; requests that come from now on need the new tokens,
    /// and browsers have to sign in again.
    ///
    /// # Errors
    ///
    /// A file of TLS cannot be used; or others than this machine could reach the server without a
    /// token.
    pub fn reload(&self, access: Access) -> Result<(), ServeError> {
        check_access(self.address, &access)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let acceptor = super::tls::acceptor(&tls.files.0, &tls.files.1)?;
            *tls.acceptor.write() = acceptor;
        }
        self.api.replace_access(access);
        Ok(())
    }
}
