//! Begins of runs, as their nodes tell them or their plans say.

use turnwheel_engine::{PlanHandle, Time};
use turnwheel_runtime::{Context, Task};

use super::Roster;
use crate::action::began;
use crate::launch::RunState;
use crate::notify::Event;
use crate::registry::Executors;
use crate::request::{JobRequest, Reply};

/// Has the world that serves the jobs know when runs of this node begin. If it does not hear of
/// one, the end of the run says the same.
pub(crate) fn hear_begins(executors: &Executors, task: Task<Roster>) {
    executors.tell_begins(move |work, at| {
        let (name, key) = (work.job.clone(), work.key.clone());
        let request = JobRequest::Began { name, launch: work.launch, key, at };
        let reply = Reply::here(|_| ());
        if let Err(error) = task.submit(|roster, cx| roster.take(request, reply, cx)) {
            tracing::debug!(job = work.job, kind = ?error.kind, "nobody hears of a begin");
        }
    });
}

impl Roster {
    /// The node of a run says that it has begun; the key is that of its plan.
    pub(super) fn run_began(
        &mut self,
        name: &str,
        (launch, key): (u64, &str),
        at: Time,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(entry) = self.entries.get(name) else { return };
        let made = entry.record.created_at;
        let of = entry.record.active.iter().find(|of| of.id == launch);
        let place = of.and_then(|of| of.runs.iter().position(|run| of.key(name, made, run) == key));
        if let Some(run) = place {
            self.note_begin(name, (launch, run), at, cx);
        }
    }

    /// Asks the plan of a run whose begin is not known when it began: another world may have served
    /// then.
    pub(super) fn find_begin(
        &self,
        (name, made): (String, Time),
        run: (u64, usize),
        plan: &PlanHandle,
        cx: &mut Context<'_, Self>,
    ) {
        cx.await_interleaved(plan.view(), move |roster: &mut Self, cx, outcome| {
            let entry = roster.entries.get(&name);
            let is_there = entry.is_some_and(|entry| entry.record.created_at == made);
            // Without an answer the end of the run says when it began.
            let at = outcome.ok().and_then(|view| began(&view));
            if let Some(at) = at.filter(|_| is_there) {
                roster.note_begin(&name, run, at, cx);
            }
        });
    }

    /// Keeps the begin of a run in memory: its plan knows it, and a write for each is too much.
    fn note_begin(
        &mut self,
        name: &str,
        (launch, run): (u64, usize),
        at: Time,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let of = entry.record.active.iter_mut().find(|of| of.id == launch);
        let row = of.and_then(|of| of.runs.get_mut(run));
        let is_new =
            |row: &&mut crate::Run| row.state == RunState::Running && row.started_at.is_none();
        let Some(row) = row.filter(is_new) else { return };
        row.started_at = Some(at);
        let mut all = entry.record.spec.notify.iter().chain(&self.notify);
        if all.any(|notify| notify.on.contains(&Event::Start)) {
            self.turn(name, cx, |turn| turn.tell(launch, Some(run), Event::Start));
        }
    }
}
