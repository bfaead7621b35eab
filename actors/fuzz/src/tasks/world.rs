//! What a program under way has: its model, its slots, its violations. One for each thread.
//!
//! No borrow of it lasts over a call of the API: whatever such a call drops may come back here.

use std::cell::RefCell;

use turnwheel_runtime::{current_task, Group};

use super::actors::Actors;
use super::lanes::{Job, TaskModel};
use super::services::Services;
use super::slots::Slots;
use super::subscribed::{ChannelModel, CompletionModel, ConditionModel, TimerModel};
use crate::kind::Kind;
use crate::program::{Act, Script};
use crate::run::Twin;

/// Acts that one program performs, at most: a timer may repeat its job.
const FUEL: u32 = 400;
/// Violations kept, at most.
const VIOLATIONS_MAX: usize = 8;

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::default());
}

/// Borrows the world of this thread for a moment.
pub(super) fn with<R>(look: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|world| look(&mut world.borrow_mut()))
}

/// Notes that the contract was broken.
pub(super) fn violation(text: String) {
    with(|world| world.violation(text));
}

/// Owner of the code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// A job of a task, of whatever lane or subscription.
    Job,
    /// A hook of a task.
    Hook(Kind),
    /// The poll of a future.
    Poll,
    /// A handler or hook of an actor.
    Handler(u32),
    /// A destructor, a waker, a blocking closure.
    Loose,
}

/// User code under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) code: Code,
}

/// A panic that a program has raised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    /// Whether the failure belongs to a task, which reports it.
    pub(super) is_reported: bool,
    /// Calls of an `on_failure` hook with it.
    pub(super) asked: u32,
    /// Times it was found among the failures of the simulation.
    pub(super) seen: u32,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) violations: Vec<String>,
    pub(super) fuel: u32,
    pub(super) twin: Option<Twin>,
    pub(super) is_tight: bool,
    /// Whether the group shuts down.
    pub(super) is_ending: bool,
    /// Values of the program that live.
    pub(super) live: i64,
    pub(super) sequence: u64,
    pub(super) frames: Vec<Frame>,
    pub(super) raised: Vec<Raised>,
    pub(super) group: Option<Group>,
    pub(super) tasks: Vec<TaskModel>,
    pub(super) jobs: Vec<Job>,
    pub(super) timers: Vec<TimerModel>,
    pub(super) conditions: Vec<ConditionModel>,
    pub(super) completions: Vec<CompletionModel>,
    pub(super) channels: [ChannelModel; 2],
    pub(super) slots: Slots,
    pub(super) actors: Actors,
    pub(super) services: Services,
}

impl World {
    /// Begins a program.
    pub(super) fn begin(twin: Option<Twin>, is_tight: bool) {
        let fresh = Self { fuel: FUEL, twin, is_tight, ..Self::default() };
        let old = WORLD.with(|world| world.replace(fresh));
        drop(old);
    }

    pub(super) fn violation(&mut self, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(text);
        }
    }

    /// The next number in the order of what happens.
    pub(super) fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(super) fn task(&mut self, task: u32) -> &mut TaskModel {
        &mut self.tasks[task as usize]
    }

    pub(super) fn job(&mut self, job: u32) -> &mut Job {
        &mut self.jobs[job as usize]
    }

    /// One act more; false if the program has used up its acts.
    pub(super) fn burn(&mut self) -> bool {
        let has_more = self.fuel > 0;
        self.fuel = self.fuel.saturating_sub(1);
        has_more
    }
}

/// Marks the tags of a program's own tasks: actors have tags too.
const TAG: u64 = 0x4655_5a5a << 32;

/// The tag of a task.
pub(super) fn tag_of(task: u32) -> u64 {
    TAG | u64::from(task)
}

/// The task with this tag, if it is one of the program's own.
pub(super) fn number_of(tag: u64) -> Option<u32> {
    (tag & !u64::from(u32::MAX) == TAG).then_some(tag as u32)
}

/// The task whose turn runs on this thread, as the runtime says.
pub(super) fn current() -> Option<u32> {
    number_of(current_task()?.tag())
}

/// The group of the program.
pub(super) fn group() -> Option<Group> {
    with(|world| world.group.clone())
}

