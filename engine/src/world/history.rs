//! Plans for those who draw them.

use turnwheel_runtime::Failure;

use super::{Asking, PlanHandle, PlanView};
use crate::error::{PlanError, StoreError};
use crate::picture::{
    GraphPart, GraphRows, PlanGraph, PlanHistory, PlanTimeline, PlanTree, Telling, TreePart,
};

impl PlanView {
    /// The tree of actions, with their steps and the possible orders.
    pub fn tree(&self) -> PlanTree {
        self.plan.tree(TreePart::all())
    }

    /// A part of the same, for plans that are too large to be drawn at once.
    pub fn tree_part(&self, part: TreePart) -> PlanTree {
        self.plan.tree(part)
    }

    /// The graph of steps and their dependencies.
    pub fn graph(&self) -> PlanGraph {
        self.plan.picture_graph()
    }

    /// A part of the same row by row, for plans that are too large to be drawn at once.
    pub fn graph_part(&self, part: GraphPart) -> GraphRows {
        self.plan.graph_part(part)
    }

    /// When each step began and ended, one span a step.
    /// [`PlanHistory::timeline`] has each call.
    pub fn timeline(&self) -> PlanTimeline {
        self.plan.timeline()
    }
}

impl PlanHandle {
    /// All happenings of the plan, with author and reason, and each call of each step with its
    /// times: the durable ones, from the journal. The journal has no extra records for it.
    ///
    /// Cost: all entries of the plan are read. Steps that waited in a queue are listed with their
    /// time of waiting.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it cannot be read.
    pub fn history(&self) -> Asking<PlanHistory, PlanError> {
        let (journal, id) = (self.world.shared().journal().clone(), self.id());
        Asking::new(async move {
            let known = journal.head(id);
            let read = journal.read(move |reader| -> Result<Option<Vec<_>>, StoreError> {
                let Some(loaded) = reader.load(id, known)? else { return Ok(None) };
                reader.history(id, loaded.head).map(Some)
            });
            let lost = |failure: Failure| StoreError::unanswered(&failure);
            let entries = read.await.map_err(lost)??;
            let Some(entries) = entries else { return Err(PlanError::Unknown(id)) };
            let mut telling = Telling::new(id);
            for (seq, entry) in entries {
                telling.entry(seq, &entry)?;
            }
            telling.done().ok_or(PlanError::Unknown(id))
        })
    }
}
