//! Effects of durable decisions: plans begin and end, dependants are told.

use turnwheel_engine::internal::{in_world, key_of_cause};
use turnwheel_engine::{
    PlanError, PlanHandle, PlanId, PlanState, PlanView, Time, TriggerError, TriggerOptions,
};
use turnwheel_runtime::Context;

use super::Roster;
use crate::action::{ended, RunJob, RunKeyed};
use crate::decide::{Effect, Ended};
use crate::executor::Work;
use crate::launch::RunState;

/// A run on which an answer is awaited.
#[derive(Clone, Debug)]
struct OfRun {
    job: String,
    /// When the job was made.
    made: Time,
    launch: u64,
    run: usize,
}

impl Roster {
    pub(super) fn carry_out(
        &mut self,
        name: &str,
        effects: Vec<Effect>,
        cx: &mut Context<'_, Self>,
    ) {
        for effect in effects {
            match effect {
                Effect::Start { launch, run } => self.start(name, launch, run, cx),
                Effect::Cancel { launch, plan, .. } => self.cancel(name, launch, plan, cx),
                Effect::Notify(notice) => self.notify(name, notice, cx),
                Effect::Report => self.report(name, cx),
                Effect::Remove => self.leave(name, cx),
            }
        }
    }

    /// Goes on with what was under way when the job was stored.
    pub(super) fn resume(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get(name) else { return };
        let record = &entry.record;
        let mut effects = Vec::new();
        for launch in record.active.iter().filter(|launch| launch.is_under_way()) {
            let runs = launch.runs.iter().enumerate();
            let going = runs.filter(|(_, run)| run.state == RunState::Running);
            for (run, row) in going {
                effects.push(Effect::Start { launch: launch.id, run });
                if let Some(plan) = row.plan.filter(|_| launch.cancelled_by.is_some()) {
                    effects.push(Effect::Cancel { launch: launch.id, run, plan });
                }
            }
        }
        effects.extend(record.notices.iter().cloned().map(Effect::Notify));
        if !record.outbox.is_empty() {
            effects.push(Effect::Report);
        }
        if record.is_leaving {
            effects.push(Effect::Remove);
        }
        self.carry_out(name, effects, cx);
    }

    /// Begins the plan of a run, or finds the one that its key has begun.
    fn start(&mut self, name: &str, launch: u64, run: usize, cx: &mut Context<'_, Self>) {
        let (Some(world), Some(entry)) = (self.world.upgrade(), self.entries.get(name)) else {
            return;
        };
        let record = &entry.record;
        let Some(of) = record.launch(launch) else { return };
        let Some(row) = of.runs.get(run).filter(|row| row.state == RunState::Running) else {
            return;
        };
        let (made, spec) = (record.created_at, &record.spec);
        if let Some(plan) = row.plan.filter(|_| row.started_at.is_none()) {
            let plan = world.plan(plan);
            self.find_begin((name.to_owned(), made), (launch, run), &plan, cx);
        }
        if entry.going.contains(&(launch, run)) {
            return;
        }
        let of_run = OfRun { job: name.to_owned(), made, launch, run };
        if let Some(plan) = row.plan {
            return self.watch(of_run, world.plan(plan), cx);
        }
        let key = of.key(name, made, row);
        let work = Work {
            job: name.to_owned(),
            launch,
            planned: of.planned,
            attempt: row.attempt,
            node: row.node.clone(),
            executor: spec.executor.clone(),
            config: spec.config.clone(),
            timeout: spec.timeout,
            output_max: spec.output_max,
            concurrency_key: spec.concurrency_key.clone(),
            key: key.clone(),
            processors: spec.processors.clone(),
            targets: spec.targets.clone(),
        };
        let options = TriggerOptions::new()
            .label("job", name)
            .by(format!("job {name}"))
            .priority(spec.priority);
        let options = match self.worlds.get(&row.node) {
            Some(other) => in_world(options, *other),
            None => options,
        };
        if let Some(entry) = self.entries.get_mut(name) {
            entry.going.insert((launch, run));
        }
        let options = key_of_cause(options, key);
        let begun = match work.concurrency_key.is_empty() {
            true => world.trigger_with::<RunJob>(options, work),
            false => world.trigger_with::<RunKeyed>(options, work),
        };
        cx.await_interleaved(begun, move |roster, cx, outcome| {
            roster.begun(of_run, outcome, cx);
        });
    }

    /// Whether a run is one of the job that has its name now: another one may have been made.
    fn is_there(&self, run: &OfRun) -> bool {
        self.entries.get(&run.job).is_some_and(|entry| entry.record.created_at == run.made)
    }

    /// Nothing is awaited of a run any more.
    fn rests(&mut self, run: &OfRun) {
        if let Some(entry) = self.entries.get_mut(&run.job) {
            entry.going.remove(&(run.launch, run.run));
        }
    }

    fn begun(
        &mut self,
        of_run: OfRun,
        outcome: Result<PlanHandle, TriggerError>,
        cx: &mut Context<'_, Self>,
    ) {
        if !self.is_there(&of_run) {
            return;
        }
        let (name, launch, run) = (of_run.job.clone(), of_run.launch, of_run.run);
        self.rests(&of_run);
        match outcome {
            Ok(plan) => {
                let (since, mut is_older) = (self.since, false);
                if let Some(entry) = self.entries.get_mut(&name) {
                    let of = entry.record.active.iter_mut().find(|of| of.id == launch);
                    // Decided before this world served: its begin may have been told to another.
                    is_older = of.as_ref().is_some_and(|of| of.decided < since);
                    let row = of.and_then(|of| of.runs.get_mut(run));
                    // Not written for itself: the key finds the plan after a crash.
                    row.into_iter().for_each(|row| row.plan = Some(plan.id()));
                }
                if is_older {
                    self.find_begin((name.clone(), of_run.made), (launch, run), &plan, cx);
                }
                self.watch(of_run, plan.clone(), cx);
                self.turn(&name, cx, |turn| turn.started(launch, run, plan.id()));
            }
            // Its plan may have begun: the key finds it.
            Err(TriggerError::Store(_) | TriggerError::Refused(_) | TriggerError::Connect(_)) => {
                self.try_again(&name, cx)
            }
            Err(error) => {
                let reason = format!("its plan could not begin: {error}");
                self.over(&of_run, RunState::Failed, reason, cx);
            }
        }
    }

