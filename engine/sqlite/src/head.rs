//! Head: the newest place of the journal that was acknowledged, in a small file beside the store.
//!
//! SQLite ends its log, without a word, at the first page that is damaged: commits that were
//! acknowledged are gone then. The head is written after each commit, when its log is on the disk
//! already, and is not waited for: after a loss of power it may be older than the store, and never
//! newer. A start whose store ends before its head says so.
//!
//! Store and head know each other by a random number, which is in a row of the store once the head
//! is on the disk: both may be copied elsewhere together. A start without the head of such a row
//! says that nothing is known.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use turnwheel_engine::store::Seq;

use crate::identity::{self, Identity};
use crate::path::beside;

/// The end of its name.
const END: &str = "-head";

/// The begin of the file, with its format.
const MARK: u64 = u64::from_be_bytes(*b"twhead 2");

/// The begin of a file that has the inode of its store in place of its number.
const MARK_OF_INODE: u64 = u64::from_be_bytes(*b"twhead 1");

/// Words of the file: the mark, the number of the store, the place, and their check.
const WORDS: usize = 4;

/// The row with the number of the store.
const NUMBER: &str = "SELECT value FROM meta WHERE name = 'head'";

/// The head of a store. All its writers share it.
#[derive(Debug, Default)]
pub(super) struct Head(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    file: Option<File>,
    number: i64,
    place: Seq,
    missing: Option<Missing>,
    problem: Option<String>,
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
    /// Opens the file of a store whose newest place is this, and says what is missing. Without the
    /// file nothing is known, and the store works as well.
    pub(super) fn open(&self, store: &Path, newest: Seq, connection: &Connection) {
        let mut kept = self.0.lock();
        if kept.file.is_some() {
            return;
        }
        let opened = number_of(connection).and_then(|number| Ok((number, open(store)?)));
        let (known, mut file) = match opened {
            Ok(opened) => opened,
            Err(error) => return tracing::warn!(%error, "the head of the store is not kept"),
        };
        let acknowledged = read(&mut file).and_then(|found| {
            let of_number = known.and_then(|number| found.of_number(number));
            // Written by an older version, which may have come after this one.
            of_number.or_else(|| found.of_inode(Identity::of(store).ok()?.inode()))
        });
        let problem = (known.is_some() && acknowledged.is_none()).then(|| unknown(store));
        if let Some(problem) = &problem {
            tracing::warn!("{problem}");
        }
        let acknowledged = acknowledged.unwrap_or_default();
        let missing = Missing { store: store.to_owned(), newest, acknowledged };
        let missing = (acknowledged > newest).then_some(missing);
        if let Some(missing) = &missing {
            tracing::error!(newest, acknowledged, "{missing}");
        }
        let number = known.map_or_else(|| random(connection), Ok);
        let number = match number {
            Ok(number) => number,
            Err(error) => return tracing::warn!(%error, "the head of the store is not kept"),
        };
        *kept = Kept { file: Some(file), number, place: 0, missing, problem };
        // Told once: the next start begins with what is there.
        kept.write(newest);
        if known.is_none() {
            if let Err(error) = kept.record(connection) {
                tracing::warn!(%error, "that the store has a head is not recorded");
            }
        }
    }

    /// Notes that everything up to this place is acknowledged.
    ///
    /// Cost: one write of 32 bytes to the system's memory.
    pub(super) fn tell(&self, place: Seq) {
        self.0.lock().tell(place);
    }

    /// Why nothing was known when the store was opened.
    pub(super) fn problem(&self) -> Option<String> {
        self.0.lock().problem.clone()
    }

    /// What was missing when the store was opened.
    pub(super) fn missing(&self) -> Option<Missing> {
        self.0.lock().missing.clone()
    }
}

impl Kept {
    fn tell(&mut self, place: Seq) {
        if place > self.place {
            self.write(place);
        }
    }

    fn write(&mut self, place: Seq) {
        let Some(file) = &mut self.file else { return };
        let words = [MARK, word(self.number), place];
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

    /// Writes the number of the store into it, once the head is on the disk. The row is moved out
    /// of the log, whose damage must not take it along.
    fn record(&self, connection: &Connection) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync_all()?;
        let write = "INSERT INTO meta VALUES ('head', ?1)";
        connection.execute(write, [self.number]).map_err(io::Error::other)?;
        let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        moved.map_err(io::Error::other)
    }
}

/// The number of a store that has a head.
fn number_of(connection: &Connection) -> io::Result<Option<i64>> {
    connection.query_row(NUMBER, [], |row| row.get(0)).optional().map_err(io::Error::other)
}

/// Forgets the number, in a copy of a store: the head is beside the original.
pub(super) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    let has_rows = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'";
    if connection.query_row(has_rows, [], |_| Ok(())).optional()?.is_some() {
        connection.execute("DELETE FROM meta WHERE name = 'head'", [])?;
    }
    Ok(())
}

fn random(connection: &Connection) -> io::Result<i64> {
    connection.query_row("SELECT random()", [], |row| row.get(0)).map_err(io::Error::other)
}

