//! Turnwheel facade.
pub use turnwheel_runtime as runtime;
