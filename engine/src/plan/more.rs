//! What snapshots have behind the plan: each version appends its own, and reads what is there.

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::Plan;

impl Plan {
    /// Data that older snapshots do not have, in the order in which versions have added it.
    pub(crate) fn more(&self) -> impl Serialize + '_ {
        let asked = (&self.children.asked, &self.timer_names, &self.promises);
        (asked, &self.outbox, self.last_sent, &self.timeouts)
    }

    /// Takes it from the bytes behind the plan; what is not there is empty.
    pub(crate) fn take_more(&mut self, mut bytes: &[u8]) {
        match next(&mut bytes) {
            Some(asked) => self.children.asked = asked,
            None => self.children.guess_asked(),
        }
        self.timer_names = next(&mut bytes).unwrap_or_default();
        self.promises = next(&mut bytes).unwrap_or_default();
        self.outbox = next(&mut bytes).unwrap_or_default();
        self.last_sent = next(&mut bytes).unwrap_or_default();
        self.timeouts = next(&mut bytes).unwrap_or_default();
    }
}

fn next<T: DeserializeOwned>(bytes: &mut &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
    *bytes = rest;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PlanId;
    use crate::journal::{decode_plan, encode_plan};
    use crate::payload::Payload;
    use crate::plan::{Created, Record};
    use crate::time::Time;

    /// A plan as a version wrote it that had nothing behind it.
    #[test]
    fn plan_of_a_snapshot_without_more_is_read() {
        let id = PlanId::from_bytes([7; 16]);
        let created = Created {
            at: Time(1),
            action: "fan".to_owned(),
            input: Payload::null(),
            caller: None,
            lineage: Vec::new(),
            key: None,
            labels: Vec::new(),
            by: "test".to_owned(),
            priority: 0,
            deadline: None,
            trace: None,
        };
        let records = [Record::Created(Box::new(created))];
        let mut plan = Plan::replay(id, records).expect("it begins");
        let (whole, plain) = (encode_plan(&plan), postcard::to_stdvec(&plan).expect("it is plain"));
        let more = postcard::to_stdvec(&plan.more()).expect("it is plain");
        assert_eq!(whole.len(), 5 + plain.len() + more.len());
        let mut old = decode_plan(id, &whole).expect("it is whole");
        old.take_more(&[]);
        assert_eq!(encode_plan(&old), whole);
        plan.timeouts.insert(crate::id::StepId(3), 2);
        let read = decode_plan(id, &encode_plan(&plan)).expect("it is whole");
        assert_eq!(read.timeouts, plan.timeouts);
    }
}
