//! The supervisor: an actor that starts others in order, and restarts them when they end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;

use turnwheel_runtime::{Failure, Phase};

use super::plan::{Child, ChildList, Step};
use super::spec::{ChildSpec, RestartKind, Spec};
use crate::actor::{
    end_within, Actor, Context, Exit, Handler, ReplyHandler, Restart, RestartCounter,
};
use crate::call::ReplyTo;

/// The children that restart when one of them ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// That child alone.
    OneForOne,
    /// All: they are ended in reverse order and started in order.
    AllForOne,
    /// That child and those started after it.
    RestForOne,
}

/// Starts children in order, and restarts them when they end, within limits.
///
/// Children start one after the other, each after the previous one has started; the supervisor has
/// started when all have. It closes them in reverse order before its own end. Beyond the limits of
/// its [`Restart`] policy, or when a first start fails, it ends its children and fails with
/// [`EscalatedFailure`]: to its watchers, above all its own supervisor.
///
/// A fresh child is a fresh actor with an empty mailbox: find it by its
/// [`ChildRef`](crate::supervise::ChildRef). An actor that keeps address and mailbox over a failure
/// has a policy of its own ([`ActorBuilder::restart`](crate::ActorBuilder::restart)); the
/// supervisor acts when that gives up.
///
/// ```
/// use turnwheel_actors::{Actor, ChildSpec, Strategy, Supervisor, System};
/// # use turnwheel_runtime::Group;
/// # struct Worker;
/// # impl Actor for Worker { type Error = std::convert::Infallible; }
/// # let group = Group::builder("doc").workers(1).build()?;
/// let system = System::new(&group);
/// let child = ChildSpec::new("worker", |system| system.spawn(Worker));
/// let worker = child.current();
/// let supervisor = system.spawn(Supervisor::new(Strategy::OneForOne).child(child))?;
/// supervisor.started().wait()?;
/// let first = worker.get().ok_or("it has started")?;
/// first.kill();
/// # supervisor.close().wait()?;
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Supervisor {
    strategy: Strategy,
    policy: Box<Restart>,
    counter: Box<RestartCounter>,
    children: ChildList,
    /// Ends not yet looked at: child, its run, and how.
    ends: VecDeque<(u64, u64, Exit)>,
    next_key: u64,
    /// A step is under way.
    is_busy: bool,
    is_up: bool,
}

debug_fields!(impl Supervisor, self =>
    strategy: self.strategy, children: self.children.list.len());

/// The failure of a supervisor that gives up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EscalatedFailure {
    /// The child that ended.
    pub child: String,
    /// Exit of the child.
    pub exit: Exit,
    /// Whether it was its first start; otherwise there were too many restarts.
    pub is_first_start: bool,
}

impl fmt::Display for EscalatedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.is_first_start { "did not start" } else { "ended too often" };
        write!(f, "the child {} {why}", self.child)?;
        match &self.exit {
            Exit::Failed(failure) => write!(f, ": {failure}"),
            Exit::Closed => Ok(()),
        }
    }
}

impl std::error::Error for EscalatedFailure {}

/// Reason why a supervisor did not carry out a request for a child.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// Another child has this name.
    #[error("there is a child of this name already")]
    NameTaken,
    /// No child has this name.
    #[error("there is no child of this name")]
    Unknown,
    /// It failed to start, and is no child any more.
    #[error("it did not start: {0}")]
    NotStarted(Failure),
}

/// Asks a [`Supervisor`] to start one more child, after all others. Answered when it has started.
pub struct StartChild(Box<dyn Spec>);

impl StartChild {
    /// Of this description.
    pub fn new<A: Actor>(spec: ChildSpec<A>) -> Self {
        Self(Box::new(spec))
    }
}

debug_fields!(impl StartChild, self => name: self.0.name());

/// Asks a [`Supervisor`] to close a child and forget it. Answered when it has ended.
#[derive(Clone, Debug)]
pub struct StopChild(pub String);

/// Asks a [`Supervisor`] for its children, in the order of their start.
#[derive(Clone, Copy, Debug)]
pub struct ListChildren;

/// A child as its supervisor sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChildInfo {
    /// Its name.
    pub name: String,
    /// When it is restarted.
    pub kind: RestartKind,
    /// Phase of its actor; `None` while there is none.
    pub phase: Option<Phase>,
    /// Number of restarts.
    pub restarts: u64,
}

