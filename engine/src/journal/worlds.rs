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

type Answer = Completer<Result<bool, StoreError>>;

impl Journal {
    /// Changes who is there and who owns what, by what is known when it is this change's turn. Whether
    /// there was anything to change.
    pub(crate) fn change_worlds(
        &self,
        change: impl FnOnce(&Worlds) -> Option<WorldsWrite> + Send + 'static,
    ) -> Completion<Result<bool, StoreError>> {
        let (answer, changed) = completion();
        let late = answer.clone();
        let submitted = self.writer.submit(move |writer: &mut Writer, cx| {
            if writer.worlds_known == Known::Sure {
                return writer.change_worlds(change, &answer, cx);
            }
            writer.read_worlds(cx, move |writer, cx, read| match read {
                Ok(()) => writer.change_worlds(change, &answer, cx),
                Err(error) => tell(&answer, Err(error)),
            });
        });
        if let Err(error) = submitted {
            let problem = format!("it takes nothing more: {}", not_taken(error.kind));
            tell(&late, Err(StoreError::Failed(problem)));
        }
        changed
    }
}

impl Writer {
    fn change_worlds(
        &mut self,
        change: impl FnOnce(&Worlds) -> Option<WorldsWrite>,
        answer: &Answer,
        cx: &mut Context<'_, Self>,
    ) {
        let mut worlds = Worlds::clone(&self.directory.now());
        let Some(write) = change(&worlds) else { return tell(answer, Ok(false)) };
        let known = worlds.swap(&write);
        let (error, made) = match self.store.write_worlds(&write) {
            Ok(written) if written == known => {
                self.directory.set(worlds);
                return tell(answer, Ok(true));
            }
            Ok(Swap::Changed { version }) => {
                let problem = format!("the worlds were changed: their version is {version}");
                (StoreError::Failed(problem), None)
            }
            Ok(Swap::Done) => {
                let problem = format!("the worlds are {known:?} here and changed in the store");
                (StoreError::Failed(problem), None)
            }
            Err(error) if is_refusal(&error) => return tell(answer, Err(error)),
            Err(error) => (error, Some(write)),
        };
        tracing::warn!(%error, "it is not known whether the worlds were changed");
        self.worlds_known = Known::Unsure;
        let answer = answer.clone();
        self.read_worlds(cx, move |writer, _, read| {
            let now = writer.directory.now();
            let is_made = read.is_ok() && made.is_some_and(|write| is_made(&now, &write));
            tell(&answer, if is_made { Ok(true) } else { Err(error) });
        });
    }

    /// Reads the list of worlds. The writer does nothing else meanwhile.
    fn read_worlds(
        &mut self,
        cx: &mut Context<'_, Self>,
        then: impl FnOnce(&mut Self, &mut Context<'_, Self>, Result<(), StoreError>) + Send + 'static,
    ) {
        let read = self.reader.call(|reader, _| reader.worlds());
        cx.run_exclusive(read, move |writer: &mut Self, cx, read| {
            let read = read.unwrap_or_else(|failure| Err(StoreError::unanswered(&failure)));
            let read = read.map(|worlds| writer.worlds_are(worlds));
            if read.is_err() {
                writer.read_worlds_later(cx);
            }
            then(writer, cx, read);
        });
    }

    fn worlds_are(&mut self, worlds: Worlds) {
        self.worlds_known = Known::Sure;
        if worlds.version != self.directory.now().version {
            self.directory.set(worlds);
        }
    }

    /// Reads the list after a moment, even if nobody asks: it may name this process as the new owner
    /// of plans.
    fn read_worlds_later(&mut self, cx: &mut Context<'_, Self>) {
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
