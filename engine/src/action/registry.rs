//! The actions that a world knows.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::{Action, AnyAction, Begun, Call, Change, On};
use crate::error::{ActionError, BuildError, TextTooLong};
use crate::limits::NAME_BYTES_MAX;
use crate::middleware::{self, Chains};
use crate::plan::Extensions;
use crate::transaction::TransactionAdapter;

/// Actions by name and by type.
#[derive(Default)]
pub(crate) struct Registry {
    by_name: HashMap<&'static str, Arc<dyn AnyAction>>,
    by_type: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    extensions: Extensions,
    chains: Chains,
    hooks: Vec<(On, Arc<Hook>)>,
    has_hooks: bool,
    transaction: Option<Arc<dyn TransactionAdapter>>,
}

/// Code of the world that is told of changes.
pub(crate) type Hook = dyn Fn(&Change) -> Result<(), ActionError> + Send + Sync;

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Registry {
    /// Adds an action.
    pub(crate) fn add<A: Action>(&mut self, action: A) -> Result<(), BuildError> {
        TextTooLong::check("name of an action", A::NAME, NAME_BYTES_MAX)?;
        let action = Arc::new(action);
        let queue = AnyAction::queue(&*action).unwrap_or_default();
        TextTooLong::check("name of a queue", queue, NAME_BYTES_MAX)?;
        if self.by_name.insert(A::NAME, Arc::clone(&action) as _).is_some() {
            return Err(BuildError::DuplicateAction(A::NAME.to_owned()));
        }
        self.by_type.insert(TypeId::of::<A>(), action);
        self.has_hooks |= A::HOOKS != On::NOTHING;
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn AnyAction>> {
        self.by_name.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &Arc<dyn AnyAction>)> {
        self.by_name.iter().map(|(name, action)| (*name, action))
    }

    /// The names of all, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.by_name.keys().map(|name| (*name).to_owned()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn get<A: Action>(&self) -> Option<Arc<A>> {
        let action = self.by_type.get(&TypeId::of::<A>())?;
        Arc::clone(action).downcast().ok()
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    pub(crate) fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    pub(crate) fn chains(&self) -> &Chains {
        &self.chains
    }

    pub(crate) fn chains_mut(&mut self) -> &mut Chains {
        &mut self.chains
    }

    /// Begins a call of an action, with its middleware around it.
    pub(crate) fn begin(&self, name: &str, action: &Arc<dyn AnyAction>, call: Call) -> Begun {
        middleware::begin(self.chains.of(name).cloned(), name, action, call)
    }

    pub(crate) fn add_hook(&mut self, on: On, hook: Arc<Hook>) {
        self.has_hooks |= on != On::NOTHING;
        self.hooks.push((on, hook));
    }

    pub(crate) fn set_transaction(&mut self, adapter: Arc<dyn TransactionAdapter>) {
        self.transaction = Some(adapter);
    }

    /// The transactions of the host, if it has them.
    pub(crate) fn transaction(&self) -> Option<Arc<dyn TransactionAdapter>> {
        self.transaction.clone()
    }

    /// Whether anybody is told of changes.
    pub(crate) fn has_hooks(&self) -> bool {
        self.has_hooks
    }

    /// The hooks of the world for a change, in the order of registration.
    pub(crate) fn world_hooks(&self, on: On) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(move |(of, _)| of.includes(on)).map(|(_, hook)| &**hook)
    }

    /// Checks that need all actions.
    pub(crate) fn check(&mut self) -> Result<(), BuildError> {
        let by_type = &self.by_type;
        self.extensions.check(|action| by_type.contains_key(&action))?;
        self.chains.resolve(self.by_name.keys().copied())
    }
}
