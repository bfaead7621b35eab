//! Requests between the worlds of nodes, carried by the store that they share: rows that are looked
//! for. No node has to reach another one.

use std::collections::HashMap;
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::{completion, InlineExecutor};
use turnwheel_runtime::{Completer, Completion, Task};

use super::hub::Hub;
use crate::connect::{Answer, ConnectError, Connector, Desk, Envelope, Request};
use crate::error::StoreError;
use crate::store::{Hint, Mail, Members};

/// The version of the rows.
const VERSION: u8 = 1;

/// Bytes before the content: version, kind, sender, number of the request.
const HEAD: usize = 18;

/// Rows that are taken at once.
const PAGE: usize = 256;

/// Pause between two looks, a moment after a request or a row, and otherwise.
const SOON: Duration = Duration::from_millis(25);
const SELDOM: Duration = Duration::from_millis(400);
/// The same while the store gives hints: one that is lost costs this much.
const HINTED: Duration = Duration::from_secs(2);

/// Attempts to write an answer: about a minute of a store that fails at once.
const ANSWER_TRIES: u32 = 150;

/// Looks in a row that find nothing before they become seldom.
const LOOKS: u32 = 40;

/// Carries requests by rows of the store.
#[derive(Default)]
pub(super) struct MailRoom {
    desks: Mutex<HashMap<u64, Desk>>,
    members: OnceLock<Task<Box<dyn Members>>>,
    open: Mutex<Open>,
    /// Rows that wait for their statement, in their order.
    posting: Arc<Mutex<Vec<(Mail, Posted)>>>,
    /// Completed when a row may have come.
    hint: Mutex<Option<Completer<()>>>,
}

/// Told whether a row was written.
type Posted = Completer<Result<bool, StoreError>>;

impl fmt::Debug for MailRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailRoom").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Open {
    last: u64,
    /// Whether a request was sent since the last look.
    is_sent: bool,
    /// Requests without an answer.
    requests: HashMap<u64, Waiting>,
}

/// A request without an answer.
struct Waiting {
    from: u64,
    to: u64,
    completer: Completer<Result<Answer, ConnectError>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Request,
    Answer,
}

/// The content of a row.
struct Letter {
    kind: Kind,
    from: u64,
    number: u64,
    /// Nothing if its version is not known here.
    content: Option<Vec<u8>>,
}

impl Letter {
    fn to_mail(&self, to: u64) -> Mail {
        let mut bytes = vec![VERSION, u8::from(self.kind == Kind::Answer)];
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.content.iter().flatten());
        Mail { to, bytes }
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (head, content) = bytes.split_at_checked(HEAD)?;
        let number = |at: usize| Some(u64::from_le_bytes(head[at..at + 8].try_into().ok()?));
        let kind = if head[1] == 0 { Kind::Request } else { Kind::Answer };
        let content = (head[0] == VERSION).then(|| content.to_vec());
        Some(Self { kind, from: number(2)?, number: number(10)?, content })
    }
}

impl Connector for MailRoom {
    fn attach(&self, desk: Desk) {
        self.desks.lock().insert(desk.world(), desk);
    }

    /// The answers to its requests do not come any more.
    fn detach(&self, world: u64) {
        self.desks.lock().remove(&world);
        let mut open = self.open.lock();
        let all = std::mem::take(&mut open.requests).into_iter();
        let (lost, kept): (Vec<_>, Vec<_>) = all.partition(|(_, waiting)| waiting.from == world);
        open.requests.extend(kept);
        drop(open);
        for (_, Waiting { to, completer, .. }) in lost {
            // The caller may have given up.
            let _gone = completer.complete(Err(ConnectError::Gone { world: to }));
        }
    }

    fn send(&self, envelope: Envelope) -> Completion<Result<Answer, ConnectError>> {
        let Envelope { from, to, request } = envelope;
        let desk = self.desks.lock().get(&to).cloned();
        if let Some(desk) = desk {
            return desk.take(request);
        }
        let (completer, answer) = completion();
        let number = {
            let mut open = self.open.lock();
            open.requests.retain(|_, waiting| !waiting.completer.is_cancelled());
            open.last += 1;
            open.is_sent = true;
            let number = open.last;
            open.requests.insert(number, Waiting { from, to, completer: completer.clone() });
            number
        };
        let content = Some(request.to_bytes());
        let letter = Letter { kind: Kind::Request, from, number, content };
        let posted = self.post(letter.to_mail(to));
        answer_when_lost(posted, to, completer);
        answer
    }
}

