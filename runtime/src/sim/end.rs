//! The end of a simulation: what is left over, and the orderly and the other way out.

use std::fmt;
use std::time::Duration;

use super::drive::Step;
use super::world::{Sim, World};
use crate::group::ShutdownReport;
use crate::limits::SIM_TURNS_MAX;
use crate::sync::Ordering;
use crate::task::Phase;
use crate::time::clock::Clock;

/// A live task, as [`Sim::leaks`] reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// Name of its group.
    pub group: String,
    /// Name of the task, or of its class.
    pub task: String,
    /// See [`Task::id`](crate::Task::id).
    pub id: u64,
    /// Where it is in its life.
    pub phase: Phase,
    /// Submitted jobs not yet run.
    pub queued: u64,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, task, id, phase, queued } = self;
        write!(f, "task «{task}» ({id}) of group «{group}» is {phase:?} with {queued} jobs queued")
    }
}

impl Sim {
    /// The tasks that live. At the end of a test: those that nobody has closed and somebody still
    /// holds, or that wait for what never comes.
    pub fn leaks(&self) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for group in self.world.all() {
            for task in group.shared.registry.all() {
                let header = task.header();
                leaks.push(Leak {
                    group: group.shared.config.name.clone(),
                    task: task.name(),
                    id: group.shared.registry.id_of(header),
                    phase: task.phase(),
                    queued: header.inbox.queued(),
                });
            }
        }
        leaks
    }

    /// Ends all groups in order: closes the tasks, lets up to `deadline` of virtual time pass for
    /// it, and kills what is left. One report for all groups.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let mut report = ShutdownReport::default();
        for index in 0..self.world.all().len() {
            let one = self.world.shut_down(index, deadline);
            report.closed += one.closed;
            report.killed.extend(one.killed);
            report.left.extend(one.left);
        }
        report
    }
}

impl World {
    /// Ends one group.
    pub(super) fn shut_down(&self, group: usize, deadline: Duration) -> ShutdownReport {
        let group = &self.all()[group];
        let shared = &group.shared;
        let mut report = ShutdownReport::default();
        shared.registry.close();
        let tasks = shared.registry.all();
        let count = tasks.len();
        for task in &tasks {
            drop(task.close_within(deadline));
        }
        drop(tasks);
        let limit_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = self.clock.now_ns().saturating_add(limit_ns);
        self.run_until_idle();
        while shared.registry.live() > 0 {
            let Some(next_ns) = self.next_deadline_ns().filter(|next| *next <= end_ns) else {
                break;
            };
            self.move_to(next_ns);
            self.run_until_idle();
        }
        report.killed = shared.registry.all().iter().map(|task| task.name()).collect();
        self.kill(shared);
        report.left = shared.registry.all().iter().map(|task| task.name()).collect();
        report.killed.retain(|name| !report.left.contains(name));
        report.closed = count.saturating_sub(report.killed.len() + report.left.len());
        shared.timers.clear();
        shared.has_ended.store(true, Ordering::Release);
        report
    }

    /// Kills what is left of a group and runs the kills.
    fn kill(&self, shared: &crate::group::GroupShared) {
        let tasks = shared.registry.all();
        for task in &tasks {
            drop(task.kill());
        }
        drop(tasks);
        // Each takes a turn or two; a clean-up hook that makes work for others has a limit.
        for _ in 0..SIM_TURNS_MAX {
            if shared.registry.live() == 0 || self.step() == Step::Idle {
                return;
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.is_driving.set(false);
        let groups = self.all();
        for group in &groups {
            group.shared.registry.close();
        }
        for group in &groups {
            self.kill(&group.shared);
        }
        for group in &groups {
            group.hub.end();
            group.shared.timers.clear();
            group.shared.has_ended.store(true, Ordering::Release);
        }
    }
}
