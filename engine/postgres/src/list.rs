//! Lists of plans, and how many there are.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::Row;
use turnwheel_engine::store::{Count, Filter, Order, PlanRow, Tally};
use turnwheel_engine::{PlanId, PlanResult, PlanState, StepId, StoreError, Time, Waiting};
use uuid::Uuid;

use crate::cell::{
    cell, count, count_if_any, damaged, digest, limit, moment, named, plan, string, text,
};
use crate::session::{Session, Value};

const COLUMNS: &str = "plans.id, head, state, result, label, created_at, started_at, ended_at,
    wakes_at, is_busy, caller_plan, caller_step, waits_for, action, by, plans.labels, waits";

/// A query that is put together.
struct Query {
    sql: String,
    values: Vec<(Box<dyn ToSql + Sync>, Type)>,
}

impl Query {
    /// A place for a value.
    fn value(&mut self, value: impl ToSql + Sync + 'static, kind: Type) -> String {
        self.values.push((Box::new(value), kind));
        format!("${}", self.values.len())
    }

    fn and(&mut self, condition: &str, value: impl ToSql + Sync + 'static, kind: Type) {
        let place = self.value(value, kind);
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &place));
    }

    fn text(&mut self, condition: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.and(condition, text(value).into_owned(), Type::TEXT);
        }
    }

    fn time(&mut self, condition: &str, time: Option<Time>) {
        if let Some(time) = time {
            self.and(condition, moment(time), Type::INT8);
        }
    }

    fn plan(&mut self, condition: &str, plan: Option<PlanId>) {
        if let Some(plan) = plan {
            self.and(condition, plan.uuid(), Type::UUID);
        }
    }

    fn one_of(&mut self, column: &str, names: impl Iterator<Item = &'static str>) {
        let names: Vec<&'static str> = names.collect();
        if !names.is_empty() {
            self.and(&format!("{column} = ANY (?)"), names, Type::TEXT_ARRAY);
        }
    }

    fn read(&self, session: &mut Session, sql: &str) -> Result<Vec<Row>, StoreError> {
        let values: Vec<Value<'_>> =
            self.values.iter().map(|(value, kind)| (&**value, kind.clone())).collect();
        session.read(sql, &values)
    }
}

/// An expression with its ASCII letters in lower case.
fn lower(text: &str) -> String {
    format!("lower({text} COLLATE \"C\")")
}

fn query(filter: &Filter) -> Query {
    // Along the index of a label if one is asked for with its value: that has the ids in their
    // order.
    let labels = &filter.labels;
    let along = labels.iter().position(|(_, value)| value.is_some());
    let (from, id) = match along {
        Some(_) => ("tw.labels AS own JOIN tw.plans AS plans ON plans.id = own.plan", "own.plan"),
        None => ("tw.plans AS plans", "plans.id"),
    };
    let sql = format!("SELECT {COLUMNS} FROM {from} WHERE true");
    let mut query = Query { sql, values: Vec::new() };
    for (index, (name, value)) in labels.iter().enumerate() {
        if Some(index) == along {
            query.text("own.name = ?", Some(name));
            query.text("own.value = ?", value.as_ref());
            continue;
        }
        let has = "EXISTS (SELECT FROM tw.labels AS l WHERE l.plan = plans.id AND l.name = ?";
        query.text(has, Some(name));
        query.text("l.value = ?", value.as_ref());
        query.sql.push(')');
    }
    query.one_of("state", filter.states.iter().map(|state| state.name()));
    query.one_of("result", filter.results.iter().map(|result| result.name()));
    query.one_of("waits", filter.waits.iter().map(|waits| waits.name()));
    query.text("label = ?", filter.label.as_ref());
    // The collation «C» changes the case of ASCII letters only, as the filter says.
    query.text(&format!("strpos({}, {}) > 0", lower("label"), lower("?")), filter.name.as_ref());
    let everywhere = format!(
        "(strpos({label}, {part}) > 0 OR strpos({reason}, {part}) > 0)",
        label = lower("label"),
        reason = lower("waits_for"),
        part = lower("?"),
    );
    query.text(&everywhere, filter.text.as_ref());
    query.text("action = ?", filter.action.as_ref());
    query.text("by = ?", filter.by.as_ref());
    if let Some(key) = &filter.key {
        let key = digest(&[key]);
        query.and("plans.id = (SELECT plan FROM tw.keys WHERE digest = ?)", key, Type::BYTEA);
    }
    query.plan("caller_plan = ?", filter.caller);
    query.time("created_at >= ?", filter.created_from);
    query.time("created_at < ?", filter.created_before);
    query.time("ended_at >= ?", filter.ended_from);
    query.time("ended_at < ?", filter.ended_before);
    if filter.is_unneeded {
        query.sql.push_str(
            " AND NOT EXISTS (SELECT FROM tw.plans AS caller
                 WHERE caller.id = plans.caller_plan AND caller.state <> 'stopped')
             AND NOT EXISTS (SELECT FROM tw.followers AS follower
                 WHERE follower.plan = plans.id)",
        );
    }
    query.plan(&format!("{id} < ?"), filter.before);
    query.plan(&format!("{id} > ?"), filter.after);
    let order = match filter.order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    let place = query.value(limit(filter.limit), Type::INT8);
    query.sql.push_str(&format!(" ORDER BY {id} {order} LIMIT {place}"));
    query
}