impl Supervisor {
    /// Without children, with the limits of [`Restart::default`], counted over all children.
    pub fn new(strategy: Strategy) -> Self {
        let policy = Restart::default();
        Self {
            strategy,
            counter: Box::new(RestartCounter::new(policy.clone())),
            policy: Box::new(policy),
            children: ChildList::default(),
            ends: VecDeque::new(),
            next_key: 0,
            is_busy: false,
            is_up: false,
        }
    }

    /// Sets the number of restarts, for all children together, and the pauses, for each child. The
    /// supervisor serves the other children during a pause.
    #[must_use]
    pub fn restart(mut self, policy: Restart) -> Self {
        self.counter = Box::new(RestartCounter::new(policy.clone()));
        for child in &mut self.children.list {
            child.counter = RestartCounter::new(policy.pauses());
        }
        self.policy = Box::new(policy);
        self
    }

    /// Adds a child, started after the earlier ones.
    #[must_use]
    pub fn child<A: Actor>(mut self, spec: ChildSpec<A>) -> Self {
        self.add(Box::new(spec), None);
        self
    }

    fn add(&mut self, spec: Box<dyn Spec>, asker: Option<ReplyTo<Result<(), ChildError>>>) {
        let key = self.next_key;
        self.next_key += 1;
        let counter = RestartCounter::new(self.policy.pauses());
        let child = Child {
            key,
            spec,
            task: None,
            run: 0,
            restarts: 0,
            counter,
            is_wanted: true,
            due_ns: 0,
            order: 0,
            asker,
        };
        self.children.list.push(child);
        self.children.plan.push_back(Step::Start(key));
    }

    /// Carries out the plan, up to a step that takes time.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        while !self.is_busy && !cx.is_closing() {
            if let Some(step) = self.children.plan.pop_front() {
                self.step(step, cx);
            } else if let Some((key, run, exit)) = self.ends.pop_front() {
                self.ended(key, run, exit, cx);
            } else {
                return;
            }
        }
    }

    fn step(&mut self, step: Step, cx: &mut Context<'_, Self>) {
        match step {
            Step::Stop(key) => self.stop(key, cx),
            Step::Start(key) => self.start(key, cx),
            Step::StartAfter(pause, order) => {
                let pause = cx.group().sleep(pause);
                cx.when_done(pause, move |supervisor, cx, slept| {
                    // A group without room for a timer starts them at once.
                    let now_ns = slept.map_or(u64::MAX, |()| cx.group().now_ns());
                    let starts = supervisor.children.starts(order, now_ns);
                    supervisor.children.plan.extend(starts);
                    supervisor.go_on(cx);
                });
            }
            Step::Forget(key) => self.children.list.retain(|child| child.key != key),
            Step::Answer(reply) => reply.send(Ok(())),
            Step::Up => self.is_up = true,
            Step::Fail(failure) => cx.fail(failure),
        }
    }

    fn start(&mut self, key: u64, cx: &mut Context<'_, Self>) {
        let Some(child) = self.children.get(key) else { return };
        if child.task.is_some() {
            return;
        }
        child.is_wanted = false;
        child.run += 1;
        let run = child.run;
        let made = match child.spec.make(cx.system()) {
            Ok(made) => made,
            Err(failure) => return self.not_started(key, failure, cx),
        };
        child.restarts += u64::from(run > 1);
        let closed = made.task.closed();
        child.task = Some(made.task);
        self.adopt_all(cx);
        self.is_busy = true;
        cx.when_done(made.started, move |supervisor, cx, started| {
            supervisor.is_busy = false;
            match started {
                Ok(()) => supervisor.has_started(key, run, closed, cx),
                Err(failure) => supervisor.not_started(key, failure, cx),
            }
            supervisor.go_on(cx);
        });
    }

    fn has_started(
        &mut self,
        key: u64,
        run: u64,
        closed: turnwheel_runtime::Completion<()>,
        cx: &mut Context<'_, Self>,
    ) {
        if let Some(asker) = self.children.get(key).and_then(|child| child.asker.take()) {
            asker.send(Ok(()));
        }
        cx.when_done_started(closed, move |supervisor, cx, outcome| {
            supervisor.ends.push_back((key, run, outcome.into()));
            supervisor.go_on(cx);
        });
    }

    fn not_started(&mut self, key: u64, failure: Failure, cx: &mut Context<'_, Self>) {
        let Some(child) = self.children.get(key) else { return };
        child.task = None;
        if let Some(asker) = child.asker.take() {
            self.children.list.retain(|child| child.key != key);
            return asker.send(Err(ChildError::NotStarted(failure)));
        }
        let exit = Exit::Failed(failure);
        if self.is_up {
            return self.again(key, exit, cx);
        }
        let name = child.spec.name().to_owned();
        self.give_up(EscalatedFailure { child: name, exit, is_first_start: true });
    }

    fn stop(&mut self, key: u64, cx: &mut Context<'_, Self>) {
        let Some(child) = self.children.get(key) else { return };
        let Some(task) = child.task.clone() else { return };
        // Its end is no news.
        child.run += 1;
        let limit = child.spec.limit();
        let group = cx.group();
        self.is_busy = true;
        let ending = async move { end_within(&task, limit, &group).await };
        cx.when_done(ending, move |supervisor, cx, ()| {
            supervisor.is_busy = false;
            if let Some(child) = supervisor.children.get(key) {
                child.task = None;
            }
            supervisor.go_on(cx);
        });
    }

    /// A child has ended unexpectedly.
    fn ended(&mut self, key: u64, run: u64, exit: Exit, cx: &mut Context<'_, Self>) {
        let Some(child) = self.children.get(key).filter(|child| child.run == run) else { return };
        child.task = None;
        if child.spec.kind().restarts_after(&exit) {
            return self.again(key, exit, cx);
        }
        if child.spec.kind() == RestartKind::Temporary {
            self.children.list.retain(|child| child.key != key);
        }
        self.adopt_all(cx);
    }

    fn again(&mut self, key: u64, exit: Exit, cx: &mut Context<'_, Self>) {
        let now_ns = cx.group().now_ns();
        let is_within = self.counter.next(now_ns, key).is_some();
        let Some(child) = self.children.get(key) else { return };
        let name = child.spec.name().to_owned();
        if !is_within {
            return self.give_up(EscalatedFailure { child: name, exit, is_first_start: false });
        }
        let pause = child.counter.next(now_ns, cx.myself().id() ^ key).unwrap_or_default();
        tracing::warn!(supervisor = cx.name(), child = name, ?exit, ?pause, "restarting a child");
        self.children.restart(key, self.strategy, now_ns, pause);
    }

    fn give_up(&mut self, failure: EscalatedFailure) {
        self.ends.clear();
        self.children.give_up(Failure::error(failure));
    }

    /// The children in the order of their start, for the end of this actor.
    fn adopt_all(&self, cx: &mut Context<'_, Self>) {
        let running = self.children.list.iter().filter_map(|child| {
            let task: Option<_> = child.task.clone();
            Some((task?, child.spec.limit()))
        });
        cx.children().replace(running.collect());
    }
}

