//! Flows: workflows in the Serverless Workflow DSL 1.0, for people who write no Rust.

mod fake;
mod io;

pub use fake::{Asked, FakeIo};
pub use io::{
    HttpRequest, HttpResponse, Io, IoCall, IoError, IoErrorKind, Process, ProcessResult, Program,
    ScriptLanguage, HTTP_BODY_MAX, PROCESS_OUTPUT_MAX,
};
