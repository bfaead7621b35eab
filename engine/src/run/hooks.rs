//! Telling hooks of a plan's changes: after they are durable, on the blocking pool, at least once.
//!
//! | step | what happens | when the world ends here |
//! | --- | --- | --- |
//! | 1 | a change and `HooksDue` are written in one entry | nothing has happened |
//! | 2 | the hooks are called, in the order of the changes | they are called when the plan is loaded again |
//! | 3 | `HooksDone` is written | they are called again |
//!
//! A plan whose actions have no hooks for what has happened writes nothing for them.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use turnwheel_actors::{Context, Handler};

use super::decide::Effect;
use super::message::HooksTold;
use super::{on_pool, PlanActor};
use crate::action::{panic_message, Change, On, Registry};
use crate::error::ActionError;
use crate::id::ActionId;
use crate::middleware::{Around, Phase};
use crate::payload::Payload;
use crate::plan::{changes, HookDue, Plan, Record};

impl PlanActor {
    /// Before an entry is written: adds the changes in it that hooks are to be told of.
    pub(super) fn note_hooks(&mut self) {
        if !self.world.registry().has_hooks() {
            return;
        }
        let registry = Arc::clone(self.world.registry());
        let Some(plan) = &self.plan else { return };
        let mut changes = changes(plan, self.decided());
        changes.retain(|due| wanted(&registry, plan, due.on));
        if changes.is_empty() {
            return;
        }
        if let Some(mut decisions) = self.decisions() {
            decisions.record(Record::HooksDue { changes });
            decisions.effects.push(Effect::TellHooks);
        }
    }

    /// Calls the hooks that wait, where they may take their time.
    pub(super) fn tell_hooks(&mut self, cx: &mut Context<'_, Self>) {
        let Some(plan) = self.plan.as_ref().filter(|_| !self.is_hooking) else { return };
        let (due, last) = plan.hooks_due.all();
        if due.is_empty() {
            return;
        }
        self.is_hooking = true;
        let registry = Arc::clone(self.world.registry());
        let calls: Vec<Change> = due.iter().flat_map(|due| told(&registry, plan, due)).collect();
        let tell = move || calls.iter().for_each(|change| tell(&registry, change));
        cx.pipe(on_pool(cx.group(), tell), move |_told: Result<(), _>| HooksTold { last });
    }
}

impl Handler<HooksTold> for PlanActor {
    type Reply = ();

    fn handle(&mut self, HooksTold { last }: HooksTold, cx: &mut Context<'_, Self>) {
        self.is_hooking = false;
        if let Some(mut decisions) = self.decisions() {
            decisions.record(Record::HooksDone { last });
            if !decisions.plan.hooks_due.is_empty() {
                decisions.effects.push(Effect::TellHooks);
            }
        }
        self.settle(cx);
    }
}

/// Whether somebody is told of such a change.
fn wanted(registry: &Registry, plan: &Plan, on: On) -> bool {
    if registry.world_hooks(on).next().is_some() {
        return true;
    }
    let has = |name: &str| registry.find(name).is_some_and(|action| action.hooks().includes(on));
    if on.is_early() {
        return has(&plan.created.action);
    }
    // A plan that was not planned has no actions: its root is told.
    has(&plan.created.action) || plan.actions.iter().any(|action| has(&action.name))
}

/// Changes that the actions of a plan receive.
fn told(registry: &Registry, plan: &Plan, due: &HookDue) -> Vec<Change> {
    let change = |action: ActionId, name: &str, input: &Payload, output: Payload| Change {
        plan: plan.id,
        label: plan.label.clone(),
        on: due.on,
        at: due.at,
        result: due.result,
        action,
        name: name.to_owned(),
        input: input.clone(),
        output,
    };
    if due.on.is_early() || plan.actions.is_empty() {
        let created = &plan.created;
        return vec![change(ActionId(1), &created.action, &created.input, Payload::null())];
    }
    let is_told = |id: ActionId, name: &str| {
        let is_asking = registry.find(name).is_some_and(|found| found.hooks().includes(due.on));
        is_asking || id == ActionId(1)
    };
    let told = plan.actions.iter().filter(|action| is_told(action.id, &action.name));
    told.map(|action| {
        // A root that only plans others keeps no input of its own: it was given this one.
        let is_bare = action.id == ActionId(1) && action.input.is_null();
        let input = if is_bare { &plan.created.input } else { &action.input };
        change(action.id, &action.name, input, action.output.clone())
    })
    .collect()
}

/// Calls the hook of one action, and for the root also the hooks of the world. Errors are logged:
/// the plan does not depend on them.
fn tell(registry: &Registry, change: &Change) {
    let report = |result: Result<(), ActionError>| {
        if let Err(error) = result {
            let (plan, action, on) = (change.plan, &change.name, change.on.names());
            tracing::error!(%plan, action, on, %error, "a hook failed");
        }
    };
    if change.is_root() {
        for hook in registry.world_hooks(change.on) {
            report(guarded(|| hook(change)));
        }
    }
    let Some(action) = registry.find(&change.name) else { return };
    if !action.hooks().includes(change.on) {
        return;
    }
    let Some(chain) = registry.chains().of(&change.name) else {
        return report(guarded(|| action.changed(change)));
    };
    report(guarded(|| {
        let mut given = change.input.clone();
        let mut inner = |given: &Payload| {
            let change = Change { input: given.clone(), ..change.clone() };
            action.changed(&change)
        };
        let (plan, name) = (change.plan, change.name.as_str());
        Around::new(chain, Phase::Hook, plan, name, &mut given, &mut inner).pass()
    }));
}

fn guarded(hook: impl FnOnce() -> Result<(), ActionError>) -> Result<(), ActionError> {
    let result = catch_unwind(AssertUnwindSafe(hook));
    result.unwrap_or_else(|panic| Err(ActionError::new("panic", panic_message(panic))))
}
