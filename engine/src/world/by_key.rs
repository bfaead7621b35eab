//! Work that is divided over the nodes of a store by keys: who owns a key, and requests for its
//! owner.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

use super::hub::within;
use super::reach::ONCE;
use super::{Asking, Later, Shared, World, WorldView};
use crate::connect::{Answer, AnswerKind, ConnectError, Request, RequestKind};
use crate::limits::REQUEST_LIMIT;
use crate::payload::Payload;
use crate::store::{slot_of_key, Hold, Slots, NO_EPOCH};

/// Handles the requests of a service for keys of this world: the key, what was asked, and how long
/// ago.
pub(super) type Service =
    Arc<dyn Fn(String, Payload, Duration) -> Later<'static, AnswerKind> + Send + Sync>;

/// The services of a world, by name.
#[derive(Default)]
pub(super) struct Services(Mutex<BTreeMap<String, Service>>);

impl Services {
    /// Adds a service, in the place of what had its name before.
    pub(super) fn add(&self, name: &str, service: Service) {
        self.0.lock().insert(name.to_owned(), service);
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

impl World {
    /// The slots whose plans and keys this world owns now. A world that is alone owns all of them.
    ///
    /// Work that is divided by keys, each in the slot [`slot_of_key`], is done by the owner of the
    /// slot:
    ///
    /// 1. It reads what is due with [`TimedStates::list_in`](crate::TimedStates::list_in) of these
    ///    slots: other nodes do the rest.
    /// 2. It decides under the [hold](World::hold_of_key) of the key, and writes with
    ///    [`TimedStates::save_held`](crate::TimedStates::save_held): the commit is refused if
    ///    another node has got the slot meanwhile, however long this node was stopped. What
    ///    follows from the decision (a plan with an idempotency key, a message) is done after it.
    /// 3. When [slots have moved](World::slots_changed) it forgets what it keeps in memory for keys
    ///    that it lost, and reads what is due of those that it got.
    /// 4. Other nodes [ask the owner](World::ask_key_owner), or write the state with the version
    ///    that they have read; the owner gets a conflict by that and reads it again.
    ///
    /// ```
    /// use turnwheel_engine::store::StateScan;
    /// use turnwheel_engine::{MemoryStore, Time, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// let states = world.timed_states();
    /// let hold = world.hold_of_key("backup").expect("a world that is alone has all slots");
    /// turnwheel_runtime::completion::block_on(async {
    ///     let value = (Some(b"x".to_vec()), Some(Time(5)));
    ///     states.save_held(hold, "jobs", "backup", value, 0).await?;
    ///     let due = StateScan::Due(Time(9));
    ///     let due = states.list_in(&world.own_slots(), "jobs", due, 100).await?;
    ///     assert_eq!(due[0].key, "backup");
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// })??;
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn own_slots(&self) -> Slots {
        self.shared.slots()
    }

    /// The slot of a key with its epoch, if this world owns it; nothing once the world is ending.
    pub fn hold_of_key(&self, key: &str) -> Option<Hold> {
        let slot = slot_of_key(key);
        let epoch = self.shared.journal.directory().held_slot(self.id(), slot);
        (epoch != NO_EPOCH && !self.shared.is_ending()).then_some(Hold { slot, epoch })
    }

    /// The world that owns a key, if any does.
    pub fn owner_of_key(&self, key: &str) -> Option<WorldView> {
        let worlds = self.shared.hub.worlds();
        worlds.find(worlds.owner(slot_of_key(key))).map(|row| WorldView::of(row, None))
    }

    /// Completes at the next change of worlds or owners. Ask for it before you look at
    /// [`World::own_slots`], so that no change is missed.
    pub fn slots_changed(&self) -> Completion<()> {
        self.shared.journal.directory().changed()
    }

    /// Takes the requests of a service for keys that this world owns, in the place of what took
    /// them before. An error is a text for the one who has asked.
    pub fn serve_keys(
        &self,
        service: &str,
        take: impl Fn(String, Payload) -> Later<'static, Result<Payload, String>>
            + Send
            + Sync
            + 'static,
    ) {
        let answer = move |key, request, _age| -> Later<'static, AnswerKind> {
            let taken = take(key, request);
            Box::pin(async move { AnswerKind::Keyed(taken.await) })
        };
        self.shared.services.add(service, Arc::new(answer));
    }

    /// Asks the owner of a key, of this node or of another one, whichever it is by then. While the
    /// key moves to another node the request waits. It is done once at most.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Refused`] with the text of the service. Otherwise as for requests about
    /// plans: nobody owns the key, or the answer did not come.
    pub fn ask_key_owner(
        &self,
        service: &str,
        key: &str,
        request: Payload,
    ) -> Asking<Payload, ConnectError> {
        let (hub, from) = (Arc::clone(self.shared.hub()), self.id());
        let (service, key) = (service.to_owned(), key.to_owned());
        Asking::new(async move {
            let slot = slot_of_key(&key);
            let what = || format!("{service} «{key}»");
            let (service, key) = (service.clone(), key.clone());
            let asked = Request(RequestKind::Keyed { service, key, request });
            let answer = hub.reach_slot(from, slot, what, asked, ONCE);
            match within(&hub.group, REQUEST_LIMIT, answer).await?.0 {
                AnswerKind::Keyed(answer) => answer.map_err(ConnectError::Refused),
                other => Err(ConnectError::Refused(format!("it is answered by {other:?}"))),
            }
        })
    }
}

impl Shared {
    /// A request for the owner of a key.
    pub(super) fn take_keyed(
        self: &Arc<Self>,
        service: &str,
        key: String,
        request: Payload,
        age: Duration,
    ) -> Completion<Result<Answer, ConnectError>> {
        let answered = |kind| Completion::done(Ok(Answer(kind)));
        if self.journal().directory().held_slot(self.epoch(), slot_of_key(&key)) == NO_EPOCH {
            return answered(AnswerKind::Moved);
        }
        let Some(take) = self.services.0.lock().get(service).cloned() else {
            let problem = format!("this node does not serve {service}");
            return answered(AnswerKind::Keyed(Err(problem)));
        };
        let (told, taken) = completion();
        let Ok(answer) = catch_unwind(AssertUnwindSafe(|| take(key, request, age))) else {
            let problem = format!("{service} has panicked as it took the request");
            return answered(AnswerKind::Keyed(Err(problem)));
        };
        self.hub().spawn(async move {
            let _late = told.complete(Ok(Answer(answer.await)));
        });
        taken
    }
}
