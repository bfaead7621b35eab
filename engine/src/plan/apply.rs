//! How each record changes a plan. Nothing else does.

use std::collections::{BTreeMap, VecDeque};

use super::flow::{Flow, Graph};
use super::record::{Created, End, Planned, Record};
use super::state::{PlanState, StepKind, StepState};
use super::step::{ActionData, Event, PlanTimer, Step};
use super::{Counts, Entry, Plan};
use crate::error::ActionError;
use crate::id::{ActionId, PlanId, StepId};
use crate::payload::Payload;
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
            history: vec![Entry { at: created.at, text }],
            timers: BTreeMap::new(),
            last_timer: 0,
            graph: Graph::default(),
            ready: VecDeque::new(),
            counts: Counts::default(),
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

    /// Changes the plan as a record says.
    pub(crate) fn apply(&mut self, record: &Record) -> Result<(), Inconsistent> {
        match record {
            Record::Created(_) => return Err(self.wrong("it begins a second time")),
            Record::Planned(planned) => self.planned(planned)?,
            Record::Became { state, at, why } => self.became(*state, *at, why)?,
            Record::Started { step, at } => self.started(*step, *at)?,
            Record::Ended { step, at, ran_us, end, output } => {
                self.ended(*step, *at, *ran_us, end, output.as_ref())?;
            }
            Record::Event { step, at, id, payload } => {
                let event = Event { id: id.clone(), payload: payload.clone(), at: *at };
                let step = self.known(*step)?;
                step.seen.extend(id.clone());
                step.inbox.push_back(event);
            }
            Record::TimerSet { timer, step, due, payload } => {
                self.known(*step)?;
                let entry = PlanTimer { step: *step, due: *due, payload: payload.clone() };
                self.timers.insert(*timer, entry);
                self.last_timer = self.last_timer.max(*timer);
            }
            Record::TimerFired { timer, at } => {
                let Some(PlanTimer { step, payload, .. }) = self.timers.remove(timer) else {
                    return Err(self.wrong("a timer fires that was not set"));
                };
                let step = self.known(step)?;
                if !matches!(step.state, StepState::Suspended | StepState::Running) {
                    return Ok(());
                }
                step.inbox.push_back(Event { id: None, payload, at: *at });
            }
            Record::TimerCancelled { timer } => {
                self.timers.remove(timer);
            }
            Record::Interrupted { step, at } => self.interrupted(*step, *at)?,
            Record::Marked { step, state, at, why } => self.marked(*step, *state, *at, why)?,
            Record::Note { at, text } => {
                self.history.push(Entry { at: *at, text: text.clone() });
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
        for index in 0..self.steps.len() {
            self.count(self.steps[index].state, true);
        }
    }

    fn new_graph(&self) -> Graph {
        let mut graph = Graph::new(self.steps.len(), &self.run);
        for action in &self.actions {
            let Some(later) = action.run_step else { continue };
            action.needs.iter().for_each(|earlier| graph.add(*earlier, later));
        }
        graph
    }

    fn planned(&mut self, planned: &Planned) -> Result<(), Inconsistent> {
        if !self.steps.is_empty() {
            return Err(self.wrong("it is planned a second time"));
        }
        self.label.clone_from(&planned.label);
        self.started_at = Some(planned.began);
        self.run = planned.run.clone();
        self.finalize.clone_from(&planned.finalize);
        self.planning_error.clone_from(&planned.error);
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
                id,
                kind: step.kind,
                action: step.action,
                state,
                error: step.error.clone(),
                started_at: is_plan.then_some(planned.began),
                ended_at: is_plan.then_some(planned.at),
                ran_us: 0,
                attempt: 0,
                calls: 0,
                progress: None,
                weight: step.weight,
                queue: step.queue.clone(),
                waits_for: String::new(),
                retry_at: None,
                inbox: VecDeque::new(),
                in_event: false,
                seen: Vec::new(),
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
        self.history.push(Entry { at, text: format!("{}: {why}", state.name()) });
        if state == PlanState::Stopped {
            self.ended_at = Some(at);
            self.timers.clear();
        }
        Ok(())
    }

    fn started(&mut self, id: StepId, at: Time) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        let from = step.state;
        match from {
            StepState::Suspended => step.in_event = !step.inbox.is_empty(),
            StepState::Pending | StepState::Error | StepState::Retrying | StepState::Skipping => {
                step.attempt += 1;
            }
            other => {
                let problem = format!("step {id} starts while it is {}", other.name());
                return Err(self.wrong(&problem));
            }
        }
        step.calls += 1;
        step.started_at.get_or_insert(at);
        step.retry_at = None;
        step.waits_for.clear();
        self.change(id, StepState::Running);
        if self.ready.front() == Some(&id) {
            self.ready.pop_front();
        } else if from == StepState::Pending {
            self.ready.retain(|ready| *ready != id);
        }
        Ok(())
    }

    fn ended(
        &mut self,
        id: StepId,
        at: Time,
        ran_us: u64,
        end: &End,
        output: Option<&Payload>,
    ) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        if step.state != StepState::Running {
            let problem = format!("step {id} ends while it is {}", step.state.name());
            return Err(self.wrong(&problem));
        }
        step.ran_us += ran_us;
        if step.in_event {
            step.inbox.pop_front();
            step.in_event = false;
        }
        let action = step.action;
        let mut error: Option<ActionError> = None;
        let state = match end {
            End::Success => StepState::Success,
            End::Suspended { reason, progress } => {
                step.waits_for.clone_from(reason);
                step.progress = progress.or(step.progress);
                StepState::Suspended
            }
            End::Failed(why) => {
                error = Some(why.clone());
                StepState::Error
            }
            End::Retry { error: why, at } => {
                error = Some(why.clone());
                step.retry_at = Some(*at);
                StepState::Retrying
            }
        };
        step.error = error;
        if matches!(state, StepState::Success | StepState::Error) {
            step.ended_at = Some(at);
            // What still waits for it is refused: nobody will take it.
            step.inbox.clear();
        }
        if let Some(output) = output {
            self.actions[action.index()].output = output.clone();
        }
        self.change(id, state);
        if !matches!(state, StepState::Suspended) {
            self.timers.retain(|_, timer| timer.step != id);
        }
        Ok(())
    }

    fn interrupted(&mut self, id: StepId, at: Time) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        if step.state != StepState::Running {
            return Err(self.wrong("a step is interrupted that does not run"));
        }
        step.retry_at = Some(at);
        step.in_event = false;
        self.change(id, StepState::Retrying);
        let text = format!("step {id} was interrupted");
        self.history.push(Entry { at, text });
        Ok(())
    }

    fn marked(
        &mut self,
        id: StepId,
        state: StepState,
        at: Time,
        why: &str,
    ) -> Result<(), Inconsistent> {
        let step = self.known(id)?;
        if matches!(state, StepState::Skipped | StepState::Cancelled | StepState::Reverted) {
            step.ended_at = Some(at);
            step.inbox.clear();
        }
        step.retry_at = None;
        self.change(id, state);
        if state != StepState::Pending {
            self.ready.retain(|ready| *ready != id);
        }
        let text = format!("step {id} {}: {why}", state.name());
        self.history.push(Entry { at, text });
        Ok(())
    }

    /// Puts a step into a state, and what follows from that for others into the ready list.
    fn change(&mut self, id: StepId, state: StepState) {
        let step = &mut self.steps[id.index()];
        let (from, kind) = (step.state, step.kind);
        step.state = state;
        self.count(from, false);
        self.count(state, true);
        if kind == StepKind::Run && state.is_done() && !from.is_done() {
            let mut ready = Vec::new();
            self.graph.done(id, &mut ready);
            let pending = |id: &StepId| self.steps[id.index()].state == StepState::Pending;
            ready.retain(pending);
            self.ready.extend(ready);
        }
    }

    fn count(&mut self, state: StepState, is_there: bool) {
        let count = &mut self.counts.0[state as usize];
        *count = if is_there { *count + 1 } else { *count - 1 };
    }

    fn known(&mut self, id: StepId) -> Result<&mut Step, Inconsistent> {
        if id.0 == 0 || id.index() >= self.steps.len() {
            return Err(self.wrong(&format!("it has no step {id}")));
        }
        Ok(&mut self.steps[id.index()])
    }

    fn wrong(&self, problem: &str) -> Inconsistent {
        Inconsistent { plan: self.id, problem: problem.to_owned() }
    }
}
