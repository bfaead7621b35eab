//! Places for the code of steps: queues, rates, and keys with a limited number of holders.
//!
//! One lock over all of a world's queues: it is taken when code that needs a place requests it and
//! when the code has ended. Waiters are notified outside of it. A dropped [`Place`] is returned,
//! and a dropped [`Ticket`] stops waiting, so that nothing is lost with a plan's actor.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Group, Mailbox, SpawnError, Task};

use super::fair::Number;
use super::sharing::{Next, Share, Sharing};
use crate::action::KeyOfCall;
use crate::id::PlanId;
use crate::world::{PlanShare, Queue, QueueStatus};

/// Alarms of rates that are on their way at once, at most: one for each queue is enough.
const MAILBOX: u64 = 1 << 10;

/// The queues of a world. The first one is the default.
#[derive(Debug)]
pub(crate) struct Queues {
    names: HashMap<String, usize>,
    /// Queues in which only blocking code needs a place.
    only_blocking: Vec<bool>,
    state: Mutex<State>,
    group: Group,
    /// Sets the alarms of rates.
    clock: OnceLock<Task<()>>,
}

/// A request for a place.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) queue: usize,
    pub(crate) plan: PlanId,
    pub(crate) priority: i32,
    /// A key that it needs, and how many may have it at once.
    key: Option<(String, u32)>,
    /// A key that shares the queue with others, and how many of its places it may have.
    share: (Share, u32),
}

/// Answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A place.
    Now(Place),
    /// It will be there.
    Later(Ticket, Completion<Place>),
}

/// A place in a queue, and its key. Dropping it returns it.
#[derive(Debug)]
pub(crate) struct Place {
    /// `None` when it was given back by other means.
    held: Option<(Arc<Queues>, Held)>,
}

#[derive(Debug)]
struct Held {
    queue: usize,
    plan: PlanId,
    key: Option<String>,
    share: (Share, u32),
}

/// A waiter. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct Ticket {
    queues: Weak<Queues>,
    asking: Asking,
    number: Number,
}

#[derive(Debug)]
struct State {
    pools: Vec<Pool>,
    keys: HashMap<String, Key>,
    last_number: Number,
}

#[derive(Debug)]
struct Pool {
    queue: Queue,
    /// The places, and waiters whose keys are free, as far as is known.
    places: Sharing<Waiter>,
    /// When the last calls began, as many as the rate counts.
    begun: VecDeque<u64>,
    is_armed: bool,
    shares: HashMap<PlanId, PlanShare>,
}

#[derive(Debug)]
struct Waiter {
    place: Completer<Place>,
    key: Option<(String, u32)>,
}

/// A key that somebody has or waits for.
#[derive(Debug, Default)]
struct Key {
    running: u32,
    /// The first has the least: a negated priority, then the number.
    blocked: BTreeMap<(i64, Number), (Asking, Completer<Place>)>,
}

/// A place on its way to who has waited for it.
type Gift = (Completer<Place>, Held);

impl Queues {
    /// The queues as described; the default one comes first, described or not.
    pub(crate) fn new(described: Vec<Queue>, group: &Group) -> Arc<Self> {
        let usual = Queue::usual();
        let (mut queues, others): (Vec<Queue>, Vec<Queue>) =
            described.into_iter().partition(|queue| queue.name == usual.name);
        if queues.is_empty() {
            queues.push(usual);
        }
        queues.extend(others);
        let names = queues.iter().enumerate();
        let names = names.map(|(index, queue)| (queue.name.clone(), index)).collect();
        let only_blocking = queues.iter().map(|queue| queue.is_only_blocking).collect();
        let pools = queues.into_iter().map(Pool::new).collect();
        let state = State { pools, keys: HashMap::new(), last_number: 0 };
        Arc::new(Self {
            names,
            only_blocking,
            state: Mutex::new(state),
            group: group.clone(),
            clock: OnceLock::new(),
        })
    }

