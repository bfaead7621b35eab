//! Requests between the worlds of nodes, carried by the store that they share: rows that are looked
//! for. No node has to reach another one.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::{completion, InlineExecutor};
use turnwheel_runtime::{Completer, Completion, Group, Task};

use super::hub::Hub;
use crate::connect::{Answer, ConnectError, Connector, Desk, Envelope, Request};
use crate::error::StoreError;
use crate::store::{Hint, Mail, Members};

/// The version of the rows.
const VERSION: u8 = 1;

/// Bytes before the content: version, kind, sender, number of the request.
const HEAD: usize = 18;

/// Rows that are posted or taken at once, and their bytes: a statement takes a small part of a
/// lease.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 8 << 20;

/// Rows that wait to be posted. Further ones are refused.
const POSTS_MAX: usize = 1 << 16;

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
    carrier: OnceLock<Carrier>,
    open: Arc<Mutex<Open>>,
    /// Completed when a row may have come.
    hint: Mutex<Option<Completer<()>>>,
}

/// Writes rows by statements of many, one after another.
#[derive(Clone)]
struct Carrier {
    members: Task<Box<dyn Members>>,
    group: Group,
    posting: Arc<Mutex<Posting>>,
}

#[derive(Default)]
struct Posting {
    /// Rows that wait for their statement, in their order.
    waiting: VecDeque<Waited>,
    /// Whether there is a job for the next statement.
    is_due: bool,
}

/// A row that waits for its statement.
struct Waited {
    mail: Mail,
    since_ns: u64,
    posted: Posted,
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
    /// Requests without an answer, and those that were given up since the last look for them.
    requests: HashMap<u64, Waiting>,
    /// So many requests before the next look.
    look_at: usize,
}

impl Open {
    /// A request is sent. Its number.
    fn add(&mut self, waiting: Waiting) -> u64 {
        if self.requests.len() >= self.look_at {
            self.requests.retain(|_, waiting| !waiting.completer.is_done());
            self.look_at = 2 * self.requests.len().max(PAGE);
        }
        self.last += 1;
        self.is_sent = true;
        self.requests.insert(self.last, waiting);
        self.last
    }
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
        Mail { to, bytes, age: Duration::ZERO }
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
        let number = self.open.lock().add(Waiting { from, to, completer });
        let content = Some(request.to_bytes());
        let letter = Letter { kind: Kind::Request, from, number, content };
        let (posted, open) = (self.post(letter.to_mail(to)), Arc::clone(&self.open));
        let told = posted.then_on(InlineExecutor, move |outcome| {
            let error = match outcome {
                Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) => ConnectError::Unknown { world: to },
                // Of a row that could not be written nobody knows whether it was.
                _ => ConnectError::Gone { world: to },
            };
            // Completed without the lock: what follows may send something.
            let waiting = open.lock().requests.remove(&number);
            if let Some(Waiting { completer, .. }) = waiting {
                // The caller may have given up.
                let _gone = completer.complete(Err(error));
            }
            Ok(())
        });
        told.detach();
        answer
    }
}

impl Carrier {
    /// Writes a row, with others that wait for the same statement.
    fn post(&self, mail: Mail) -> Completion<Result<bool, StoreError>> {
        let (posted, answer) = completion();
        let row = Waited { mail, since_ns: self.group.now_ns(), posted };
        let mut posting = self.posting.lock();
        if posting.waiting.len() >= POSTS_MAX {
            let problem = format!("{POSTS_MAX} rows for other nodes wait already");
            return Completion::done(Err(StoreError::Failed(problem)));
        }
        posting.waiting.push_back(row);
        let is_due = std::mem::replace(&mut posting.is_due, true);
        drop(posting);
        if !is_due {
            self.post_next();
        }
        answer
    }

    /// Posts what waits, a page at a time: rows that come are looked for in between.
    fn post_next(&self) {
        let carrier = self.clone();
        let asked = self.members.submit(move |members, cx| {
            let mut posting = carrier.posting.lock();
            let (mail, posted) = posting.next(cx.now_ns());
            posting.is_due = !posting.waiting.is_empty();
            let is_due = posting.is_due;
            drop(posting);
            if is_due {
                carrier.post_next();
            }
            tell_all(posted, &members.post(&mail));
        });
        if let Err(error) = asked {
            let problem = format!("rows for other nodes are refused: {}", error.kind);
            let mut posting = self.posting.lock();
            posting.is_due = false;
            let posted = posting.waiting.drain(..).map(|row| row.posted).collect();
            drop(posting);
            tell_all(posted, &Err(StoreError::Failed(problem)));
        }
    }
}

