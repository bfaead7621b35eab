//! The node as the model checker sees it: a link and a value.

use crate::sync::{AtomicPtr, UnsafeCell};

/// The link of the submitted lane.
pub(crate) type Link = AtomicPtr<Node>;

/// One queued job.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// Next node of the lane.
    pub next: Link,
    /// What the producer wrote.
    pub value: UnsafeCell<u32>,
}
