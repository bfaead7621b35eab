//! Which file a name leads to: a file that is deleted or replaced while it is in use takes writes
//! that nobody will ever read.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use turnwheel_engine::StoreError;

use crate::path::{beside, real};

/// The file that was opened under a name. Without devices and inodes every file is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file that has this name now.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Ok(Self { device: metadata.dev(), inode: metadata.ino() })
        }
        #[cfg(not(unix))]
        {
            let _exists = metadata;
            Ok(Self { device: 0, inode: 0 })
        }
    }

    /// Its number on its disk; the same for every file where there are none.
    pub(super) fn inode(self) -> u64 {
        self.inode
    }

    /// Refuses to go on if the name leads elsewhere by now, or nowhere.
    ///
    /// Cost: one look at the name.
    pub(super) fn check(self, path: &Path) -> Result<(), StoreError> {
        let what = match Self::of(path) {
            Ok(now) if now == self => return Ok(()),
            Ok(_) => "was replaced by another file".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "was deleted or moved".to_owned()
            }
            Err(error) => format!("cannot be looked at ({error})"),
        };
        let path = path.display();
        Err(StoreError::Failed(format!(
            "{path} {what} while it is in use, and what is written now would be lost: put the file back, \
             or restore a backup and start again"
        )))
    }
}

/// The files that a store writes to, by their names: the file itself, its log, and the index of the
/// log.
#[derive(Debug)]
pub(super) struct Files(Vec<(PathBuf, Identity)>);

impl Files {
    /// The files that the names lead to now, with the store open. A file that cannot be looked at
    /// is taken for the right one.
    pub(super) fn of(store: &Path) -> Result<Self, StoreError> {
        let file = real(store)?;
        // The name is looked at as it was given: a link may be changed to lead elsewhere.
        let names = [store.to_owned(), beside(&file, "-wal"), beside(&file, "-shm")];
        let known = names.into_iter().filter_map(|name| {
            let identity = Identity::of(&name).ok()?;
            Some((name, identity))
        });
        Ok(Self(known.collect()))
    }

    /// Refuses to go on if one of the names leads elsewhere by now, or nowhere.
    ///
    /// Cost: one look at each name.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|(name, identity)| identity.check(name))
    }
}

/// Refuses to make an empty store beside what is left of another one: its log would be overwritten.
pub(super) fn refuse_remains(store: &Path) -> Result<(), StoreError> {
    let file = real(store)?;
    let size = |file: &Path| std::fs::metadata(file).map_or(0, |found| found.len());
    if size(&file) > 0 {
        return Ok(());
    }
    let remains = ["-wal", "-head"].map(|end| beside(&file, end));
    let remains = remains.iter().filter(|remains| size(remains) > 0);
    let remains: Vec<String> = remains.map(|remains| remains.display().to_string()).collect();
    if remains.is_empty() {
        return Ok(());
    }
    let (what, file) = (if file.exists() { "is empty" } else { "is missing" }, file.display());
    let remains = remains.join(" and ");
    Err(StoreError::Corrupt(format!(
        "{file} {what}, and {remains} of it is there: what was acknowledged may be in it, and a \
         new store would overwrite it. Put the file back, or move all of them away together and \
         restore a backup; to begin with nothing, move {remains} away"
    )))
}

/// Makes a file that only its owner may read, if it is not there: inputs of plans may be secret.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
