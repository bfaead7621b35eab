//! The entries of all processes that share a store, for the listeners of this one.
//!
//! All of them are in the journal, in the order of their places. So the feed reads the journal on,
//! up to its [`Horizon`], once for all listeners. It begins with the first listener and ends with
//! the last: without any the store is not asked. A place means the same at every node, so a
//! listener goes on at another node with the cursor that it has.
//!
//! ```text
//! idle --join--> starting --first horizon--> reading --no listeners--> idle
//! ```
//!
//! A listener that joins while it reads begins at the place that the feed has reached: entries
//! after it are given to the listener, earlier ones it reads by itself.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Group};

use super::buffer::{Bell, Buffer, Listeners};
use super::horizon::Horizon;
use super::page::Page;
use crate::error::StoreError;
use crate::journal::Journal;
use crate::limits::{FEED_AGAIN, FEED_DECODES, FEED_PAUSE_MAX, FEED_PAUSE_MIN, FEED_STALL_NS};
use crate::store::{Seq, StoreReader, Written};

/// Reads the entries of all nodes while somebody listens.
pub(crate) struct Feed {
    journal: Journal,
    group: Group,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_running: bool,
    /// The listeners have all entries up to this one; unknown at the start. It was visible.
    at: Option<Seq>,
    listeners: Listeners,
    /// Those who wait for the first place.
    joining: Vec<(Arc<Buffer>, Completer<Seq>)>,
}

/// How far the store has been looked at.
#[derive(Default)]
struct Reading {
    horizon: Horizon,
    /// All entries up to this place were read; unknown at the start.
    looked: Option<Seq>,
    /// Looks at entries that could not be decoded, at most [`FEED_DECODES`].
    undecoded: u32,
}

/// How long the horizon has stood still.
#[derive(Default)]
struct Stall {
    /// The place that comes next, and when that was seen.
    next: Option<(Seq, u64)>,
    is_told: bool,
}

impl Stall {
    /// Whether it has to be told now: once for each place.
    fn look(&mut self, next: Option<Seq>, now_ns: u64) -> bool {
        match (self.next, next) {
            (Some((place, since_ns)), Some(next)) if place == next => {
                let is_long = now_ns.saturating_sub(since_ns) >= FEED_STALL_NS;
                is_long && !std::mem::replace(&mut self.is_told, true)
            }
            _ => {
                *self = Self { next: next.map(|next| (next, now_ns)), is_told: false };
                false
            }
        }
    }
}

/// The outcome of one look at the store.
enum Found {
    /// The first place is not known yet.
    Unknown,
    /// Entries to tell, in their order, and whether there are further ones.
    Entries { entries: Vec<Written>, is_more: bool },
    /// The journal ends here, before entries that were told.
    Lost(Seq),
}

impl Feed {
    pub(crate) fn new(journal: &Journal, group: &Group) -> Arc<Self> {
        let (journal, group) = (journal.clone(), group.clone());
        Arc::new(Self { journal, group, state: Mutex::default() })
    }

    /// Gives all entries after the place that comes back to a listener. If the feed was idle there
    /// is a future too, which has to run.
    pub(crate) fn join(
        self: &Arc<Self>,
        buffer: Arc<Buffer>,
    ) -> (Completion<Seq>, Option<impl Future<Output = ()> + Send + 'static>) {
        let mut state = self.state.lock();
        let joined = match state.at {
            Some(at) => {
                state.listeners.add(buffer);
                Completion::done(at)
            }
            None => {
                let (done, joined) = completion();
                state.joining.push((buffer, done));
                joined
            }
        };
        let begins = !std::mem::replace(&mut state.is_running, true);
        let running = begins.then(|| Running { feed: Arc::clone(self), is_over: false });
        (joined, running.map(Running::run))
    }

    /// Gives entries to the listeners. They are at the last of them, or at the first place.
    fn tell(&self, entries: Vec<Written>, first: Seq) {
        let mut state = self.state.lock();
        let at = entries.last().map(|last| last.seq).or(state.at).unwrap_or(first);
        state.at = Some(at);
        let waiting = state.listeners.read(entries);
        let joining = std::mem::take(&mut state.joining);
        let joined: Vec<Completer<Seq>> = joining
            .into_iter()
            .map(|(buffer, done)| {
                state.listeners.add(buffer);
                done
            })
            .collect();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        for done in joined {
            // The listener may be gone.
            let _gone = done.complete(at);
        }
    }

    /// A pause, which an own entry ends after its first part.
    async fn pause(&self, bell: &Bell, pause: Duration) -> Result<(), ()> {
        self.group.sleep(pause.min(FEED_PAUSE_MIN)).await.map_err(drop)?;
        let mut rest = self.group.sleep(pause.saturating_sub(FEED_PAUSE_MIN));
        poll_fn(|cx| match bell.poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut rest).poll(cx).map(|slept| slept.map_err(drop)),
        })
        .await
    }
}

