//! Stored state of entities: what is read is what was written last, and memory is what is stored.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::{
    EntityContext, MemoryStore, Record, StateStore, StoreError, StoreFuture, Stored,
};
use turnwheel_actors::{Actor, AsyncContext, AsyncHandler, Entities, Entity, System};

use super::{placed, reminders};
use crate::kind::Kind;
use crate::program::{Act, Program, Script};
use crate::run::Twin;
use crate::tasks::actors::{told, Letter};
use crate::tasks::world::{group, violation, with, Role, Token};

/// Keys of the entities with state.
const KEYS: u8 = 3;

#[derive(Debug, Default)]
pub(super) struct Model {
    /// The stored values by key.
    kept: [u64; KEYS as usize],
    /// Whether memory may differ from the store: a write was done and answered with an error.
    is_stale: [bool; KEYS as usize],
    active: [u32; KEYS as usize],
    /// Disturbances of the next writes.
    faults: Vec<u8>,
}

/// An entity with stored state and reminders.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) number: u32,
    key: usize,
    state: Option<Stored<u64>>,
    /// Whether a write was refused, since another node has written.
    is_fenced: bool,
    _token: Token,
}

/// Writes a value.
#[derive(Debug)]
struct Keep(Letter, u64);

/// Compares memory and store.
#[derive(Debug)]
struct Compare(Letter);

/// The entities of a program, with a store that can be disturbed.
pub(in crate::tasks) fn entities(system: &System, program: &Program) -> Entities {
    let store = Arc::new(Disturbed(MemoryStore::new()));
    placed::begin(program, &store);
    let builder = Entities::builder(system).store(store).placement(Arc::new(placed::Moving));
    match reminders::service() {
        Some(reminders) => builder.reminders(&reminders).build(),
        None => builder.build(),
    }
}

pub(super) fn perform(act: &Act) {
    if act.kind == Kind::FailStore {
        return with(|world| world.services.stored.faults.push(act.b));
    }
    let Some(entities) = with(|world| world.actors.entities.clone()) else { return };
    let entity = entities.get::<Keeper>(u64::from(act.a % KEYS));
    let message = with(|world| world.sent(None, false, false));
    let letter = Letter::new(message, &Script::from([]));
    if act.kind == Kind::Save {
        let value = with(|world| world.next());
        return told(message, entity.tell(Keep(letter, value)), |keep: &Keep| keep.0.number);
    }
    told(message, entity.tell(Compare(letter)), |compare: &Compare| compare.0.number);
}

impl Actor for Keeper {
    type Error = StoreError;
}

impl Entity for Keeper {
    type Key = u64;
    const NAME: &'static str = "keeper";
    const IDLE: Duration = Duration::from_millis(2);

    fn create(key: &u64) -> Self {
        let key = *key as usize;
        let number = with(|world| {
            let number = world.actors.add(true, None);
            world.actors.may_end(number);
            world.keeper_made(number, key);
            world.check_place(key as u64);
            number
        });
        Self {
            number,
            key,
            state: None,
            is_fenced: false,
            _token: Token::new(Role::Actor(number), &[]),
        }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        let state = Stored::load(&cx).await?;
        let key = self.key;
        let (kept, is_broken) = with(|world| {
            world.services.stored.is_stale[key] = false;
            (world.services.stored.kept[key], world.twin == Some(Twin::LosesStates))
        });
        let read = if is_broken { 0 } else { *state };
        if read != kept {
            violation(format!("keeper {key} has stored {kept} and reads {read}"));
        }
        self.state = Some(state);
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        with(|world| world.services.stored.active[self.key] -= 1);
    }
}

impl Keeper {
    /// Memory is what is stored.
    fn check(&self) {
        let key = self.key;
        let (kept, is_stale) = with(|world| {
            let stored = &world.services.stored;
            (stored.kept[key], stored.is_stale[key])
        });
        let value = self.state.as_deref().copied();
        if value != Some(kept) && !is_stale {
            violation(format!("keeper {key} has stored {kept} and knows {value:?}"));
        }
    }
}

impl AsyncHandler<Keep> for Keeper {
    type Reply = ();

    async fn handle(&mut self, Keep(letter, value): Keep, _: AsyncContext<Self>) {
        letter.arrives(self.number);
        self.check();
        self.check_fence();
        let before = self.state.as_deref().copied();
        let Some(state) = self.state.as_mut() else { return };
        let result = state.update(|kept| *kept = value).await;
        let after = **state;
        match result {
            Ok(()) if after == value => self.check(),
            Err(error) if Some(after) == before => {
                let is_other = |error| {
                    matches!(error, StoreError::Conflict { .. } | StoreError::Fenced { .. })
                };
                self.is_fenced |= is_other(error);
            }
            _ => {
                violation(format!("a write of {value} over {before:?} leaves {after}: {result:?}"))
            }
        }
    }
}

impl AsyncHandler<Compare> for Keeper {
    type Reply = ();

    async fn handle(&mut self, Compare(letter): Compare, _: AsyncContext<Self>) {
        letter.arrives(self.number);
        self.check();
        self.check_fence();
    }
}

impl Keeper {
    /// It handles nothing after a write that was refused.
    fn check_fence(&self) {
        if self.is_fenced {
            violation(format!("keeper {} goes on after it was replaced", self.key));
        }
    }
}

/// A store that is slow, or fails before or after a write, when it is told to.
#[derive(Debug)]
pub(super) struct Disturbed(MemoryStore);

impl Disturbed {
    /// The store without disturbances.
    pub(super) fn inner(&self) -> &MemoryStore {
        &self.0
    }
}

impl StateStore for Disturbed {
    fn load<'a>(&'a self, entity: &'a str, key: &'a str) -> StoreFuture<'a, Record> {
        self.0.load(entity, key)
    }

    fn save<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        bytes: Vec<u8>,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        placed::check_write(key.parse().unwrap_or(0), epoch);
        let fault = with(|world| world.services.stored.faults.pop()).map(|fault| fault % 4);
        let failed = || Err(StoreError::Failed("on purpose".to_owned()));
        Box::pin(async move {
            if let (Some(0 | 1), Some(group)) = (fault, group()) {
                // The group ends with the program.
                let _ = group.sleep(Duration::from_millis(1)).await;
            }
            if fault == Some(2) {
                return failed();
            }
            let value = String::from_utf8_lossy(&bytes).parse().unwrap_or(0);
            let version = self.0.save(entity, key, bytes, expected, epoch).await?;
            let at = key.parse().unwrap_or(0);
            let is_answered = !matches!(fault, Some(1 | 3));
            with(|world| {
                world.services.stored.kept[at] = value;
                // Until the caller has the answer, memory is the value before.
                world.services.stored.is_stale[at] |= !is_answered;
            });
            if is_answered {
                Ok(version)
            } else {
                failed()
            }
        })
    }

    fn clear<'a>(
        &'a self,
        entity: &'a str,
        key: &'a str,
        expected: u64,
        epoch: u64,
    ) -> StoreFuture<'a, u64> {
        self.0.clear(entity, key, expected, epoch)
    }
}

impl crate::tasks::world::World {
    /// Another node has written.
    pub(super) fn written_elsewhere(&mut self, key: usize, value: u64) {
        self.services.stored.kept[key] = value;
        self.services.stored.is_stale[key] = true;
    }

    fn keeper_made(&mut self, number: u32, key: usize) {
        self.actor_made(number);
        self.services.stored.active[key] += 1;
        if self.services.stored.active[key] > 1 {
            self.violation(format!("keeper {key} is active twice"));
        }
    }
}
