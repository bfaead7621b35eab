//! Calls: both sides of one, the calls above it, its deadline, and how it is given up.

pub(crate) mod abandoned;
pub(crate) mod ask;
pub(crate) mod chain;
pub(crate) mod deadlines;
mod load;
pub(crate) mod reply;

pub(crate) use load::Load;
