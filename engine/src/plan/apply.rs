//! The effect of each record on a plan. No other code changes plans.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::flow::{Flow, Graph};
use super::record::{Created, Planned, Record};
use super::reference::needs_of;
use super::seen::Seen;
use super::state::{PlanResult, PlanState, StepKind, StepState};
use super::step::{ActionData, Event, Step};
use super::{counted, Cancel, Children, Counts, Delayed, Entry, HooksDue, Plan};
use crate::id::{ActionId, PlanId, StepId};
use crate::limits::HISTORY_KEPT;
use crate::payload::Payload;
use crate::store::Seq;
use crate::time::Time;

/// The records of a plan do not fit together.
#[derive(Clone, Debug, thiserror::Error)]
#[error("plan {plan}: {problem}")]
pub(crate) struct Inconsistent {
    plan: PlanId,
    problem: String,
}

impl Plan {
    /// The plan that begins with this record.
    pub(crate) fn begin(id: PlanId, created: Created) -> Self {
        let text = format!("created by {}", created.by);
        Self {
            id,
            label: created.action.clone(),
            state: PlanState::Pending,
            started_at: None,
            ended_at: None,
            actions: Vec::new(),
            steps: Vec::new(),
            run: Flow::empty(),
            finalize: Vec::new(),
            planning_error: None,
            locks: Vec::new(),
            chunks: 0,
            chunk_bytes: 0,
            labels: created.labels.iter().cloned().collect(),
            history: vec![Entry { at: created.at, text }],
            history_left_out: 0,
            timers: BTreeMap::new(),
            last_timer: 0,
            timer_names: BTreeMap::new(),
            promises: BTreeMap::new(),
            outbox: BTreeMap::new(),
            last_sent: 0,
            cancel: None,
            is_reverting: false,
            last_order: 0,
            delayed: None,
            hooks_due: HooksDue::default(),
            timeouts: BTreeMap::new(),
            ordered: Seen::default(),
            children: Children::default(),
            run_number: 1,
            continues: None,
            graph: Graph::default(),
            ready: VecDeque::new(),
            released: Vec::new(),
            counts: Counts::default(),
            alarms: BTreeSet::new(),
            queued: BTreeSet::new(),
            left_behind: Vec::new(),
            trouble: None,
            locked_by: None,
            created,
        }
    }