    /// Starts what wakes queues whose rate was used up. Without rates it is not needed.
    pub(crate) fn start(&self) -> Result<(), String> {
        let has_rate = self.state.lock().pools.iter().any(|pool| pool.queue.rate.is_some());
        if !has_rate {
            return Ok(());
        }
        let task = self.group.task(()).name("queues").mailbox(Mailbox::bounded(MAILBOX - 1));
        let clock = task.spawn().map_err(|error: SpawnError<_>| error.to_string())?;
        self.clock.set(clock).map_err(|_| "the queues were started twice".to_owned())
    }

    /// The queue with this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The name of a queue.
    pub(crate) fn name(&self, queue: usize) -> String {
        self.state.lock().pools[queue].queue.name.clone()
    }

    /// Whether code that does not block needs no place in it.
    pub(crate) fn is_only_blocking(&self, queue: usize) -> bool {
        self.only_blocking[queue]
    }

    /// Asks for a place.
    pub(crate) fn ask(self: &Arc<Self>, asking: Asking) -> Answer {
        let mut state = self.state.lock();
        if state.is_free_for(&asking, self.group.now_ns()) {
            let Asking { queue, plan, key, share, .. } = asking;
            let held = Held { queue, plan, key: key.map(|(key, _)| key), share };
            state.give(&held, self.group.now_ns());
            return Answer::Now(Place { held: Some((Arc::clone(self), held)) });
        }
        state.last_number += 1;
        let number = state.last_number;
        let (place, coming) = completion();
        state.wait(asking.clone(), number, place);
        let alarm = state.alarm(asking.queue, self.group.now_ns());
        drop(state);
        self.arm(asking.queue, alarm);
        let ticket = Ticket { queues: Arc::downgrade(self), asking, number };
        Answer::Later(ticket, coming)
    }

    /// State of the queues, and a plan's share of them.
    pub(crate) fn status(&self, plan: Option<PlanId>) -> Vec<QueueStatus> {
        let state = self.state.lock();
        let status = |pool: &Pool| QueueStatus {
            name: pool.queue.name.clone(),
            size: pool.queue.size,
            running: pool.places.running(),
            waiting: pool.shares.values().map(|share| share.waiting).sum(),
            of_plan: plan.map(|plan| pool.shares.get(&plan).copied().unwrap_or_default()),
        };
        state.pools.iter().map(status).collect()
    }

    /// Changes something, and gives the places that are free by that to who waits for them.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut change = Some(change);
        let mut refused: Vec<Held> = Vec::new();
        loop {
            let now_ns = self.group.now_ns();
            let mut state = self.state.lock();
            if let Some(change) = change.take() {
                change(&mut state);
            }
            refused.drain(..).for_each(|held| state.take_back(held));
            let mut gifts = Vec::new();
            let mut alarms = Vec::new();
            for queue in 0..state.pools.len() {
                state.hand_out(queue, now_ns, &mut gifts);
                alarms.push(state.alarm(queue, now_ns));
            }
            drop(state);
            for (queue, alarm) in alarms.into_iter().enumerate() {
                self.arm(queue, alarm);
            }
            for (waiter, held) in gifts {
                let place = Place { held: Some((Arc::clone(self), held)) };
                // A waiter that has given up leaves the place to the next one, in this loop: a long
                // row of them must not make a deep stack.
                if let Err(back) = waiter.complete(place) {
                    let mut place = back.0;
                    refused.extend(place.held.take().map(|(_, held)| held));
                }
            }
            if refused.is_empty() {
                return;
            }
        }
    }

    fn arm(self: &Arc<Self>, queue: usize, delay: Option<Duration>) {
        let (Some(delay), Some(clock)) = (delay, self.clock.get()) else { return };
        let queues = Arc::downgrade(self);
        let armed = clock.submit(move |(), cx| {
            let timer = cx.after(delay, move |(), _| {
                if let Some(queues) = queues.upgrade() {
                    queues.change(|state| state.pools[queue].is_armed = false);
                }
            });
            if let Err(error) = timer {
                tracing::error!(%error, "a queue goes on when the next of its steps ends");
            }
        });
        if let Err(error) = armed {
            self.state.lock().pools[queue].is_armed = false;
            tracing::error!(kind = %error.kind, "a queue goes on when the next of its steps ends");
        }
    }
}

