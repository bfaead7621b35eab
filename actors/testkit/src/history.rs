//! History of calls and answers, in the order in which the callers saw them.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use parking_lot::Mutex;
use turnwheel_actors::{Ask, AskError};

use crate::linearize::{linearize, NotLinearizable, Operation};

/// Calls and answers by key, recorded while a test runs. Clones share it; any thread may record.
///
/// It is checked against a model: a pure function from a state and an input to the next state and
/// the answer. Keys are independent of each other, so each key's history is checked on its own
/// (linearizability is local: Herlihy and Wing 1990), which keeps the search small.
///
/// ```
/// use turnwheel_actors_testkit::History;
///
/// let history = History::new();
/// let first = history.call("apples", 2);
/// let second = history.call("apples", 3);
/// second.returned(5); // So the first call came before it, though its answer is later.
/// first.returned(2);
/// history.check(&0, |sum, by| (sum + by, sum + by))?;
///
/// history.call("apples", 1).returned(5); // The earlier calls are missing.
/// assert!(history.check(&0, |sum, by| (sum + by, sum + by)).is_err());
/// # Ok::<(), turnwheel_actors_testkit::NotLinearizable>(())
/// ```
pub struct History<K, I, O> {
    log: Arc<Mutex<Log<K, I, O>>>,
}

struct Log<K, I, O> {
    /// In the order of the calls; none where a call had no effect.
    operations: Vec<Option<(K, Operation<I, O>)>>,
    /// Calls and answers so far: the clock of a history.
    events: u64,
}

/// A call under way, as a history sees it. Dropped without an answer, its effect is unknown: the
/// check then allows an effect at any later time, and none.
#[derive(Debug)]
#[must_use = "a call that is dropped counts as never answered"]
pub struct Call<K, I, O> {
    history: History<K, I, O>,
    index: usize,
}

/// A call whose answer is recorded when it comes; see [`History::ask`].
#[derive(Debug)]
#[must_use = "a call that is dropped counts as never answered"]
pub struct Recorded<K, I, O, M> {
    call: Option<Call<K, I, O>>,
    ask: Ask<M, O>,
}

// No field is ever pinned: the `Ask` is moved by value too.
impl<K, I, O, M> Unpin for Recorded<K, I, O, M> {}

impl<K, I, O: Clone, M> Future for Recorded<K, I, O, M> {
    type Output = Result<O, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.ask).poll(cx));
        if let Some(call) = self.call.take() {
            match &answer {
                Ok(output) => call.returned(output.clone()),
                Err(
                    AskError::Refused(_)
                    | AskError::Cycle { .. }
                    | AskError::Intercepted { .. }
                    | AskError::NotOwner { .. },
                ) => call.refused(),
                Err(_) => drop(call),
            }
        }
        Poll::Ready(answer)
    }
}

impl<K, I, O> Clone for History<K, I, O> {
    fn clone(&self) -> Self {
        Self { log: Arc::clone(&self.log) }
    }
}

impl<K, I, O> Default for History<K, I, O> {
    fn default() -> Self {
        Self { log: Arc::new(Mutex::new(Log { operations: Vec::new(), events: 0 })) }
    }
}

impl<K, I, O> Debug for History<K, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations = self.log.lock().operations.len();
        f.debug_struct("History").field("operations", &operations).finish_non_exhaustive()
    }
}

impl<K, I, O> History<K, I, O> {
    /// A history without calls.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a call; before the message is sent.
    pub fn call(&self, key: K, input: I) -> Call<K, I, O> {
        let mut log = self.log.lock();
        let called = log.events;
        log.events += 1;
        let index = log.operations.len();
        let operation = Operation { input, output: None, called, returned: None };
        log.operations.push(Some((key, operation)));
        Call { history: self.clone(), index }
    }

