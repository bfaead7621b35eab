//! State that the clones of a pool share: its members and how they are made.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::{Group, SpawnErrorKind};

use super::key::winner;
use super::member::{Member, Members};
use super::supervisor::{Look, PoolSupervisor};
use super::{Routing, POOL_MEMBERS_MAX};
use crate::actor::{kind, Actor, ActorCell, Address, Bare, Restart, Restarter, TaskOptions};
use crate::call::{nanos, Load};
use crate::system::upkeep::submit_own;
use crate::system::{next_id, Chain, System};

pub(super) type Factory<A> = Arc<dyn Fn() -> A + Send + Sync>;

pub(super) struct Shared<A: Actor> {
    pub(super) settings: Settings<A>,
    pub(super) supervisor: Address<PoolSupervisor<A>>,
    state: Mutex<State<A>>,
    /// The next member, round robin.
    cursor: AtomicUsize,
    /// A `Look` is under way to the supervisor: one is enough.
    pub(super) is_poked: AtomicBool,
}

/// Settings of a pool.
pub(super) struct Settings<A: Actor> {
    pub(super) name: String,
    pub(super) system: System,
    /// Group, mailbox and budget of the members.
    pub(super) options: TaskOptions,
    pub(super) factory: Factory<A>,
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) routing: Routing,
    pub(super) restart: Restart,
    pub(super) idle_limit: Duration,
    /// Around the messages of the members.
    pub(super) incoming: Chain,
}

pub(super) struct State<A: Actor> {
    members: Members<A>,
    /// Members that the supervisor does not watch yet.
    unwatched: Vec<Address<A>>,
    is_closed: bool,
}

default_fields!(impl<A: Actor> State<A>, members, unwatched, is_closed);

/// Result of making one more member.
pub(super) enum Grown<A: Actor> {
    /// A new member, at this index of the list.
    New(Members<A>, usize),
    /// There are as many as there may be.
    Enough(Members<A>),
    /// The group did not take one; there are these.
    Refused(Members<A>, SpawnErrorKind),
    Closed,
}

/// The choice of a member for a message.
#[derive(Clone, Copy)]
pub(super) enum Route {
    Any,
    Key(u64),
}

impl<A: Actor> Shared<A> {
    pub(super) fn new(settings: Settings<A>, supervisor: Address<PoolSupervisor<A>>) -> Self {
        Self {
            settings,
            supervisor,
            state: Mutex::default(),
            cursor: AtomicUsize::new(0),
            is_poked: AtomicBool::new(false),
        }
    }

    /// Whether messages in flight are counted: only where something depends on it.
    pub(super) fn counts(&self) -> bool {
        self.settings.routing == Routing::LeastLoaded || self.settings.max > self.settings.min
    }

    pub(super) fn members(&self) -> Members<A> {
        Arc::clone(&self.state.lock().members)
    }

