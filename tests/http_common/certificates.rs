//! Certificates for tests of TLS, made when they run.

use std::path::PathBuf;

/// A folder with `chain.pem` and `key.pem`, and the root that vouches for them.
pub(crate) struct Files {
    folder: tempfile::TempDir,
    pub(crate) root: String,
}

impl Files {
    /// A certificate of this machine, and the root that vouches for it.
    pub(crate) fn make() -> Self {
        let mut root = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root_key = rcgen::KeyPair::generate().expect("a key");
        let root_made = root.self_signed(&root_key).expect("a root");
        let issuer = rcgen::Issuer::new(root, root_key);
        let key = rcgen::KeyPair::generate().expect("a key");
        let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("chain.pem"), leaf.pem()).expect("written");
        std::fs::write(folder.path().join("key.pem"), key.serialize_pem()).expect("written");
        Self { folder, root: root_made.pem() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
