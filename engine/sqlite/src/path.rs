//! The file of a store, and the files beside it.

use std::path::{Path, PathBuf};

use turnwheel_engine::StoreError;

/// Links that lead to one another, at most.
const LINKS_MAX: usize = 40;

/// The file that a path leads to, through links: each store has one lock, whatever it is called.
pub(crate) fn real(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = |error: std::io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
    let mut file = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(to) = std::fs::read_link(&file) else { break };
        file = file.parent().map_or_else(|| to.clone(), |folder| folder.join(&to));
    }
    let name = file.file_name().map(std::ffi::OsStr::to_owned);
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Some(name) = name else { return Ok(file) };
    // The folder must be there for the store to be made: SQLite says so if it is not.
    match folder.canonicalize() {
        Ok(folder) => {
            let file = folder.join(name);
            refuse_several_names(&file).map_err(failed)??;
            Ok(file)
        }
        Err(_) => Ok(file),
    }
}

/// A file with two names would have two logs, and what one writes would damage what the other has
/// written.
#[cfg(unix)]
fn refuse_several_names(file: &Path) -> std::io::Result<Result<(), StoreError>> {
    use std::os::unix::fs::MetadataExt;
    let names = match std::fs::metadata(file) {
        Ok(found) => found.nlink(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 1,
        Err(error) => return Err(error),
    };
    if names <= 1 {
        return Ok(Ok(()));
    }
    let store = file.display();
    Ok(Err(StoreError::Failed(format!(
        "{store}: the file has {names} names (hard links), and a log for each would damage it: remove \
         the other names, or make symbolic links of them"
    ))))
}

#[cfg(not(unix))]
fn refuse_several_names(_: &Path) -> std::io::Result<Result<(), StoreError>> {
    Ok(Ok(()))
}

/// The name of a file beside another one.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
