//! The counter of a chunk of nodes: who counts the last one sees all use of the others.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use turnwheel_runtime::model::{check, check_without, spawn, Chunk, Step};

/// A chunk and what stands for its nodes.
struct Nodes(Chunk, [UnsafeCell<u32>; 2]);

// SAFETY: the model checks each access.
unsafe impl Sync for Nodes {}
// SAFETY: as above.
unsafe impl Send for Nodes {}

impl Nodes {
    /// Uses its half for the last time and counts it; who was last uses all anew.
    fn give(&self, half: usize) -> bool {
        // SAFETY: not counted free, so ours.
        self.1[half].with_mut(|node| unsafe { *node += 1 });
        let is_last = self.0.count_free(half == 1);
        if is_last {
            for node in &self.1 {
                // SAFETY: all are counted free; the model checks that it shows.
                node.with_mut(|node| unsafe { *node = 0 });
            }
        }
        is_last
    }
}

fn give_both_halves() {
    let nodes = Arc::new(Nodes(Chunk::default(), [UnsafeCell::new(0), UnsafeCell::new(0)]));
    let other = {
        let nodes = Arc::clone(&nodes);
        spawn(move || nodes.give(0))
    };
    let is_last = nodes.give(1);
    assert_ne!(other.join(), is_last, "one of them gives the chunk back");
}

#[test]
fn the_last_count_sees_all_use_of_the_nodes() {
    check(give_both_halves);
}

#[test]
#[should_panic]
fn twin_that_counts_relaxed_reuses_a_node_under_its_user() {
    check_without(Step::ChunkRelease, give_both_halves);
}
