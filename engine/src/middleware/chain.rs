//! Chains of middleware around actions, and their order.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::{AnyMiddleware, Layer};
use crate::error::BuildError;

type Chain = Arc<[Arc<dyn AnyMiddleware>]>;

/// The chains of all actions.
#[derive(Default)]
pub(crate) struct Chains {
    world: Vec<Layer>,
    actions: HashMap<&'static str, Vec<Layer>>,
    without: HashSet<(&'static str, TypeId)>,
    /// In their order, once the world is built. Actions without a chain are not in it.
    resolved: HashMap<&'static str, Chain>,
}

impl fmt::Debug for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chains")
            .field("world", &self.world)
            .field("actions", &self.actions)
            .finish_non_exhaustive()
    }
}

impl Chains {
    pub(crate) fn of_world(&mut self, layer: Layer) {
        self.world.push(layer);
    }

    pub(crate) fn of_action(&mut self, action: &'static str, layer: Layer) {
        self.actions.entry(action).or_default().push(layer);
    }

    pub(crate) fn remove(&mut self, action: &'static str, middleware: TypeId) {
        self.without.insert((action, middleware));
    }

    /// The chain around an action, if there is one.
    pub(crate) fn of(&self, action: &str) -> Option<&Chain> {
        if self.resolved.is_empty() {
            return None;
        }
        self.resolved.get(action)
    }

    /// Puts the chains of these actions in order.
    pub(crate) fn resolve(
        &mut self,
        actions: impl Iterator<Item = &'static str>,
    ) -> Result<(), BuildError> {
        for action in actions {
            let own = self.actions.get(action).into_iter().flatten();
            let mut layers: Vec<Layer> = Vec::new();
            for layer in self.world.iter().chain(own) {
                let is_known = layers.iter().any(|known| known.id == layer.id);
                if !is_known && !self.without.contains(&(action, layer.id)) {
                    layers.push(layer.clone());
                }
            }
            let chain: Chain = order(action, layers)?.into();
            if !chain.is_empty() {
                self.resolved.insert(action, chain);
            }
        }
        Ok(())
    }
}

/// Puts those that replace others in their places.
fn replace(mut layers: Vec<Layer>) -> Vec<Layer> {
    while let Some(from) = layers.iter().position(|layer| {
        let others = layers.iter().filter(|other| other.id != layer.id);
        layer.replaces.is_some_and(|gone| others.into_iter().any(|other| other.id == gone))
    }) {
        let mut layer = layers.remove(from);
        let gone = layer.replaces.take();
        let Some(place) = layers.iter().position(|other| Some(other.id) == gone) else { continue };
        let old = std::mem::replace(&mut layers[place], layer);
        let new = &mut layers[place];
        new.before.extend(old.before);
        new.after.extend(old.after);
        let id = new.id;
        let rules =
            layers.iter_mut().flat_map(|layer| layer.before.iter_mut().chain(&mut layer.after));
        for rule in rules.filter(|rule| **rule == old.id) {
            *rule = id;
        }
    }
    layers
}

/// The order of a chain, the outermost first: as given as far as the rules allow.
fn order(action: &str, layers: Vec<Layer>) -> Result<Vec<Arc<dyn AnyMiddleware>>, BuildError> {
    let mut open = replace(layers);
    let mut chain = Vec::with_capacity(open.len());
    while !open.is_empty() {
        let is_free = |layer: &Layer| {
            let others = || open.iter().filter(|other| other.id != layer.id);
            !others()
                .any(|other| layer.after.contains(&other.id) || other.before.contains(&layer.id))
        };
        let Some(next) = open.iter().position(is_free) else {
            let names: Vec<&str> = open.iter().map(|layer| layer.name).collect();
            return Err(BuildError::MiddlewareCircle {
                action: action.to_owned(),
                names: names.join(", "),
            });
        };
        chain.push(open.remove(next).middleware);
    }
    Ok(chain)
}
