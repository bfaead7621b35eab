//! The ids of events that a step has got.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{EVENT_IDS_AFTER_END, EVENT_IDS_MAX};

/// The newest ids of a step's events. A look-up costs the same however many there are. A step
/// without events takes one word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub(crate) struct Seen(Option<Box<Ids>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ids {
    order: VecDeque<Arc<str>>,
    known: HashSet<Arc<str>>,
}

impl From<Vec<String>> for Seen {
    fn from(ids: Vec<String>) -> Self {
        if ids.is_empty() {
            return Self::default();
        }
        let order: VecDeque<Arc<str>> = ids.into_iter().map(Arc::from).collect();
        Self(Some(Box::new(Ids { known: order.iter().cloned().collect(), order })))
    }
}

impl From<Seen> for Vec<String> {
    fn from(seen: Seen) -> Self {
        seen.0.iter().flat_map(|ids| &ids.order).map(|id| id.to_string()).collect()
    }
}

impl Seen {
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|ids| ids.known.contains(id))
    }

    /// Remembers an id, and forgets the oldest ones.
    pub(super) fn add(&mut self, id: &str) {
        let ids = self.0.get_or_insert_default();
        let id: Arc<str> = id.into();
        if ids.known.insert(Arc::clone(&id)) {
            ids.order.push_back(id);
        }
        ids.keep(EVENT_IDS_MAX);
    }

    /// The step is over: a sender that repeats an event does so soon, or never.
    pub(super) fn shrink(&mut self) {
        if let Some(ids) = &mut self.0 {
            ids.keep(EVENT_IDS_AFTER_END);
            ids.order.shrink_to_fit();
            ids.known.shrink_to_fit();
        }
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

impl Ids {
    fn keep(&mut self, most: usize) {
        while self.order.len() > most {
            self.order.pop_front().map(|id| self.known.remove(&id));
        }
    }
}