    /// The plan that these records tell of, from its first one.
    pub(crate) fn replay(
        id: PlanId,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Self, Inconsistent> {
        let mut records = records.into_iter();
        let Some(Record::Created(created)) = records.next() else {
            let problem = "its first record does not say how it began".to_owned();
            return Err(Inconsistent { plan: id, problem });
        };
        let mut plan = Self::begin(id, *created);
        for record in records {
            plan.apply(&record)?;
        }
        Ok(plan)
    }

    /// The plan after an entry of the journal at this place, and before it; its first entry begins it.
    pub(crate) fn after_entry(
        before: Option<Self>,
        id: PlanId,
        entry: Seq,
        records: Vec<Record>,
    ) -> Result<Self, Inconsistent> {
        let mut plan = match before {
            None => Self::replay(id, records)?,
            Some(mut plan) => {
                records.iter().try_for_each(|record| plan.apply(record))?;
                plan
            }
        };
        plan.children.hand_over();
        plan.children.written(entry);
        Ok(plan)
    }

    /// Changes the plan as a record says.
    #[expect(clippy::too_many_lines, reason = "one arm for each record")]
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), Inconsistent> {
        match record {
            Record::Created(_) => return Err(self.wrong("it begins a second time")),
            Record::Planned(planned) => self.planned(planned)?,
            Record::Became { state, at, why } => self.became(*state, *at, why)?,
            Record::Started { step, at, limit, cause, silence } => {
                self.started(*step, *at, *limit, *cause, *silence)?;
            }
            Record::Ended { step, at, ran_us, end, output } => {
                self.ended(*step, *at, *ran_us, end, output.as_ref())?;
            }
            Record::Event { step: id, at, id: event_id, payload, by } => {
                let event = Event {
                    id: event_id.clone(),
                    payload: payload.clone(),
                    at: *at,
                    is_own: false,
                };
                let step = self.known(*id)?;
                event_id.iter().for_each(|id| step.seen.add(id));
                step.inbox.push_back(event);
                if let Some(by) = by {
                    self.note(*at, format!("step {id} has an event from {by}"));
                }
            }
            Record::TimerSet { timer, step, due, payload } => {
                self.known(*step)?;
                self.set_timer(*timer, *step, *due, payload);
            }
            Record::TimerFired { timer, at } => self.timer_fired(*timer, *at)?,
            Record::TimerCancelled { timer } => {
                self.timers.remove(timer);
            }
            Record::TimerNamed { step, name, set } => {
                self.known(*step)?;
                self.name_timer(*step, name, set.as_ref());
            }
            Record::Sent(event) => {
                self.known(event.step)?;
                self.sent(event);
            }
            Record::Delivered(event) => self.delivered(event),
            Record::Promised(promised) => {
                self.known(promised.step)?;
                self.promised(promised);
            }
            Record::Interrupted { step, at, error } => {
                self.interrupted(*step, *at, error.as_ref())?;
            }
            Record::Marked { steps, state, at, why } => self.marked(steps, *state, *at, why)?,
            Record::Rescued { at, how, steps, by } => self.rescued(*at, *how, steps, by)?,
            Record::Reverting { step, at } => self.reverting(*step, *at)?,
            Record::CancelRequested { at, by, is_forced } => {
                let forced = if *is_forced { ", with force" } else { "" };
                self.note(*at, format!("cancel requested by {by}{forced}"));
                self.cancel = Some(Cancel { at: *at, by: by.clone(), is_forced: *is_forced });
            }
            Record::Reset { at, steps, why } => self.reset(*at, steps, why)?,
            Record::InputEdited { at, action, input, by } => {
                let needs = needs_of(input).iter().map(|place| place.step).collect();
                let Some(data) = self.actions.get_mut(action.0.wrapping_sub(1) as usize) else {
                    return Err(self.wrong("the input of an action is edited that is not there"));
                };
                (data.input, data.needs) = (input.clone(), needs);
                self.note(*at, format!("input of action {action} edited by {by}"));
                self.rebuild();
            }
            Record::SubPlans { at, step, plans, at_once } => {
                self.known(*step)?;
                let count = self.children.add(*step, plans, *at_once);
                self.excuse(*step);
                self.note(*at, format!("step {step} asks for {}", counted(count, "plan")));
            }
            Record::SubPlansAhead { step, plans } => {
                self.known(*step)?;
                self.children.add_ahead(*step, plans);
            }
            Record::SubPlansNamed { step, plans } => {
                self.known(*step)?;
                self.children.name(*step, plans);
            }
            Record::ContinueAsNew { at, step, input } => {
                self.known(*step)?;
                self.continues = Some(input.clone());
                self.note(*at, format!("step {step} wants the plan to continue as new"));
            }
            Record::ContinuedAsNew { at, run, planned } => {
                self.continued_as_new(*at, *run, planned)?;
            }
            Record::SubPlansNext { step, page, plans } => self.children.turn(*step, *page, plans),
            Record::SubPlansDropped { at, step, page, why } => {
                match page {
                    Some(page) => self.children.lost(*step, *page),
                    None => self.children.dropped(*step, PlanResult::Cancelled),
                }
                self.note(*at, format!("plans of step {step} are not made: {why}"));
            }
            Record::PlanEnded { at, plan, result } => {
                self.children.ended(*plan, *result);
                let delayed = self.delayed.as_mut();
                if let Some(known) = delayed.and_then(|delayed| delayed.after.get_mut(plan)) {
                    *known = Some(*result);
                    self.note(*at, format!("plan {plan} is over: {}", result.name()));
                }
            }
            Record::Delayed { at, start_at, start_before, after, is_frozen, by } => {
                let (start_at, start_before, is_frozen) = (*start_at, *start_before, *is_frozen);
                let after = match self.delayed.take() {
                    Some(before) => before.after,
                    None => after.iter().map(|plan| (*plan, None)).collect(),
                };
                self.delayed = Some(Delayed { start_at, start_before, after, is_frozen });
                if self.state == PlanState::Pending {
                    self.became(PlanState::Scheduled, *at, &format!("delayed by {by}"))?;
                } else {
                    self.note(*at, format!("delayed anew by {by}"));
                }
            }
            Record::NotPlanned { at, error } => {
                self.planning_error = Some(error.clone());
                self.became(PlanState::Stopped, *at, &error.message)?;
            }
            Record::HooksDue { changes } => self.hooks_due.add(changes),
            Record::Migrated { at, action, version, input, output } => {
                let needs: Vec<StepId> = needs_of(input).iter().map(|place| place.step).collect();
                let Some(data) = self.actions.get_mut(action.0.wrapping_sub(1) as usize) else {
                    return Err(self.wrong("an action is migrated that is not there"));
                };
                let from = std::mem::replace(&mut data.version, *version);
                let is_other = data.needs != needs;
                (data.input, data.needs, data.output) = (input.clone(), needs, output.clone());
                self.note(*at, format!("action {action} goes from version {from} to {version}"));
                if is_other {
                    self.rebuild();
                }
            }
            Record::HooksDone { last } => self.hooks_due.done(*last),
            Record::Note { at, text } => {
                self.note(*at, text.clone());
            }
            Record::Queued { step, at, queue } => self.place(*step, *at, Some(queue))?,
            Record::Admitted { step, at } => self.place(*step, *at, None)?,
            Record::Beat { step, at, details } => self.beaten(*step, *at, details.as_ref())?,
            Record::Grown { at, asker, steps } => self.grown(*at, *asker, steps)?,
            Record::Silent { step, at, error } => self.silent(*step, *at, error.as_ref())?,
            Record::Chunk { kind, data, .. } => {
                self.chunks += 1;
                self.chunk_bytes += (kind.len() + data.as_str().len()) as u64;
            }
            Record::ChunksDropped { .. } => self.chunks = 0,
            Record::Retimed(retimed) => self.retimed(retimed),
            Record::Ordered(id) => {
                self.ordered.add(id);
                self.ordered.shrink();
            }
            Record::Labelled { at, set, removed, by } => {
                self.labels.extend(set.iter().cloned());
                removed.iter().for_each(|name| drop(self.labels.remove(name)));
                self.note(*at, format!("labels changed by {by}"));
            }
        }
        Ok(())
    }

