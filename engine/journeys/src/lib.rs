#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod attributes;
mod batch;
mod catalogue;
mod channel;
mod chart;
mod check;
mod counts;
mod definition;
mod definitions;
mod desk;
mod dry;
mod element;
mod error;
mod event;
mod intake;
mod journeys;
pub mod limits;
mod mover;
mod newer;
mod notes;
mod options;
mod ours;
mod outbox;
mod places;
mod quiet;
mod resume;
mod row;
mod sending;
mod settings;
mod trial;
mod view;
mod walk;
mod watch;
mod writing;

pub use attributes::AttributeType;
pub use channel::{Channel, Channels};
pub use counts::{ElementCounts, JourneyCounts};
pub use definition::{keyed, Definition};
pub use dry::DryRun;
pub use element::{
    Cap, Element, Entry, Extensions, Id, Kind, Quiet, Rule, Send, Settings, UnderWay, Unmatched,
};
pub use error::JourneyError;
pub use event::Event;
#[doc(hidden)]
pub use journeys::row_bytes;
pub use journeys::{Asking, Journeys};
pub use options::JourneysOptions;
pub use outbox::{Message, Unsent};
pub use trial::{duration, Recording, Tried, TriedMessage, TriedMove, TriedProblem};
pub use view::{JourneyView, MessageView, Moved, PassView, Taken, UserView, WaitView};
