//! Begins of runs that are under way. They are kept in memory and with their plans: a write for
//! each is not worth it.

use crate::action::began;
use crate::jobs::Jobs;
use crate::launch::{Launch, RunState};

impl Jobs {
    /// Notes when the runs of launches that are under way have begun, and which of them wait for a
    /// place or for their key. One whose node does not answer has no begin.
    ///
    /// Cost: a question to the plan of each run under way whose begin is not known, at its node.
    pub async fn note_begins(&self, launches: &mut [Launch]) {
        for launch in launches.iter_mut().filter(|launch| launch.is_under_way()) {
            let mut unknown = false;
            for run in &mut launch.runs {
                if run.state != RunState::Running || run.started_at.is_some() {
                    continue;
                }
                let (Some(world), Some(plan)) = (self.world.upgrade(), run.plan) else { continue };
                match world.plan(plan).view().await {
                    Ok(view) => run.started_at = began(&view),
                    Err(_) => unknown = true,
                }
            }
            if !unknown {
                launch.show_waiting();
            }
        }
    }
}
