//! When plans that are not in memory have to do something.

use std::collections::{BTreeSet, HashMap};
use std::sync::Weak;
use std::time::Duration;

use turnwheel_runtime::{Completer, Context, Group, Mailbox, SpawnError, Task, Timer};

use super::{PlanKey, Wake};
use crate::id::PlanId;
use crate::limits::{CLOCK_CHECK, CLOCK_LOOK};
use crate::time::Time;
use crate::world::Shared;

/// Wakes on their way at once, at most; others are tried again.
const MAILBOX: u64 = 1 << 20;

/// A plan that could not be told is told again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// Wakes plans at their times.
#[derive(Clone, Debug)]
pub(crate) struct Wakes {
    task: Task<Calendar>,
}

#[derive(Debug)]
struct Calendar {
    world: Weak<Shared>,
    days: BTreeSet<(Time, PlanId)>,
    times: HashMap<PlanId, Time>,
    armed: Option<(Time, Timer)>,
    /// Whether it looks at the clock again soon, because that is off.
    looks_again: bool,
}

impl Wakes {
    pub(crate) fn start(world: Weak<Shared>, group: &Group) -> Result<Self, String> {
        let (days, times) = (BTreeSet::new(), HashMap::new());
        let calendar = Calendar { world, days, times, armed: None, looks_again: false };
        let task = group
            .task(calendar)
            .name("plan-wakes")
            .mailbox(Mailbox::bounded(MAILBOX - 1))
            .spawn()
            .map_err(|error: SpawnError<_>| error.to_string())?;
        Ok(Self { task })
    }

    /// Wakes a plan at a time, instead of the one said before.
    pub(crate) fn set(&self, plan: PlanId, at: Time) {
        let set = self.task.submit(move |calendar, cx| calendar.set(plan, at, cx));
        if let Err(error) = set {
            tracing::error!(%plan, kind = %error.kind, "a plan will not wake before the next start");
        }
    }
}

impl Wakes {
    /// Looks at the clock, and again as long as that is off; wakes plans whose times have moved.
    pub(crate) fn look_at_clock(&self) {
        if let Err(error) = self.task.submit(Calendar::look_at_clock) {
            // Plans look at the clock with each of their timers.
            tracing::warn!(kind = %error.kind, "a jump of the clock is watched less closely");
        }
    }

    /// Answers in the threads that run plans.
    pub(crate) fn pong(&self, reply: Completer<()>) {
        let heard = self.task.submit(move |_, _| {
            // The caller may have given up.
            let _late = reply.complete(());
        });
        if let Err(error) = heard {
            // The caller notices by the drop of its completer.
            tracing::debug!(kind = %error.kind, "a ping is not answered");
        }
    }
}

impl Calendar {
    fn set(&mut self, plan: PlanId, at: Time, cx: &mut Context<'_, Self>) {
        if let Some(before) = self.times.insert(plan, at) {
            self.days.remove(&(before, plan));
        }
        self.days.insert((at, plan));
        self.arm(cx);
    }

    /// Arms the one timer for the earliest time.
    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        let Some((at, _)) = self.days.first().copied() else { return };
        if self.armed.as_ref().is_some_and(|(armed, _)| *armed <= at) {
            return;
        }
        let Some(world) = self.world.upgrade() else { return };
        if let Some((_, timer)) = self.armed.take() {
            timer.cancel();
        }
        // The clock may be set: it is checked again before a long time is over.
        let delay = at.since(world.now()).min(CLOCK_CHECK);
        match cx.after(delay, |calendar: &mut Self, cx| calendar.fire(cx)) {
            Ok(timer) => self.armed = Some((at, timer)),
            Err(error) => tracing::error!(%error, "plans that sleep cannot be woken"),
        }
    }

    fn look_at_clock(&mut self, cx: &mut Context<'_, Self>) {
        let Some(world) = self.world.upgrade() else { return };
        // The clock notices what has become of the jump.
        let _of_plans = world.now();
        for plan in world.clock().take_to_wake() {
            self.set(plan, Time::default(), cx);
        }
        if self.looks_again || !world.clock().is_off() {
            return;
        }
        let again = cx.after(CLOCK_LOOK, |calendar: &mut Self, cx| {
            calendar.looks_again = false;
            calendar.look_at_clock(cx);
        });
        match again {
            Ok(_) => self.looks_again = true,
            Err(error) => tracing::warn!(%error, "a jump of the clock is watched less closely"),
        }
    }

    fn fire(&mut self, cx: &mut Context<'_, Self>) {
        self.armed = None;
        let Some(world) = self.world.upgrade() else { return };
        let now = world.now();
        while let Some((at, plan)) = self.days.first().copied() {
            if at > now {
                break;
            }
            self.days.pop_first();
            self.times.remove(&plan);
            if !world.owns(plan) {
                continue;
            }
            let key = PlanKey::new(&world, plan);
            if world.plans().get::<super::PlanActor>(key).tell(Wake).is_err() {
                let again = now.after(AGAIN);
                self.times.insert(plan, again);
                self.days.insert((again, plan));
            }
        }
        self.arm(cx);
    }
}