    /// After the plan was read as a whole: the parts that are not stored.
    pub(crate) fn rebuild(&mut self) {
        self.graph = self.new_graph();
        self.counts = Counts::default();
        self.ready.clear();
        let mut reached = self.graph.first();
        reached.retain(|step| self.steps[step.index()].kind == StepKind::Run);
        let mut next = 0;
        while next < reached.len() {
            let step = reached[next];
            match self.step(step).state {
                state if state.is_done() => self.graph.done(step, &mut reached),
                StepState::Pending => self.ready.push_back(step),
                _ => {}
            }
            next += 1;
        }
        self.alarms.clear();
        for index in 0..self.steps.len() {
            self.count(self.steps[index].state, true);
            self.set_alarm(StepId::at(index));
        }
        self.queued = self.steps.iter().filter(|step| step.is_queued).map(|step| step.id).collect();
    }

    pub(super) fn new_graph(&self) -> Graph {
        let mut graph = Graph::new(self.steps.len(), &self.run);
        for action in &self.actions {
            let Some(later) = action.run_step else { continue };
            action.needs.iter().for_each(|earlier| graph.add(*earlier, later));
        }
        graph
    }

    pub(super) fn planned(&mut self, planned: &Planned) -> Result<(), Inconsistent> {
        if !self.steps.is_empty() {
            return Err(self.wrong("it is planned a second time"));
        }
        self.label.clone_from(&planned.label);
        self.started_at = Some(planned.began);
        if self.delayed.is_some() {
            // It counts from when the plan begins.
            let waited = planned.began.since(self.created.at);
            self.created.deadline = self.created.deadline.map(|deadline| deadline.after(waited));
        }
        self.run = planned.run.clone();
        self.finalize.clone_from(&planned.finalize);
        self.planning_error.clone_from(&planned.error);
        self.locks.clone_from(&planned.locks);
        for (index, action) in planned.actions.iter().enumerate() {
            self.actions.push(ActionData {
                id: ActionId::at(index),
                name: action.name.clone(),
                version: action.version,
                parent: action.parent,
                input: action.input.clone(),
                output: Payload::null(),
                needs: action.needs.clone(),
                plan_step: None,
                run_step: None,
                finalize_step: None,
            });
        }
        for (index, step) in planned.steps.iter().enumerate() {
            let id = StepId::at(index);
            let Some(action) = self.actions.get_mut(step.action.index()) else {
                return Err(self.wrong("a step belongs to no action"));
            };
            match step.kind {
                StepKind::Plan => action.plan_step = Some(id),
                StepKind::Run => action.run_step = Some(id),
                StepKind::Finalize => action.finalize_step = Some(id),
            }
            let is_plan = step.kind == StepKind::Plan;
            let state = match (&step.error, is_plan) {
                (Some(_), _) => StepState::Error,
                (None, true) => StepState::Success,
                (None, false) => StepState::Pending,
            };
            self.steps.push(Step {
                state,
                error: step.error.clone(),
                started_at: is_plan.then_some(planned.began),
                ended_at: is_plan.then_some(planned.at),
                ..Step::new(id, step.kind, step.action, step.weight, &step.queue)
            });
        }
        // The plan phase runs as one: its time is that of the root's step.
        if let Some(step) = self.steps.first_mut() {
            let ran = planned.at.since(planned.began).as_micros();
            step.ran_us = u64::try_from(ran).unwrap_or(u64::MAX);
        }
        self.state = PlanState::Planning;
        let (state, why) = match &planned.error {
            None => (PlanState::Planned, "planned"),
            Some(_) => (PlanState::Stopped, "planning failed"),
        };
        self.became(state, planned.at, why)?;
        self.rebuild();
        Ok(())
    }

