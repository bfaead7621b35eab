//! One turn of a task that is no effect: from what it is told to what it asks for. No side effects.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::env::{Around, Env};
use super::state::{Cursor, Notice, Outcome, Phase, TaskInput, TaskOutput};
use super::unclear::Unclear;
use super::worker;
use crate::event::CloudEvent;
use crate::fault::Fault;
use crate::model::{Block, Directive, Effect, Kind, Span, Task, TaskId};
use crate::scope::Stage;
use crate::Definition;

/// Maximum depth of nested tasks: stops a recursive function.
const DEPTH_MAX: u32 = 256;

/// Message to a task.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// It begins, or was interrupted and is called again.
    Begin,
    /// A part is over; a skipped one has no outcome.
    Part(u32, Option<Outcome>),
    /// The awaited notice.
    Notice(Notice),
    /// The flow that it waits for is over.
    Flow(Result<Value, Fault>),
}

/// A part that is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) tag: u32,
    /// Effect outside of the engine, if there is one.
    pub(crate) effect: Option<Effect>,
    pub(crate) input: TaskInput,
}

/// Commands of a turn.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    pub(crate) parts: Vec<Asked>,
    /// Parts that are no longer wanted; with the fault of those that take too long.
    pub(crate) drops: Vec<(u32, Option<Fault>)>,
    pub(crate) notices: Vec<(Duration, Notice)>,
    pub(crate) publish: Option<CloudEvent>,
    /// A flow to run: its input.
    pub(crate) flow: Option<Value>,
    /// Work for an external worker.
    pub(crate) work: Option<worker::Work>,
    /// Filters that could not be evaluated.
    pub(crate) unclear: Vec<Unclear>,
    /// The items of a loop, to be known in its next turn.
    pub(crate) items: Option<Arc<Vec<Value>>>,
}

/// End of a turn.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it was made")]
pub(crate) enum Turn {
    Done(Outcome),
    /// Awaited event, for people.
    Wait(String),
    /// The next run of the plan goes on from here.
    NextRun,
}

/// The machine of one task.
pub(crate) struct Machine<'a> {
    pub(crate) env: Env<'a>,
    pub(crate) is_extended: bool,
    /// The block of the workflow itself.
    pub(crate) main: Option<&'a Block>,
    pub(crate) cursor: Cursor,
    pub(crate) asks: Asks,
    /// Depth of the task among nested tasks.
    depth: u32,
    /// Whether a task around it cannot go on in another run.
    pub(super) is_kept: bool,
    /// Whether the next part begins another attempt.
    is_retry: bool,
    /// Where the next part goes on, and the parts of it.
    resume: Vec<Cursor>,
    /// The item of the round of a loop, once it is known.
    pub(crate) item: Option<Value>,
}

/// Takes a turn: changes the state, and says what is asked for.
pub(crate) fn turn(
    flow: &Definition,
    task: Option<&Task>,
    around: &Around,
    input: &TaskInput,
    state: &mut TaskOutput,
    told: Told,
) -> (Turn, Asks) {
    let env = match task {
        Some(task) => Env::of_task(flow, task, around, input),
        None => Env::of_workflow(flow, around, &input.raw),
    };
    let is_new = state.cursor.is_none();
    let cursor = state.cursor.take().unwrap_or_default();
    let main = task.is_none().then_some(&flow.main);
    let is_extended = input.is_extended;
    let (asks, depth, is_kept) = (Asks::default(), input.depth, input.is_kept);
    // The first is its own place.
    let resume = input.resume.get(1..).filter(|_| !is_new && cursor.part == 0);
    let resume = resume.unwrap_or_default().to_vec();
    let (is_retry, item) = (false, None);
    let mut machine =
        Machine { env, is_extended, main, cursor, asks, depth, is_kept, is_retry, resume, item };
    if !is_new {
        machine.env.began = turnwheel_engine::Time(machine.cursor.began);
    }
    let turn = machine.turn(is_new, told);
    let turn = turn
        .unwrap_or_else(|fault| Turn::Done(Outcome::fault(fault.from_task(machine.env.pointer()))));
    match &turn {
        Turn::Done(outcome) => {
            state.outcome = Some(outcome.clone());
            // A retry goes on with the events that came before the fault.
            let has_failed = outcome.fault.is_some() && task.is_some();
            state.cursor = Some(machine.cursor).filter(|it| has_failed && it.listening.is_some());
        }
        Turn::Wait(_) | Turn::NextRun => state.cursor = Some(machine.cursor),
    }
    (turn, machine.asks)
}