/// Of a row that could not be written nobody knows whether it was.
fn answer_when_lost(
    posted: Completion<Result<bool, StoreError>>,
    world: u64,
    completer: Completer<Result<Answer, ConnectError>>,
) {
    let told = posted.then_on(InlineExecutor, move |outcome| {
        let error = match outcome {
            Ok(Ok(true)) => return Ok(()),
            Ok(Ok(false)) => ConnectError::Unknown { world },
            _ => ConnectError::Gone { world },
        };
        // The caller may have given up.
        let _gone = completer.complete(Err(error));
        Ok(())
    });
    told.detach();
}

fn take_all(posting: &Mutex<Vec<(Mail, Posted)>>) -> (Vec<Mail>, Vec<Posted>) {
    posting.lock().drain(..).unzip()
}

fn tell_all(posted: Vec<Posted>, outcome: &Result<bool, StoreError>) {
    for posted in posted {
        // The waiter may have given up.
        let _gone = posted.complete(outcome.clone());
    }
}

impl MailRoom {
    /// Writes a row, with all others that wait for the same statement.
    fn post(&self, mail: Mail) -> Completion<Result<bool, StoreError>> {
        let Some(members) = self.members.get() else {
            return Completion::done(Err(StoreError::Failed("it is not open".to_owned())));
        };
        let (posted, answer) = completion();
        self.posting.lock().push((mail, posted));
        let posting = Arc::clone(&self.posting);
        let asked = members.submit(move |members, _| {
            let (mail, posted) = take_all(&posting);
            if !mail.is_empty() {
                tell_all(posted, &members.post(&mail));
            }
        });
        if let Err(error) = asked {
            let problem = format!("rows for other nodes are refused: {}", error.kind);
            tell_all(take_all(&self.posting).1, &Err(StoreError::Failed(problem)));
        }
        answer
    }

    /// Begins to look for rows.
    pub(super) fn begin(self: &Arc<Self>, hub: &Arc<Hub>) {
        let Some(members) = hub.journal.members() else { return };
        if self.members.set(members.clone()).is_err() {
            return;
        }
        let room = Arc::downgrade(self);
        let hint: Hint = Arc::new(move |world| {
            let Some(room) = room.upgrade() else { return };
            if room.desks.lock().contains_key(&world) {
                room.hint.lock().take().map(|hint| hint.complete(()));
            }
        });
        if let Err(error) = members.submit(move |members, _| members.listen(hint)) {
            tracing::debug!(kind = %error.kind, "hints are not listened for");
        }
        let (room, weak) = (Arc::clone(self), Arc::downgrade(hub));
        hub.spawn(async move { room.look(weak).await });
    }

    async fn look(self: Arc<Self>, hub: Weak<Hub>) {
        let mut quiet = 0;
        while let Some(hub) = hub.upgrade() {
            // Before the look, so that no hint is lost.
            let (told, hinted) = completion();
            *self.hint.lock() = Some(told);
            let (taken, has_hints) = self.take(&hub).await;
            let is_sent = std::mem::take(&mut self.open.lock().is_sent);
            quiet = if taken > 0 || is_sent { 0 } else { quiet + 1 };
            let seldom = if has_hints { HINTED } else { SELDOM };
            let next = hub.group.sleep(if quiet < LOOKS { SOON } else { seldom });
            drop(hub);
            if has_ended(next, hinted).await {
                return;
            }
        }
    }

    /// Takes what has come for the worlds of this node. Returns the number of rows, and whether
    /// hints tell of the next ones.
    async fn take(self: &Arc<Self>, hub: &Arc<Hub>) -> (usize, bool) {
        let worlds: Vec<u64> = self.desks.lock().keys().copied().collect();
        let Some(members) = self.members.get().filter(|_| !worlds.is_empty()) else {
            return (0, false);
        };
        let look = move |members: &mut Box<dyn Members>| -> Result<_, StoreError> {
            Ok((members.mail(&worlds, PAGE)?, members.is_listening()))
        };
        let looked = members.call(move |members, _| look(members)).await;
        let (mail, has_hints) = match looked {
            Ok(Ok(looked)) => looked,
            Ok(Err(error)) => {
                tracing::warn!(%error, "requests of other nodes are looked for later");
                return (0, false);
            }
            Err(_ended) => return (0, false),
        };
        let count = mail.len();
        for Mail { to, bytes } in mail {
            match Letter::of(&bytes) {
                Some(letter) if letter.kind == Kind::Request => self.request(hub, to, letter),
                Some(letter) => self.answer(letter),
                None => tracing::error!(to, "a row between nodes is damaged, and left out"),
            }
        }
        (count, has_hints)
    }