    fn became(&mut self, state: PlanState, at: Time, why: &str) -> Result<(), Inconsistent> {
        if !self.state.may_become(state) {
            let (from, to) = (self.state.name(), state.name());
            return Err(self.wrong(&format!("it cannot go from {from} to {to}")));
        }
        self.state = state;
        self.note(at, format!("{}: {why}", state.name()));
        if state == PlanState::Running {
            self.cancel = None;
            self.timeouts.clear();
            for step in &mut self.steps {
                (step.is_rescued, step.failures, step.is_ending) = (false, 0, false);
                step.beat.iter_mut().for_each(|beat| beat.missed = 0);
            }
        }
        if state == PlanState::Stopped {
            self.ended_at = Some(at);
            self.timers.clear();
            self.promises.clear();
            if self.cancel.is_some() {
                self.children.give_up_all();
            }
            // Events that were kept for a next run have no taker any more.
            (0..self.steps.len()).for_each(|index| self.leave_behind(StepId::at(index)));
        }
        Ok(())
    }

    pub(super) fn note(&mut self, at: Time, text: String) {
        self.history.push(Entry { at, text });
        if self.history.len() >= 2 * HISTORY_KEPT {
            // Half of it at once, so that a line costs the same however many came before.
            self.history.drain(..HISTORY_KEPT);
            self.history_left_out += HISTORY_KEPT as u64;
        }
    }

    pub(super) fn set_alarm(&mut self, id: StepId) {
        let step = &self.steps[id.index()];
        self.alarms.extend(step.alarm().map(|at| (at, id)));
    }

    pub(super) fn clear_alarm(&mut self, id: StepId) {
        let step = &self.steps[id.index()];
        if let Some(at) = step.alarm() {
            self.alarms.remove(&(at, id));
        }
    }

    /// Puts a step into a state, and what follows from that for others into the ready list.
    pub(super) fn change(&mut self, id: StepId, state: StepState) {
        let step = &mut self.steps[id.index()];
        // No other step waits for one that was asked for later; the graph may not have it.
        let is_grown = step.asker.is_some();
        let (from, kind) = (step.state, step.kind);
        step.state = state;
        let ends =
            [StepState::Success, StepState::Skipped, StepState::Cancelled, StepState::Dropped];
        if ends.contains(&state) {
            step.seen.shrink();
        }
        if std::mem::take(&mut step.is_queued) {
            self.left_queue(id);
        }
        self.count(from, false);
        self.count(state, true);
        if kind == StepKind::Run && !is_grown && state.is_done() && !from.is_done() {
            let mut ready = std::mem::take(&mut self.released);
            self.graph.done(id, &mut ready);
            let pending = |id: &StepId| self.steps[id.index()].state == StepState::Pending;
            self.ready.extend(ready.drain(..).filter(pending));
            self.released = ready;
        }
    }

    pub(super) fn count(&mut self, state: StepState, is_there: bool) {
        let count = &mut self.counts.0[state as usize];
        *count = if is_there { *count + 1 } else { *count - 1 };
    }

    pub(super) fn known(&mut self, id: StepId) -> Result<&mut Step, Inconsistent> {
        if id.0 == 0 || id.index() >= self.steps.len() {
            return Err(self.wrong(&format!("it has no step {id}")));
        }
        Ok(&mut self.steps[id.index()])
    }

    pub(super) fn wrong(&self, problem: &str) -> Inconsistent {
        Inconsistent { plan: self.id, problem: problem.to_owned() }
    }
}
