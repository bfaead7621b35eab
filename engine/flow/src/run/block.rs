//! Tasks that run others one after the other: blocks, loops, attempts, handlers.

use std::sync::Arc;

use serde_json::{json, Map, Value};

use super::machine::{Machine, Turn};
use super::state::{Cursor, Notice, Outcome, Phase};
use crate::fault::Fault;
use crate::limits::FLOW_TASKS_PER_RUN;
use crate::model::{Backoff, Directive, Kind, Retry, TaskId, Try};
use crate::scope::Stage;

/// The begin of the numbers by which attempts are told that they take too long.
pub(super) const ATTEMPT: u32 = 1 << 31;

/// Attempts of a policy that does not say how many.
const ATTEMPTS_MAX: u32 = 10_000;

/// Pauses between attempts grow up to this, if the `delay` itself is not longer.
const PAUSE_MAX: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

const STAGE: Stage = Stage::Definition { is_effect: false };

impl Machine<'_> {
    /// The list of tasks that is under way.
    pub(super) fn block(&self) -> &[TaskId] {
        match (self.env.task.map(|task| &task.kind), self.main) {
            (Some(Kind::Do(block)), _) => block,
            (Some(Kind::For(it)), _) => &it.block,
            (Some(Kind::Try(it)), _) if self.cursor.phase == Phase::Handling => {
                it.handler.as_deref().unwrap_or_default()
            }
            (Some(Kind::Try(it)), _) => &it.block,
            (Some(Kind::Consume(it)), _) if self.takes_message() => {
                std::slice::from_ref(&it.source)
            }
            (Some(Kind::Listen(_) | Kind::Consume(_)), _) => {
                self.each().map_or(&[], |each| &each.block)
            }
            (None, Some(main)) => main,
            _ => &[],
        }
    }

    /// Begins the task at a place of the list, or ends the list.
    pub(super) fn go_to(&mut self, index: usize) -> Result<Turn, Fault> {
        let Some(id) = self.block().get(index).copied() else { return self.block_ended() };
        self.cursor.index = index;
        self.cursor.part += 1;
        let own = self.own_variables()?;
        let asked = self.ask(id, self.cursor.part, self.cursor.value.clone(), own);
        let pointer = &self.env.flow.task(id).pointer;
        match asked {
            // A part that cannot even be asked for may be caught as one that has failed.
            Err(fault) if fault.instance.as_ref() == Some(pointer) => self.block_failed(fault),
            other => other.map(|()| self.wait()),
        }
    }

    /// Variables that the task adds for its parts.
    fn own_variables(&mut self) -> Result<Map<String, Value>, Fault> {
        let mut own = Map::new();
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::For(it)) => {
                let item = match &self.item {
                    Some(item) => item.clone(),
                    None => {
                        let items = self.items(&it.list)?;
                        items.get(self.cursor.round as usize).cloned().unwrap_or_default()
                    }
                };
                own.insert(it.each.clone(), item);
                own.insert(it.at.clone(), json!(self.cursor.round));
            }
            Some(Kind::Try(it)) if self.cursor.phase == Phase::Handling => {
                let error = self.cursor.error.as_ref().map_or(Value::Null, Fault::to_value);
                own.insert(it.variable.clone(), error);
            }
            Some(Kind::Listen(_) | Kind::Consume(_)) if !self.takes_message() => {
                if let (Some(each), Some(listening)) = (self.each(), &self.cursor.listening) {
                    let item = listening.queue.first().unwrap_or(Value::Null);
                    own.insert(each.item.clone(), item);
                    own.insert(each.at.clone(), json!(listening.count));
                }
            }
            _ => {}
        }
        Ok(own)
    }

    /// The items of a loop: those at its begin, regardless of exports of its tasks. They are
    /// evaluated at its begin, and again after a start of the world: from the same data, so they
    /// are the same.
    fn items(&mut self, list: &str) -> Result<Arc<Vec<Value>>, Fault> {
        let known = self.asks.items.as_ref().or(self.env.around.items.as_ref());
        if let Some(known) = known {
            return Ok(Arc::clone(known));
        }
        self.env.begun()?;
        let items = self.env.as_at_first(|env| env.evaluate(list, &env.input, STAGE));
        let items = match items? {
            Value::Array(items) => items,
            Value::Object(fields) => {
                let items =
                    fields.into_iter().map(|(key, value)| json!({ "key": key, "value": value }));
                items.collect()
            }
            other => {
                let problem = format!(
                    "«for.in» must give a list and gives {other}: write «${{ .list // [] }}» for a list \
                     that may be missing"
                );
                return Err(Fault::expression(problem));
            }
        };
        let items = Arc::new(items);
        self.asks.items = Some(Arc::clone(&items));
        Ok(items)
    }

    /// Begins the round of a loop, if there is one more.
    pub(super) fn next_round(&mut self) -> Result<Turn, Fault> {
        let Some(Kind::For(it)) = self.env.task.map(|task| &task.kind) else {
            return Err(Fault::runtime("it is no loop"));
        };
        let items = self.items(&it.list)?;
        let Some(item) = items.get(self.cursor.round as usize).cloned() else {
            return self.done(self.cursor.value.clone());
        };
        if let Some(condition) = &it.condition {
            let before = self.env.vars.clone();
            self.env.vars.insert(it.each.clone(), item.clone());
            self.env.vars.insert(it.at.clone(), json!(self.cursor.round));
            let goes_on = self.env.holds(condition, &self.cursor.value, STAGE);
            self.env.vars = before;
            if !goes_on? {
                return self.done(self.cursor.value.clone());
            }
        }
        self.item = Some(item);
        self.go_to(0)
    }

    /// All tasks of the list are done.
    fn block_ended(&mut self) -> Result<Turn, Fault> {
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::For(_)) => {
                self.cursor.round += 1;
                self.next_round()
            }
            Some(Kind::Consume(_)) if self.takes_message() => self.message_came(),
            Some(Kind::Listen(_) | Kind::Consume(_)) => self.event_processed(),
            _ => self.done(self.cursor.value.clone()),
        }
    }

    /// A task of the list is done.
    pub(super) fn block_part_ended(&mut self, outcome: Outcome) -> Result<Turn, Fault> {
        if let Some(fault) = outcome.fault {
            return self.block_failed(fault);
        }
        if let Some(context) = outcome.context {
            self.env.context = context.clone();
            self.cursor.context = Some(context);
        }
        self.cursor.value = outcome.output;
        match outcome.then {
            Directive::Continue => self.go_to(self.cursor.index + 1),
            Directive::Exit => self.block_ended(),
            Directive::End => self.ended(self.cursor.value.clone()),
            Directive::To(name) => {
                let flow = self.env.flow;
                let index = self.block().iter().position(|id| flow.task(*id).name == name);
                let index = index.ok_or_else(|| {
                    Fault::configuration(format!("there is no task «{name}» here"))
                })?;
                self.jump_to(index)
            }
        }
    }

    /// Goes on at another place of the list. A flow that jumps back for ever does so in a new run
    /// of its plan now and then, so that the plan stays small.
    fn jump_to(&mut self, index: usize) -> Result<Turn, Fault> {
        let goes_back = index <= self.cursor.index;
        let may_leave = !self.is_kept && !self.keeps_parts();
        if goes_back && may_leave && self.cursor.part >= FLOW_TASKS_PER_RUN {
            (self.cursor.index, self.cursor.part) = (index, 0);
            return Ok(self.next_run(Vec::new()));
        }
        self.go_to(index)
    }

    /// Ends this run of the plan: the next one goes on here, and at these places inside. A task hands
    /// its place on to the task around it, and that of the flow itself ends the run.
    pub(super) fn next_run(&mut self, within: Vec<Cursor>) -> Turn {
        if self.env.task.is_none() {
            self.cursor.within = within;
            return Turn::NextRun;
        }
        let goes_on = std::iter::once(self.cursor.clone()).chain(within).collect();
        Turn::Done(Outcome { goes_on, ..Outcome::default() })
    }

    /// Whether the task has parts beside one another, waits for events, or has a limit for its
    /// attempt: its parts go on in the run of the plan in which they began.
    pub(super) fn keeps_parts(&self) -> bool {
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Fork { .. } | Kind::Listen(_) | Kind::Consume(_)) => true,
            Some(Kind::Try(it)) => {
                it.retry.as_ref().is_some_and(|retry| retry.attempt_limit.is_some())
            }
            _ => self.is_extended,
        }
    }

    /// Whether none of its parts is under way, although it is not over: a `try` pauses before its
    /// next attempt, or a task that listens waits for an event.
    pub(super) fn is_between_parts(&self) -> bool {
        let is_idle = self.cursor.listening.as_ref().is_some_and(|listening| !listening.is_busy);
        self.cursor.phase == Phase::Pausing || is_idle && !self.takes_message()
    }

    /// Whether it has a place and no part yet: that of the previous run, or of a failed one.
    pub(super) fn goes_on(&self) -> bool {
        let has_parts = |kind: &Kind| match kind {
            Kind::Do(_) | Kind::For(_) | Kind::Try(_) => true,
            // Only of a retry: else its first event has begun a part.
            Kind::Listen(_) | Kind::Consume(_) => self.is_busy_with_event(),
            kind => matches!(kind, Kind::Fork { .. } | Kind::Function { .. }),
        };
        self.cursor.part == 0 && self.env.task.is_none_or(|task| has_parts(&task.kind))
    }

    /// Continues where the previous run has ended. Its timer is gone: the rest of the time limit of
    /// the flow counts from now.
    pub(super) fn go_on(&mut self) -> Result<Turn, Fault> {
        self.arm_attempt()?;
        let limit = self.env.flow.timeout.as_ref().filter(|_| self.env.task.is_none());
        if let Some(timeout) = limit {
            let limit = self.env.as_at_first(|env| env.duration(timeout))?;
            let passed = self.env.around.now.since(turnwheel_engine::Time(self.cursor.began));
            self.asks.notices.push((limit.saturating_sub(passed), Notice::Late(u32::MAX)));
        }
        match self.env.task.map(|task| &task.kind) {
            Some(Kind::Function { task, .. }) => {
                self.cursor.part = 1;
                self.ask(*task, 0, self.cursor.value.clone(), Map::new())?;
                Ok(self.wait())
            }
            Some(Kind::Fork { branches, .. }) => self.fork_again(branches),
            _ => self.go_to(self.cursor.index),
        }
    }

    /// Asks for the branches that are not over: first for the one that has failed, which goes on where
    /// it was, then for the others, which begin anew.
    fn fork_again(&mut self, branches: &[TaskId]) -> Result<Turn, Fault> {
        self.cursor.part = 1;
        let failed = self.cursor.index;
        let others = (0..branches.len()).filter(|index| *index != failed);
        for index in std::iter::once(failed).chain(others) {
            let tag = index as u32;
            let Some(branch) = branches.get(index) else { continue };
            if self.cursor.branches.contains_key(&tag) {
                continue;
            }
            let own = if index == failed { &self.cursor.value } else { &self.env.input };
            self.ask(*branch, tag, own.clone(), Map::new())?;
        }
        Ok(self.wait())
    }

    fn block_failed(&mut self, fault: Fault) -> Result<Turn, Fault> {
        let Some(Kind::Try(it)) = self.env.task.map(|task| &task.kind) else { return Err(fault) };
        if self.cursor.phase == Phase::Handling || !self.catches(it, &fault)? {
            return Err(fault);
        }
        if let Some(retry) = &it.retry {
            if let Some(pause) = self.pause(it, retry, &fault)? {
                self.cursor.round += 1;
                self.cursor.phase = Phase::Pausing;
                self.cursor.error = Some(fault);
                self.asks.notices.push((pause, Notice::Awake(self.cursor.round)));
                return Ok(self.wait());
            }
            if it.handler.is_none() {
                return Err(fault);
            }
        }
        self.cursor.error = Some(fault);
        self.cursor.value = self.env.input.clone();
        self.cursor.phase = Phase::Handling;
        self.go_to(0)
    }

    /// Evaluates with the error as a variable.
    fn with_error(
        &mut self,
        name: &str,
        fault: &Fault,
        condition: Option<&str>,
        default: bool,
    ) -> Result<bool, Fault> {
        let Some(condition) = condition else { return Ok(default) };
        let before = self.env.vars.clone();
        self.env.vars.insert(name.to_owned(), fault.to_value());
        let holds = self.env.holds(condition, &self.env.input, STAGE);
        self.env.vars = before;
        holds
    }

    fn catches(&mut self, it: &Try, fault: &Fault) -> Result<bool, Fault> {
        Ok(fault.fits(&it.filter)
            && self.with_error(&it.variable, fault, it.when.as_deref(), true)?
            && !self.with_error(&it.variable, fault, it.except_when.as_deref(), false)?)
    }

    /// The pause before the next attempt, if there is one.
    fn pause(
        &mut self,
        it: &Try,
        retry: &Retry,
        fault: &Fault,
    ) -> Result<Option<std::time::Duration>, Fault> {
        let round = self.cursor.round;
        let name = if retry.is_shared { "error" } else { &it.variable };
        if round >= retry.attempts.unwrap_or(ATTEMPTS_MAX)
            || !self.with_error(name, fault, retry.when.as_deref(), true)?
            || self.with_error(name, fault, retry.except_when.as_deref(), false)?
        {
            return Ok(None);
        }
        let delay = retry.delay.as_ref().map(|span| self.env.duration(span)).transpose()?;
        let delay = delay.unwrap_or_default();
        let grown = match retry.backoff {
            Backoff::Constant => delay,
            Backoff::Linear => delay.saturating_mul(round + 1),
            Backoff::Exponential => delay.saturating_mul(1_u32 << round.min(20)),
        };
        let mut pause = grown.min(PAUSE_MAX.max(delay));
        if let Some((from, to)) = &retry.jitter {
            let (from, to) = (self.env.duration(from)?, self.env.duration(to)?);
            let width = to.saturating_sub(from).as_micros() as u64;
            pause += from + std::time::Duration::from_micros(self.chance(width));
        }
        if let Some(limit) = &retry.limit {
            let limit = self.env.duration(limit)?;
            let began = turnwheel_engine::Time(self.cursor.began);
            if self.env.around.now.after(pause).since(began) > limit {
                return Ok(None);
            }
        }
        Ok(Some(pause))
    }

    /// A number below a limit, the same whenever this attempt is looked at.
    fn chance(&self, below: u64) -> u64 {
        let key = format!("{}{}{}", self.env.around.plan, self.env.pointer(), self.cursor.round);
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash % below.max(1)
    }

    /// Limits an attempt, if the policy says so.
    pub(super) fn arm_attempt(&mut self) -> Result<(), Fault> {
        let Some(Kind::Try(it)) = self.env.task.map(|task| &task.kind) else { return Ok(()) };
        if let Some(span) = it.retry.as_ref().and_then(|retry| retry.attempt_limit.as_ref()) {
            let limit = self.env.duration(span)?;
            self.asks.notices.push((limit, Notice::Late(ATTEMPT + self.cursor.round)));
        }
        Ok(())
    }
}
