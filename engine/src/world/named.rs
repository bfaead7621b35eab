//! Plans of actions whose types are not known where they are asked for: by name, with JSON.

use super::reach::Elsewhere;
use super::{Delay, TriggerOptions, Triggering, World};
use crate::error::TriggerError;
use crate::id::PlanId;
use crate::payload::Payload;
use crate::plan::{Created, Record, Trace};
use crate::run::Begin;

/// An action that a world knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Whether its suspended steps are called when their plan is cancelled.
    pub is_cancellable: bool,
}

/// A plan that was asked for by the name of its action.
#[derive(Debug)]
#[must_use = "whether the plan was taken is known when this has ended"]
pub struct Named {
    /// The id of the plan if it is a new one. The result of [`Named::triggering`] has another id if
    /// the idempotency key was taken.
    pub id: PlanId,
    /// The plan, once it is durable.
    pub triggering: Triggering,
}

impl World {
    /// The actions that are registered, by name.
    pub fn actions(&self) -> Vec<ActionInfo> {
        let mut actions: Vec<ActionInfo> = self
            .shared
            .registry
            .all()
            .map(|(name, action)| ActionInfo {
                name: name.to_owned(),
                version: action.version(),
                is_cancellable: action.is_cancellable(),
            })
            .collect();
        actions.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        actions
    }

    /// As [`World::trigger_with`], for an action whose type is not known here.
    ///
    /// An input that is none for the action is refused with
    /// [`TriggerError::Input`](crate::TriggerError::Input), and nothing is stored.
    ///
    /// ```
    /// use turnwheel_engine::{MemoryStore, Payload, TriggerError, TriggerOptions, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// let input = Payload::from_json(r#"{"order": 7}"#)?;
    /// let named = world.trigger_named("ship", TriggerOptions::new().key("order 7"), input);
    /// let refused = named.triggering.wait().unwrap_err();
    /// assert!(matches!(refused, TriggerError::UnknownAction(name) if name == "ship"));
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trigger_named(&self, action: &str, options: TriggerOptions, input: Payload) -> Named {
        let shared = &self.shared;
        let given = options.plan_id();
        let created = match self.created_named(action, &options, input) {
            Ok(created) => created,
            Err(error) => return self.refuse(given, error),
        };
        let Some(known) = shared.registry.find(action) else {
            return self.refuse(given, TriggerError::UnknownAction(action.to_owned()));
        };
        let keyed = options.keyed(&created);
        if let Some(elsewhere) = self.named_elsewhere(given, &created, None) {
            return Named { triggering: elsewhere.triggering.comparing(keyed), ..elsewhere };
        }
        let id = given.unwrap_or_else(|| shared.ids.next(created.at));
        let planned = known.plan(&shared.registry, id, &created.input, &|| shared.now());
        let heirs = self.copy_for_heirs(id, &created, None, given.is_some());
        let begin = |reply| Begin { created: Box::new(created), planned: Box::new(planned), reply };
        let triggering = match given {
            // It may be in the store.
            Some(_) => self.begin_known(id, begin),
            None => self.begin(id, begin),
        };
        Named { id, triggering: triggering.comparing(keyed).following(heirs) }
    }

    /// As [`World::trigger_named`], to be planned and run later.
    pub fn delay_named(
        &self,
        action: &str,
        options: TriggerOptions,
        delay: Delay,
        input: Payload,
    ) -> Named {
        let given = options.plan_id();
        let created = match self.created_named(action, &options, input) {
            Ok(created) => created,
            Err(error) => return self.refuse(given, error),
        };
        let delayed = delay.record(&created);
        let keyed = options.keyed(&created);
        if let Some(elsewhere) = self.named_elsewhere(given, &created, Some(&delayed)) {
            return Named { triggering: elsewhere.triggering.comparing(keyed), ..elsewhere };
        }
        let id = given.unwrap_or_else(|| self.shared.ids.next(created.at));
        let triggering = self.delay_here(id, given.is_some(), created, delayed);
        Named { id, triggering: triggering.comparing(keyed) }
    }

    /// Has another world begin the plan, if this one does not run it.
    fn named_elsewhere(
        &self,
        given: Option<PlanId>,
        created: &Created,
        delayed: Option<&Record>,
    ) -> Option<Named> {
        let plan = match given {
            Some(plan) if self.shared.owns(plan) => return None,
            None if self.shared.begins_plans() => return None,
            Some(plan) => plan,
            None => match self.place(&created.action) {
                Ok(plan) => plan,
                Err(error) => return Some(self.refuse(given, error)),
            },
        };
        let (delayed, priority) = (delayed.cloned(), Some(created.priority));
        let (created, is_chosen) = (created.clone(), given.is_some());
        let begin = Elsewhere { plan, created, delayed, priority, is_chosen };
        Some(Named { id: plan, triggering: self.begin_elsewhere(begin) })
    }

    fn refuse(&self, given: Option<PlanId>, error: TriggerError) -> Named {
        let id = given.unwrap_or_else(|| self.shared.ids.next(self.shared.now()));
        Named { id, triggering: Triggering::refused(error) }
    }

    fn created_named(
        &self,
        name: &str,
        options: &TriggerOptions,
        input: Payload,
    ) -> Result<Created, TriggerError> {
        let Some(action) = self.shared.registry.find(name) else {
            return Err(TriggerError::UnknownAction(name.to_owned()));
        };
        let fits = action.check(action.version(), &input, &Payload::null());
        if let Err(error) = fits {
            let (action, problem) = (name.to_owned(), format!("does not fit: {}", error.message));
            return Err(TriggerError::Input { action, problem });
        }
        let mut created = Created {
            at: self.shared.now(),
            action: name.to_owned(),
            input,
            caller: None,
            lineage: Vec::new(),
            key: None,
            labels: Vec::new(),
            by: "trigger".to_owned(),
            priority: action.priority().unwrap_or(0),
            deadline: None,
            trace: Trace::ambient(),
        };
        options.say(&mut created)?;
        Ok(created)
    }
}
