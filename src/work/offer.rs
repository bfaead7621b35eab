//! One offer: a row in the store, ready at a time, with one worker until then.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use turnwheel_actors::entity::{ReminderId, ReminderRow, ReminderStore, StoreError};
use turnwheel_engine::{PlanId, StepId};

use super::LEASE_MAX;

/// The name under which offers lie in the store.
pub(super) const ENTITY: &str = "turnwheel.work";

/// Writers of rows carry an epoch. Those of offers compete by versions alone, so all have the same.
const EPOCH: u64 = 1;

/// Milliseconds since the begin of 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A worker's name of a task: the task, and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferId {
    /// The topic.
    pub topic: String,
    /// The plan.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The attempt of the step.
    pub attempt: u32,
    /// Number of the lease.
    pub lease: u64,
    /// The worker, if it has said its name.
    pub worker: Option<String>,
}

impl OfferId {
    pub(super) fn row(&self) -> ReminderId {
        row_id(&self.topic, self.plan, self.step, self.attempt)
    }
}

fn row_id(topic: &str, plan: PlanId, step: StepId, attempt: u32) -> ReminderId {
    ReminderId::new(ENTITY, topic, &format!("{plan}/{step}/{attempt}"))
}

/// As text for paths: topic and worker come last, in hexadecimal digits.
impl fmt::Display for OfferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{:x}.", self.plan, self.step, self.attempt, self.lease)?;
        self.topic.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        let Some(worker) = &self.worker else { return Ok(()) };
        f.write_str(".")?;
        worker.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text names no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it names no task: take the id that the lease has answered")]
pub struct OfferIdError;

/// The text of which these are the bytes, in hexadecimal digits.
fn unhex(digits: &str) -> Result<String, OfferIdError> {
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(OfferIdError);
    }
    let bytes: Result<Vec<u8>, _> = (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16))
        .collect();
    String::from_utf8(bytes.map_err(|_| OfferIdError)?).map_err(|_| OfferIdError)
}

impl FromStr for OfferId {
    type Err = OfferIdError;

    fn from_str(text: &str) -> Result<Self, OfferIdError> {
        let parts: Vec<&str> = text.split('.').collect();
        let (parts, worker) = match &parts[..] {
            [parts @ .., worker] if parts.len() == 5 => (parts, Some(unhex(worker)?)),
            parts => (parts, None),
        };
        let [plan, step, attempt, lease, topic] = parts else { return Err(OfferIdError) };
        Ok(Self {
            topic: unhex(topic)?,
            worker,
            plan: plan.parse().map_err(|_| OfferIdError)?,
            step: StepId(step.parse().map_err(|_| OfferIdError)?),
            attempt: attempt.parse().map_err(|_| OfferIdError)?,
            lease: u64::from_str_radix(lease, 16).map_err(|_| OfferIdError)?,
        })
    }
}

/// A task that a step offers.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Topic of its workers.
    pub topic: String,
    /// The plan.
    pub plan: PlanId,
    /// The step.
    pub step: StepId,
    /// The attempt of the step.
    pub attempt: u32,
    row: ReminderRow,
}

impl Offer {
    pub(super) fn new(topic: &str, plan: PlanId, step: StepId, attempt: u32) -> Self {
        let mut row = ReminderRow::new(row_id(topic, plan, step, attempt));
        row.first_due_ms = now_ms();
        (row.planned_ms, row.due_ms) = (row.first_due_ms, row.first_due_ms);
        Self { topic: topic.to_owned(), plan, step, attempt, row }
    }

    /// The offer of a row; nothing if it is something else.
    pub(super) fn of(row: ReminderRow) -> Option<Self> {
        if &*row.id.entity != ENTITY {
            return None;
        }
        let mut parts = row.id.name.split('/');
        let plan = parts.next()?.parse().ok()?;
        let step = StepId(parts.next()?.parse().ok()?);
        let attempt = parts.next()?.parse().ok()?;
        Some(Self { topic: row.id.key.to_string(), plan, step, attempt, row })
    }

    /// The id that its worker uses.
    pub fn id(&self) -> OfferId {
        OfferId {
            topic: self.topic.clone(),
            plan: self.plan,
            step: self.step,
            attempt: self.attempt,
            lease: self.row.delay_ms.unwrap_or(0),
            worker: None,
        }
    }

    /// When it was offered, in milliseconds since the begin of 1970.
    pub fn offered_ms(&self) -> u64 {
        self.row.first_due_ms
    }

    /// Number of deliveries, this one included.
    pub fn deliveries(&self) -> u32 {
        self.row.failures
    }

    /// When the lease ends, in milliseconds since the begin of 1970.
    pub fn until_ms(&self) -> u64 {
        self.row.due_ms
    }

    pub(super) fn is_leased_as(&self, lease: u64) -> bool {
        self.row.delay_ms == Some(lease) && self.row.due_ms > now_ms()
    }

    /// How long the lease was made, by its begin or its last heartbeat.
    fn lease(&self) -> Duration {
        Duration::from_millis(self.row.due_ms.saturating_sub(self.row.planned_ms)).min(LEASE_MAX)
    }

    pub(super) fn begin_lease(&mut self, lease: Duration) {
        // The version of the row is never the same again, so neither is the lease.
        self.row.delay_ms = Some(self.row.version + 1);
        self.row.failures = self.row.failures.saturating_add(1);
        self.prolong(Some(lease));
    }

    /// The lease is so long from now on; as long as before if nothing is said.
    pub(super) fn prolong(&mut self, lease: Option<Duration>) {
        let lease = lease.unwrap_or_else(|| self.lease());
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self.row.planned_ms = now_ms();
        self.row.due_ms = self.row.planned_ms.saturating_add(lease_ms).min(i64::MAX as u64);
    }

    /// Nobody has it any more: it was not worked on.
    pub(super) fn release(&mut self) {
        self.row.delay_ms = None;
        self.row.failures = self.row.failures.saturating_sub(1);
        (self.row.planned_ms, self.row.due_ms) = (now_ms(), now_ms());
    }

    /// Writes it for the first time; nothing happens if it is there.
    pub(super) async fn put(&self, store: &dyn ReminderStore) -> Result<(), StoreError> {
        match store.upsert(&self.row, EPOCH).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes it over the version that was read.
    pub(super) async fn write(&mut self, store: &dyn ReminderStore) -> Result<(), StoreError> {
        self.row.version = store.upsert(&self.row, EPOCH).await?;
        Ok(())
    }

    pub(super) async fn remove(&self, store: &dyn ReminderStore) -> Result<(), StoreError> {
        store.remove(&self.row.id, self.row.version, EPOCH).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_task_is_read_as_it_was_written() {
        let id = OfferId {
            topic: "mail.töst/x".to_owned(),
            plan: "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f".parse().unwrap(),
            step: StepId(7),
            attempt: 2,
            lease: 0xbeef,
            worker: None,
        };
        let named = OfferId { worker: Some("töst.1".to_owned()), ..id.clone() };
        for id in [&id, &named] {
            assert_eq!(id.to_string().parse::<OfferId>().as_ref(), Ok(id));
        }
        for bad in
            ["", "a.b.c.d.e", "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f.1.1.1", &format!("{id}0")]
        {
            assert_eq!(bad.parse::<OfferId>(), Err(OfferIdError), "{bad}");
        }
    }
}
