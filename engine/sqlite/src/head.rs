//! Head: the newest place of the journal that was acknowledged, in a small file beside the store.
//!
//! SQLite ends its log, without a word, at the first page that is damaged: commits that were
//! acknowledged are gone then. The head is written after each commit, when its log is on the disk
//! already, and is not waited for: after a loss of power it may be older than the store, and never
//! newer. A start whose store ends before its head says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use turnwheel_engine::store::Seq;

use crate::identity::{self, Identity};
use crate::path::beside;

/// The end of its name.
const END: &str = "-head";

/// The begin of the file, with its format.
const MARK: u64 = u64::from_be_bytes(*b"twhead 1");

/// Words of the file: the mark, the inode of the store, the place, and their check.
const WORDS: usize = 4;

/// The head of a store. All its writers share it.
#[derive(Debug, Default)]
pub(super) struct Head(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    file: Option<File>,
    inode: u64,
    place: Seq,
    missing: Option<Missing>,
}

/// Commits that were acknowledged and that a store does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The file of the store.
    pub store: PathBuf,
    /// The newest place that it has.
    pub newest: Seq,
    /// The newest place that was acknowledged.
    pub acknowledged: Seq,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (store, Self { newest, acknowledged, .. }) = (self.store.display(), self);
        write!(
            f,
            "{store} ends at place {newest}, and commits up to place {acknowledged} were \
             acknowledged: its log ({store}-wal) was damaged, shortened or removed. What is \
             missing is lost: restore a newer backup, or start again what was started last"
        )
    }
}

impl Head {
    /// Opens the file of a store that has these places, and says what is missing. Without the file
    /// nothing is known, and the store works as well.
    pub(super) fn open(&self, store: &Path, newest: Seq) {
        let mut kept = self.0.lock();
        if kept.file.is_some() {
            return;
        }
        let opened = Identity::of(store).and_then(|identity| Ok((identity, open(store)?)));
        let (identity, mut file) = match opened {
            Ok(opened) => opened,
            Err(error) => return tracing::warn!(%error, "the head of the store is not kept"),
        };
        let inode = identity.inode();
        let acknowledged = read(&mut file, inode).unwrap_or_default();
        let missing = Missing { store: store.to_owned(), newest, acknowledged };
        let missing = (acknowledged > newest).then_some(missing);
        if let Some(missing) = &missing {
            tracing::error!(newest, acknowledged, "{missing}");
        }
        *kept = Kept { file: Some(file), inode, place: 0, missing };
        // Told once: the next start begins with what is there.
        kept.tell(newest);
    }

    /// Notes that everything up to this place is acknowledged.
    ///
    /// Cost: one write of 32 bytes to the system's memory.
    pub(super) fn tell(&self, place: Seq) {
        self.0.lock().tell(place);
    }

    /// What was missing when the store was opened.
    pub(super) fn missing(&self) -> Option<Missing> {
        self.0.lock().missing.clone()
    }
}

impl Kept {
    fn tell(&mut self, place: Seq) {
        let Some(file) = self.file.as_mut().filter(|_| place > self.place) else { return };
        let words = [MARK, self.inode, place];
        let bytes = words.into_iter().chain([check(words)]).flat_map(u64::to_le_bytes);
        let bytes: Vec<u8> = bytes.collect();
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&bytes));
        match written {
            Ok(()) => self.place = place,
            Err(error) => {
                tracing::warn!(%error, "the head of the store is not kept any more");
                self.file = None;
            }
        }
    }
}

fn open(store: &Path) -> io::Result<File> {
    let path = beside(store, END);
    identity::make_private(&path)?;
    OpenOptions::new().read(true).write(true).open(path)
}

/// The place of the file, if it is of this store and whole.
fn read(file: &mut File, inode: u64) -> Option<Seq> {
    let mut bytes = [0; WORDS * 8];
    file.read_exact(&mut bytes).ok()?;
    let word = |at: usize| bytes[at * 8..][..8].try_into().map(u64::from_le_bytes).ok();
    let [mark, of, place, checked] = [word(0)?, word(1)?, word(2)?, word(3)?];
    let is_whole = mark == MARK && check([mark, of, place]) == checked;
    (is_whole && of == inode).then_some(place)
}

/// FNV-1a over the words: a file that was written in part is not believed.
fn check(words: [u64; WORDS - 1]) -> u64 {
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_believed_if_it_is_whole_and_of_this_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("a.db");
        std::fs::write(&store, "x").expect("it can be written");
        let reopened = |newest: Seq| {
            let head = Head::default();
            head.open(&store, newest);
            let missing = head.missing().map(|missing| (missing.newest, missing.acknowledged));
            (head, missing)
        };
        let (head, missing) = reopened(0);
        assert_eq!(missing, None);
        for place in [3, 9, 7] {
            head.tell(place);
        }
        drop(head);
        assert_eq!(reopened(9).1, None);
        assert_eq!(reopened(4).1, Some((4, 9)));
        assert_eq!(reopened(4).1, None, "it is told once");

        let (head, _) = reopened(20);
        drop(head);
        let path = beside(&store, END);
        let whole = std::fs::read(&path).expect("it is there");
        for wrong in [&whole[..20], b"", &[0; 32], &[&whole[..16], &[9; 16]].concat()] {
            std::fs::write(&path, wrong).expect("it can be written");
            assert_eq!(reopened(1).1, None, "{wrong:?}");
        }
        std::fs::write(&path, &whole).expect("it can be written");
        let other = folder.path().join("other");
        std::fs::write(&other, "y").expect("it can be written");
        std::fs::rename(&other, &store).expect("it can be replaced");
        assert_eq!(reopened(1).1, None, "another file has its name");
    }
}
