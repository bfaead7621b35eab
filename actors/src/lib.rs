//! Typed actors and keyed entities on `turnwheel-runtime`. Nothing is implemented here yet.
#![forbid(unsafe_code)]
