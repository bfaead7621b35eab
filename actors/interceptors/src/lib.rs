#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

#[macro_use(debug_fields)]
extern crate turnwheel_runtime;

mod metrics;
mod retry;
mod spans;

pub use metrics::{Counted, MessageMetrics, Metrics, METRICS_ROWS_MAX};
pub use retry::{Retried, Retry};
pub use spans::Spans;