/// A feed that reads. However it ends, its listeners are told that nothing comes any more.
struct Running {
    feed: Arc<Feed>,
    /// It has ended for want of listeners: another one may run already.
    is_over: bool,
}

impl Running {
    async fn run(mut self) {
        let feed = Arc::clone(&self.feed);
        let bell = Arc::default();
        feed.journal.ring(&bell);
        let (mut reading, mut pause) = (Reading::default(), FEED_PAUSE_MIN);
        let mut stall = Stall::default();
        while self.is_wanted() {
            let (before, at) = (reading.place(), feed.state.lock().at);
            let look = feed.journal.read(move |reader| {
                let found = reading.look(reader, at);
                (reading, found)
            });
            let Ok((read, found)) = look.await else { return };
            reading = read;
            let horizon = &reading.horizon;
            if stall.look(horizon.next_place(), feed.group.now_ns()) {
                tracing::warn!(
                    place = horizon.next_place(), writes = ?horizon.under_way(),
                    "live events of all nodes wait for writes that last (on PostgreSQL: by \
                     virtualtransaction of pg_locks)"
                );
            }
            pause = match reading.place() == before {
                true => (pause * 2).min(FEED_PAUSE_MAX),
                false => FEED_PAUSE_MIN,
            };
            let paused = match found {
                Ok(Found::Unknown) => feed.pause(&bell, pause).await,
                Ok(Found::Entries { entries, is_more }) => {
                    feed.tell(entries, reading.looked.unwrap_or_default());
                    if is_more {
                        continue;
                    }
                    feed.pause(&bell, pause).await
                }
                Ok(Found::Lost(last)) => {
                    tracing::error!(last, told = at, "the database lacks entries that were told");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "live events of all nodes come later");
                    feed.group.sleep(FEED_AGAIN).await.map_err(drop)
                }
            };
            if paused.is_err() {
                return;
            }
        }
    }

    /// Whether somebody listens; if not, the feed is idle.
    fn is_wanted(&mut self) -> bool {
        let mut state = self.feed.state.lock();
        // A buffer without another holder has no reader.
        state.joining.retain(|(buffer, _)| Arc::strong_count(buffer) > 1);
        if !state.joining.is_empty() || !state.listeners.is_empty() {
            return true;
        }
        *state = State::default();
        self.is_over = true;
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let ended = std::mem::take(&mut *self.feed.state.lock());
            // Wakes the listeners.
            drop(ended);
        }
    }
}

impl Reading {
    /// Changes when a look has shown something new.
    fn place(&self) -> (Option<Seq>, Option<Seq>) {
        (self.looked, self.horizon.next_place())
    }

    /// Reads entries after the place that was looked at; the listeners are at `at`.
    fn look(&mut self, reader: &mut dyn StoreReader, at: Option<Seq>) -> Result<Found, StoreError> {
        if self.looked >= self.horizon.complete() {
            let newest = reader.newest()?;
            // The entry at `at` may have been removed. Its place was given out all the same.
            if let Some(at) = at.filter(|at| *at > newest.seq) {
                let last = reader.last_place()?;
                if at > last {
                    return Ok(Found::Lost(last));
                }
            }
            self.horizon.look(newest);
        }
        let Some(complete) = self.horizon.complete() else { return Ok(Found::Unknown) };
        let looked = *self.looked.get_or_insert(complete);
        if complete <= looked {
            return Ok(Found::Entries { entries: Vec::new(), is_more: false });
        }
        let Page { entries, until, is_more, damage } = Page::read(reader, looked, complete)?;
        match damage {
            // The key may come.
            Some(error @ StoreError::Undecodable { .. }) if self.undecoded < FEED_DECODES => {
                let Some(last) = entries.last() else {
                    self.undecoded += 1;
                    return Err(error);
                };
                self.looked = Some(last.seq);
                return Ok(Found::Entries { entries, is_more: true });
            }
            Some(error) => {
                tracing::error!(
                    %error, after = looked, until,
                    "live events of all nodes lack what cannot be understood"
                );
            }
            None if self.undecoded < FEED_DECODES => self.undecoded = 0,
            None => {}
        }
        self.looked = Some(until);
        Ok(Found::Entries { entries, is_more })
    }
}

#[cfg(test)]
mod tests {
    use super::{Stall, FEED_STALL_NS};

    #[test]
    fn horizon_that_stands_still_is_told_once_for_each_place() {
        let (mut stall, long) = (Stall::default(), FEED_STALL_NS);
        let mut look = |next, now_ns| stall.look(next, now_ns);
        assert!(!look(Some(7), 5));
        assert!(!look(Some(7), 4 + long));
        assert!(look(Some(7), 5 + long));
        assert!(!look(Some(7), 9 * long), "it was told");
        assert!(!look(Some(8), 9 * long), "another place");
        assert!(look(Some(8), 10 * long));
        assert!(!look(None, 11 * long));
        assert!(!look(Some(8), 11 * long), "it begins anew");
    }
}
