//! The test kit, tried on itself.

mod entities;
mod stages;
