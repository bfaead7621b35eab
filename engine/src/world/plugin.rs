//! Part of a world that has a crate of its own, such as flows.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::World;
use crate::error::{BuildError, StoreError, TriggerError};
use crate::id::PlanId;
use crate::payload::Payload;
use crate::plan::Plan;

/// Future of a plugin's method.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Part of a world that has a crate of its own. The world calls it; a world has at most one.
pub trait Plugin: Send + Sync + fmt::Debug + 'static {
    /// Reads what plans need and is not known yet: before the world takes any, and again when
    /// another one may have added something.
    fn prepare<'a>(&'a self, world: &'a World) -> Later<'a, Result<(), BuildError>>;

    /// Looks at the plans of a world that has begun, or has got plans of another world.
    fn recover<'a>(&'a self, world: &'a World) -> Later<'a, Result<(), StoreError>>;

    /// Takes the place of [`recover`](Plugin::recover) when plans are not looked at: the world
    /// continues them on request only.
    fn begin_empty(&self);

    /// The world is about to get plans of another world; [`recover`](Plugin::recover) follows.
    fn look_again(&self);

    /// The world has given plans away: what is kept for those that it does not own goes.
    fn keep_only(&self, owns: &dyn Fn(PlanId) -> bool);

    /// An entry of a plan of this world is durable.
    fn written(&self, plan: &Plan);

    /// Takes an event that another world has published.
    fn take_event<'a>(
        &'a self,
        world: &'a World,
        event: Payload,
    ) -> Later<'a, Result<Heard, TriggerError>>;
}

/// Outcome of an event in one world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Steps that got the event.
    pub delivered: usize,
    /// Number of those that decide themselves whether the event is meant.
    pub undecided: usize,
    /// Steps that had got the event before.
    pub repeated: usize,
    /// Plans that began with the event, by this request or by an earlier one.
    pub started: Vec<PlanId>,
    /// Those of them that began by this request.
    pub begun: Vec<PlanId>,
}
