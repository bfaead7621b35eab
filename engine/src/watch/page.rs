//! Entries of the journal by pages, around entries that cannot be understood.

use std::iter::{once, successors};

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
    /// Why what is between the last entry and `until` was left out.
    pub(super) damage: Option<StoreError>,
}

impl Page {
    /// Reads entries after a place, up to another one. Entries that cannot be understood are left
    /// out and end the page, and a store that does not answer is an error.
    ///
    /// Cost: one read. Around entries that cannot be understood some ten, and two for each of them.
    pub(super) fn read(
        reader: &mut dyn StoreReader,
        after: Seq,
        until: Seq,
    ) -> Result<Self, StoreError> {
        let mut entries = match reader.journal(after, WATCH_PAGE) {
            Err(error) if error.is_unreadable() => return Self::around(reader, after, until),
            page => page?,
        };
        let is_full = entries.len() >= WATCH_PAGE;
        entries.retain(|entry| entry.seq <= until);
        let is_more = is_full && entries.len() >= WATCH_PAGE;
        let last = entries.last().filter(|_| is_more).map(|last| last.seq);
        Ok(Self { entries, until: last.unwrap_or(until), is_more, damage: None })
    }

    /// The same if one of the entries cannot be understood, which is looked for by halves.
    fn around(reader: &mut dyn StoreReader, after: Seq, until: Seq) -> Result<Self, StoreError> {
        let (mut entries, mut at, mut damage) = (Vec::new(), after, None);
        let halves = successors(Some(WATCH_PAGE / 2), |limit| Some(limit / 2).filter(|it| *it > 0));
        // The last read is of that entry alone. It may have been removed meanwhile.
        for limit in halves.chain(once(1)) {
            match reader.journal(at, limit) {
                Ok(page) => {
                    at = page.last().map_or(at, |last| last.seq);
                    entries.extend(page);
                    damage = None;
                }
                Err(error) if error.is_unreadable() => {
                    damage = Some(error);
                    if limit == 1 {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        entries.retain(|entry: &Written| entry.seq <= until);
        if damage.is_none() {
            return Ok(Self { entries, until: at.min(until), is_more: at < until, damage });
        }
        let skipped = skip(reader, at, until)?;
        let is_more = skipped.is_some_and(|skipped| skipped < until);
        let damage = damage.filter(|_| skipped.is_some());
        Ok(Self { entries, until: skipped.unwrap_or(until), is_more, damage })
    }
}

/// The place up to which no entry can be understood; the next one after a place cannot be. Nothing
/// if that one is not wanted.
fn skip(reader: &mut dyn StoreReader, after: Seq, until: Seq) -> Result<Option<Seq>, StoreError> {
    let mut skipped = None;
    for _ in 0..WATCH_PAGE {
        let next = reader.place_after(skipped.unwrap_or(after))?.filter(|next| *next <= until);
        let Some(next) = next else { return Ok(skipped.map(|_| until)) };
        skipped = Some(next);
        match reader.journal(next, 1) {
            Ok(_) => break,
            Err(error) if error.is_unreadable() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(skipped)
}
