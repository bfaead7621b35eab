//! Begins of runs that are under way: known to their plans only, as a write for each is not worth it.

use turnwheel_engine::StepState;

use crate::action::Kept;
use crate::action::RunJob;
use crate::jobs::Jobs;
use crate::launch::{Launch, Run, RunState};

impl Jobs {
    /// Notes when the runs of launches that are under way have begun. One that waits for a place, and
    /// one whose node does not answer, has no begin.
    ///
    /// Cost: a question to the plan of each run that is under way, at its node.
    pub async fn note_begins(&self, launches: &mut [Launch]) {
        let is_open = |run: &&mut Run| run.state == RunState::Running && run.started_at.is_none();
        for launch in launches.iter_mut().filter(|launch| launch.is_under_way()) {
            for run in launch.runs.iter_mut().filter(is_open) {
                let (Some(world), Some(plan)) = (self.world.upgrade(), run.plan) else { continue };
                let Ok(view) = world.plan(plan).view().await else { continue };
                let kept: Kept = view.output::<RunJob>().unwrap_or_default();
                let step = view.steps.iter().find(|step| step.state == StepState::Running);
                run.started_at = kept.started_at.or(step.and_then(|step| step.started_at));
            }
        }
    }
}
