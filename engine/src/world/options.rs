//! Options of a trigger.

use std::time::Duration;

use turnwheel_actors::{TraceContext, TraceContextError};

use super::known_key::Keyed;
use super::labels::check_all;
use super::reach::Elsewhere;
use super::{Triggering, World};
use crate::action::Action;
use crate::error::{cut, TextTooLong, TriggerError};
use crate::id::PlanId;
use crate::limits::{KEY_BYTES_MAX, REASON_BYTES_MAX};
use crate::payload::Payload;
use crate::plan::{plan_root, Created, Trace};
use crate::run::Begin;

/// Options of a trigger; everything has a default.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_engine::TriggerOptions;
///
/// let options = TriggerOptions::new()
///     .key("order 7")
///     .label("customer", "Ann")
///     .by("the shop")
///     .priority(5)
///     .deadline(Duration::from_secs(3600));
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TriggerOptions {
    key: Option<String>,
    /// Whether the key alone says that it is the same plan.
    is_key_enough: bool,
    labels: Vec<(String, String)>,
    by: Option<String>,
    id: Option<PlanId>,
    /// The world that is to run it.
    world: Option<u64>,
    priority: Option<i32>,
    deadline: Option<Duration>,
    trace: Option<TraceContext>,
}

impl TriggerOptions {
    /// Nothing said.
    pub fn new() -> Self {
        Self::default()
    }

    /// An idempotency key: a second trigger with the same key answers the plan of the first one.
    /// With another action or input it is refused with
    /// [`TriggerError::KeyReused`](crate::TriggerError::KeyReused); inputs are compared as JSON.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The key of a cause, such as an event: the plan of the first trigger stands, whatever its
    /// input.
    pub(crate) fn key_of_cause(mut self, key: impl Into<String>) -> Self {
        self.is_key_enough = true;
        self.key(key)
    }

    /// The contents that a plan with the same key must have.
    pub(super) fn keyed(&self, created: &Created) -> Option<Box<Keyed>> {
        Keyed::of(created).filter(|_| !self.is_key_enough)
    }

    /// A label: shown with the plan, and used to [find the plan](crate::store::Filter). The same
    /// name again replaces the value. Number and length are limited: [`limits`](crate::limits).
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.labels.retain(|(known, _)| *known != name);
        self.labels.push((name, value.into()));
        self
    }

    /// A label without a value.
    pub fn tag(self, name: impl Into<String>) -> Self {
        self.label(name, "")
    }

    /// The author of the trigger, for the history and for search.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// The id of the plan, instead of one of the world's. If there is a plan with this id, the trigger
    /// is refused with [`TriggerError::Exists`](crate::TriggerError::Exists).
    pub fn id(mut self, id: PlanId) -> Self {
        self.id = Some(id);
        self
    }

    /// The priority of its steps in queues, instead of that of the root action: higher ones first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The W3C trace of the plan, instead of that of the current
    /// [request](turnwheel_actors::RequestContext). It is stored with the plan, and passed to its
    /// steps and sub-plans.
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// As [`TriggerOptions::trace`], from the text of a header `traceparent`.
    ///
    /// # Errors
    ///
    /// The header is not valid for version 00.
    pub fn traceparent(self, header: &str) -> Result<Self, TraceContextError> {
        Ok(self.trace(header.parse()?))
    }

    /// When the plan is cancelled if it is still running, counted from the trigger, and of a delayed plan from
    /// when it is planned. A paused plan is left as it is until somebody resumes it.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Has the plan begin in another world.
    pub(crate) fn in_world(mut self, world: u64) -> Self {
        self.world = Some(world);
        self
    }

    pub(super) fn plan_id(&self) -> Option<PlanId> {
        self.id
    }

    pub(super) fn own_priority(&self) -> Option<i32> {
        self.priority
    }

    /// Puts what was said into how the plan begins.
    pub(super) fn say(&self, created: &mut Created) -> Result<(), TriggerError> {
        check_all(&self.labels).map_err(TriggerError::Label)?;
        created.labels.clone_from(&self.labels);
        if let Some(key) = &self.key {
            TextTooLong::check("key", key, KEY_BYTES_MAX).map_err(TriggerError::Key)?;
            created.key = Some(key.clone());
        }
        if let Some(by) = &self.by {
            created.by = cut(by.clone(), REASON_BYTES_MAX);
        }
        created.priority = self.priority.unwrap_or(created.priority);
        if let Some(trace) = &self.trace {
            created.trace = Some(Trace::of(trace));
        }
        created.deadline = self.deadline.map(|deadline| created.at.after(deadline));
        Ok(())
    }
}

impl World {
    /// As [`World::trigger`], with more said about the plan.
    pub fn trigger_with<A: Action>(&self, options: TriggerOptions, input: A::Input) -> Triggering {
        let mut created = match self.created::<A>(Payload::of(&input), None) {
            Ok(created) => created,
            Err(error) => return Triggering::refused(error),
        };
        if let Err(error) = options.say(&mut created) {
            return Triggering::refused(error);
        }
        let keyed = options.keyed(&created);
        self.trigger_created::<A>(&options, created, input).comparing(keyed)
    }

    fn trigger_created<A: Action>(
        &self,
        options: &TriggerOptions,
        created: Created,
        input: A::Input,
    ) -> Triggering {
        let shared = &self.shared;
        let is_here = options.id.is_none_or(|id| shared.owns(id));
        if let Some(plan) = options.world.and_then(|world| shared.place_in(world)) {
            let (delayed, priority, is_chosen) = (None, options.priority, false);
            return self.begin_elsewhere(Elsewhere { plan, created, delayed, priority, is_chosen });
        }
        match options.id {
            None if !self.runs::<A>() => {
                return self.begin_placed(created, None, options.priority);
            }
            Some(plan) if !is_here => {
                let (delayed, priority, is_chosen) = (None, options.priority, true);
                let begin = Elsewhere { plan, created, delayed, priority, is_chosen };
                return self.begin_elsewhere(begin);
            }
            Some(_) if !self.runs::<A>() => {
                return Triggering::refused(TriggerError::UnknownAction(A::NAME.to_owned()));
            }
            _ => {}
        }
        let id = options.id.unwrap_or_else(|| shared.ids.next(created.at));
        let planned = Box::new(plan_root::<A>(&shared.registry, id, Ok(input), || shared.now()));
        let heirs = self.copy_for_heirs(id, &created, None, options.id.is_some());
        let begin = |reply| Begin { created: Box::new(created), planned, reply };
        let begun = match options.id {
            // It may be in the store.
            Some(_) => self.begin_known(id, begin),
            None if options.is_key_enough => self.begin_also_at_the_end(id, begin),
            None => self.begin(id, begin),
        };
        begun.following(heirs)
    }
}
