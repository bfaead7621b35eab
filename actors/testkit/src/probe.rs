//! Actors that record their messages.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::internal::task_id;
use turnwheel_actors::{Actor, Address, Callee, Context, Handler, Recipient};

use crate::stage::Stage;

/// Messages that a probe has received and the test has not taken.
struct Mailbag<M> {
    messages: VecDeque<M>,
    waker: Option<Waker>,
}

/// The actor behind a [`Probe`].
pub struct Probing<M, R> {
    bag: Arc<Mutex<Mailbag<M>>>,
    answer: Box<dyn FnMut(&M) -> R + Send>,
}

/// An actor of the test itself: it keeps its messages, and the test checks them one by one.
///
/// Give its [`address`](Probe::address), or [`recipient`](Probe::recipient), to the actors under
/// test. It expects messages without moving the time unless given a time to wait.
///
/// ```
/// use turnwheel_actors_testkit::Stage;
///
/// let stage = Stage::new(1);
/// let probe = stage.probe::<&str>("listener");
/// probe.address().tell("hello").expect("the probe lives");
/// assert_eq!(probe.expect(|text| text.starts_with('h')), "hello");
/// probe.expect_none();
/// ```
pub struct Probe<'s, M: Send + 'static, R: Send + 'static = ()> {
    stage: &'s Stage<'s>,
    address: Address<Probing<M, R>>,
    bag: Arc<Mutex<Mailbag<M>>>,
}

impl<M: Send + 'static, R: Send + 'static> Actor for Probing<M, R> {
    type Error = Infallible;
}

impl<M: Send + 'static, R: Send + 'static> Handler<M> for Probing<M, R> {
    type Reply = R;

    fn handle(&mut self, message: M, _: &mut Context<'_, Self>) -> R {
        let answer = (self.answer)(&message);
        let waker = {
            let mut bag = self.bag.lock();
            bag.messages.push_back(message);
            bag.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        answer
    }
}

impl<M, R> fmt::Debug for Probing<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probing")
    }
}

impl<M: Send + 'static, R: Send + 'static> fmt::Debug for Probe<'_, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unseen = self.bag.lock().messages.len();
        f.debug_struct("Probe").field("address", &self.address).field("unseen", &unseen).finish()
    }
}

impl Stage<'_> {
    /// A probe for messages of one type, that answers nothing.
    ///
    /// # Panics
    ///
    /// If the group shuts down.
    #[track_caller]
    pub fn probe<M: Send + 'static>(&self, name: &str) -> Probe<'_, M> {
        self.probe_answering(name, |_| ())
    }

    /// A probe that answers, for actors that ask.
    ///
    /// # Panics
    ///
    /// If the group shuts down.
    #[track_caller]
    pub fn probe_answering<M, R>(
        &self,
        name: &str,
        answer: impl FnMut(&M) -> R + Send + 'static,
    ) -> Probe<'_, M, R>
    where
        M: Send + 'static,
        R: Send + 'static,
    {
        let bag = Arc::new(Mutex::new(Mailbag { messages: VecDeque::new(), waker: None }));
        let probing = Probing { bag: Arc::clone(&bag), answer: Box::new(answer) };
        let address = match self.system().actor(probing).name(name).class("probe").spawn() {
            Ok(address) => address,
            Err(error) => panic!("{error}"),
        };
        self.add_probe(task_id(&address));
        Probe { stage: self, address, bag }
    }
}

impl<M: Send + 'static, R: Send + 'static> Probe<'_, M, R> {
    /// Address for the actors under test.
    pub fn address(&self) -> &Address<Probing<M, R>> {
        &self.address
    }

    /// The same for actors that know the message only.
    pub fn recipient(&self) -> Recipient<M> {
        self.address.recipient()
    }

    /// The same for actors that ask.
    pub fn callee(&self) -> Callee<M, R> {
        self.address.callee()
    }

    /// Runs until idle, and takes all messages that were not taken yet.
    ///
    /// # Panics
    ///
    /// As [`Stage::run`].
    pub fn take(&self) -> Vec<M> {
        self.stage.run();
        self.bag.lock().messages.drain(..).collect()
    }

    /// The next message, if one comes without moving the time.
    ///
    /// # Panics
    ///
    /// As [`Stage::run`].
    pub fn next(&self) -> Option<M> {
        self.next_within(Duration::ZERO)
    }

    /// The next message, if one comes within this time.
    ///
    /// # Panics
    ///
    /// As [`Stage::run`].
    pub fn next_within(&self, limit: Duration) -> Option<M> {
        let next = std::future::poll_fn(|cx| {
            let mut bag = self.bag.lock();
            match bag.messages.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    bag.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        self.stage.wait_within(next, limit).ok()
    }

    /// Takes the next message, which must come without moving the time and fulfil the condition.
    ///
    /// # Panics
    ///
    /// If none comes, or another one; the panic shows it. And as [`Stage::run`].
    #[track_caller]
    pub fn expect(&self, is_it: impl FnOnce(&M) -> bool) -> M
    where
        M: fmt::Debug,
    {
        self.expect_within(Duration::ZERO, is_it)
    }

    /// As [`Probe::expect`], and lets time pass for it.
    ///
    /// # Panics
    ///
    /// As [`Probe::expect`].
    #[track_caller]
    pub fn expect_within(&self, limit: Duration, is_it: impl FnOnce(&M) -> bool) -> M
    where
        M: fmt::Debug,
    {
        let name = self.address.name();
        let Some(message) = self.next_within(limit) else {
            panic!("the probe «{name}» has received nothing within {limit:?}");
        };
        assert!(is_it(&message), "the probe «{name}» has received something else: {message:?}");
        message
    }

    /// Skips messages up to the first that fulfils the condition, and takes it; lets time pass for
    /// it.
    ///
    /// # Panics
    ///
    /// If none comes in time; the panic shows the skipped ones. And as [`Stage::run`].
    #[track_caller]
    pub fn find_within(&self, limit: Duration, is_it: impl Fn(&M) -> bool) -> M
    where
        M: fmt::Debug,
    {
        let end = self.stage.now().saturating_add(limit);
        let mut skipped = Vec::new();
        loop {
            match self.next_within(end.saturating_sub(self.stage.now())) {
                Some(message) if is_it(&message) => return message,
                Some(other) => skipped.push(other),
                None => {
                    let name = self.address.name();
                    panic!("the probe «{name}» has received other messages only: {skipped:?}");
                }
            }
        }
    }

    /// Checks that no message is left to take, and that none comes without moving the time.
    ///
    /// # Panics
    ///
    /// If there is one; the panic shows it. And as [`Stage::run`].
    #[track_caller]
    pub fn expect_none(&self)
    where
        M: fmt::Debug,
    {
        self.expect_none_within(Duration::ZERO);
    }

    /// As [`Probe::expect_none`], and lets this time pass.
    ///
    /// # Panics
    ///
    /// As [`Probe::expect_none`].
    #[track_caller]
    pub fn expect_none_within(&self, time: Duration)
    where
        M: fmt::Debug,
    {
        if let Some(message) = self.next_within(time) {
            panic!("the probe «{}» has received {message:?}", self.address.name());
        }
    }
}