impl Posting {
    /// The rows of the next statement, with the time that they have waited.
    fn next(&mut self, now_ns: u64) -> (Vec<Mail>, Vec<Posted>) {
        let mut bytes = 0;
        let fits = |row: &&Waited| {
            bytes += row.mail.bytes.len();
            bytes - row.mail.bytes.len() < PAGE_BYTES
        };
        let rows = self.waiting.iter().take(PAGE).take_while(fits).count();
        let aged = |Waited { mail, since_ns, posted }: Waited| {
            let age = Duration::from_nanos(now_ns.saturating_sub(since_ns));
            (Mail { age, ..mail }, posted)
        };
        self.waiting.drain(..rows).map(aged).unzip()
    }
}

fn tell_all(posted: Vec<Posted>, outcome: &Result<bool, StoreError>) {
    for posted in posted {
        // The waiter may have given up.
        let _gone = posted.complete(outcome.clone());
    }
}

impl MailRoom {
    fn post(&self, mail: Mail) -> Completion<Result<bool, StoreError>> {
        match self.carrier.get() {
            Some(carrier) => carrier.post(mail),
            None => Completion::done(Err(StoreError::Failed("it is not open".to_owned()))),
        }
    }

    /// Begins to look for rows.
    pub(super) fn begin(self: &Arc<Self>, hub: &Arc<Hub>) {
        let Some(members) = hub.journal.mail() else { return };
        let (members, posting) = (members.clone(), Arc::default());
        let carrier = Carrier { members, group: hub.group.clone(), posting };
        if self.carrier.set(carrier).is_err() {
            return;
        }
        let Some(Carrier { members, .. }) = self.carrier.get() else { return };
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
        let Some(carrier) = self.carrier.get().filter(|_| !worlds.is_empty()) else {
            return (0, false);
        };
        let look = move |members: &mut Box<dyn Members>| -> Result<_, StoreError> {
            Ok((members.mail(&worlds, PAGE, PAGE_BYTES)?, members.is_listening()))
        };
        let looked = carrier.members.call(move |members, _| look(members)).await;
        let (mail, has_hints) = match looked {
            Ok(Ok(looked)) => looked,
            Ok(Err(error)) => {
                tracing::warn!(%error, "requests of other nodes are looked for later");
                return (0, false);
            }
            Err(_ended) => return (0, false),
        };
        let count = mail.len();
        for Mail { to, bytes, age } in mail {
            match Letter::of(&bytes) {
                Some(letter) if letter.kind == Kind::Request => self.request(hub, to, letter, age),
                Some(letter) => self.answer(letter),
                None => tracing::error!(to, "a row between nodes is damaged, and left out"),
            }
        }
        (count, has_hints)
    }

    fn request(self: &Arc<Self>, hub: &Arc<Hub>, to: u64, letter: Letter, age: Duration) {
        let Letter { from, number, content, .. } = letter;
        let desk = self.desks.lock().get(&to).cloned();
        let (room, weak) = (Arc::clone(self), Arc::downgrade(hub));
        // By itself: a request may panic, and the next ones come all the same.
        hub.spawn(async move {
            let refused =
                |problem: &str| Completion::done(Err(ConnectError::Refused(problem.to_owned())));
            let answer = match (content.map(|bytes| Request::from_bytes(&bytes)), desk) {
                (Some(Ok(request)), Some(desk)) => desk.take_aged(request, age),
                (Some(Ok(_)), None) => Completion::done(Err(ConnectError::Unknown { world: to })),
                (Some(Err(error)), _) => refused(&error.to_string()),
                (None, _) => refused("it is of another version"),
            };
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
        let Mail { to, mut bytes, .. } = letter.to_mail(9);
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

    #[test]
    fn requests_whose_rows_are_not_written_are_forgotten() {
        let mut open = Open::default();
        for number in 1..=10_000 {
            let (completer, answer) = completion();
            let waiting = Waiting { from: 1, to: 2, completer: completer.clone() };
            assert_eq!(open.add(waiting), number);
            match number % 2 {
                0 => drop(answer),
                _ => assert!(completer.complete(Err(ConnectError::Gone { world: 2 })).is_ok()),
            }
            assert!(open.requests.len() <= 2 * PAGE, "{}", open.requests.len());
        }
    }

    #[test]
    fn rows_are_posted_a_page_at_a_time_with_the_time_that_they_have_waited() {
        let mut posting = Posting::default();
        let row = |bytes: usize, since_ns| Waited {
            mail: Mail { to: 1, bytes: vec![0; bytes], age: Duration::ZERO },
            since_ns,
            posted: completion().0,
        };
        posting.waiting.extend((0..=PAGE).map(|_| row(1, 100)));
        let (mail, posted) = posting.next(350);
        assert_eq!((mail.len(), posted.len()), (PAGE, PAGE));
        assert_eq!(mail[7].age, Duration::from_nanos(250));
        assert_eq!(posting.next(50).0[0].age, Duration::ZERO, "clocks may step back");
        posting.waiting.extend([PAGE_BYTES - 1, 2, PAGE_BYTES * 2, 1].map(|bytes| row(bytes, 0)));
        let lengths = [0; 3].map(|_| posting.next(0).0.len());
        assert_eq!(lengths, [2, 1, 1], "more than a page of bytes ends a statement");
    }
}
