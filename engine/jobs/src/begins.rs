//! Begins of runs that are under way. They are kept in memory and with their plans: a write for
//! each is not worth it.

use crate::action::began;
use crate::jobs::Jobs;
use crate::launch::{Launch, LaunchState, RunState};

impl Jobs {
    /// Notes when the runs of launches that are under way have begun, and which of them wait for a
    /// place or for their key. One whose node does not answer has no begin.
    ///
    /// Cost: a question to the plan of each run under way whose begin is not known, at its node.
    pub async fn note_begins(&self, launches: &mut [Launch]) {
        let is_open = |launch: &&mut Launch| !launch.state.is_over() && !launch.is_asked();
        for launch in launches.iter_mut().filter(is_open) {
            let mut unknown = false;
            for run in &mut launch.runs {
                if run.state.is_over() || run.started_at.is_some() {
                    continue;
                }
                // A run that waits for its next attempt has no plan.
                let (Some(world), Some(plan)) = (self.world.upgrade(), run.plan) else { continue };
                match world.plan(plan).view().await {
                    Ok(view) => {
                        if let Some(at) = began(&view) {
                            (run.started_at, run.state) = (Some(at), RunState::Running);
                        }
                    }
                    Err(_) => unknown = true,
                }
            }
            if launch.runs.iter().any(|run| run.state == RunState::Running) {
                launch.state = LaunchState::Running;
            }
            if !unknown {
                launch.show_waiting();
            }
        }
    }
}