    /// Waits for the end of a run's plan.
    fn watch(&mut self, of_run: OfRun, plan: PlanHandle, cx: &mut Context<'_, Self>) {
        let place = (of_run.launch, of_run.run);
        let entry = self.entries.get_mut(&of_run.job);
        if !entry.is_some_and(|entry| entry.going.insert(place)) {
            return;
        }
        cx.await_interleaved(plan.finished(), move |roster, cx, outcome| {
            roster.finished(&of_run, outcome, cx);
        });
    }

    fn finished(
        &mut self,
        of_run: &OfRun,
        outcome: Result<PlanView, PlanError>,
        cx: &mut Context<'_, Self>,
    ) {
        if !self.is_there(of_run) {
            return;
        }
        self.rests(of_run);
        match outcome {
            Ok(view) if view.state == PlanState::Paused => {
                let reason = format!("its plan {} was paused", view.id);
                self.over(of_run, RunState::Unknown, reason, cx);
            }
            Ok(view) => {
                let ended = ended(&view);
                let OfRun { job, launch, run, .. } = of_run;
                self.turn(job, cx, |turn| turn.ended(*launch, *run, ended));
            }
            Err(PlanError::Unknown(plan)) => {
                let reason = format!("its plan {plan} is not there any more");
                self.over(of_run, RunState::Unknown, reason, cx);
            }
            // It may be there: it is looked at again.
            Err(_) => self.try_again(&of_run.job, cx),
        }
        self.arm(cx);
    }

    fn over(
        &mut self,
        of_run: &OfRun,
        state: RunState,
        reason: String,
        cx: &mut Context<'_, Self>,
    ) {
        let note = String::new();
        let ended = Ended {
            state,
            reason,
            started_at: None,
            ended_at: None,
            output_bytes: 0,
            is_cut: false,
            note,
            node: None,
            is_unbegun: false,
        };
        let OfRun { job, launch, run, .. } = of_run;
        self.turn(job, cx, |turn| turn.ended(*launch, *run, ended));
    }

    fn cancel(&mut self, name: &str, launch: u64, plan: PlanId, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let of = self.entries.get(name).and_then(|entry| entry.record.launch(launch));
        let by = of.and_then(|launch| launch.cancelled_by.clone()).unwrap_or_default();
        let asked = world.plan(plan).cancel(&format!("{by}, of the job {name}"));
        let name = name.to_owned();
        cx.await_interleaved(asked, move |roster, cx, outcome| {
            let problem = match outcome {
                // It is over, or its end says that it is not there.
                Ok(Ok(()) | Err(PlanError::State { .. } | PlanError::Unknown(_))) => return,
                Ok(Err(error)) => error.to_string(),
                Err(failure) => failure.to_string(),
            };
            tracing::warn!(job = name, %plan, problem, "a run is cancelled again soon");
            roster.try_again(&name, cx);
        });
    }

    /// Tells the dependants of a job what its outbox holds.
    fn report(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let children = self.graph.children(name);
        let Some(entry) = self.entries.get_mut(name) else { return };
        let reports = entry.record.outbox.clone();
        for report in &reports {
            entry.untold.entry(report.launch).or_insert_with(|| children.iter().cloned().collect());
        }
        for report in reports {
            for child in &children {
                let expected = self.graph.expected(child, &report.root.job);
                let ack = (report.job.clone(), report.launch);
                self.rouse(child);
                if let Some(entry) = self.entries.get_mut(child) {
                    // Before the turn: the write that it begins takes the ack with it.
                    entry.acks.push(ack.clone());
                }
                self.turn(child, cx, |turn| turn.parent_ended(&report, &expected));
                let entry = self.entries.get_mut(child).filter(|entry| !entry.is_removed);
                let is_known = entry.is_none_or(|entry| {
                    let is_left = !entry.is_dirty && entry.acks.contains(&ack);
                    entry.acks.retain(|other| !is_left || *other != ack);
                    is_left
                });
                if is_known {
                    self.told(name, report.launch, child, cx);
                }
            }
            if children.is_empty() {
                self.told(name, report.launch, "", cx);
            }
        }
    }

    /// A dependant has written what follows from a report.
    pub(super) fn told(
        &mut self,
        name: &str,
        launch: u64,
        child: &str,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let Some(untold) = entry.untold.get_mut(&launch) else { return };
        untold.remove(child);
        if !untold.is_empty() {
            return;
        }
        entry.untold.remove(&launch);
        // Written with the next change: a dependant knows what it has taken.
        entry.record.outbox.retain(|report| report.launch != launch);
        if entry.record.is_leaving {
            self.leave(name, cx);
        }
    }

    /// Removes a job that is leaving, once its runs have ended, its dependants know and
    /// notifications have begun.
    pub(super) fn leave(&mut self, name: &str, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get(name) else { return };
        let record = &entry.record;
        let owes_nothing = record.outbox.is_empty() && record.notices.is_empty();
        if record.is_leaving && record.active.is_empty() && owes_nothing {
            self.remove_now(name, cx);
        }
    }
}
