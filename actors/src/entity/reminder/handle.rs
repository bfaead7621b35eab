//! The reminders of one entity: registered, read and removed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{
    has_same_times, time_of, MissedTicks, ReminderError, ReminderId, ReminderRow, Schedule,
    Service, NAME_BYTES_MAX, PER_ENTITY_MAX, REWRITES_MAX,
};
use crate::entity::{Directory, Entity, EntityContext, EntityKey, EntityRef, StoreError};

/// A reminder as it was registered or read. Its values do not change; as a handle it identifies
/// this registration, however often it ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reminder {
    row: ReminderRow,
}

impl Reminder {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.row.id.name
    }

    /// Its first occurrence.
    pub fn first_due(&self) -> SystemTime {
        time_of(self.row.first_due_ms)
    }

    /// Time between two occurrences; `None` if there is only one.
    pub fn period(&self) -> Option<Duration> {
        self.row.period_ms.map(Duration::from_millis)
    }

    /// Treatment of missed occurrences.
    pub fn missed(&self) -> MissedTicks {
        self.row.missed
    }

    /// The occurrence that came next when this was read.
    pub fn next_due(&self) -> SystemTime {
        time_of(self.row.planned_ms)
    }

    /// Failed attempts to tell that occurrence.
    pub fn failures(&self) -> u32 {
        self.row.failures
    }
}

/// The reminders of one entity; see [`EntityRef::reminders`].
///
/// A future of these that is dropped may have done its work or not. A registration that was so cut
/// off from its end is found by the next look at the store.
#[derive(Clone, Debug)]
pub struct EntityReminders {
    service: Option<Arc<Service>>,
    entity: &'static str,
    key: Arc<str>,
    is_readable: bool,
}

impl EntityReminders {
    fn of<E: Entity>(directory: &Directory<E>, key: &E::Key) -> Self {
        let text = key.text();
        let is_readable = E::Key::from_text(&text).as_ref() == Some(key);
        let service = directory.entities().and_then(|entities| entities.shared.reminders.clone());
        Self { service, entity: E::NAME, key: text.as_ref().into(), is_readable }
    }