impl Asking {
    /// For a call of a plan with this priority.
    pub(crate) fn new(queue: usize, plan: (PlanId, i32), key: Option<KeyOfCall>) -> Self {
        let (key, share) = match key {
            Some(KeyOfCall { key, limit, is_shared: true }) => (None, (Some(key), limit)),
            Some(KeyOfCall { key, limit, .. }) => (Some((key, limit)), (None, u32::MAX)),
            None => (None, (None, u32::MAX)),
        };
        let (plan, priority) = plan;
        Self { queue, plan, priority, key, share }
    }

    /// It waits among those of its queue.
    fn next(self, number: Number, place: Completer<Place>) -> Next<Waiter> {
        let Self { plan, priority, key, share, .. } = self;
        Next { share, priority, plan, number, waiter: Waiter { place, key } }
    }
}

impl Ticket {
    /// No other ticket of these queues has it.
    pub(super) fn number(&self) -> Number {
        self.number
    }

    pub(crate) fn queue(&self) -> usize {
        self.asking.queue
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((queues, held)) = self.held.take() {
            queues.change(|state| state.take_back(held));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(queues) = self.queues.upgrade() else { return };
        let is_there = queues.state.lock().leave(&self.asking, self.number);
        if is_there && self.asking.key.is_some() {
            // Its key may have been free for it.
            let key = self.asking.key.take().map(|(key, _)| key);
            queues.change(|state| key.iter().for_each(|key| state.unblock(key)));
        }
    }
}

impl Pool {
    fn new(queue: Queue) -> Self {
        let places = Sharing::new(queue.size);
        Self { queue, places, begun: VecDeque::new(), is_armed: false, shares: HashMap::new() }
    }

    /// Time for which the rate holds all calls back.
    fn held_back(&self, now_ns: u64) -> Option<Duration> {
        let (count, span) = self.queue.rate?;
        if self.begun.len() < count as usize {
            return None;
        }
        let ends = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let ends = self.begun.front()?.saturating_add(ends);
        (ends > now_ns).then(|| Duration::from_nanos(ends - now_ns))
    }

    fn has_place(&self, now_ns: u64) -> bool {
        self.places.has_place() && self.held_back(now_ns).is_none()
    }

    fn share(&mut self, plan: PlanId, change: impl FnOnce(&mut PlanShare)) {
        let share = self.shares.entry(plan).or_default();
        change(share);
        if *share == PlanShare::default() {
            self.shares.remove(&plan);
        }
    }
}

impl State {
    /// Whether a place is there for one who asks now, and nobody waits for the same.
    fn is_free_for(&self, asking: &Asking, now_ns: u64) -> bool {
        let pool = &self.pools[asking.queue];
        let key = asking.key.as_ref().and_then(|(key, limit)| Some((self.keys.get(key)?, *limit)));
        pool.has_place(now_ns)
            && pool.places.is_free_for(&asking.share)
            && key.is_none_or(|(key, limit)| key.running < limit && key.blocked.is_empty())
    }

    fn give(&mut self, held: &Held, now_ns: u64) {
        let pool = &mut self.pools[held.queue];
        pool.places.began(held.share.clone());
        if let Some((count, _)) = pool.queue.rate {
            if pool.begun.len() == count as usize {
                pool.begun.pop_front();
            }
            pool.begun.push_back(now_ns);
        }
        pool.share(held.plan, |share| share.running += 1);
        if let Some(key) = &held.key {
            self.keys.entry(key.clone()).or_default().running += 1;
        }
    }

