//! Files that are read for flows: regular ones, within a limit of bytes and of time.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use super::scarce::patiently;

/// Bytes that are read before the time is looked at.
const PIECE: usize = 64 * 1_024;

/// Reads at most so many bytes of a file.
///
/// A pipe, socket or device is refused: its reader could wait for ever.
pub(super) fn read(
    path: &Path,
    bytes_max: u64,
    within: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Vec<u8>> {
    let until = Instant::now() + within;
    let file = patiently(within, is_over, || open(path))?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    let (mut file, mut bytes, mut piece) = (file.take(bytes_max), Vec::new(), vec![0; PIECE]);
    loop {
        if is_over() || Instant::now() > until {
            let message = format!("it was not read within {within:?}");
            return Err(Error::new(ErrorKind::TimedOut, message));
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Opens it without waiting for a writer, which a pipe would do.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    }
    options.open(path)
}
