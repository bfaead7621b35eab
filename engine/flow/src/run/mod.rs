//! Running flows: each task is a step of the flow's plan.
//!
//! | part | what it does |
//! | --- | --- |
//! | `state` | what steps are given and keep |
//! | `env` | what expressions see, and the way of data through a task |
//! | `gathered` | events of a listening task, each stored once |
//! | `machine`, `block`, `fork`, `extend`, `listen`, `consume` | one turn of another task. Pure. |
//! | `action` | the actions of the world that call them |
//! | `starter` | flows that begin with several events |
//! | `sink` | events that leave the host, through an outbox of plans |
//! | `outside`, `effect`, `process`, `container` | tasks that do something outside |
//! | `hidden`, `written` | secrets that are masked in what they bring, however it is written |
//! | `worker` | tasks that external workers do |
//! | `http`, `uri`, `openapi`, `mcp`, `auth` | those of them that call a service |
//! | `asyncapi`, `broker`, `subscribe` | those of them with messages |

mod a2a;
mod action;
mod asyncapi;
mod auth;
mod block;
mod broker;
mod consume;
mod container;
mod effect;
mod env;
mod extend;
mod fork;
mod gathered;
mod grpc;
mod hidden;
mod http;
mod listen;
mod live;
mod machine;
mod mcp;
mod openapi;
mod outside;
mod present;
mod process;
mod sink;
mod starter;
mod state;
mod subscribe;
mod unclear;
mod uri;
mod worker;
mod written;

pub use action::FlowPlan;
pub(crate) use action::FlowTask;
pub(crate) use outside::{FlowCommand, FlowRequest, REQUESTS};
pub(crate) use sink::{to_sinks, Delivery, Ordered};
pub(crate) use starter::{FlowStarter, STARTS};
pub(crate) use state::{Cursor, Listening, Notice, Phase};
pub use state::{FlowStart, Outcome, TaskInput, TaskOutput};
pub(crate) use worker::result as worker_result;
pub use worker::WORKER_CALL;
