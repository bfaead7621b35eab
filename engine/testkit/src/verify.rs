//! What must hold of a store, whatever has happened to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use turnwheel_engine::internal::{
    after_entry, decode, decode_plan, encode_plan, row, stored_letters,
};
use turnwheel_engine::plan::{End, Plan, PlanState, Record};
use turnwheel_engine::store::{Filter, Seq, StoreReader, Written};
use turnwheel_engine::{DeadLetters, PlanId, StoreError};

use crate::workload::{Ack, Workload};

/// What a store holds of one plan.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) plan: Plan,
    pub(super) records: Vec<Record>,
    head: Seq,
}

/// What a store holds.
pub(super) type Plans = BTreeMap<PlanId, Told>;

/// Reads the whole journal.
pub(super) fn journal(reader: &mut dyn StoreReader) -> Result<Vec<Written>, StoreError> {
    reader.journal(0, usize::MAX)
}

/// The plans that a journal tells of. Each must be one chain, and a legal story: an outcome that is
/// recorded twice is none.
pub(super) fn plans(journal: &[Written]) -> Result<Plans, String> {
    let mut chains: BTreeMap<PlanId, (Option<Plan>, Vec<Record>, Seq)> = BTreeMap::new();
    for entry in journal {
        let (plan, records, head) = chains.entry(entry.plan).or_default();
        if entry.prev != *head {
            let Written { seq, plan, prev, .. } = entry;
            return Err(format!("plan {plan}: entry {seq} follows {prev} and not {head}"));
        }
        let more = decode(entry.plan, &entry.records).map_err(|error| error.to_string())?;
        records.extend(more.iter().cloned());
        *plan = Some(after_entry(plan.take(), entry.plan, entry.seq, more)?);
        *head = entry.seq;
    }
    let mut plans = Plans::new();
    for (id, (plan, records, head)) in chains {
        let Some(plan) = plan else { continue };
        outcomes(&plan, &records)?;
        plans.insert(id, Told { plan, records, head });
    }
    Ok(plans)
}

/// A step that nobody has put back has one success at most, and the plan one end.
fn outcomes(plan: &Plan, records: &[Record]) -> Result<(), String> {
    let mut done = HashSet::new();
    let mut stops = 0;
    for record in records {
        match record {
            Record::Ended { step, end: End::Success, .. } if !done.insert(*step) => {
                return Err(format!("plan {}: step {step} succeeds twice", plan.id));
            }
            Record::Became { state: PlanState::Stopped, .. } => stops += 1,
            // Somebody has put steps back on purpose.
            Record::Reset { .. } | Record::Marked { .. } | Record::Reverting { .. } => done.clear(),
            // Its steps are others.
            Record::ContinuedAsNew { .. } => done.clear(),
            _ => {}
        }
    }
    if stops > 1 {
        return Err(format!("plan {} is stopped {stops} times", plan.id));
    }
    Ok(())
}

/// The entries of those plans that may not have been removed, or that are still there.
pub(super) fn kept<W: Workload>(
    workload: &W,
    written: &[Written],
    found: &[Written],
) -> Vec<Written> {
    if !workload.may_forget() {
        return written.to_vec();
    }
    let there: HashSet<PlanId> = found.iter().map(|entry| entry.plan).collect();
    written.iter().filter(|entry| there.contains(&entry.plan)).cloned().collect()
}

