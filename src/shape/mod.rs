//! Plans, steps and schedules of the engine in the shapes of the API.
//!
//! The server and the command line use the same functions, so both print the same JSON and mask the
//! same values.

mod ended;
mod order;
mod picture;
mod plan;
mod schedule;

use turnwheel_engine::{ActionId, PlanView, Presenter, Shown, World};

pub use ended::ended;
pub use order::give;
pub use picture::{head, node, tree, tree_node};
pub use plan::{count, error, ms, names, plan, row, said, step, time, times};
pub use schedule::schedule;

/// Lines of the history that are shown with a plan: the newest ones.
pub const HISTORY_SHOWN: usize = 1_000;

/// Sub-plans that are shown with a plan: the first ones.
pub const SUB_PLANS_SHOWN: usize = 1_000;

/// A place that knows the actions of plans, and how they are shown.
pub trait Presents {
    /// An action of a plan as people are to see it.
    fn shown(&self, plan: &PlanView, action: ActionId) -> Option<Shown>;
}

impl Presents for World {
    fn shown(&self, plan: &PlanView, action: ActionId) -> Option<Shown> {
        self.present_action(plan, action)
    }
}

impl Presents for Presenter {
    fn shown(&self, plan: &PlanView, action: ActionId) -> Option<Shown> {
        self.present_action(plan, action)
    }
}
