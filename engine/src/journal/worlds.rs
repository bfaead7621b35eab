//! Changes of the list of worlds, and of who owns which plans.
//!
//! A change that has failed may have been made. The writer then reads the list before it answers, and
//! decides nothing by the old one: a stale list would refuse every later change, and the new owner of
//! plans would not know of them.

use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Context};

use super::unsure::is_refusal;
use super::writer::Writer;
use super::Journal;
use crate::error::{not_taken, StoreError};
use crate::store::{Slots, Swap, WorldRow, Worlds, WorldsWrite};

/// Pause before the list is read again if the store did not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// How often a change is decided again because another process was faster.
const TRIES: u32 = 16;

/// Whether the directory is as the store has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Known {
    #[default]
    Sure,
    /// A change may have been made.
    Unsure,
    /// The same, and a timer is armed to read the list.
    ReadLater,
}

/// A continuation for when the list is known, or cannot be read.
pub(super) trait Then:
    FnOnce(&mut Writer, &mut Context<'_, Writer>, Result<(), StoreError>) + Send + 'static
{
}

impl<F> Then for F where
    F: FnOnce(&mut Writer, &mut Context<'_, Writer>, Result<(), StoreError>) + Send + 'static
{
}

impl Known {
    fn unsure(self) -> Self {
        if self == Self::ReadLater {
            self
        } else {
            Self::Unsure
        }
    }
}

type Answer = Completer<Result<bool, StoreError>>;

/// A change of the list, by what is known when it is decided. It is decided again if another
/// process was faster.
type Decide = Box<dyn FnMut(&Worlds) -> Option<WorldsWrite> + Send>;

impl Journal {
    /// Changes who is there and who owns what, by what is known when it is this change's turn.
    /// Whether there was anything to change.
    pub(crate) fn change_worlds(
        &self,
        change: impl FnMut(&Worlds) -> Option<WorldsWrite> + Send + 'static,
    ) -> Completion<Result<bool, StoreError>> {
        self.change_list(Box::new(change), false)
    }

    /// The same for worlds that go because their leases are over; false if they are not.
    pub(crate) fn declare_dead(
        &self,
        change: impl FnMut(&Worlds) -> Option<WorldsWrite> + Send + 'static,
    ) -> Completion<Result<bool, StoreError>> {
        self.change_list(Box::new(change), true)
    }

    fn change_list(&self, decide: Decide, is_death: bool) -> Completion<Result<bool, StoreError>> {
        let (answer, changed) = completion();
        let late = answer.clone();
        let change = ListChange { decide, is_death, tries: TRIES, answer };
        let submitted = self.writer.submit(move |writer: &mut Writer, cx| {
            if writer.worlds_known == Known::Sure {
                return writer.change_worlds(change, cx);
            }
            writer.change_worlds_as_read(change, cx);
        });
        if let Err(error) = submitted {
            let problem = format!("it takes nothing more: {}", not_taken(error.kind));
            tell(&late, Err(StoreError::Failed(problem)));
        }
        changed
    }
}

/// A change of the list on its way.
struct ListChange {
    decide: Decide,
    is_death: bool,
    tries: u32,
    answer: Answer,
}

impl Writer {
    fn change_worlds_as_read(&mut self, change: ListChange, cx: &mut Context<'_, Self>) {
        self.read_worlds(cx, move |writer, cx, read| match read {
            Ok(()) => writer.change_worlds(change, cx),
            Err(error) => tell(&change.answer, Err(error)),
        });
    }

    fn change_worlds(&mut self, mut change: ListChange, cx: &mut Context<'_, Self>) {
        let mut worlds = Worlds::clone(&self.directory.now());
        let before = worlds.version;
        let answer = change.answer.clone();
        let Some(write) = (change.decide)(&worlds) else { return tell(&answer, Ok(false)) };
        let own = joining(&worlds, &write);
        let known = worlds.swap(&write);
        let written = match change.is_death {
            true => self.store.declare_dead(&write),
            false => self.store.write_worlds(&write),
        };
        let (error, made) = match written {
            Ok(written) if written == known => {
                self.directory.add_own(&own);
                return self.worlds_are(worlds, cx, move |_, _, known| {
                    tell(&answer, known.map(|()| true));
                });
            }
            Ok(Swap::Changed { version }) if change.is_death && version == before => {
                return tell(&answer, Ok(false));
            }
            Ok(Swap::Changed { .. }) if self.lease.is_some() && change.tries > 0 => {
                change.tries -= 1;
                self.worlds_known = Known::Unsure;
                return self.change_worlds_as_read(change, cx);
            }
            // Only a schedule is answered with `Moved`.
            Ok(Swap::Moved { epoch: version } | Swap::Changed { version }) => {
                let problem = format!("the worlds were changed: their version is {version}");
                (StoreError::Failed(problem), None)
            }
            Ok(Swap::Done) => {
                let problem = format!("the worlds are {known:?} here and changed in the store");
                (StoreError::Failed(problem), None)
            }
            Err(error) if is_refusal(&error) => return tell(&answer, Err(error)),
            Err(error) => (error, Some(write)),
        };
        tracing::warn!(%error, "it is not known whether the worlds were changed");
        self.worlds_known = Known::Unsure;
        self.joining.clone_from(&made);
        self.read_worlds(cx, move |writer, _, read| {
            let now = writer.directory.now();
            let is_made = read.is_ok() && made.is_some_and(|write| is_made(&now, &write));
            tell(&answer, if is_made { Ok(true) } else { Err(error) });
        });
    }

    /// Reads the list of worlds. The writer does nothing else meanwhile.
    pub(super) fn read_worlds(&mut self, cx: &mut Context<'_, Self>, then: impl Then) {
        let read = self.reader.call(|reader, _| reader.worlds());
        cx.run_exclusive(read, move |writer: &mut Self, cx, read| {
            let read = read.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
            match read {
                Ok(worlds) => {
                    let made = writer.joining.take().filter(|write| is_made(&worlds, write));
                    if let Some(write) = made {
                        let own = joining(&writer.directory.now(), &write);
                        writer.directory.add_own(&own);
                    }
                    writer.worlds_are(worlds, cx, then);
                }
                Err(error) => {
                    writer.worlds_known = writer.worlds_known.unsure();
                    writer.read_worlds_later(cx);
                    then(writer, cx, Err(error));
                }
            }
        });
    }

    /// Reads the list after a moment, even if nobody asks: it may name this process as the new owner
    /// of plans.
    pub(super) fn read_worlds_later(&mut self, cx: &mut Context<'_, Self>) {
        if self.worlds_known != Known::Unsure {
            return;
        }
        let armed = cx.after(AGAIN, |writer: &mut Self, cx| {
            if writer.worlds_known == Known::ReadLater {
                writer.worlds_known = Known::Unsure;
                writer.read_worlds(cx, |_, _, _| {});
            }
        });
        match armed {
            Ok(_timer) => self.worlds_known = Known::ReadLater,
            Err(error) => {
                tracing::error!(%error, "the list of worlds is read with the next change")
            }
        }
    }
}

/// The worlds that a change registers: they are of this process.
fn joining(before: &Worlds, write: &WorldsWrite) -> Vec<u64> {
    let put = write.put.iter().map(|row| row.epoch);
    put.filter(|world| before.find(*world).is_none()).collect()
}

/// Whether the worlds are as a change has left them. Their slots may have other owners since.
fn is_made(now: &Worlds, write: &WorldsWrite) -> bool {
    let without_slots = |row: &WorldRow| WorldRow { slots: Slots::default(), ..row.clone() };
    let is_put = |put: &WorldRow| {
        now.find(put.epoch).is_some_and(|row| without_slots(row) == without_slots(put))
    };
    now.version > write.from
        && write.put.iter().all(is_put)
        && write.gone.iter().all(|world| now.find(*world).is_none())
}

fn tell(answer: &Answer, outcome: Result<bool, StoreError>) {
    // The caller may have given up.
    let _gone = answer.complete(outcome);
}
