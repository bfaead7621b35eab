#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod action;
mod begins;
mod decide;
pub mod dkron;
mod error;
mod executor;
mod graph;
mod jobs;
mod launch;
pub mod limits;
mod live;
mod mask;
pub mod moment;
mod node;
mod notice;
mod notify;
mod processor;
mod record;
mod registry;
mod request;
mod roster;
mod schedule;
mod shared;
pub mod show;
mod small;
mod spec;
mod store;
mod view;

pub use action::WithJobs;
pub use error::JobError;
pub use executor::{Call, Done, Executor, Verdict, Work};
pub use graph::{cycle_of, in_order};
pub use jobs::{Asking, Jobs, JobsOptions};
pub use launch::{Answer, Cause, Launch, LaunchState, Root, Run, RunState};
pub use live::{Chunk, LiveOutput};
pub use node::Node;
pub use notify::{Event, Message, Notifier, Notify};
pub use processor::{Processed, Processor};
pub use record::Counts;
pub use registry::Executors;
pub use roster::{check, disable_spent};
pub use schedule::{Dialect, Gap, Hash, Span};
pub use spec::{After, Backoff, JobSpec, Missed, NoNode, Nodes, On, Overlap, Settings, Unknown};
pub use view::{JobView, NextLaunch};
