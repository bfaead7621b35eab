//! The end of simulated groups: in order, and the other way.

use std::time::Duration;

use super::drive::Step;
use super::hub::Hub;
use super::state::{call_hook, Sim, SimGroup, SimState};
use crate::group::{begin_shutdown, GroupShared, ShutdownReport};
use crate::limits::SIM_TURNS_MAX;
use crate::sync::Ordering;

impl Sim {
    /// Ends all groups in order, one after the other: closes the tasks, lets up to `deadline` of
    /// virtual time pass for it, and kills the remaining tasks. One report for all groups.
    ///
    /// [`Group::shutdown`](crate::Group::shutdown) does the same for one group, on this thread and
    /// outside of turns.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let mut report = ShutdownReport::default();
        for group in self.state.all().iter() {
            let one = self.state.shut_down(group, deadline);
            report.closed += one.closed;
            report.killed.extend(one.killed);
            report.left.extend(one.left);
        }
        report
    }
}

/// Ends the group of this hub, if its simulation lives on this thread and no turn is under way.
pub(super) fn shut_down(hub: &Hub, deadline: Duration) -> Option<ShutdownReport> {
    let (state, index) = SimState::of(hub)?;
    if state.is_driving.get() {
        return None;
    }
    Some(state.shut_down(&state.all()[index], deadline))
}

impl SimState {
    fn shut_down(&self, group: &SimGroup, deadline: Duration) -> ShutdownReport {
        let shared = &group.shared;
        let tasks = begin_shutdown(shared, deadline);
        let end_ns = self.common.clock.deadline_after(deadline);
        self.run_through(end_ns, || shared.registry.live() > 0);
        self.finish(shared, tasks)
    }

    /// Reports shutdowns without a waiting caller: the group has ended, or its deadline has passed.
    pub(super) fn report_endings(&self, groups: &[SimGroup]) -> bool {
        for SimGroup { shared, hub, .. } in groups {
            let has_come = shared.registry.live() == 0;
            if let Some(ending) = hub.take_ending(has_come, self.common.clock.now_ns()) {
                let report = self.finish(shared, ending.tasks);
                // The caller may have given up.
                let _ = ending.report.complete(report);
                return true;
            }
        }
        false
    }

    /// Kills the remaining tasks of a group whose deadline has passed.
    fn finish(&self, shared: &GroupShared, tasks: usize) -> ShutdownReport {
        let living = || shared.registry.all().iter().map(|task| task.name()).collect();
        let mut killed: Vec<String> = living();
        self.kill(shared);
        let left: Vec<String> = living();
        killed.retain(|name| !left.contains(name));
        let closed = tasks.saturating_sub(killed.len() + left.len());
        end(shared);
        ShutdownReport { closed, killed, left }
    }

    fn kill(&self, shared: &GroupShared) {
        for task in &shared.registry.all() {
            drop(task.kill());
        }
        // Each takes a turn or two; clean-up hooks that make work for others have a limit.
        for _ in 0..SIM_TURNS_MAX {
            if shared.registry.live() == 0 || self.step() == Step::Idle {
                return;
            }
        }
    }
}

/// Last steps of a group, after its last turn.
fn end(shared: &GroupShared) {
    shared.timers.clear();
    // AcqRel: the first caller calls the hooks.
    if !shared.has_ended.swap(true, Ordering::AcqRel) {
        let stop = shared.config.on_stop.as_ref();
        (0..shared.workers.len()).for_each(|worker| call_hook(stop, worker));
    }
}

impl Drop for SimState {
    fn drop(&mut self) {
        // A panic in a step may have left it set.
        self.is_driving.set(false);
        let groups = self.all();
        for group in groups.iter() {
            group.shared.registry.close();
            for task in group.shared.registry.all() {
                let (group, task) = (&group.hub.group, task.name());
                tracing::debug!(%group, task, "a task outlives its simulation and is killed");
            }
        }
        for group in groups.iter() {
            self.kill(&group.shared);
        }
        for group in groups.iter() {
            group.hub.end();
            end(&group.shared);
        }
    }
}
