//! The world of a server: its actions, flows and state.

use super::{encoded, Client, ClientError, WITHIN};
use crate::api;

impl Client {
    /// The identity of the world, incidents of earlier processes, and its retention.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub fn world(&self) -> Result<api::WorldInfo, ClientError> {
        self.get("/world")
    }

    /// The processes that have the store, the oldest first.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub fn nodes(&self) -> Result<api::Nodes, ClientError> {
        self.get("/nodes")
    }

    /// A node by its name.
    ///
    /// # Errors
    ///
    /// There is no such node, or the server does not answer.
    pub fn node(&self, name: &str) -> Result<api::NodeInfo, ClientError> {
        self.get(&format!("/nodes/{}", encoded(name)))
    }

    /// Has a node give its slots to the others, until its process ends. Any node can be asked.
    ///
    /// # Errors
    ///
    /// There is no such node, or the server does not answer, or refuses.
    pub fn drain(&self, name: &str) -> Result<api::NodeInfo, ClientError> {
        self.post(&format!("/nodes/{}/drain", encoded(name)), &serde_json::json!({}))
    }

    /// The owners of the slots into which plans fall.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub fn slots(&self) -> Result<api::SlotMap, ClientError> {
        self.get("/slots")
    }

    /// Plans that have ended within the last hours, in so many parts of time.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub fn ended(&self, hours: u32, parts: u32) -> Result<api::Ended, ClientError> {
        self.get(&format!("/stats/ended?hours={hours}&parts={parts}"))
    }

    /// The queues, the default one first.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn queues(&self) -> Result<api::Queues, ClientError> {
        self.get("/queues")
    }

    /// The locks that plans have or wait for, by name.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn locks(&self) -> Result<api::Locks, ClientError> {
        self.get("/locks")
    }

    /// The groups of workers: their load, turns that last, actors by class.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn runtime(&self) -> Result<api::RuntimeInfo, ClientError> {
        self.get("/runtime")
    }

    /// The types of entities, that of plans first.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn entity_types(&self) -> Result<api::EntityTypes, ClientError> {
        self.get("/entities")
    }

    /// An entity by the name of its type and its key.
    ///
    /// # Errors
    ///
    /// There is no such type, or the server does not answer.
    pub fn entity(&self, name: &str, key: &str) -> Result<api::EntityInfo, ClientError> {
        self.get(&format!("/entities/{}/{}", encoded(name), encoded(key)))
    }

    /// Events that could not be delivered, all that are kept, page by page.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn dead_letters(&self) -> Result<api::DeadLetterPage, ClientError> {
        let mut all: api::DeadLetterPage = self.get("/dead-letters")?;
        while let Some(cursor) = all.next.take() {
            let path = format!("/dead-letters?cursor={}", encoded(&cursor));
            let page: api::DeadLetterPage = self.get(&path)?;
            all.letters.extend(page.letters);
            all.next = page.next;
        }
        Ok(all)
    }

    /// Tries to deliver a dead letter again, to the same step or to another one of its plan.
    ///
    /// # Errors
    ///
    /// There is no letter with this number, no step takes it, or the server does not answer.
    pub fn redeliver(&self, number: u64, to: &api::Redeliver) -> Result<(), ClientError> {
        let path = format!("/dead-letters/{}/redeliver", encoded(&number.to_string()));
        self.send("POST", &path, &[], to, WITHIN).map(drop)
    }
}
