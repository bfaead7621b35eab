//! Running plans: decisions, and the actor that carries them out.
//!
//! | part | task |
//! | --- | --- |
//! | `damaged` | ends plans that cannot be read, by an order |
//! | `decide` | from a plan and an event: the records that follow, and the calls to make. Pure. |
//! | `rescue` | the same, for failed steps |
//! | `orders` | the same, for orders |
//! | `edit` | the same, for edited inputs |
//! | `outcome` | the same, for results of a step's code |
//! | `grow` | the same, for steps added by steps |
//! | `plans` | the same, for plans that wait for plans |
//! | `beats` | heartbeats of steps, and treatment of silent ones |
//! | `growth` | times of snapshots |
//! | `actor` | one for each live plan: keeps it in memory and appends its records |
//! | `entry` | hands one entry at a time to the journal, and continues when it is durable |
//! | `unencodable` | takes back entries that the codec cannot encode |
//! | `continued` | plans that begin anew |
//! | `chunks` | takes chunks of the output stream from the code of steps |
//! | `alarm` | its timer |
//! | `begin` | begin of a plan |
//! | `early` | keeps messages to a plan that is being planned |
//! | `effects` | effects on the outside |
//! | `elsewhere` | plans started by other worlds, and plans that have moved between worlds |
//! | `hooks` | calls hooks |
//! | `finalize` | calls the finalize phase in one transaction, if the world has them |
//! | `call` | calls the code of its steps |
//! | `pages` | writes and reads sub-plans that wait outside memory |
//! | `places` | asks for places in queues before code is called |
//! | `pool` | calls code that may block, when there is a thread for it |
//! | `queue` | places and their holders; `sharing` has the next key, `fair` its next waiter |
//! | `locks` | takes the locks of plans and gives them back |
//! | `stored` | plans as they are stored, and their rows |
//! | `wakes` | timers of plans that are not in memory |
//!
//! Effects of a decision follow only after its records are durable: the call of a step's code, the
//! answer to an event's sender, the end of a caller's wait.

mod actor;
mod alarm;
mod beats;
mod begin;
mod call;
mod chunks;
mod continued;
mod damaged;
mod decide;
mod deciding;
mod early;
mod edit;
mod effects;
mod elsewhere;
mod entry;
mod failed;
mod fair;
mod finalize;
mod grow;
mod growth;
mod hooks;
mod key;
mod labels;
mod locks;
mod message;
mod migrate;
mod orders;
mod outcome;
mod pages;
mod places;
mod plans;
mod pool;
mod promises;
mod quarantine;
mod queue;
mod refusal;
mod rescue;
mod retimed;
mod row;
mod sends;
mod sharing;
mod stored;
mod timers;
mod traced;
mod unencodable;
mod wakes;

pub(crate) use actor::PlanActor;
pub(crate) use beats::{beat_soon, Heartbeat};
pub(crate) use chunks::chunks_soon;
pub(crate) use key::PlanKey;
pub use message::Delivered;
pub(crate) use message::{
    AskAgain, Begin, BeginChild, BeginElsewhere, Begun, Delay, Deliver, Follow, Order, PlanEnded,
    Report, Wake,
};
pub(crate) use orders::OrderKind;
pub(crate) use pool::on_pool;
pub(crate) use queue::Queues;
pub use row::row;
pub(crate) use sharing::may_begin;
pub(crate) use stored::stored_row;
pub(crate) use wakes::Wakes;

/// Pause before a message to another plan is sent again.
pub(crate) const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