    /// Registers a reminder, or changes the one of this name. A reminder with the same times stays
    /// unchanged, so an entity may register its reminders at each activation: a delay counts from
    /// the first registration.
    ///
    /// Cost: a read and a write of the store; a new one another read.
    ///
    /// # Errors
    ///
    /// All of [`ReminderError`] but `Stale`.
    pub async fn register(
        &self,
        name: &str,
        schedule: Schedule,
    ) -> Result<Reminder, ReminderError> {
        let service = self.service()?;
        self.check(service, name, &schedule)?;
        let id = self.id(name);
        for _ in 0..REWRITES_MAX {
            let known = service.store().get(&id).await?;
            let mut row = schedule.plan(id.clone(), service.now_ms())?;
            match known {
                None => self.check_room(service).await?,
                // Its only tick is being delivered: this is a new one.
                Some(known)
                    if known.period_ms.is_none()
                        && service.agenda.lock().under_way.contains(&id) =>
                {
                    row.version = known.version;
                }
                Some(known) if has_same_times(&row, &known) => {
                    if known.missed == row.missed {
                        // Also if a registration was cut off before this process took note of it.
                        service.put(known.clone());
                        return Ok(Reminder { row: known });
                    }
                    row = ReminderRow { missed: row.missed, revision: 0, ..known };
                }
                Some(known) => row.version = known.version,
            }
            match service.store().upsert(&row, self.epoch(service)?).await {
                Ok(version) => {
                    (row.version, row.revision) = (version, version);
                    service.put(row.clone());
                    return Ok(Reminder { row });
                }
                // Registered, ticked or removed meanwhile.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy(&id))
    }

    /// Removes a reminder. A current tick is delivered to its end, and not repeated.
    ///
    /// # Errors
    ///
    /// [`ReminderError::Stale`] if the registration was replaced: nothing was changed;
    /// [`ReminderError::Elsewhere`]; [`ReminderError::Store`].
    pub async fn unregister(&self, reminder: &Reminder) -> Result<(), ReminderError> {
        let service = self.service()?;
        let id = &reminder.row.id;
        let stale = || ReminderError::Stale { name: id.name.to_string() };
        if !id.is_of(self.entity, &self.key) {
            return Err(stale());
        }
        for _ in 0..REWRITES_MAX {
            let known = service.store().get(id).await?.ok_or_else(stale)?;
            if known.revision != reminder.row.revision {
                return Err(stale());
            }
            match service.store().remove(id, known.version, self.epoch(service)?).await {
                Ok(()) => {
                    service.agenda.lock().remove(id, known.version);
                    return Ok(());
                }
                // It has ticked meanwhile, or was changed: look again.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.busy(id))
    }

    /// The reminder of this name, if there is one.
    ///
    /// # Errors
    ///
    /// [`ReminderError::NotSetUp`]; [`ReminderError::Store`].
    pub async fn get(&self, name: &str) -> Result<Option<Reminder>, ReminderError> {
        let known = self.service()?.store().get(&self.id(name)).await?;
        Ok(known.map(|row| Reminder { row }))
    }

    /// All of them, by name.
    ///
    /// # Errors
    ///
    /// As [`EntityReminders::get`].
    pub async fn list(&self) -> Result<Vec<Reminder>, ReminderError> {
        let service = self.service()?;
        let rows = service.store().list_of(self.entity, &self.key, 2 * PER_ENTITY_MAX).await?;
        Ok(rows.into_iter().map(|row| Reminder { row }).collect())
    }

    fn service(&self) -> Result<&Arc<Service>, ReminderError> {
        self.service.as_ref().ok_or(ReminderError::NotSetUp)
    }

    fn id(&self, name: &str) -> ReminderId {
        ReminderId { entity: self.entity.into(), key: Arc::clone(&self.key), name: name.into() }
    }

    /// The epoch in which this process owns the entity.
    fn epoch(&self, service: &Service) -> Result<u64, ReminderError> {
        let place = service.place(self.entity, &self.key);
        if !place.is_local {
            let (entity, key) = (self.entity.to_owned(), self.key.to_string());
            return Err(ReminderError::Elsewhere { entity, key });
        }
        Ok(place.epoch)
    }

    fn check(&self, service: &Service, name: &str, by: &Schedule) -> Result<(), ReminderError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(ReminderError::BadName { name: name.to_owned() });
        }
        if !service.settings.targets.contains_key(self.entity) {
            return Err(ReminderError::NotTaken { entity: self.entity.to_owned() });
        }
        if !self.is_readable {
            let (entity, key) = (self.entity.to_owned(), self.key.to_string());
            return Err(ReminderError::UnreadableKey { entity, key });
        }
        let period_min = service.settings.period_min;
        match by.period() {
            Some(period) if period < period_min => {
                let name = name.to_owned();
                Err(ReminderError::PeriodTooShort { name, period, period_min })
            }
            _ => Ok(()),
        }
    }

    async fn check_room(&self, service: &Service) -> Result<(), ReminderError> {
        let has = service.store().list_of(self.entity, &self.key, PER_ENTITY_MAX).await?.len();
        if has >= PER_ENTITY_MAX {
            let (entity, key) = (self.entity.to_owned(), self.key.to_string());
            return Err(ReminderError::TooMany { entity, key });
        }
        Ok(())
    }

    fn busy(&self, id: &ReminderId) -> ReminderError {
        StoreError::Failed(format!("{id} is written again and again by others")).into()
    }
}

impl<E: Entity> EntityRef<E> {
    /// Its reminders: durable schedules that activate it when due and arrive as
    /// [`ReminderTick`](super::ReminderTick)s.
    pub fn reminders(&self) -> EntityReminders {
        EntityReminders::of(self.directory(), self.key())
    }
}

impl<E: Entity> EntityContext<E> {
    /// Its own reminders, as [`EntityRef::reminders`]. An entity that changes them in its handlers
    /// keeps them in a field.
    pub fn reminders(&self) -> EntityReminders {
        EntityReminders::of(self.directory(), self.key())
    }
}
