//! Which file a name leads to: a file that is deleted or replaced while it is in use takes writes
//! that nobody will ever read.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use turnwheel_engine::StoreError;

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
