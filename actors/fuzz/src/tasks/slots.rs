//! Handles that a program has, in numbered slots.

use std::future::Future;
use std::pin::Pin;

use turnwheel_channel::{Channel, Consumer};
use turnwheel_runtime::{
    Completer, Completion, Condition, Failure, Permit, Reserve, Subscription, Task, Timer, WeakTask,
};

use super::hooks::State;
use super::subscribed::Item;
use super::world::with;

/// Slots of each kind.
pub(super) const SLOTS: usize = 4;

/// A future that must end.
pub(super) enum Tracked {
    Unit(&'static str, Completion<()>),
    /// A call and its job.
    Call(Option<u32>, Completion<u32>),
    Item(&'static str, Completion<Item>),
    Items(&'static str, Completion<Vec<Item>>),
    /// Of one known completion.
    Shared(&'static str, Pin<Box<dyn Future<Output = Result<u32, Failure>>>>),
}

/// A task and its number in the model.
pub(super) type Handle = (Task<State>, u32);

/// A wait for a permit and the number of its task.
pub(super) type Reserving = (Pin<Box<Reserve<State>>>, u32);

/// All handles. A handle that is put into a full slot takes the place of the old one.
#[derive(Default)]
pub(super) struct Slots {
    pub(super) tasks: [Option<Handle>; SLOTS],
    pub(super) weak: [Option<(WeakTask<State>, u32)>; SLOTS],
    pub(super) reserves: [Option<Reserving>; SLOTS],
    pub(super) permits: [Option<(Permit<State>, u32)>; SLOTS],
    pub(super) timers: [Option<(Timer, u32)>; SLOTS],
    pub(super) conditions: [Option<(Condition, u32)>; SLOTS],
    pub(super) subscriptions: [Option<Subscription>; SLOTS],
    pub(super) consumers: [Option<Consumer>; SLOTS],
    pub(super) channels: [Option<Channel<Item>>; 2],
    pub(super) completers: [Option<(Completer<Item>, u32)>; SLOTS],
    pub(super) completions: [Option<(Completion<Item>, u32)>; SLOTS],
    pub(super) tracked: Vec<Tracked>,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").finish_non_exhaustive()
    }
}

/// The slot that an argument names.
pub(super) fn slot(argument: u8) -> usize {
    usize::from(argument) % SLOTS
}

/// Keeps a future until the end of the program, where it must be done.
pub(super) fn track(tracked: Tracked) {
    with(|world| world.slots.tracked.push(tracked));
}

/// The task in this slot.
pub(super) fn task(argument: u8) -> Option<Handle> {
    with(|world| world.slots.tasks[slot(argument)].clone())
}