fn unknown(store: &Path) -> String {
    let (store, head) = (store.display(), beside(store, END));
    format!(
        "{} is missing, damaged or of another store: whether {store} has all commits that were \
         acknowledged is not known at this start. Copy it together with the store",
        head.display()
    )
}

fn open(store: &Path) -> io::Result<File> {
    let path = beside(store, END);
    identity::make_private(&path)?;
    OpenOptions::new().read(true).write(true).open(path)
}

fn word(number: i64) -> u64 {
    u64::from_le_bytes(number.to_le_bytes())
}

/// The content of a file.
struct Found {
    mark: u64,
    of: u64,
    place: Seq,
}

impl Found {
    fn of_number(&self, number: i64) -> Option<Seq> {
        (self.mark == MARK && self.of == word(number)).then_some(self.place)
    }

    fn of_inode(&self, inode: u64) -> Option<Seq> {
        (self.mark == MARK_OF_INODE && self.of == inode).then_some(self.place)
    }
}

/// The content of the file, if it is whole.
fn read(file: &mut File) -> Option<Found> {
    let mut bytes = [0; WORDS * 8];
    file.read_exact(&mut bytes).ok()?;
    let word = |at: usize| bytes[at * 8..][..8].try_into().map(u64::from_le_bytes).ok();
    let [mark, of, place, checked] = [word(0)?, word(1)?, word(2)?, word(3)?];
    (check([mark, of, place]) == checked).then_some(Found { mark, of, place })
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

    /// A store with nothing but the table that the number is in.
    fn store(folder: &Path) -> PathBuf {
        let store = folder.join("a.db");
        let table = "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL)";
        Connection::open(&store).expect("it opens").execute_batch(table).expect("it is made");
        store
    }

    /// Opens the head of a store that ends at this place; what is missing, and whether it is not
    /// known.
    fn opened(store: &Path, newest: Seq) -> (Head, Option<(Seq, Seq)>, bool) {
        let (head, connection) = (Head::default(), Connection::open(store).expect("it opens"));
        head.open(store, newest, &connection);
        let missing = head.missing().map(|missing| (missing.newest, missing.acknowledged));
        let is_unknown = head.problem().is_some();
        (head, missing, is_unknown)
    }

    fn reopened(store: &Path, newest: Seq) -> (Option<(Seq, Seq)>, bool) {
        let (_, missing, is_unknown) = opened(store, newest);
        (missing, is_unknown)
    }

    #[test]
    fn head_is_believed_if_it_is_whole_and_of_this_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let (head, missing, is_unknown) = opened(&store, 0);
        assert_eq!((missing, is_unknown), (None, false), "it is a new one");
        for place in [3, 9, 7] {
            head.tell(place);
        }
        drop(head);
        assert_eq!(reopened(&store, 9), (None, false));
        assert_eq!(reopened(&store, 4), (Some((4, 9)), false));
        assert_eq!(reopened(&store, 4), (None, false), "it is told once");

        assert_eq!(reopened(&store, 20), (None, false));
        let path = beside(&store, END);
        let whole = std::fs::read(&path).expect("it is there");
        for wrong in [&whole[..20], b"", &[0; 32], &[&whole[..16], &[9; 16]].concat()] {
            std::fs::write(&path, wrong).expect("it can be written");
            assert_eq!(reopened(&store, 1), (None, true), "{wrong:?}");
            assert_eq!(reopened(&store, 1), (None, false), "it is told once: {wrong:?}");
        }
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(reopened(&store, 1), (None, true), "it is missing");
        std::fs::write(&path, &whole).expect("it can be written");
        let other = folder.path().join("other");
        std::fs::copy(&store, &other).expect("it can be copied");
        std::fs::rename(&other, &store).expect("it can be replaced");
        assert_eq!(reopened(&store, 1), (Some((1, 20)), false), "a copy is the same store");
        std::fs::write(&path, &whole).expect("it can be written");
        forget(&Connection::open(&store).expect("it opens")).expect("it forgets");
        assert_eq!(reopened(&store, 1), (None, false), "it is another store by then");
    }

    #[test]
    fn head_of_an_older_version_is_believed_by_the_inode_of_its_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let inode = Identity::of(&store).expect("it is there").inode();
        let write = |inode: u64| {
            let words = [MARK_OF_INODE, inode, 9];
            let bytes = words.into_iter().chain([check(words)]).flat_map(u64::to_le_bytes);
            let bytes = bytes.collect::<Vec<u8>>();
            std::fs::write(beside(&store, END), bytes).expect("it can be written");
        };
        write(inode.wrapping_add(1));
        let backup = folder.path().join("backup");
        std::fs::copy(&store, &backup).expect("it can be copied");
        assert_eq!(reopened(&store, 4), (None, false), "it is of another store");
        // Written over, so that it has the same inode and no number.
        std::fs::write(&store, std::fs::read(&backup).expect("it is there")).expect("written");
        write(inode);
        assert_eq!(reopened(&store, 4), (Some((4, 9)), false));
        assert_eq!(reopened(&store, 4), (None, false), "it is told once, and has a number by now");
    }
}