/// The part of a body of this kind.
pub(super) fn section(body: &[Act], kind: Kind) -> Option<Script> {
    body.iter().find(|act| act.kind == kind).map(|act| act.body.clone())
}

/// What a closure, state or item of the program holds: counted while it lives, and its destructor
/// performs acts.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) role: Role,
    on_drop: Option<Script>,
}

/// Owner of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A job in a lane of a task.
    Job(u32),
    /// The state of a task.
    State(u32),
    /// A timer's job.
    Timer(u32),
    /// A condition's job.
    Condition(u32),
    /// A value that is sent; who has taken it knows its number.
    Item(u32),
    /// A future, or a continuation, of a task; whether it holds back the others, and the phase.
    Future { task: u32, is_exclusive: bool, is_holding: bool },
    /// A message to an actor.
    Message(u32),
    /// An actor.
    Actor(u32),
    /// Something else.
    Other,
}

impl Token {
    pub(super) fn new(role: Role, body: &[Act]) -> Self {
        with(|world| {
            world.live += 1;
            if let Role::Future { task, is_exclusive, is_holding } = role {
                world.task(task).exclusive += u32::from(is_exclusive);
                world.task(task).holds += u32::from(is_holding);
            }
        });
        Self { role, on_drop: section(body, Kind::OnDrop) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let role = self.role;
        with(|world| {
            world.live -= 1;
            world.is_dropped(role);
        });
        let Some(script) = self.on_drop.take() else { return };
        let _frame = Entered::loose();
        super::play(&script, &mut super::Here::Loose);
    }
}

impl World {
    fn is_dropped(&mut self, role: Role) {
        match role {
            Role::Job(job) => self.job_dropped(job),
            Role::State(task) => self.state_dropped(task),
            Role::Timer(timer) => self.timers[timer as usize].is_gone = true,
            Role::Condition(condition) => self.conditions[condition as usize].is_gone = true,
            Role::Future { task, is_exclusive, is_holding } => {
                self.task(task).exclusive -= u32::from(is_exclusive);
                self.task(task).holds -= u32::from(is_holding);
            }
            Role::Message(message) => self.message_dropped(message),
            Role::Actor(actor) => self.actor_dropped(actor),
            Role::Item(_) | Role::Other => {}
        }
    }

    fn state_dropped(&mut self, task: u32) {
        let model = self.task(task);
        let was_running = model.is_running;
        if std::mem::replace(&mut model.is_over, true) {
            self.violation(format!("the state of task {task} was dropped twice"));
        }
        if was_running {
            self.violation(format!("the state of task {task} was dropped while its job runs"));
        }
    }
}

/// A frame, while it lasts.
#[derive(Debug)]
pub(super) struct Entered {
    task: Option<u32>,
}

impl Entered {
    /// Code that belongs to no turn of its own.
    pub(super) fn loose() -> Self {
        with(|world| world.frames.push(Frame { code: Code::Loose }));
        Self { task: None }
    }

    /// A handler or hook of an actor, or the poll of a handler's future.
    pub(super) fn handler(actor: u32) -> Self {
        with(|world| world.frames.push(Frame { code: Code::Handler(actor) }));
        Self { task: None }
    }

    /// A job, a hook or a poll of a task: the only one at this time.
    pub(super) fn turn(task: u32, code: Code) -> Self {
        with(|world| world.task(task).insert = 0);
        Self::same_job(task, code)
    }

    /// As `turn`, for a part of a job that has begun already.
    pub(super) fn same_job(task: u32, code: Code) -> Self {
        let now = current();
        with(|world| {
            world.frames.push(Frame { code });
            let model = world.task(task);
            let was_running = std::mem::replace(&mut model.is_running, true);
            let is_over = model.is_over;
            if was_running {
                world.violation(format!("two turns of task {task} at once"));
            }
            if is_over {
                world.violation(format!("task {task} runs after the end of its state"));
            }
            if now != Some(task) {
                world.violation(format!("code of task {task} runs in a turn of {now:?}"));
            }
        });
        Self { task: Some(task) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        with(|world| {
            world.frames.pop();
            if let Some(task) = self.task {
                world.task(task).is_running = false;
            }
        });
    }
}
