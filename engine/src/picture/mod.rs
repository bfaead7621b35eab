//! A plan as data for drawing: a tree of actions, a graph of steps, a timeline, a history.
//!
//! All of it can be written as JSON, and holds no inputs and outputs:
//! [`World::present`](crate::World::present) gives their presentable form, with the same ids. Lists
//! are flat, so that a plan of 10,000 steps is drawn a part at a time.
//!
//! | function | content |
//! | --- | --- |
//! | [`PlanView::tree`](crate::PlanView::tree) | actions under those that planned them, as a list with depths |
//! | [`PlanView::graph`](crate::PlanView::graph) | dependencies of steps, as nodes and edges |
//! | [`PlanView::timeline`](crate::PlanView::timeline) | times of each step |
//! | [`PlanHandle::history`](crate::PlanHandle::history) | all happenings, and each call of each step with its times |

mod able;
mod ending;
mod graph;
mod history;
mod name;
mod node;
mod rows;
mod task;
mod timeline;
mod tree;
mod words;

pub use able::{Can, CanDo};
pub(crate) use ending::failure_kind_of;
pub use ending::{error_of, failure_of, state_of};
pub use graph::{Edge, EdgeKind, Joint, PlanGraph};
pub(crate) use history::Telling;
pub use history::{CallSpan, PlanHistory};
pub use name::name_of;
pub use node::{PlanHead, StepNode};
pub use rows::{GraphPart, GraphPlace, GraphRows, RowNode, RowWhat};
pub(crate) use task::fault_in;
pub use task::{fault_text, task_place, EFFECT, FLOW, REQUEST, TASK};
pub use timeline::{Bar, PlanTimeline, Span, SpanKind};
pub use tree::{PlanTree, TreeNode, TreePart};
pub use words::{plain, task as task_name};