pub(crate) fn list(session: &mut Session, filter: &Filter) -> Result<Vec<PlanRow>, StoreError> {
    let query = query(filter);
    let rows = query.read(session, &query.sql)?;
    rows.iter().map(|it| row(it).or_else(|error| unreadable(it, error))).collect()
}

/// The row of a plan that is damaged: it says so, and the others are listed beside it. The plan
/// itself is in the journal, and its next entry writes the row anew.
fn unreadable(row: &Row, error: StoreError) -> Result<PlanRow, StoreError> {
    let StoreError::Corrupt(problem) = error else { return Err(error) };
    let (id, created) = (plan(row, 0)?, count_if_any(row, 5)?.unwrap_or(0));
    tracing::error!(plan = %id, problem, "the row of a plan is damaged");
    Ok(PlanRow {
        id,
        head: count(row, 1)?,
        state: PlanState::Paused,
        result: PlanResult::Pending,
        label: "".into(),
        action: "".into(),
        by: "".into(),
        labels: std::collections::BTreeMap::new(),
        created_at: Time(created),
        started_at: None,
        ended_at: None,
        wakes_at: None,
        is_busy: true,
        caller: None,
        waits: Waiting::Unreadable,
        waits_for: format!("nobody can read its row: {problem}"),
        snapshot: None,
    })
}

pub(crate) fn counts(session: &mut Session) -> Result<Vec<Count>, StoreError> {
    // A writer that has only ended plans has counted below zero.
    let sql = "SELECT state, result, waits, sum(plans)::bigint FROM tw.counts
        GROUP BY 1, 2, 3 HAVING sum(plans) > 0";
    session.read(sql, &[])?.iter().map(counted).collect()
}

/// The same of those plans that fit.
pub(crate) fn counts_of(session: &mut Session, filter: &Filter) -> Result<Vec<Count>, StoreError> {
    let query = query(&Filter { limit: usize::MAX, ..filter.clone() });
    let sql = format!(
        "SELECT state, result, waits, count(*) FROM ({}) AS found GROUP BY 1, 2, 3",
        query.sql
    );
    query.read(session, &sql)?.iter().map(counted).collect()
}

