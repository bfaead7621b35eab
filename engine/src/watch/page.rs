//! Entries of the journal by pages, around entries that cannot be understood.

use crate::error::StoreError;
use crate::limits::WATCH_PAGE;
use crate::store::{Seq, StoreReader, Written};

/// Some entries, in the order of their places.
pub(super) struct Page {
    pub(super) entries: Vec<Written>,
    /// Everything up to this place is in it, but for what cannot be understood.
    pub(super) until: Seq,
    /// Whether there may be further ones up to the wanted place.
    pub(super) is_more: bool,
    /// Why entries were left out.
    pub(super) damage: Option<StoreError>,
}

impl Page {
    /// Reads entries after a place, up to another one. An entry that cannot be understood is left
    /// out, and a store that does not answer is an error.
    pub(super) fn read(
        reader: &mut dyn StoreReader,
        after: Seq,
        until: Seq,
    ) -> Result<Self, StoreError> {
        let (mut entries, limit) = match reader.journal(after, WATCH_PAGE) {
            Err(error) if error.is_unreadable() => match reader.journal(after, 1) {
                Err(damage) if damage.is_unreadable() => {
                    let at = skip(reader, after + 1, until)?;
                    let (entries, damage) = (Vec::new(), Some(damage));
                    return Ok(Self { entries, until: at, is_more: at < until, damage });
                }
                one => (one?, 1),
            },
            page => (page?, WATCH_PAGE),
        };
        let is_full = entries.len() >= limit;
        entries.retain(|entry| entry.seq <= until);
        let is_more = is_full && entries.len() >= limit;
        let last = entries.last().filter(|_| is_more).map(|last| last.seq);
        Ok(Self { entries, until: last.unwrap_or(until), is_more, damage: None })
    }
}

/// The last place from here on before the next entry that can be read.
fn skip(reader: &mut dyn StoreReader, mut at: Seq, until: Seq) -> Result<Seq, StoreError> {
    for _ in 0..WATCH_PAGE {
        match reader.journal(at, 1) {
            Err(error) if !error.is_unreadable() => return Err(error),
            Err(_) if at < until => at += 1,
            Err(_) | Ok(_) => break,
        }
    }
    Ok(at)
}
