//! Additions of snapshots behind the plan: each version appends its own, and reads what is there.

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::Plan;

impl Plan {
    /// Data that older snapshots do not have, in the order in which versions have added it.
    pub(crate) fn more(&self) -> impl Serialize + '_ {
        let asked = (&self.children.asked, &self.timer_names, &self.promises);
        let orders = (&self.ordered, &self.children.unwanted);
        (asked, &self.outbox, self.last_sent, &self.timeouts, orders)
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
        self.ordered = next(&mut bytes).unwrap_or_default();
        self.children.unwanted = next(&mut bytes).unwrap_or_default();
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
    use crate::action::Cause;
    use crate::id::{ActionId, PlanId, StepId};
    use crate::journal::{decode_plan, encode_plan};
    use crate::payload::Payload;
    use crate::plan::{
        Created, End, EventTarget, Flow, Planned, PlannedAction, PlannedStep, Promised, Record,
        SentEvent, StepKind, SubPlan, SubPlanLabels,
    };
    use crate::time::Time;

    const PLAN: PlanId = PlanId::from_bytes([7; 16]);
    const CHILD: PlanId = PlanId::from_bytes([8; 16]);
    const STEP: StepId = StepId(1);
    const AT: Time = Time(1);

    fn created() -> Record {
        Record::Created(Box::new(Created {
            at: AT,
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
        }))
    }

    /// Planned with one step.
    fn planned() -> Record {
        let action = PlannedAction {
            name: "fan".to_owned(),
            version: 1,
            parent: None,
            input: Payload::null(),
            needs: Vec::new(),
        };
        let step = PlannedStep {
            kind: StepKind::Run,
            action: ActionId(1),
            weight: 1_000,
            queue: "default".to_owned(),
            error: None,
        };
        Record::Planned(Box::new(Planned {
            began: AT,
            at: AT,
            label: "fan".to_owned(),
            actions: vec![action],
            steps: vec![step],
            run: Flow::Step(STEP),
            finalize: Vec::new(),
            error: None,
            locks: Vec::new(),
        }))
    }

    /// A plan that has something of all that is behind it.
    fn whole() -> Plan {
        let (step, at) = (STEP, AT);
        let end = End::Suspended { reason: "all".to_owned(), progress: None };
        let labels = SubPlanLabels::default();
        let sub_plan =
            SubPlan { plan: CHILD, action: "part".to_owned(), input: Payload::null(), labels };
        let (name, key) = ("approval".to_owned(), "42".to_owned());
        let (to, id) = (EventTarget::Plan(CHILD), "7/1/first".to_owned());
        let (number, action, payload) = (1, "part".to_owned(), Payload::null());
        let records = [
            created(),
            planned(),
            Record::Became { state: crate::plan::PlanState::Running, at, why: String::new() },
            Record::Started { step, at, limit: None, cause: Cause::Turn, silence: None },
            Record::Ended { step, at, ran_us: 0, end, output: None },
            Record::Promised(Box::new(Promised { at, step, name, key, given: None })),
            Record::TimerNamed {
                step,
                name: "late".to_owned(),
                set: Some((1, Time(9), Payload::null())),
            },
            Record::Sent(Box::new(SentEvent { number, at, step, to, action, id, payload })),
            Record::SubPlansNamed { step, plans: vec![(CHILD, Some("a".to_owned()))] },
            Record::SubPlans { at, step, plans: vec![sub_plan], at_once: None },
        ];
        Plan::replay(PLAN, records).expect("they fit together")
    }

    fn behind(plan: &Plan) -> Vec<u8> {
        postcard::to_stdvec(&plan.more()).expect("memory is there")
    }

    #[test]
    fn what_is_behind_a_plan_comes_back() {
        let mut plan = whole();
        plan.timeouts.insert(STEP, 2);
        plan.ordered.add("order");
        plan.children.unwanted.insert(CHILD);
        let bytes = encode_plan(&plan);
        let back = decode_plan(PLAN, &bytes).expect("it is whole");
        assert_eq!(encode_plan(&back), bytes);
        assert_eq!(back.timer_of(STEP, "late"), Some(1));
        assert_eq!(back.timeouts, plan.timeouts);
        assert!(back.ordered.contains("order"));
        assert!(back.children.unwanted().contains(&CHILD));
        assert_eq!(back.waits_for_promise("approval", "42"), Some(STEP));
        assert!(back.is_sending("7/1/first") && back.last_sent == 1);
        let asked = back.children.asked(STEP).expect("it has asked").facts();
        assert_eq!(asked.keyed.get("a"), Some(&CHILD));
        assert_eq!(asked.round.from(crate::plan::Place::default()).collect::<Vec<_>>(), [CHILD]);
    }

    #[test]
    fn snapshot_without_anything_behind_the_plan_is_read() {
        let plain = postcard::to_stdvec(&whole()).expect("memory is there");
        let mut old: Plan = postcard::from_bytes(&plain).expect("it is a plan");
        let empty = Plan::replay(PLAN, [created()]).expect("it begins");
        old.take_more(&[]);
        let asked = old.children.asked(STEP).expect("its plans are known").facts();
        assert_eq!(asked.round.from(crate::plan::Place::default()).collect::<Vec<_>>(), [CHILD]);
        assert!(asked.keyed.is_empty(), "their keys are not");
        assert_eq!(old.timer_of(STEP, "late"), None);
        assert!(old.undelivered().next().is_none());
        // Of a plan that has nothing, nothing is behind it either.
        let mut same = empty.clone();
        same.take_more(&[]);
        assert_eq!(behind(&same), behind(&empty));
    }

    #[test]
    fn bytes_of_the_plan_itself_are_as_they_were() {
        let plan = whole();
        let plain = postcard::to_stdvec(&plan).expect("memory is there");
        let bytes = encode_plan(&plan);
        // A version and a checksum are before it.
        assert_eq!(bytes[5..], [plain, behind(&plan)].concat());
    }
}