/// The plan at a place of the list, before conditions without an index; nothing if the list reads
/// no more rows than that.
pub(crate) fn plan_at(
    session: &mut Session,
    filter: &Filter,
    place: usize,
) -> Result<Option<PlanId>, StoreError> {
    if filter.key.is_some() || filter.caller.is_some() {
        return Ok(None);
    }
    let labelled = filter.labels.iter().find(|(_, value)| value.is_some());
    let (from, id) = match labelled {
        Some(_) => ("tw.labels AS own", "own.plan"),
        None => ("tw.plans AS plans", "plans.id"),
    };
    let mut query =
        Query { sql: format!("SELECT {id} FROM {from} WHERE true"), values: Vec::new() };
    if let Some((name, value)) = labelled {
        query.text("own.name = ?", Some(name));
        query.text("own.value = ?", value.as_ref());
    } else if !filter.states.is_empty() || !filter.results.is_empty() {
        let fits = |count: &&Count| {
            (filter.states.is_empty() || filter.states.contains(&count.state))
                && (filter.results.is_empty() || filter.results.contains(&count.result))
        };
        let few: u64 = counts(session)?.iter().filter(fits).map(|count| count.plans).sum();
        if few <= place as u64 {
            return Ok(None);
        }
    }
    query.plan(&format!("{id} < ?"), filter.before);
    query.plan(&format!("{id} > ?"), filter.after);
    let order = match filter.order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    let offset = query.value(limit(place.saturating_sub(1)), Type::INT8);
    query.sql.push_str(&format!(" ORDER BY {id} {order} LIMIT 1 OFFSET {offset}"));
    let rows = query.read(session, &query.sql)?;
    rows.first().map(|row| plan(row, 0)).transpose()
}

/// Groups of ended plans in one answer.
const TALLIES_MAX: usize = 50_000;

/// Numbers of the plans that have ended since a time, by the minute, of all writers.
pub(crate) fn tallies(session: &mut Session, from: Time) -> Result<Vec<Tally>, StoreError> {
    let sql = "SELECT minute, name, result, took, sum(plans)::bigint FROM tw.tallies
        WHERE minute >= $1 GROUP BY 1, 2, 3, 4 ORDER BY 1 DESC LIMIT $2";
    let (from, most) = (moment(Tally::minute_of(from)), limit(TALLIES_MAX));
    let values: [Value<'_>; 2] = [(&from, Type::INT8), (&most, Type::INT8)];
    let tally = |row: &Row| {
        let took: i32 = cell(row, 3)?;
        Ok(Tally {
            minute: Time(count(row, 0)?),
            name: string(row, 1)?,
            result: named(row, 2, PlanResult::from_name)?,
            took: usize::try_from(took).ok(),
            plans: count(row, 4)?,
        })
    };
    session.read(sql, &values)?.iter().map(tally).collect()
}

fn counted(row: &Row) -> Result<Count, StoreError> {
    Ok(Count {
        state: named(row, 0, PlanState::from_name)?,
        result: named(row, 1, PlanResult::from_name)?,
        waits: named(row, 2, Waiting::from_name)?,
        plans: count(row, 3)?,
    })
}

fn row(row: &Row) -> Result<PlanRow, StoreError> {
    let caller: Option<Uuid> = cell(row, 10)?;
    let step = count_if_any(row, 11)?.map(u32::try_from).transpose();
    let step = step.map_err(|error| damaged(row, 11, &error.to_string()))?;
    let labels: &str = cell(row, 15)?;
    let time = |column| Ok::<_, StoreError>(count_if_any(row, column)?.map(Time));
    Ok(PlanRow {
        id: plan(row, 0)?,
        head: count(row, 1)?,
        state: named(row, 2, PlanState::from_name)?,
        result: named(row, 3, PlanResult::from_name)?,
        label: string(row, 4)?.into(),
        action: string(row, 13)?.into(),
        by: string(row, 14)?.into(),
        labels: serde_json::from_str(labels)
            .map_err(|error| damaged(row, 15, &error.to_string()))?,
        created_at: Time(count(row, 5)?),
        started_at: time(6)?,
        ended_at: time(7)?,
        wakes_at: time(8)?,
        is_busy: cell(row, 9)?,
        caller: caller.map(PlanId::new).zip(step.map(StepId)),
        waits: named(row, 16, Waiting::from_name)?,
        waits_for: string(row, 12)?,
        snapshot: None,
    })
}
