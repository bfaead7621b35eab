#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod addition;
mod bench;
mod bus;
mod definition;
mod duration;
mod event;
mod expr;
mod fake;
mod fault;
mod flows;
mod hash;
mod interest;
#[doc(hidden)]
pub mod internal;
mod io;
mod life;
pub mod limits;
mod listeners;
mod loops;
mod model;
mod pattern;
mod read;
mod recent;
mod removal;
mod resource;
mod retry;
mod run;
mod schema;
mod scope;
mod text;
mod texts;

pub(crate) use definition::Definition;
pub use definition::{load, load_all, Flow};
pub use event::{CloudEvent, NoEvent};
pub use fake::{Asked, FakeIo};
pub use fault::Fault;
pub use flows::{result, FlowEntry, FlowError, Flows, WithFlows};
pub use io::{
    header_problem, Broker, BrokerChannel, BrokerMessage, Cleanup, Container, GrpcRequest,
    GrpcResponse, HttpRequest, HttpResponse, Io, IoCall, IoError, IoErrorKind, Process,
    ProcessResult, Program, ProtoFile, PullPolicy, Receipt, Reply, ScriptLanguage, HTTP_BODY_MAX,
    PROCESS_OUTPUT_MAX,
};
pub use life::{FlowEvents, LifeCycle};
pub use recent::{Published, RecentEvent, Taker};
pub use retry::{in_place_of, AGAIN_OF, RETRY_OF};
pub use run::{FlowPlan, FlowStart, Outcome, TaskInput, TaskOutput, WORKER_CALL};
pub use text::{documents, Problem, Problems};
