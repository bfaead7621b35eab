//! Running plans: what to do next, and the actor that does it.
//!
//! | part | what it does |
//! | --- | --- |
//! | `decide` | from a plan and what happened: the records that follow, and the calls to make. Pure. |
//! | `rescue` | the same, for steps that have failed |
//! | `orders` | the same, for what people do |
//! | `actor` | one for each live plan: keeps it in memory and appends its records |
//! | `call` | calls the code of its steps |
//! | `wakes` | knows when plans that are not in memory have to do something |
//!
//! Nothing that a decision asks for happens outside before its records are durable: a step's code is
//! called, an event's sender is answered, a waiting caller is told after the commit.

mod actor;
mod call;
mod decide;
mod key;
mod message;
mod orders;
mod rescue;
mod wakes;

pub(crate) use actor::{row, PlanActor};
pub(crate) use key::PlanKey;
pub(crate) use message::{Begin, Begun, Deliver, Order, Report, Wake};
pub(crate) use orders::OrderKind;
pub(crate) use wakes::Wakes;
