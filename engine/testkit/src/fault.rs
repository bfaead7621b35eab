//! What can become of a write when the machine stops during it.

use std::fmt;

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Bytes at the begin of a write-ahead log that are synced before anything behind them is written.
const WAL_HEADER: usize = 32;

/// What became of a write, or of what was around it, when the process or the machine stopped.
///
/// Sectors are counted among those that the write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing of it came to the disk.
    Lost,
    /// All of it did, and nobody was told.
    Kept,
    /// Only its first bytes did.
    Torn {
        /// How many.
        bytes: usize,
    },
    /// All of it did but one sector.
    Missing {
        /// Which.
        sector: usize,
    },
    /// Its end did and its begin did not.
    Reordered {
        /// The first sector that did.
        sector: usize,
    },
    /// All of it did, and one sector holds something else.
    Garbled {
        /// Which.
        sector: usize,
    },
    /// The store refused it, and the process went on.
    Refused,
    /// Nothing of it came to the disk, and the recovery was ended by a second crash.
    Twice {
        /// The commit of the recovery that was lost.
        write: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("lost"),
            Self::Kept => f.write_str("kept, not acknowledged"),
            Self::Torn { bytes } => write!(f, "torn after {bytes} bytes"),
            Self::Missing { sector } => write!(f, "without its sector {sector}"),
            Self::Reordered { sector } => write!(f, "from its sector {sector} on"),
            Self::Garbled { sector } => write!(f, "with noise in its sector {sector}"),
            Self::Refused => f.write_str("refused"),
            Self::Twice { write } => write!(f, "lost, and write {write} of the recovery too"),
        }
    }
}

/// A write to a file: what was there and what is there after it.
#[derive(Debug)]
pub(super) struct FileWrite<'a> {
    /// What counts as there already when the write begins to come to the disk.
    base: Vec<u8>,
    after: &'a [u8],
    /// The sectors that it changes.
    changed: Vec<usize>,
}

impl<'a> FileWrite<'a> {
    /// A write to a database file.
    pub(super) fn to_pages(before: &[u8], after: &'a [u8]) -> Self {
        let sectors = after.len().div_ceil(SECTOR);
        let is_changed = |sector: &usize| {
            let range = range(*sector, after);
            before.get(range.clone()) != Some(&after[range])
        };
        let changed = (0..sectors).filter(is_changed).collect();
        Self { base: before.to_vec(), after, changed }
    }

    /// A write to a write-ahead log. SQLite syncs the header of a log that it begins again before it
    /// writes what follows: so that is there first.
    pub(super) fn to_log(before: &[u8], after: &'a [u8]) -> Self {
        let mut base = before.to_vec();
        let header = WAL_HEADER.min(after.len());
        if base.len() < header {
            base.resize(header, 0);
        }
        base[..header].copy_from_slice(&after[..header]);
        Self { base: base.clone(), ..Self::to_pages(&base, after) }
    }

    /// Everything that can become of it, with a tear in each sector and between all.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let count = self.changed.len();
        let mut faults = vec![Fault::Lost];
        for sector in 0..count {
            let bytes = sector * SECTOR;
            faults.push(Fault::Torn { bytes });
            // A place inside of the sector, another one each time.
            faults.push(Fault::Torn { bytes: bytes + 1 + (sector * 97) % (SECTOR - 1) });
            faults.push(Fault::Garbled { sector });
            if sector + 1 < count {
                faults.push(Fault::Missing { sector });
            }
            if sector > 0 {
                faults.push(Fault::Reordered { sector });
            }
        }
        faults
    }

    /// The file after the fault.
    pub(super) fn leaves(&self, fault: Fault) -> Vec<u8> {
        let mut file = self.base.clone();
        for (place, sector) in self.changed.iter().enumerate() {
            let whole = range(*sector, self.after);
            let is_there = match fault {
                Fault::Kept | Fault::Garbled { .. } => true,
                Fault::Torn { bytes } => bytes > place * SECTOR,
                Fault::Missing { sector } => sector != place,
                Fault::Reordered { sector } => sector <= place,
                Fault::Lost | Fault::Refused | Fault::Twice { .. } => false,
            };
            if !is_there {
                continue;
            }
            let mut part = whole;
            if let Fault::Torn { bytes } = fault {
                part.end = part.end.min(part.start + bytes - place * SECTOR);
            }
            if file.len() < part.end {
                file.resize(part.end, 0);
            }
            file[part.clone()].copy_from_slice(&self.after[part.clone()]);
            if fault == (Fault::Garbled { sector: place }) {
                // What is beside the write in its first sector was synced before and is safe.
                let is_new = |byte: &usize| self.base.get(*byte) != self.after.get(*byte);
                let from = part.clone().find(is_new).unwrap_or(part.end);
                let noise = file[from..part.end].iter_mut().enumerate();
                noise.for_each(|(index, byte)| *byte ^= (index as u8).wrapping_mul(31) | 1);
            }
        }
        file
    }
}

fn range(sector: usize, file: &[u8]) -> std::ops::Range<usize> {
    sector * SECTOR..((sector + 1) * SECTOR).min(file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_left_as_its_fault_says() {
        let (before, after) =
            (vec![1; 3 * SECTOR], [vec![1; SECTOR], vec![2; 3 * SECTOR]].concat());
        let write = FileWrite::to_pages(&before, &after);
        assert_eq!(write.changed, [1, 2, 3]);
        assert_eq!(write.leaves(Fault::Lost), before);
        assert_eq!(write.leaves(Fault::Kept), after);
        let torn = write.leaves(Fault::Torn { bytes: SECTOR + 10 });
        assert_eq!((torn.len(), torn[2 * SECTOR + 9], torn[2 * SECTOR + 10]), (before.len(), 2, 1));
        let missing = write.leaves(Fault::Missing { sector: 0 });
        assert_eq!((missing.len(), missing[SECTOR], missing[2 * SECTOR]), (after.len(), 1, 2));
        let late = write.leaves(Fault::Reordered { sector: 2 });
        assert_eq!((late[2 * SECTOR], late[3 * SECTOR]), (1, 2));
        let noise = write.leaves(Fault::Garbled { sector: 1 });
        assert!(noise[2 * SECTOR..3 * SECTOR].iter().all(|byte| *byte != 2));
        assert_eq!(noise[3 * SECTOR..], after[3 * SECTOR..]);
    }

    #[test]
    fn the_header_of_a_log_is_there_before_the_rest() {
        let (before, after) = (vec![1; 4 * SECTOR], vec![2; SECTOR]);
        let write = FileWrite::to_log(&before, &after);
        let lost = write.leaves(Fault::Lost);
        assert_eq!((lost[WAL_HEADER - 1], lost[WAL_HEADER], lost.len()), (2, 1, before.len()));
    }
}