/// What was acknowledged is there.
pub(super) fn acknowledged<W: Workload>(
    workload: &W,
    reader: &mut dyn StoreReader,
    plans: &Plans,
    acks: &[Ack],
) -> Result<(), String> {
    let find = |plan: &PlanId| plans.get(plan).ok_or(format!("plan {plan} was taken, and is lost"));
    let is_kept = |ack: &&Ack| !workload.may_forget() || plans.contains_key(&ack.plan());
    for ack in acks.iter().filter(is_kept) {
        match ack {
            Ack::Triggered { key, plan } => {
                find(plan)?;
                let holder = reader.by_key(key).map_err(|error| error.to_string())?;
                if holder != Some(*plan) {
                    return Err(format!("key «{key}» is of plan {plan}, not of {holder:?}"));
                }
            }
            Ack::Event { plan, step, id } => {
                let is_it = |record: &Record| {
                    let Record::Event { step: to, id: Some(event), .. } = record else {
                        return false;
                    };
                    to == step && event == id
                };
                match find(plan)?.records.iter().filter(|record| is_it(record)).count() {
                    1 => {}
                    count => {
                        return Err(format!("plan {plan}: event «{id}» is there {count} times"))
                    }
                }
            }
            Ack::Finished { plan, state, result } => {
                let found = &find(plan)?.plan;
                if (found.state, found.result()) != (*state, *result) {
                    let (was, is) = (result.name(), found.result().name());
                    return Err(format!("plan {plan} was over as {was}, and is {is}"));
                }
            }
        }
    }
    Ok(())
}

/// At the end of a life: every plan is where it has to come to, its row and its snapshot say the same as
/// its journal, and no key has two plans.
pub(super) fn ended<W: Workload>(
    workload: &W,
    reader: &mut dyn StoreReader,
    plans: &Plans,
) -> Result<(), String> {
    let filter = Filter { limit: usize::MAX, ..Filter::default() };
    let rows = reader.list(&filter).map_err(|error| error.to_string())?;
    let rows: HashMap<PlanId, _> = rows.into_iter().map(|row| (row.id, row)).collect();
    let mut keys = HashMap::new();
    for (id, Told { plan, head, .. }) in plans {
        if !workload.is_end(plan) {
            return Err(format!("plan {id} ends as {}", plan.state.name()));
        }
        let expected = turnwheel_engine::store::PlanRow { head: *head, ..row(plan) };
        if rows.get(id) != Some(&expected) {
            return Err(format!("plan {id}: its row is {:?}, not {expected:?}", rows.get(id)));
        }
        if let Some(other) = plan.created.key.as_ref().and_then(|key| keys.insert(key, id)) {
            return Err(format!("plans {id} and {other} have the same key"));
        }
        snapshot(reader, plan)?;
    }
    for (lock, holder) in reader.locks().map_err(|error| error.to_string())? {
        let holds = |told: &Told| {
            let is_its = told.plan.locks.iter().any(|known| known.name == lock);
            is_its && told.plan.state == PlanState::Running
        };
        if !plans.get(&holder).is_some_and(holds) {
            return Err(format!("the lock «{lock}» is of plan {holder}, which is not under way"));
        }
    }
    if rows.len() != plans.len() {
        return Err(format!("{} rows for {} plans", rows.len(), plans.len()));
    }
    Ok(())
}

fn snapshot(reader: &mut dyn StoreReader, plan: &Plan) -> Result<(), String> {
    let loaded = reader.load(plan.id, None).map_err(|error| error.to_string())?;
    let Some(loaded) = loaded else { return Err(format!("plan {} cannot be loaded", plan.id)) };
    let Some(snapshot) = loaded.snapshot else { return Ok(()) };
    let mut kept = decode_plan(plan.id, &snapshot).map_err(|error| error.to_string())?;
    for (place, entry) in &loaded.entries {
        let records = decode(plan.id, entry).map_err(|error| error.to_string())?;
        kept = after_entry(Some(kept), plan.id, *place, records)?;
    }
    if encode_plan(&kept) != encode_plan(plan) {
        return Err(format!("plan {}: its snapshot is not what its journal tells", plan.id));
    }
    Ok(())
}

/// The dead letters that a world has are in its store.
pub(super) fn letters(reader: &mut dyn StoreReader, known: &DeadLetters) -> Result<(), String> {
    let stored = stored_letters(reader).map_err(|error| error.to_string())?;
    if stored != *known {
        let (kept, there) = (stored.letters.len(), known.letters.len());
        return Err(format!("{kept} dead letters are in the store, and {there} in the world"));
    }
    Ok(())
}
