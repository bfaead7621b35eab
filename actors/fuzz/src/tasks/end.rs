//! Conditions that must hold when nothing is left to do, and at the end of a program.

use std::future::Future;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Failure;

use super::hooks::number_of;
use super::lanes::Fate;
use super::main_thread::guarded;
use super::slots::{Slots, Tracked};
use super::world::{group, violation, with, World};

/// Virtual time that tasks have to close at the end.
const DEADLINE: Duration = Duration::from_millis(400);

/// Checks what must hold when the simulation is idle: no task has work that it could do.
pub(super) fn check_idle() {
    let now_ns = group().map_or(0, |group| group.now_ns());
    with(|world| world.check_idle(now_ns));
    super::services::check_idle(now_ns);
}

impl World {
    fn check_idle(&mut self, now_ns: u64) {
        let mut found = Vec::new();
        for (number, task) in self.tasks.iter().enumerate() {
            let lanes = [&task.queue, &task.urgent, &task.fast];
            let is_done = lanes.iter().all(|lane| lane.is_empty());
            if task.is_free() && !is_done {
                found.push(format!("idle, and task {number} has jobs queued: {lanes:?}"));
            }
        }
        for (number, timer) in self.timers.iter().enumerate() {
            let is_free = self.tasks[timer.task as usize].is_free();
            let is_off = timer.is_cancelled || timer.is_gone || timer.is_cut;
            if is_free && !is_off && timer.latest_ns <= now_ns {
                let due_ns = timer.latest_ns;
                let text = format!("timer {number} was due at {due_ns} ns, it is {now_ns} ns");
                found.push(text);
            }
        }
        for (number, condition) in self.conditions.iter().enumerate() {
            let is_free = self.tasks[condition.task as usize].is_free();
            let has_seen = match condition.is_counting {
                true => condition.runs == condition.signals,
                false => condition.seen == condition.signals,
            };
            if is_free && !condition.is_cancelled && !condition.is_gone && !has_seen {
                found.push(format!("idle, and condition {number} has not run: {condition:?}"));
            }
        }
        found.into_iter().for_each(|text| self.violation(text));
    }
}

/// Ends a program: lets time pass, gives up all handles, shuts the group down, and looks around.
pub(super) fn end(sim: Sim) {
    guarded("the last advance", || {
        sim.heal();
        sim.advance(Duration::from_millis(3));
    });
    check_idle();
    check_memory();
    let slots = with(|world| {
        world.is_ending = true;
        world.tasks.iter_mut().for_each(|task| {
            task.may_end();
            task.permits = 0;
        });
        std::mem::take(&mut world.slots)
    });
    let mut tracked = Vec::new();
    give_up(slots, &mut tracked);
    super::actors::give_up();
    super::services::give_up();
    guarded("the shutdown", || {
        let report = sim.shutdown(DEADLINE);
        if !report.left.is_empty() {
            violation(format!("tasks do not end: {report:?}"));
        }
    });
    // Jobs that the end of the tasks has put there.
    for _ in 0..3 {
        let slots = with(|world| std::mem::take(&mut world.slots));
        give_up(slots, &mut tracked);
        super::actors::give_up();
        super::services::give_up();
        guarded("the last turns", || {
            sim.run_until_idle();
        });
    }
    tracked.into_iter().for_each(check_tracked);
    super::services::check_end();
    super::actors::check_calls();
    super::actors::end_system();
    check_failures(&sim);
    check_left();
    guarded("the end of the simulation", || drop(sim));
    let group = with(|world| world.group.take());
    drop(group);
    let slots = with(|world| std::mem::take(&mut world.slots));
    give_up(slots, &mut Vec::new());
    super::services::drop_rest();
    super::actors::drop_rest();
    super::services::check_sent();
    with(World::check_end);
}

/// Drops handles, each for itself: what one holds may panic.
fn give_up(slots: Slots, tracked: &mut Vec<Tracked>) {
    let Slots {
        tasks,
        weak,
        reserves,
        permits,
        timers,
        conditions,
        subscriptions,
        consumers,
        channels,
        completers,
        completions,
        tracked: own,
    } = slots;
    tracked.extend(own);
    drop((weak, tasks));
    reserves.into_iter().for_each(|value| guarded("dropping a reserve", || drop(value)));
    permits.into_iter().for_each(|value| guarded("dropping a permit", || drop(value)));
    timers.into_iter().for_each(|value| guarded("dropping a timer", || drop(value)));
    with(|world| world.conditions.iter_mut().for_each(|condition| condition.is_cancelled = true));
    conditions.into_iter().for_each(|value| guarded("dropping a condition", || drop(value)));
    subscriptions.into_iter().for_each(|value| guarded("dropping a handle", || drop(value)));
    consumers.into_iter().for_each(|value| guarded("dropping a consumer", || drop(value)));
    for (completer, number) in completers.into_iter().flatten() {
        with(|world| world.completions[number as usize].completers -= 1);
        guarded("dropping a completer", || drop(completer));
    }
    completions.into_iter().for_each(|value| guarded("dropping a completion", || drop(value)));
    for channel in channels.into_iter().flatten() {
        // Each item for itself: a panicking destructor must not leave the others to one another.
        while let Some(item) = channel.try_take() {
            guarded("dropping an item", || drop(item));
        }
        drop(channel);
    }
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = std::pin::pin!(future);
    future.as_mut().poll(&mut PollContext::from_waker(Waker::noop()))
}