impl Machine<'_> {
    fn turn(&mut self, is_new: bool, told: Told) -> Result<Turn, Fault> {
        if self.is_extended {
            return self.extended(is_new, told);
        }
        let stage = match self.env.task {
            Some(task) => Stage::Input { is_effect: task.kind.is_effect() },
            None => Stage::WorkflowInput,
        };
        let is_known = !is_new && self.env.around.items.is_some();
        // In a later turn it is what it was in the first: the time and the context of that are taken.
        let goes_on = is_known
            || match is_new {
                true => self.env.begin(stage)?,
                false => self.env.as_at_first(|env| env.begin(stage))?,
            };
        if !goes_on {
            let outcome = Outcome { is_skipped: true, ..Outcome::of(self.env.raw.clone()) };
            return Ok(Turn::Done(outcome));
        }
        if let Some(context) = &self.cursor.context {
            self.env.context = context.clone();
        }
        if is_new {
            return match told {
                Told::Begin => self.start(),
                // It waits for nothing yet: this is for an attempt that is over.
                _ => Ok(Turn::Wait("nothing".to_owned())),
            };
        }
        match told {
            Told::Begin if self.goes_on() => self.go_on(),
            // It was interrupted: its last message comes again.
            Told::Begin => Ok(self.wait()),
            Told::Part(part, outcome) => self.part_ended(part, outcome),
            Told::Notice(Notice::Late(part)) => self.late(part),
            Told::Notice(Notice::Awake(round)) => self.awake(round),
            Told::Notice(Notice::Event(event)) => self.heard(&event),
            Told::Flow(outcome) => {
                let output = outcome?;
                match self.env.task.map(|task| &task.kind) {
                    Some(Kind::Flow(sub)) if !sub.has_output => self.done(Value::Null),
                    _ => self.done(output),
                }
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each task of the language")]
    fn start(&mut self) -> Result<Turn, Fault> {
        self.cursor.began = self.env.around.now.0;
        let input = self.env.input.clone();
        let Some(task) = self.env.task else {
            if let Some(timeout) = &self.env.flow.timeout {
                let limit = self.env.duration(timeout)?;
                self.asks.notices.push((limit, Notice::Late(u32::MAX)));
            }
            self.cursor.value = input;
            return self.go_to(0);
        };
        match &task.kind {
            Kind::Set(template) => {
                let value = self.env.fill_own(template)?;
                self.done(value)
            }
            Kind::Switch(cases) => {
                let stage = self.env.definition_stage();
                let mut chosen = None;
                for case in cases {
                    match &case.when {
                        Some(when) if self.env.holds(when, &input, stage)? => {
                            chosen = Some(case);
                            break;
                        }
                        Some(_) => {}
                        // The default is chosen if no other one is, wherever it stands.
                        None => chosen = Some(case),
                    }
                }
                let then = chosen.map(|case| case.then.clone());
                let outcome = self.env.end(input, then)?;
                Ok(Turn::Done(self.with_context(outcome)))
            }
            Kind::Raise(template) => Err(self.raised(template)?),
            Kind::Wait(span) => {
                let pause = self.env.duration(span)?;
                self.asks.notices.push((pause, Notice::Awake(0)));
                Ok(self.wait())
            }
            Kind::Emit(template) => {
                let fields = match self.env.fill_own(template)? {
                    Value::Object(fields) => fields,
                    _ => Map::new(),
                };
                // Each step has its own key: an event that is published again is the same one.
                let id = self.env.around.key.clone();
                let event = CloudEvent::emitted(fields, id, self.env.around.now)
                    .map_err(Fault::validation)?;
                let value = event.to_value();
                self.asks.publish = Some(event);
                self.done(value)
            }
            Kind::Listen(_) => self.start_listening(),
            Kind::Consume(_) => self.start_consuming(),
            Kind::Do(_) | Kind::Try(_) => {
                self.cursor.value = input;
                self.arm_attempt()?;
                self.go_to(0)
            }
            Kind::For(_) => {
                self.cursor.value = input;
                self.next_round()
            }
            Kind::Fork { branches, .. } => {
                self.cursor.part = 1;
                for (tag, branch) in branches.iter().enumerate() {
                    self.ask(*branch, tag as u32, input.clone(), Map::new())?;
                }
                Ok(self.wait())
            }
            Kind::Function { task, with } => {
                let input = match with {
                    Some(with) => self.env.fill_own(with)?,
                    None => input,
                };
                self.cursor.part = 1;
                self.cursor.value.clone_from(&input);
                self.ask(*task, 0, input, Map::new())?;
                Ok(self.wait())
            }
            Kind::Flow(sub) => {
                let input = match &sub.input {
                    Some(template) => self.env.fill_own(template)?,
                    None => input,
                };
                self.asks.flow = Some(input);
                if !sub.is_awaited {
                    return self.done(self.env.input.clone());
                }
                Ok(self.wait())
            }
            Kind::Worker(it) => {
                self.asks.work = Some(worker::work(&self.env, it)?);
                Ok(self.wait())
            }
            Kind::Http(_)
            | Kind::OpenApi(_)
            | Kind::AsyncApi(_)
            | Kind::Process(_)
            | Kind::Container(_)
            | Kind::Grpc(_)
            | Kind::A2a(_)
            | Kind::Mcp(_) => Err(Fault::runtime("an effect is run by another action")),
        }
    }

    fn raised(&self, template: &crate::expr::Template) -> Result<Fault, Fault> {
        let mut error = self.env.fill_own(template)?;
        if let Some(fields) = error.as_object_mut() {
            // Fields that evaluate to null are left out, as of headers.
            fields.retain(|name, value| !value.is_null() || name == "type" || name == "status");
            let own = || Value::String(self.env.pointer().to_owned());
            fields.entry("instance").or_insert_with(own);
            Fault::check_status(fields)?;
            for name in ["instance", "title", "detail"] {
                if let Some(value) = fields.get_mut(name).filter(|value| !value.is_string()) {
                    *value = Value::String(value.to_string());
                }
            }
        }
        serde_json::from_value(error.clone())
            .map_err(|problem| Fault::configuration(format!("{error} is no error: {problem}")))
    }

    /// The task is done.
    pub(crate) fn done(&mut self, raw: Value) -> Result<Turn, Fault> {
        self.env.begun()?;
        let outcome = self.env.end(raw, None)?;
        Ok(Turn::Done(self.with_context(outcome)))
    }

    /// With what its parts have exported, if it exports nothing itself.
    pub(crate) fn with_context(&self, mut outcome: Outcome) -> Outcome {
        if outcome.context.is_none() {
            outcome.context.clone_from(&self.cursor.context);
        }
        outcome
    }

    /// A part has ended the whole flow.
    pub(crate) fn ended(&mut self, raw: Value) -> Result<Turn, Fault> {
        self.env.begun()?;
        let then = self.env.task.map(|_| Directive::End);
        let outcome = self.env.end(raw, then)?;
        Ok(Turn::Done(self.with_context(outcome)))
    }

    pub(crate) fn wait(&self) -> Turn {
        let reason = match self.env.task.map(|task| &task.kind) {
            Some(Kind::Wait(_)) => "its time".to_owned(),
            Some(Kind::Listen(listen)) if !self.is_busy_with_event() => listen.strategy.shown(),
            Some(Kind::Flow(sub)) => format!("the flow {}/{}", sub.namespace, sub.name),
            Some(Kind::Worker(_)) => "a worker".to_owned(),
            _ if self.cursor.phase == Phase::Pausing => "its next attempt".to_owned(),
            _ => "its tasks".to_owned(),
        };
        Turn::Wait(format!("{} waits for {reason}", self.env.pointer()))
    }

    /// Asks for a part.
    pub(crate) fn ask(
        &mut self,
        id: TaskId,
        tag: u32,
        raw: Value,
        own: Map<String, Value>,
    ) -> Result<(), Fault> {
        let task = self.env.flow.task(id);
        let mut vars = self.env.vars.clone();
        vars.extend(own);
        if matches!(self.env.task.map(|task| &task.kind), Some(Kind::Function { .. })) {
            // A function sees what it is given.
            vars.clear();
        }
        let is_extended = !self.is_extended
            && !task.is_of_extension
            && self.env.extends.is_none()
            && self.env.flow.extensions.iter().any(|extension| {
                extension.extend == "all" || extension.extend == task.kind.extended_as()
            });
        let (at, context) = (task.pointer.clone(), self.env.context.clone());
        let extends = self.extends_for(task);
        let depth = self.depth + 1;
        if depth > DEPTH_MAX {
            let problem =
                format!("tasks are nested {DEPTH_MAX} deep: does a function call itself?");
            return Err(Fault::runtime(problem));
        }
        let (is_retry, resume) = (self.is_retry, std::mem::take(&mut self.resume));
        let effect = task.kind.effect().filter(|_| !is_extended);
        let namespace = effect.map(|_| self.env.flow.namespace.clone()).unwrap_or_default();
        let input = TaskInput {
            at,
            raw,
            context,
            vars,
            is_extended,
            extends,
            is_retry,
            namespace,
            depth,
            is_kept: self.is_kept || self.keeps_parts(),
            resume,
            since: self.takes_message().then_some(self.cursor.began),
        };
        if let Some(limit) =
            self.limit_of(task, &input).map_err(|it| it.from_task(&task.pointer))?
        {
            // Of a task that goes on from another run a part of the time has passed.
            let began = input.resume.first().map_or(0, |from| from.began);
            let began =
                if began == 0 { self.env.around.now } else { turnwheel_engine::Time(began) };
            let left = limit.saturating_sub(self.env.around.now.since(began));
            self.asks.notices.push((left, Notice::Late(tag)));
        }
        self.asks.parts.push(Asked { tag, effect, input });
        Ok(())
    }

    /// Time limit of a part, if there is one and the part is not skipped: from its own input.
    fn limit_of(&self, task: &Task, input: &TaskInput) -> Result<Option<Duration>, Fault> {
        let Some(span) = &task.timeout else { return Ok(None) };
        if let Span::Fixed(limit) = span {
            return Ok(Some(*limit));
        }
        let mut env = Env::of_task(self.env.flow, task, self.env.around, input);
        let stage = Stage::Input { is_effect: task.kind.is_effect() };
        // It reports errors of its input itself.
        let has_begun = env.begin(stage).unwrap_or(false);
        has_begun.then(|| env.duration(span)).transpose()
    }

    fn late(&mut self, part: u32) -> Result<Turn, Fault> {
        if part == u32::MAX && self.env.task.is_none() {
            return Err(Fault::timeout("the flow takes too long"));
        }
        let is_attempt = matches!(self.env.task.map(|task| &task.kind), Some(Kind::Try(_)))
            && part >= super::block::ATTEMPT;
        if is_attempt {
            if part - super::block::ATTEMPT != self.cursor.round
                || self.cursor.phase != Phase::Doing
            {
                return Ok(self.wait());
            }
            self.asks.drops.push((self.cursor.part, None));
            let fault = Fault::timeout("the attempt takes too long").from_task(self.env.pointer());
            return self.part_ended(self.cursor.part, Some(Outcome::fault(fault)));
        }
        let Some(id) = self.under_way(part) else { return Ok(self.wait()) };
        let pointer = &self.env.flow.task(id).pointer;
        let fault = Fault::timeout("the task takes too long").from_task(pointer);
        self.asks.drops.push((part, Some(fault.clone())));
        self.part_ended(part, Some(Outcome::fault(fault)))
    }

    /// The task of a part, if it is active.
    fn under_way(&self, part: u32) -> Option<TaskId> {
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Fork { branches, .. }) => {
                let is_open = !self.cursor.branches.contains_key(&part);
                branches.get(part as usize).copied().filter(|_| is_open)
            }
            Some(Kind::Function { task, .. }) => Some(*task),
            // The part is over, and the next one has not begun.
            _ if self.is_between_parts() => None,
            _ if self.is_extended => (part == self.cursor.part).then(|| self.extended_part())?,
            _ => {
                (part == self.cursor.part).then(|| self.block().get(self.cursor.index).copied())?
            }
        }
    }

    fn awake(&mut self, round: u32) -> Result<Turn, Fault> {
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Wait(_)) => self.done(self.env.input.clone()),
            Some(Kind::Try(_)) if self.cursor.phase == Phase::Pausing => {
                if round != self.cursor.round {
                    return Ok(self.wait());
                }
                self.cursor.phase = Phase::Doing;
                self.is_retry = true;
                self.cursor.value = self.env.input.clone();
                self.arm_attempt()?;
                self.go_to(0)
            }
            _ => Ok(self.wait()),
        }
    }

    fn part_ended(&mut self, part: u32, outcome: Option<Outcome>) -> Result<Turn, Fault> {
        // A skipped part is treated as missing.
        let outcome = outcome.unwrap_or_else(|| Outcome::of(self.cursor.value.clone()));
        if !outcome.goes_on.is_empty() {
            self.cursor.part = 0;
            return Ok(self.next_run(outcome.goes_on));
        }
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Fork { branches, is_race }) => {
                let (branches, is_race) = (branches.len(), *is_race);
                self.branch_ended(part, outcome, branches, is_race)
            }
            Some(Kind::Function { .. }) => match (outcome.fault, outcome.then) {
                (Some(fault), _) => Err(fault),
                (None, then) => {
                    self.cursor.context = outcome.context.or(self.cursor.context.take());
                    match then {
                        Directive::End => self.ended(outcome.output),
                        _ => self.done(outcome.output),
                    }
                }
            },
            _ if part != self.cursor.part || self.is_between_parts() => Ok(self.wait()),
            _ => self.block_part_ended(outcome),
        }
    }
}