    fn take_back(&mut self, held: Held) {
        let pool = &mut self.pools[held.queue];
        pool.places.ended(&held.share.0);
        pool.share(held.plan, |share| share.running -= 1);
        let Some(name) = held.key else { return };
        let key = self.keys.get_mut(&name).expect("a key that somebody has is known");
        key.running -= 1;
        self.unblock(&name);
    }

    fn wait(&mut self, asking: Asking, number: Number, place: Completer<Place>) {
        self.pools[asking.queue].share(asking.plan, |share| share.waiting += 1);
        let key = asking.key.as_ref().and_then(|(key, limit)| Some((self.keys.get(key)?, *limit)));
        if key.is_some_and(|(key, limit)| key.running >= limit || !key.blocked.is_empty()) {
            return self.block(asking, number, place);
        }
        self.pools[asking.queue].places.put(asking.next(number, place));
    }

    /// Puts one behind its key.
    fn block(&mut self, asking: Asking, number: Number, place: Completer<Place>) {
        let (name, _) = asking.key.clone().expect("who is blocked has a key");
        let order = (-i64::from(asking.priority), number);
        self.keys.entry(name).or_default().blocked.insert(order, (asking, place));
    }

    /// Lets those go on that the key is free for, in their order.
    fn unblock(&mut self, name: &str) {
        let Some(key) = self.keys.get_mut(name) else { return };
        let mut running = key.running;
        while let Some(first) = key.blocked.first_entry() {
            let limit = first.get().0.key.as_ref().map_or(u32::MAX, |(_, limit)| *limit);
            if running >= limit {
                break;
            }
            running += 1;
            let ((_, number), (asking, place)) = first.remove_entry();
            self.pools[asking.queue].places.put(asking.next(number, place));
        }
        if key.running == 0 && key.blocked.is_empty() {
            self.keys.remove(name);
        }
    }

    /// One waits no more; whether it did.
    fn leave(&mut self, asking: &Asking, number: Number) -> bool {
        let Asking { queue, plan, priority, key, share } = asking;
        let pool = &mut self.pools[*queue];
        let mut is_there = pool.places.remove(&share.0, *priority, *plan, number).is_some();
        if let Some(key) = key.as_ref().and_then(|(key, _)| self.keys.get_mut(key)) {
            is_there |= key.blocked.remove(&(-i64::from(*priority), number)).is_some();
        }
        if is_there {
            self.pools[*queue].share(*plan, |share| share.waiting -= 1);
        }
        is_there
    }

    /// Gives the free places of a queue to those who wait for them.
    fn hand_out(&mut self, queue: usize, now_ns: u64, gifts: &mut Vec<Gift>) {
        while self.pools[queue].has_place(now_ns) {
            let Some(next) = self.pools[queue].places.take() else { return };
            let Next { share, priority, plan, number, waiter: Waiter { place, key } } = next;
            let running = |key: &String| self.keys.get(key).map_or(0, |key| key.running);
            if key.as_ref().is_some_and(|(key, limit)| running(key) >= *limit) {
                self.block(Asking { queue, plan, priority, key, share }, number, place);
                continue;
            }
            let held = Held { queue, plan, key: key.map(|(key, _)| key), share };
            self.pools[queue].share(plan, |share| share.waiting -= 1);
            self.give(&held, now_ns);
            gifts.push((place, held));
        }
    }

    /// Time until the rate admits the next call, if a timer is needed and none is armed.
    fn alarm(&mut self, queue: usize, now_ns: u64) -> Option<Duration> {
        let pool = &mut self.pools[queue];
        if pool.is_armed || pool.places.waiting() == 0 || !pool.places.has_place() {
            return None;
        }
        let delay = pool.held_back(now_ns)?;
        pool.is_armed = true;
        Some(delay)
    }
}