/// A future must be done, and a call must say what became of its job.
fn check_tracked(tracked: Tracked) {
    let pending = match tracked {
        Tracked::Unit(what, future) => poll(future).is_pending().then_some(what),
        Tracked::Item(what, future) => match poll(future) {
            Poll::Pending => Some(what),
            Poll::Ready(outcome) => {
                guarded("dropping an outcome", || drop(outcome));
                None
            }
        },
        Tracked::Items(what, future) => match poll(future) {
            Poll::Pending => Some(what),
            Poll::Ready(outcome) => {
                for item in outcome.into_iter().flatten() {
                    guarded("dropping an outcome", || drop(item));
                }
                None
            }
        },
        Tracked::Shared(what, future) => poll(future).is_pending().then_some(what),
        Tracked::Call(job, future) => match poll(future) {
            Poll::Pending => Some("call"),
            Poll::Ready(outcome) => {
                check_call(job, &outcome);
                None
            }
        },
    };
    if let Some(what) = pending {
        violation(format!("the future of '{what}' never ends"));
    }
}

fn check_call(job: Option<u32>, outcome: &Result<u32, Failure>) {
    let Some(job) = job else { return };
    let fate = with(|world| world.job(job).fate);
    let is_right = match outcome {
        Ok(value) => *value == job && fate == Fate::Ran,
        Err(failure) => match fate {
            // The destructor of its values comes after the job, and may panic too.
            Fate::Ran | Fate::Panicked => number_of(failure).is_some(),
            Fate::Dropped => matches!(failure, Failure::Closed | Failure::Panicked(_)),
            _ => false,
        },
    };
    if !is_right {
        violation(format!("the call of job {job}, which is {fate:?}, ends with {outcome:?}"));
    }
}

/// Each failure of a job or hook was reported once.
fn check_failures(sim: &Sim) {
    let failures = sim.failures();
    with(|world| {
        for failed in &failures {
            if let Some(number) = number_of(&failed.failure) {
                world.raised[number].seen += 1;
            }
        }
        for number in 0..world.raised.len() {
            let raised = world.raised[number];
            if raised.seen > 1 || (raised.is_reported && raised.seen == 0) {
                world.violation(format!("panic {number} was reported {} times", raised.seen));
            }
        }
    });
}

/// After the shutdown no task is left, and nothing is charged to the group.
fn check_left() {
    let Some(metrics) = group().map(|group| group.metrics()) else { return };
    let (tasks, bytes) = (metrics.tasks, metrics.mailbox_bytes);
    if tasks > 0 || bytes > 0 {
        violation(format!("after the shutdown {tasks} tasks and {bytes} bytes are left"));
    }
}

/// With nothing queued the mailboxes hold no memory.
fn check_memory() {
    let (is_due, group) = with(|world| {
        let is_quiet = world.tasks.iter().all(|task| {
            let lanes = [&task.queue, &task.urgent, &task.fast];
            lanes.iter().all(|lane| lane.is_empty()) && !task.has_foreign
        });
        // The model does not follow the queues of actors.
        let has_actors = world.actors.has_messages() || world.services.has_calls();
        (world.is_tight && is_quiet && !has_actors, world.group.clone())
    });
    let Some(group) = group.filter(|_| is_due) else { return };
    let bytes = group.metrics().mailbox_bytes;
    if bytes > 0 {
        violation(format!("nothing is queued, and the mailboxes hold {bytes} bytes"));
    }
}

impl World {
    fn check_end(&mut self) {
        for number in 0..self.jobs.len() {
            let job = self.jobs[number];
            let is_settled = !matches!(job.fate, Fate::Queued | Fate::Running);
            if !is_settled {
                self.violation(format!("job {number} was accepted and is {:?}", job.fate));
            }
        }
        for number in 0..self.tasks.len() {
            if !self.tasks[number].is_over {
                self.violation(format!("the state of task {number} was never dropped"));
            }
        }
        if self.live != 0 {
            let live = self.live;
            self.violation(format!("{live} values of the program are left"));
        }
    }
}
