//! Placement of entities: keys move to another node and back. A key without an activation is not
//! activated while it is away, a refusal names the owner, and no write carries the epoch of another.

use std::sync::Arc;
use std::task::Poll;

use turnwheel_actors::entity::{NotOwner, Ownership, Placement, StateStore};

use super::poll;
use super::stored::Disturbed;
use crate::kind::Kind;
use crate::program::{Act, Program};
use crate::run::Twin;
use crate::tasks::world::{violation, with, World};

const KEYS: u8 = 3;
/// The other node.
const OTHER: &str = "node-2";

/// Ownership of the keys. Odd epochs are of this node, even ones of the other.
#[derive(Debug)]
pub(super) struct Model {
    epochs: [u64; KEYS as usize],
    /// Whether the key was away when the simulation was idle, and is since.
    is_settled: [bool; KEYS as usize],
    /// Whether an activation of the key has failed, and may begin anew.
    has_failed: [bool; KEYS as usize],
    moves: bool,
    store: Option<Arc<Disturbed>>,
}

impl Default for Model {
    fn default() -> Self {
        let (is_settled, has_failed) = Default::default();
        Self { epochs: [1; KEYS as usize], is_settled, has_failed, moves: false, store: None }
    }
}

impl Model {
    fn is_away(&self, key: u64) -> bool {
        is_of_other(self.epochs[key as usize])
    }

    /// Whether the key was away at some time.
    pub(super) fn has_moved(&self, key: u64) -> bool {
        self.epochs[key as usize] > 1
    }
}

fn is_of_other(epoch: u64) -> bool {
    epoch % 2 == 0
}

/// The placement of a program's entities.
#[derive(Debug)]
pub(super) struct Moving;

/// Begins with all keys here. The store is the one that the other node writes too.
pub(super) fn begin(program: &Program, store: &Arc<Disturbed>) {
    let mut moves = false;
    program.each(&mut |act| moves |= act.kind == Kind::MoveKey);
    with(|world| {
        let store = Some(Arc::clone(store));
        world.services.placed = Model { moves, store, ..Model::default() };
    });
}

impl Placement for Moving {
    fn place(&self, _: &str, key: &str) -> Ownership {
        let key: usize = key.parse().unwrap_or(0);
        with(|world| {
            let epoch = world.services.placed.epochs[key];
            let is_kept = world.twin == Some(Twin::KeepsKeys);
            Ownership { is_local: is_kept || !is_of_other(epoch), epoch }
        })
    }

    fn owner(&self, _: &str, _: &str) -> Option<String> {
        Some(OTHER.to_owned())
    }

    fn is_all_local(&self) -> bool {
        with(|world| !world.services.placed.moves)
    }
}

/// Moves a key away, back, or has its other owner write.
pub(super) fn perform(act: &Act) {
    let key = u64::from(act.a % KEYS);
    if with(|world| world.services.placed.is_away(key)) && act.b % 4 < 2 {
        return write_elsewhere(key);
    }
    with(|world| {
        let model = &mut world.services.placed;
        model.epochs[key as usize] += 1;
        model.is_settled[key as usize] = false;
    });
}

/// The other node writes the state of a keeper.
fn write_elsewhere(key: u64) {
    let (store, epoch, value) = with(|world| {
        let model = &world.services.placed;
        (model.store.clone(), model.epochs[key as usize], world.next())
    });
    let Some(store) = store else { return };
    let (name, text) = ("keeper", key.to_string());
    let Poll::Ready(Ok(record)) = poll(&mut store.inner().load(name, &text)) else { return };
    let bytes = value.to_string().into_bytes();
    let mut written = store.inner().save(name, &text, bytes, record.version, epoch);
    match poll(&mut written) {
        Poll::Ready(Ok(_)) => with(|world| world.written_elsewhere(key as usize, value)),
        other => violation(format!("the owner of key {key} cannot write: {other:?}")),
    }
}

/// An entity writes in this epoch.
pub(super) fn check_write(key: usize, epoch: u64) {
    if is_of_other(epoch) {
        violation(format!("keeper {key} writes in epoch {epoch}, which is of another node"));
    }
}

/// A call was refused with this owner.
pub(in crate::tasks) fn check_owner(owner: &NotOwner) {
    if !is_of_other(owner.epoch) || owner.owner.as_deref() != Some(OTHER) {
        violation(format!("a call was refused by an owner that is none: {owner:?}"));
    }
}

/// A message to an entity was refused as one of another node.
pub(in crate::tasks) fn check_refused(key: u64) {
    if !with(|world| world.services.placed.is_away(key)) {
        violation(format!("entity {key} is here, and a message to it was refused"));
    }
}

impl World {
    /// An entity is made.
    pub(in crate::tasks) fn check_place(&mut self, key: u64) {
        let placed = &self.services.placed;
        if placed.is_settled[key as usize] && !placed.has_failed[key as usize] {
            self.violation(format!("entity {key} is activated, and is of another node"));
        }
    }

    /// An activation has failed.
    pub(in crate::tasks) fn entity_failed(&mut self, key: u64) {
        self.services.placed.has_failed[key as usize] = true;
    }

    /// Jobs that began before a key went away have begun.
    pub(super) fn settle_places(&mut self) {
        let model = &mut self.services.placed;
        for (is_settled, epoch) in model.is_settled.iter_mut().zip(&model.epochs) {
            *is_settled = is_of_other(*epoch);
        }
        model.has_failed = Default::default();
    }
}