    /// Records a call and its answer. `ask` sends the message, now.
    ///
    /// A refused call has had no effect; the effect of a call that has timed out, or whose actor
    /// has failed, is unknown.
    ///
    /// ```
    /// use turnwheel_actors_testkit::{History, Stage};
    /// # use turnwheel_actors::{messages, Actor};
    /// # #[derive(Actor)]
    /// # struct Counter(u64);
    /// # #[messages]
    /// # impl Counter {
    /// #     #[message]
    /// #     fn add(&mut self, by: u64) -> u64 { self.0 += by; self.0 }
    /// # }
    ///
    /// let stage = Stage::new(3);
    /// let counter = stage.spawn(Counter(0));
    /// let history = History::new();
    /// let calls: Vec<_> =
    ///     (1..5).map(|by| history.ask("counter", by, || counter.add(by))).collect();
    /// for call in calls {
    ///     stage.wait(call)??;
    /// }
    /// history.check(&0, |sum, by| (sum + by, sum + by))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask<M>(
        &self,
        key: K,
        input: I,
        ask: impl FnOnce() -> Ask<M, O>,
    ) -> Recorded<K, I, O, M> {
        let call = self.call(key, input);
        Recorded { call: Some(call), ask: ask() }
    }

    /// The number of calls that had, or may have had, an effect.
    pub fn len(&self) -> usize {
        self.log.lock().operations.iter().flatten().count()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks each key against the model, from the state `start`: some order of its calls, each
    /// after its call and before its answer, must give exactly the recorded answers.
    ///
    /// Cost: at best one step of the model for each call; exponential in the number of calls that
    /// overlap at worst, bounded by [`STATES_MAX`](super::STATES_MAX).
    ///
    /// # Errors
    ///
    /// The first key, in the order of first calls, that has no such order, or whose search exceeds
    /// the limit.
    pub fn check<S>(
        &self,
        start: &S,
        step: impl Fn(&S, &I) -> (S, O),
    ) -> Result<(), NotLinearizable>
    where
        K: Clone + Eq + Hash + Debug,
        I: Clone + Debug,
        O: Clone + PartialEq + Debug,
        S: Clone + Eq + Hash,
    {
        for (key, operations) in self.by_key() {
            linearize(&operations, start, &step)
                .map_err(|why| NotLinearizable::new(&key, &operations, why))?;
        }
        Ok(())
    }

    /// As [`History::check`], for tests.
    ///
    /// # Panics
    ///
    /// If a key's history is not linearizable; the message shows it.
    #[track_caller]
    pub fn assert_linearizable<S>(&self, start: &S, step: impl Fn(&S, &I) -> (S, O))
    where
        K: Clone + Eq + Hash + Debug,
        I: Clone + Debug,
        O: Clone + PartialEq + Debug,
        S: Clone + Eq + Hash,
    {
        if let Err(error) = self.check(start, step) {
            panic!("{error}");
        }
    }

    /// The operations of each key, in the order of their calls.
    fn by_key(&self) -> Vec<(K, Vec<Operation<I, O>>)>
    where
        K: Clone + Eq + Hash,
        I: Clone,
        O: Clone,
    {
        let log = self.log.lock();
        let mut places = HashMap::new();
        let mut keys: Vec<(K, Vec<_>)> = Vec::new();
        for (key, operation) in log.operations.iter().flatten() {
            let place = *places.entry(key).or_insert_with(|| {
                keys.push((key.clone(), Vec::new()));
                keys.len() - 1
            });
            keys[place].1.push(operation.clone());
        }
        keys
    }
}

impl<K, I, O> Call<K, I, O> {
    /// Records the answer.
    pub fn returned(self, output: O) {
        let mut log = self.history.log.lock();
        let returned = log.events;
        log.events += 1;
        if let Some((_, operation)) = &mut log.operations[self.index] {
            operation.output = Some(output);
            operation.returned = Some(returned);
        }
    }

    /// Records that the call certainly had no effect: it was refused.
    pub fn refused(self) {
        let refused = self.history.log.lock().operations[self.index].take();
        drop(refused);
    }
}
