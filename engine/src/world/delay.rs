//! When a plan is planned, if not at once.

use std::time::Duration;

use super::known_key::Keyed;
use super::reach::Elsewhere;
use super::{TriggerOptions, Triggering, World};
use crate::action::Action;
use crate::error::TriggerError;
use crate::id::PlanId;
use crate::middleware::delay as delay_around;
use crate::payload::Payload;
use crate::plan::{Created, Record};
use crate::run;
use crate::time::Time;

/// Conditions for planning a plan: not before a time, not after one, not before other plans are
/// over, not without permission. Unset conditions do not apply.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::Delay;
///
/// let tonight = Delay::by(Duration::from_secs(8 * 3_600)).or_never_after(Duration::from_secs(3_600));
/// # let _ = tonight;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Delay {
    pub(super) start: Start,
    pub(super) window: Option<Duration>,
    pub(super) before: Option<Time>,
    pub(super) after: Vec<PlanId>,
    pub(super) is_frozen: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Start {
    #[default]
    AtOnce,
    At(Time),
    In(Duration),
}

impl Delay {
    /// Not before so much time has passed.
    pub fn by(delay: Duration) -> Self {
        Self { start: Start::In(delay), ..Self::default() }
    }

    /// Not before this time of the wall clock.
    pub fn until(time: impl Into<Time>) -> Self {
        Self { start: Start::At(time.into()), ..Self::default() }
    }

    /// After these plans have stopped. If one of them fails, is cancelled or reverted, this one is
    /// not planned; a halted one counts as over.
    pub fn after(plans: impl IntoIterator<Item = PlanId>) -> Self {
        Self { after: plans.into_iter().collect(), ..Self::default() }
    }

    /// When somebody allows it, with [`PlanHandle::delay_until`](crate::PlanHandle::delay_until).
    pub fn frozen() -> Self {
        Self { is_frozen: true, ..Self::default() }
    }

    /// If it could not be planned within this time after its start, it never is.
    pub fn or_never_after(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// If it could not be planned before this time, it never is.
    pub fn or_never_after_time(mut self, time: impl Into<Time>) -> Self {
        self.before = Some(time.into());
        self
    }

    /// The same, and not before these plans are over.
    pub fn and_after(mut self, plans: impl IntoIterator<Item = PlanId>) -> Self {
        self.after.extend(plans);
        self
    }

    /// The same, and not before somebody allows it.
    pub fn and_frozen(mut self) -> Self {
        self.is_frozen = true;
        self
    }

    /// The earliest and the latest time.
    pub(super) fn times(&self, now: Time) -> (Option<Time>, Option<Time>) {
        let start = match self.start {
            Start::AtOnce => None,
            Start::At(time) => Some(time),
            Start::In(delay) => Some(now.after(delay)),
        };
        let end = self.window.map(|window| start.unwrap_or(now).after(window));
        (start, self.before.or(end))
    }

    /// Those of its times that count from this time, and are no dates.
    fn counted(&self, now: Time) -> Vec<Time> {
        let (start, end) = self.times(now);
        let start = start.filter(|_| matches!(self.start, Start::In(_)));
        let is_date = matches!(self.start, Start::At(_)) || self.before.is_some();
        start.into_iter().chain(end.filter(|_| !is_date)).collect()
    }
}

impl Delay {
    /// The second record of a plan that is planned later.
    pub(super) fn record(self, created: &Created) -> Record {
        let at = created.at;
        let (start_at, start_before) = self.times(at);
        let (after, is_frozen, by) = (self.after, self.is_frozen, created.by.clone());
        Record::Delayed { at, start_at, start_before, after, is_frozen, by }
    }
}

impl World {
    /// Plans and runs an action later: only its input check is called before.
    ///
    /// The returned future ends when that is durable.
    pub fn delay<A: Action>(&self, delay: Delay, input: A::Input) -> Triggering {
        self.delay_with::<A>(TriggerOptions::new(), delay, input)
    }