impl Actor for Supervisor {
    type Error = Infallible;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Infallible> {
        let names = || self.children.list.iter().map(|child| child.spec.name());
        let taken = names().enumerate().find(|(at, name)| names().take(*at).any(|n| n == *name));
        if let Some((_, name)) = taken {
            let child = name.to_owned();
            let exit = Exit::Failed(Failure::error(ChildError::NameTaken));
            self.give_up(EscalatedFailure { child, exit, is_first_start: true });
        }
        self.children.plan.push_back(Step::Up);
        self.go_on(cx);
        Ok(())
    }
}

impl ReplyHandler<StartChild> for Supervisor {
    type Reply = Result<(), ChildError>;

    fn handle(
        &mut self,
        StartChild(spec): StartChild,
        reply: ReplyTo<Self::Reply>,
        cx: &mut Context<'_, Self>,
    ) {
        if self.children.named(spec.name()).is_some() {
            return reply.send(Err(ChildError::NameTaken));
        }
        self.add(spec, Some(reply));
        self.go_on(cx);
    }
}

impl ReplyHandler<StopChild> for Supervisor {
    type Reply = Result<(), ChildError>;

    fn handle(
        &mut self,
        StopChild(name): StopChild,
        reply: ReplyTo<Self::Reply>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(key) = self.children.named(&name) else {
            return reply.send(Err(ChildError::Unknown));
        };
        self.children.plan.extend([Step::Stop(key), Step::Forget(key), Step::Answer(reply)]);
        self.go_on(cx);
    }
}

impl Handler<ListChildren> for Supervisor {
    type Reply = Vec<ChildInfo>;

    fn handle(&mut self, _: ListChildren, _: &mut Context<'_, Self>) -> Vec<ChildInfo> {
        let info = |child: &Child| ChildInfo {
            name: child.spec.name().to_owned(),
            kind: child.spec.kind(),
            phase: child.task.as_ref().map(turnwheel_runtime::AnyTask::phase),
            restarts: child.restarts,
        };
        self.children.list.iter().map(info).collect()
    }
}
