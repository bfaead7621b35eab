//! The ids of events that a step has got.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::{EVENT_IDS_AFTER_END, EVENT_IDS_MAX};

/// The newest ids of a step's events. To look one up costs the same however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub(crate) struct Seen {
    order: VecDeque<Arc<str>>,
    known: HashSet<Arc<str>>,
}

impl From<Vec<String>> for Seen {
    fn from(ids: Vec<String>) -> Self {
        let order: VecDeque<Arc<str>> = ids.into_iter().map(Arc::from).collect();
        Self { known: order.iter().cloned().collect(), order }
    }
}

impl From<Seen> for Vec<String> {
    fn from(seen: Seen) -> Self {
        seen.order.iter().map(|id| id.to_string()).collect()
    }
}

impl Seen {
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Remembers an id, and forgets the oldest ones.
    pub(super) fn add(&mut self, id: &str) {
        let id: Arc<str> = id.into();
        if self.known.insert(Arc::clone(&id)) {
            self.order.push_back(id);
        }
        self.keep(EVENT_IDS_MAX);
    }

    /// The step is over: a sender that repeats an event does so soon, or never.
    pub(super) fn shrink(&mut self) {
        self.keep(EVENT_IDS_AFTER_END);
        self.order.shrink_to_fit();
        self.known.shrink_to_fit();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn keep(&mut self, most: usize) {
        while self.order.len() > most {
            self.order.pop_front().map(|id| self.known.remove(&id));
        }
    }
}