    /// As [`World::delay`], with more said about the plan, as with
    /// [`trigger_with`](World::trigger_with). A deadline counts from when the plan is planned; a key is
    /// taken at once, so that the same plan is not delayed twice.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turnwheel_engine::{Action, Delay, MemoryStore, Run, Runs, StepContext, TriggerOptions, World};
    /// # use turnwheel_engine::{ActionError, Next};
    ///
    /// struct Remind;
    ///
    /// impl Action for Remind {
    ///     const NAME: &'static str = "remind";
    ///     type Input = String;
    ///     type Output = ();
    ///     type Phases = Runs;
    /// }
    /// # impl Run for Remind {
    /// #     fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
    /// #         Ok(Next::Done)
    /// #     }
    /// # }
    ///
    /// let world = World::builder().action(Remind).build(MemoryStore::new())?;
    /// let options = TriggerOptions::new().label("customer", "Ann").key("Ann's reminder");
    /// let tonight = Delay::by(Duration::from_secs(8 * 3_600));
    /// let plan = world.delay_with::<Remind>(options, tonight, "the parcel".to_owned()).wait()?;
    /// assert_eq!(plan.view().wait()?.labels["customer"], "Ann");
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delay_with<A: Action>(
        &self,
        options: TriggerOptions,
        delay: Delay,
        input: A::Input,
    ) -> Triggering {
        let mut created = match self.created::<A>(Payload::of(&input), None) {
            Ok(created) => created,
            Err(error) => return Triggering::refused(error),
        };
        if let Err(error) = options.say(&mut created) {
            return Triggering::refused(error);
        }
        let counted = delay.counted(created.at);
        let delayed = delay.record(&created);
        let keyed = options.keyed(&created);
        let given = options.plan_id();
        self.later(given, options.own_priority(), created, delayed, counted).comparing(keyed)
    }

    /// Begins a plan that is planned later, as its second record says.
    pub(crate) fn begin_later(&self, created: Created, delayed: Record) -> Triggering {
        self.later(None, None, created, delayed, Vec::new()).comparing(None)
    }

    fn later(
        &self,
        given: Option<PlanId>,
        priority: Option<i32>,
        created: Created,
        delayed: Record,
        counted: Vec<Time>,
    ) -> Triggering {
        let shared = &self.shared;
        if let Some(plan) = given.filter(|plan| !shared.owns(*plan)) {
            let (delayed, is_chosen) = (Some(delayed), true);
            return self.begin_elsewhere(Elsewhere { plan, created, delayed, priority, is_chosen });
        }
        let is_known = shared.registry.find(&created.action).is_some();
        match given {
            None if !is_known || !shared.begins_plans() => {
                self.begin_placed(created, Some(delayed), priority)
            }
            _ => {
                let id = given.unwrap_or_else(|| shared.ids.next(created.at));
                shared.clock.timed(id, counted);
                self.delay_here(id, given.is_some(), created, delayed)
            }
        }
    }

    /// Delays a plan of this world, after middleware has seen it.
    pub(super) fn delay_here(
        &self,
        id: PlanId,
        is_chosen: bool,
        mut created: Created,
        mut delayed: Record,
    ) -> Triggering {
        let registry = &self.shared.registry;
        let Some(action) = registry.find(&created.action) else {
            return Triggering::refused(TriggerError::UnknownAction(created.action));
        };
        if let Some(chain) = registry.chains().of(&created.action) {
            if let Err(error) = delay_around(chain, id, &**action, &mut created, &mut delayed) {
                let action = created.action;
                return Triggering::refused(TriggerError::Delay { action, error });
            }
        }
        let keyed = Keyed::of(&created);
        let heirs = self.copy_for_heirs(id, &created, Some(&delayed), is_chosen);
        let begin = |reply| run::Delay { created: Box::new(created), delayed, reply };
        let begun = if is_chosen {
            // It may be in the store.
            self.begin_known(id, begin)
        } else {
            self.begin(id, begin)
        };
        begun.comparing(keyed).following(heirs)
    }
}
