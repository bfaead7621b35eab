//! Running plans: what to do next, and the actor that does it.
//!
//! | part | what it does |
//! | --- | --- |
//! | `damaged` | ends plans that cannot be read, by an order |
//! | `decide` | from a plan and what happened: the records that follow, and the calls to make. Pure. |
//! | `rescue` | the same, for steps that have failed |
//! | `orders` | the same, for what people do |
//! | `edit` | the same, for inputs that people change |
//! | `outcome` | the same, for what the code of a step has returned |
//! | `grow` | the same, for steps that steps ask for |
//! | `plans` | the same, for plans that wait for plans |
//! | `beats` | signs of life of steps, and what follows when there are none |
//! | `growth` | when a plan is stored as a whole |
//! | `actor` | one for each live plan: keeps it in memory and appends its records |
//! | `entry` | hands one entry at a time to the journal, and goes on when it is durable |
//! | `continued` | plans that begin anew |
//! | `chunks` | takes what the code of steps adds to the output stream |
//! | `alarm` | its one timer |
//! | `begin` | how a plan begins |
//! | `early` | keeps what is said to a plan that is being planned |
//! | `effects` | what it does outside |
//! | `elsewhere` | plans that other worlds ask for, and plans that have moved between worlds |
//! | `hooks` | tells hooks what has happened |
//! | `finalize` | calls the finalize phase in one transaction, if the world has them |
//! | `call` | calls the code of its steps |
//! | `pages` | writes and reads sub-plans that wait outside memory |
//! | `places` | asks for places in queues before code is called |
//! | `pool` | calls code that may block, when there is a thread for it |
//! | `queue` | knows who has a place, `fair` who is next |
//! | `locks` | takes the locks of plans and gives them back |
//! | `wakes` | knows when plans that are not in memory have to do something |
//!
//! Nothing that a decision asks for happens outside before its records are durable: a step's code is
//! called, an event's sender is answered, a waiting caller is told after the commit.

mod actor;
mod alarm;
mod beats;
mod begin;
mod call;
mod chunks;
mod continued;
mod damaged;
mod decide;
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
mod quarantine;
mod queue;
mod refusal;
mod rescue;
mod row;
mod traced;
mod wakes;

pub(crate) use actor::PlanActor;
pub(crate) use beats::{beat_soon, Heartbeat};
pub(crate) use chunks::chunks_soon;
pub(crate) use key::PlanKey;
pub(crate) use message::{
    AskAgain, Begin, BeginChild, BeginElsewhere, Begun, Delay, Deliver, Follow, Order, PlanEnded,
    Report, Wake,
};
pub(crate) use orders::OrderKind;
pub(crate) use pool::on_pool;
pub(crate) use queue::Queues;
pub(crate) use row::row;
pub(crate) use wakes::Wakes;

/// What could not be said to another plan is tried again after this time.
pub(crate) const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
