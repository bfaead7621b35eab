//! The durable workflow engine on `turnwheel-actors`. Nothing is implemented here yet.
#![forbid(unsafe_code)]
