//! Actions that join the planning of others, which know nothing of them.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::planner::{ActionRef, Planning};
use crate::action::Action;
use crate::error::{ActionError, BuildError};
use crate::id::ActionId;
use crate::payload::Payload;

/// Plans the plugin as a child of the extended action, from the input that this was planned with.
type Join = dyn Fn(&mut Planning, ActionId, &Payload) -> Result<(), ActionError> + Send + Sync;

/// One action that joins the planning of another.
#[derive(Clone)]
pub(crate) struct Extension {
    plugin: TypeId,
    plugin_name: &'static str,
    join: Arc<Join>,
}

/// Extensions, by the names of the actions that they extend.
#[derive(Default)]
pub(crate) struct Extensions(HashMap<&'static str, Vec<Extension>>);

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|base| (base, self.of(base)))).finish()
    }
}

impl Extensions {
    pub(crate) fn add<P: Action, B: Action>(
        &mut self,
        input: impl Fn(B::Input, ActionRef<B>) -> Result<P::Input, ActionError> + Send + Sync + 'static,
    ) -> Result<(), BuildError> {
        let joined = self.0.entry(B::NAME).or_default();
        if joined.iter().any(|extension| extension.plugin == TypeId::of::<P>()) {
            return Err(BuildError::ExtendedTwice { plugin: P::NAME, base: B::NAME });
        }
        let join = move |planning: &mut Planning, base: ActionId, given: &Payload| {
            let input = input(given.read()?, planning.reference(base))?;
            planning.plan_child::<P>(Some(base), Some(B::NAME), input).map(|_| ())
        };
        joined.push(Extension {
            plugin: TypeId::of::<P>(),
            plugin_name: P::NAME,
            join: Arc::new(join),
        });
        Ok(())
    }

    /// Forgets the extensions by actions that are not there, and refuses circles.
    pub(crate) fn check(
        &mut self,
        is_registered: impl Fn(TypeId) -> bool,
    ) -> Result<(), BuildError> {
        for joined in self.0.values_mut() {
            joined.retain(|extension| is_registered(extension.plugin));
        }
        self.0.retain(|_, joined| !joined.is_empty());
        let mut names: Vec<&'static str> = self.0.keys().copied().collect();
        names.sort_unstable();
        let mut safe = HashSet::new();
        for name in names {
            self.walk(name, &mut Vec::new(), &mut safe)?;
        }
        Ok(())
    }

    fn walk(
        &self,
        name: &'static str,
        path: &mut Vec<&'static str>,
        safe: &mut HashSet<&'static str>,
    ) -> Result<(), BuildError> {
        if safe.contains(name) {
            return Ok(());
        }
        let first = path.iter().position(|known| *known == name);
        path.push(name);
        if let Some(first) = first {
            return Err(BuildError::ExtensionCircle(path[first..].join(" → ")));
        }
        for plugin in self.of(name) {
            self.walk(plugin, path, safe)?;
        }
        path.pop();
        safe.insert(name);
        Ok(())
    }

    /// The names of the actions that join the planning of this one, in the order of registration.
    pub(crate) fn of(&self, base: &str) -> Vec<&'static str> {
        let joined = self.0.get(base).into_iter().flatten();
        joined.map(|extension| extension.plugin_name).collect()
    }

    pub(crate) fn is_extended(&self, base: &str) -> bool {
        self.0.contains_key(base)
    }
}

impl Planning {
    /// Plans the actions that extend one that was just planned, as its children and at the same time
    /// as what it has planned itself.
    pub(super) fn extend(&mut self, base: ActionId, input: &Payload) -> Result<(), ActionError> {
        let registry = self.registry();
        let name = self.name_of(base);
        let joined = registry.extensions().0.get(name.as_str()).into_iter().flatten();
        joined.into_iter().try_for_each(|extension| (extension.join)(self, base, input))
    }
}