    /// The group of the members.
    pub(super) fn group(&self) -> &Group {
        self.settings.options.group.as_ref().unwrap_or(self.settings.system.group())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Chooses the member for a message, and counts the message; makes a member if needed. `None`
    /// if the pool is closed.
    pub(super) fn choose(&self, route: Route) -> Option<(Members<A>, usize)> {
        let mut members = self.members();
        let floor = self.settings.min.max(1);
        if members.len() < floor {
            match self.grow(floor, true) {
                // A key may belong to another member than the new one.
                Grown::New(grown, index) if matches!(route, Route::Any) => {
                    return Some((grown, index))
                }
                Grown::New(grown, index) => {
                    self.uncount(&grown[index]);
                    members = grown;
                }
                Grown::Enough(all) | Grown::Refused(all, _) => members = all,
                Grown::Closed => return None,
            }
            if members.is_empty() {
                return None;
            }
        }
        match route {
            Route::Key(key) => {
                let index = winner(members.iter().map(|member| member.place as u64), key)?;
                self.count(&members[index]);
                Some((members, index))
            }
            Route::Any => self.choose_any(members),
        }
    }

    fn choose_any(&self, members: Members<A>) -> Option<(Members<A>, usize)> {
        let start = match self.settings.routing {
            Routing::RoundRobin => self.cursor.fetch_add(1, Ordering::Relaxed) % members.len(),
            Routing::LeastLoaded => 0,
        };
        if !self.counts() {
            return Some((members, start));
        }
        let mut around = (0..members.len()).map(|step| (start + step) % members.len());
        if let Some(idle) = around.find(|index| members[*index].claim()) {
            return Some((members, idle));
        }
        let members = match self.grow(self.settings.max, true) {
            Grown::New(members, index) => return Some((members, index)),
            Grown::Enough(members) | Grown::Refused(members, _) if !members.is_empty() => members,
            _ => return None,
        };
        let index = match self.settings.routing {
            Routing::RoundRobin => start % members.len(),
            Routing::LeastLoaded => {
                let least = members.iter().enumerate().min_by_key(|(_, member)| member.work());
                least.map_or(0, |(index, _)| index)
            }
        };
        self.count(&members[index]);
        Some((members, index))
    }

    /// Counts a message, in a pool that counts.
    pub(super) fn count(&self, member: &Member<A>) {
        if self.counts() {
            member.load.enter();
        }
    }

    /// A message that was counted was not sent.
    pub(super) fn uncount(&self, member: &Member<A>) {
        if self.counts() {
            member.load.leave();
        }
    }

    /// Makes one more member, unless there are `limit`; counts a message of it if it `is_claimed`.
    pub(super) fn grow(&self, limit: usize, is_claimed: bool) -> Grown<A> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Grown::Closed;
        }
        let is_enough = state.members.len() >= limit || state.unwatched.len() >= POOL_MEMBERS_MAX;
        // No user code runs under the lock: the actor is made in its own first turn.
        let place = free_place(&state.members);
        if is_enough {
            return Grown::Enough(Arc::clone(&state.members));
        }
        let address = match self.spawn(place) {
            Ok(address) => address,
            Err(kind) => return Grown::Refused(Arc::clone(&state.members), kind),
        };
        let in_flight = u64::from(is_claimed && self.counts());
        let load = Arc::new(Load::new(self.group(), in_flight));
        let mut longer = state.members.to_vec();
        let index = longer.partition_point(|member| member.place < place);
        longer.insert(index, Member { place, address: address.clone(), load });
        let members = Arc::new(longer);
        let old = std::mem::replace(&mut state.members, Arc::clone(&members));
        state.unwatched.push(address);
        drop(state);
        drop(old);
        self.poke();
        Grown::New(members, index)
    }

    fn spawn(&self, place: usize) -> Result<Address<A>, SpawnErrorKind> {
        let id = next_id(&self.settings.system);
        let factory = Arc::clone(&self.settings.factory);
        let restarter = Restarter::new(self.settings.restart.clone(), move || factory());
        let cell = ActorCell::new(None, id, Some(restarter));
        let cell = cell.intercepted(self.settings.incoming.clone(), None);
        let name = Some(format!("{}#{place}", self.settings.name));
        let options = TaskOptions { name, ..self.settings.options.clone() };
        options.spawn(cell, self.settings.system.clone()).map_err(|error| error.kind)
    }

    /// Wakes the supervisor; one pending look is enough.
    fn poke(&self) {
        if !self.is_poked.swap(true, Ordering::AcqRel) {
            // Refused only if the supervisor has ended, and then the pool is closed.
            let look = Bare::<Look, kind::Plain>::new(Look);
            drop(submit_own(&self.supervisor.task, look).map_err(|error| error.job.open()));
        }
    }

    pub(super) fn take_unwatched(&self) -> Vec<Address<A>> {
        std::mem::take(&mut self.state.lock().unwatched)
    }

    /// Takes a member out of the list that takes no more messages.
    pub(super) fn forget(&self, id: u64) {
        self.remove(|member| member.address.id() == id, usize::MAX);
    }

    /// Takes out members that are as said, the last first and at most so many.
    fn remove(&self, is_it: impl Fn(&Member<A>) -> bool, at_most: usize) -> Vec<Member<A>> {
        let mut state = self.state.lock();
        let mut removed = Vec::new();
        let mut rest = state.members.to_vec();
        for index in (0..rest.len()).rev() {
            if removed.len() < at_most && is_it(&rest[index]) {
                removed.push(rest.remove(index));
            }
        }
        if removed.is_empty() {
            return removed;
        }
        let old = std::mem::replace(&mut state.members, Arc::new(rest));
        drop(state);
        // It may hold the last addresses of actors: without the lock.
        drop(old);
        removed
    }

    /// Closes members that have been idle for long, the last first, down to the minimum. A message
    /// sent to one of them meanwhile comes back as closed, and goes to another member.
    pub(super) fn collect(&self, now_ns: u64) {
        let idle_ns = nanos(self.settings.idle_limit);
        let excess = self.members().len().saturating_sub(self.settings.min);
        for member in self.remove(|member| member.is_idle_for(idle_ns, now_ns), excess) {
            member.address.close().detach();
        }
    }

    /// When a member may have been idle for long enough; `None` if none is to go.
    pub(super) fn idle_due_ns(&self, now_ns: u64) -> Option<u64> {
        let members = self.members();
        if members.len() <= self.settings.min {
            return None;
        }
        let since = members.iter().map(|member| member.idle_since_ns().unwrap_or(now_ns));
        let due_ns = since.min()?.saturating_add(nanos(self.settings.idle_limit));
        (due_ns != u64::MAX).then_some(due_ns)
    }

    /// Takes no more messages, and closes the members in order; answers them.
    pub(super) fn end(&self) -> Members<A> {
        let members = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.members)
        };
        for member in members.iter() {
            member.address.close().detach();
        }
        self.poke();
        members
    }
}

impl<A: Actor> Drop for Shared<A> {
    fn drop(&mut self) {
        // The members close as their addresses go; the supervisor may wait for its next look.
        self.supervisor.close().detach();
    }
}

/// The lowest free place; the list is in the order of places.
fn free_place<A: Actor>(members: &[Member<A>]) -> usize {
    let taken = members.iter().enumerate().take_while(|(index, member)| member.place == *index);
    taken.count()
}