    fn request(self: &Arc<Self>, hub: &Arc<Hub>, to: u64, letter: Letter) {
        let Letter { from, number, content, .. } = letter;
        let refused =
            |problem: &str| Completion::done(Err(ConnectError::Refused(problem.to_owned())));
        let desk = self.desks.lock().get(&to).cloned();
        let answer = match (content.map(|bytes| Request::from_bytes(&bytes)), desk) {
            (Some(Ok(request)), Some(desk)) => desk.take(request),
            (Some(Ok(_)), None) => Completion::done(Err(ConnectError::Unknown { world: to })),
            (Some(Err(error)), _) => refused(&error.to_string()),
            (None, _) => refused("it is of another version"),
        };
        let (room, weak) = (Arc::clone(self), Arc::downgrade(hub));
        hub.spawn(async move {
            let answer = answer.await.unwrap_or(Err(ConnectError::Gone { world: to }));
            let answer = postcard::to_allocvec(&answer.map(|answer| answer.to_bytes()));
            let content = Some(answer.expect("it is made of bytes and texts"));
            let letter = Letter { kind: Kind::Answer, from: to, number, content };
            room.post_answer(&weak, letter.to_mail(from)).await;
        });
    }

    /// Writes an answer, again if it may not be there: a second one comes too late and is left out.
    async fn post_answer(&self, hub: &Weak<Hub>, mail: Mail) {
        for _ in 0..ANSWER_TRIES {
            if let Ok(Ok(_)) = self.post(mail.clone()).await {
                return;
            }
            let Some(pause) = hub.upgrade().map(|hub| hub.group.sleep(SELDOM)) else { return };
            let _slept = pause.await;
        }
        tracing::warn!(to = mail.to, "an answer to another node is lost");
    }

    fn answer(&self, letter: Letter) {
        let Some(waiting) = self.open.lock().requests.remove(&letter.number) else {
            return tracing::debug!(from = letter.from, "an answer comes too late");
        };
        let gone = || ConnectError::Gone { world: waiting.to };
        let answer = letter.content.ok_or_else(gone).and_then(|bytes| {
            let answer: Result<Vec<u8>, ConnectError> =
                postcard::from_bytes(&bytes).map_err(|_| gone())?;
            Answer::from_bytes(&answer?).map_err(|_| gone())
        });
        // The caller may have given up.
        let _gone = waiting.completer.complete(answer);
    }
}

/// Waits for the next look, or for a hint. Whether the threads have ended.
async fn has_ended<T: Send + 'static>(mut next: Completion<T>, mut hinted: Completion<()>) -> bool {
    poll_fn(|cx| {
        if Pin::new(&mut hinted).poll(cx).is_ready() {
            return Poll::Ready(false);
        }
        Pin::new(&mut next).poll(cx).map(|slept| slept.is_err())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_its_version_before_all_else() {
        let letter =
            Letter { kind: Kind::Answer, from: 7, number: 1 << 40, content: Some(vec![1, 2]) };
        let Mail { to, mut bytes } = letter.to_mail(9);
        assert_eq!((to, bytes[0]), (9, VERSION));
        let read = Letter::of(&bytes).expect("it is whole");
        assert!(read.kind == Kind::Answer && (read.from, read.number) == (7, 1 << 40));
        assert_eq!(read.content, Some(vec![1, 2]));
        // The receiver of one of a later version can say so to its sender.
        bytes[0] = VERSION + 1;
        let read = Letter::of(&bytes).expect("its head never changes");
        assert_eq!((read.from, read.number, read.content), (7, 1 << 40, None));
        assert!(Letter::of(&bytes[..HEAD - 1]).is_none());
    }
}
