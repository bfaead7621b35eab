//! Lists of plans, and how many there are.

use rusqlite::types::{Type, Value};
use rusqlite::{params_from_iter, Connection, Row};
use turnwheel_engine::store::{Count, Filter, Order, PlanRow};
use turnwheel_engine::{PlanId, PlanResult, PlanState, StepId, Time, Waiting};

use crate::cell::number;

/// A query that is put together.
struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn and(&mut self, condition: &str, value: Value) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(value);
    }

    fn text(&mut self, condition: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.and(condition, Value::Text(value.clone()));
        }
    }

    fn time(&mut self, condition: &str, time: Option<Time>) {
        if let Some(Time(us)) = time {
            self.and(condition, Value::Integer(i64::try_from(us).unwrap_or(i64::MAX)));
        }
    }

    fn plan(&mut self, condition: &str, plan: Option<PlanId>) {
        if let Some(plan) = plan {
            self.and(condition, Value::Blob(plan.to_bytes().to_vec()));
        }
    }

    fn one_of(&mut self, column: &str, names: impl ExactSizeIterator<Item = &'static str>) {
        if names.len() > 0 {
            let places = vec!["?"; names.len()].join(", ");
            self.sql.push_str(&format!(" AND {column} IN ({places})"));
            self.values.extend(names.map(|name| Value::Text(name.to_owned())));
        }
    }
}

fn query(filter: &Filter) -> Query {
    // Along the index of a label if one is asked for with its value: that has the ids in their order.
    let labels = &filter.labels;
    let along = labels.iter().position(|(_, value)| value.is_some());
    let (from, id) = match along {
        Some(_) => ("labels CROSS JOIN plans ON plans.id = labels.plan", "labels.plan"),
        None => ("plans", "plans.id"),
    };
    let sql = format!(
        "SELECT plans.id, head, state, result, label, created_at, started_at, ended_at, wakes_at,
             is_busy, caller_plan, caller_step, waits_for, action, by, plans.labels, waits
         FROM {from} WHERE 1"
    );
    let mut query = Query { sql, values: Vec::new() };
    for (index, (name, value)) in labels.iter().enumerate() {
        let value = value.as_ref();
        if Some(index) == along {
            query.text("labels.name = ?", Some(name));
            query.text("labels.value = ?", value);
            continue;
        }
        let has = "EXISTS (SELECT 1 FROM json_each(plans.labels) AS l WHERE l.key = ?";
        query.text(has, Some(name));
        query.text("l.value = ?", value);
        query.sql.push(')');
    }
    query.one_of("state", filter.states.iter().map(|state| state.name()));
    query.one_of("result", filter.results.iter().map(|result| result.name()));
    query.one_of("waits", filter.waits.iter().map(|waits| waits.name()));
    query.text("label = ?", filter.label.as_ref());
    // `lower` knows ASCII letters only, as the filter says.
    query.text("instr(lower(label), lower(?)) > 0", filter.name.as_ref());
    if let Some(part) = &filter.text {
        query.text("(instr(lower(label), lower(?)) > 0", Some(part));
        query.sql.push_str(" OR instr(lower(waits_for), lower(?)) > 0)");
        query.values.push(Value::Text(part.clone()));
    }
    query.text("action = ?", filter.action.as_ref());
    query.text("by = ?", filter.by.as_ref());
    query.text("plans.id = (SELECT plan FROM keys WHERE key = ?)", filter.key.as_ref());
    query.plan("caller_plan = ?", filter.caller);
    query.time("created_at >= ?", filter.created_from);
    query.time("created_at < ?", filter.created_before);
    query.time("ended_at >= ?", filter.ended_from);
    query.time("ended_at < ?", filter.ended_before);
    if filter.is_unneeded {
        query.sql.push_str(
            " AND NOT EXISTS (SELECT 1 FROM plans AS caller
                 WHERE caller.id = plans.caller_plan AND caller.state != 'stopped')
             AND NOT EXISTS (SELECT 1 FROM turnwheel_followers AS follower
                 WHERE follower.plan = plans.id)",
        );
    }
    query.plan(&format!("{id} < ?"), filter.before);
    query.plan(&format!("{id} > ?"), filter.after);
    let order = match filter.order {
        Order::NewestFirst => "DESC",
        Order::OldestFirst => "ASC",
    };
    query.sql.push_str(&format!(" ORDER BY {id} {order} LIMIT ?"));
    query.values.push(number(filter.limit));
    query
}

pub(super) fn list(connection: &Connection, filter: &Filter) -> rusqlite::Result<Vec<PlanRow>> {
    let Query { sql, values } = query(filter);
    let mut read = connection.prepare_cached(&sql)?;
    let rows = read.query_map(params_from_iter(values), row)?;
    rows.collect()
}

pub(super) fn counts(connection: &Connection) -> rusqlite::Result<Vec<Count>> {
    let sql = "SELECT state, result, waits, plans FROM counts WHERE plans > 0";
    let mut read = connection.prepare_cached(sql)?;
    let counts = read.query_map([], count)?;
    counts.collect()
}

/// The same of those plans that fit.
pub(super) fn counts_of(connection: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Count>> {
    let Query { sql, values } = query(&Filter { limit: usize::MAX, ..filter.clone() });
    let sql = format!("SELECT state, result, waits, count(*) FROM ({sql}) GROUP BY 1, 2, 3");
    let mut read = connection.prepare_cached(&sql)?;
    let counts = read.query_map(params_from_iter(values), count)?;
    counts.collect()
}

fn count(row: &Row<'_>) -> rusqlite::Result<Count> {
    Ok(Count {
        state: named(row, 0, PlanState::from_name)?,
        result: named(row, 1, PlanResult::from_name)?,
        waits: named(row, 2, Waiting::from_name)?,
        plans: row.get(3)?,
    })
}

fn unfit(column: usize, problem: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, problem.into())
}

/// A column that names one of ours.
pub(super) fn named<T>(
    row: &Row<'_>,
    column: usize,
    from_name: fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let name = row.get_ref(column)?.as_str()?;
    from_name(name).ok_or_else(|| unfit(column, format!("«{name}» is unknown")))
}

fn row(row: &Row<'_>) -> rusqlite::Result<PlanRow> {
    let caller: Option<[u8; 16]> = row.get(10)?;
    let caller_step: Option<u32> = row.get(11)?;
    let labels: String = row.get(15)?;
    Ok(PlanRow {
        id: PlanId::from_bytes(row.get(0)?),
        head: row.get(1)?,
        state: named(row, 2, PlanState::from_name)?,
        result: named(row, 3, PlanResult::from_name)?,
        label: row.get(4)?,
        action: row.get(13)?,
        by: row.get(14)?,
        labels: serde_json::from_str(&labels).map_err(|error| unfit(15, error.to_string()))?,
        created_at: Time(row.get(5)?),
        started_at: row.get::<_, Option<u64>>(6)?.map(Time),
        ended_at: row.get::<_, Option<u64>>(7)?.map(Time),
        wakes_at: row.get::<_, Option<u64>>(8)?.map(Time),
        is_busy: row.get(9)?,
        caller: caller.map(PlanId::from_bytes).zip(caller_step.map(StepId)),
        waits: named(row, 16, Waiting::from_name)?,
        waits_for: row.get(12)?,
        snapshot: None,
    })
}
