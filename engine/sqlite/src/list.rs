//! Lists of plans, and how many there are.

use rusqlite::types::Value;
use rusqlite::{params_from_iter, Connection, OptionalExtension as _, Row};
use turnwheel_engine::store::{Count, Filter, Order, PlanRow};
use turnwheel_engine::{PlanId, PlanResult, PlanState, StepId, Time, Waiting};

use crate::along::{self as path, Along};
use crate::cell::{named, number, unfit};
use crate::counts::count;

/// The longest part of a text that is looked for with a pattern: each byte may become two.
const PATTERN_BYTES_MAX: usize = 20_000;

/// A text without the signs that mean something in a pattern.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if matches!(sign, '%' | '_' | '\\') {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

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

    /// One of the columns has this part. Both ways know the case of ASCII letters only, as the
    /// filter says; `LIKE` takes half the time, and patterns of at most 50,000 bytes.
    fn part(&mut self, columns: &[&str], part: Option<&String>) {
        let Some(part) = part else { return };
        let (condition, value) = match part.len() <= PATTERN_BYTES_MAX {
            true => ("LIKE ? ESCAPE '\\'", format!("%{}%", escaped(part))),
            false => ("", part.clone()),
        };
        let one = |column: &&str| match condition {
            "" => format!("instr(lower({column}), lower(?)) > 0"),
            like => format!("{column} {like}"),
        };
        let all: Vec<String> = columns.iter().map(one).collect();
        self.sql.push_str(&format!(" AND ({})", all.join(" OR ")));
        self.values.extend(columns.iter().map(|_| Value::Text(value.clone())));
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

    /// The part of the ids, their order, and the limit.
    fn range(&mut self, id: &str, filter: &Filter) {
        self.plan(&format!("{id} < ?"), filter.before);
        self.plan(&format!("{id} > ?"), filter.after);
        let order = match filter.order {
            Order::NewestFirst => "DESC",
            Order::OldestFirst => "ASC",
        };
        self.sql.push_str(&format!(" ORDER BY {id} {order} LIMIT ?"));
        self.values.push(number(filter.limit));
    }

    fn one_of(&mut self, column: &str, names: impl ExactSizeIterator<Item = &'static str>) {
        if names.len() > 0 {
            let places = vec!["?"; names.len()].join(", ");
            self.sql.push_str(&format!(" AND {column} IN ({places})"));
            self.values.extend(names.map(|name| Value::Text(name.to_owned())));
        }
    }
}

fn query(filter: &Filter, along: Along) -> Query {
    let (from, id) = match along {
        Along::Label(_) => ("labels CROSS JOIN plans ON plans.id = labels.plan", "labels.plan"),
        _ => ("plans", "plans.id"),
    };
    let sql = format!(
        "SELECT plans.id, head, state, result, label, created_at, started_at, ended_at, wakes_at,
             is_busy, caller_plan, caller_step, waits_for, action, by, plans.labels, waits
         FROM {from} WHERE 1"
    );
    let mut query = Query { sql, values: Vec::new() };
    for (index, (name, value)) in filter.labels.iter().enumerate() {
        let value = value.as_ref();
        if along == Along::Label(index) {
            query.text("labels.name = ?", Some(name));
            query.text("labels.value = ?", value);
            continue;
        }
        let has = "EXISTS (SELECT 1 FROM json_each(plans.labels) AS l WHERE l.key = ?";
        query.text(has, Some(name));
        query.text("l.value = ?", value);
        query.sql.push(')');
    }
    match along {
        Along::State(state) => query.and("state = ?", Value::Text(state.name().to_owned())),
        // A plus keeps the index over states from being used.
        _ => query.one_of("+state", filter.states.iter().map(|state| state.name())),
    }
    match along {
        Along::Fault(result) => {
            query.sql.push_str(path::FAULTS);
            query.and("result = ?", Value::Text(result.name().to_owned()));
        }
        _ => query.one_of("result", filter.results.iter().map(|result| result.name())),
    }
    query.one_of("waits", filter.waits.iter().map(|waits| waits.name()));
    query.text("label = ?", filter.label.as_ref());
    query.part(&["label"], filter.name.as_ref());
    query.part(&["label", "waits_for"], filter.text.as_ref());
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
    query.range(id, filter);
    query
}

/// The rows along each of the paths, in the order that is asked for.
pub(super) fn list(connection: &Connection, filter: &Filter) -> rusqlite::Result<Vec<PlanRow>> {
    let paths = path::of(connection, filter)?;
    let mut rows = Vec::new();
    for along in &paths {
        let Query { sql, values } = query(filter, *along);
        let mut read = connection.prepare_cached(&sql)?;
        for row in read.query_map(params_from_iter(values), row)? {
            rows.push(row?);
        }
    }
    if paths.len() > 1 {
        rows.sort_unstable_by_key(|row| row.id);
        if filter.order == Order::NewestFirst {
            rows.reverse();
        }
        rows.truncate(filter.limit);
    }
    Ok(rows)
}

/// The plan at a place of the list, before conditions without an index; nothing if the list reads
/// no more rows than that.
pub(super) fn plan_at(
    connection: &Connection,
    filter: &Filter,
    place: usize,
) -> rusqlite::Result<Option<PlanId>> {
    let paths = path::of(connection, filter)?;
    let (from, id, value) = match paths.as_slice() {
        [Along::Ids] => ("plans WHERE 1", "id", None),
        [Along::Label(index)] => {
            let (name, value) = &filter.labels[*index];
            ("labels WHERE name = ? AND value = ?", "plan", Some((name, value.as_ref())))
        }
        _ => return Ok(None),
    };
    // Rows are looked up one by one along a label, which takes as long as reading four in a row.
    let places = if value.is_some() { place.div_ceil(4) } else { place };
    let mut query = Query { sql: format!("SELECT {id} FROM {from}"), values: Vec::new() };
    if let Some((name, value)) = value {
        query.values.push(Value::Text(name.clone()));
        query.values.push(Value::Text(value.cloned().unwrap_or_default()));
    }
    query.range(id, &Filter { limit: 1, ..filter.clone() });
    query.sql.push_str(" OFFSET ?");
    query.values.push(number(places.saturating_sub(1)));
    let mut read = connection.prepare_cached(&query.sql)?;
    let plan = read.query_row(params_from_iter(query.values), |row| row.get(0)).optional()?;
    Ok(plan.map(PlanId::from_bytes))
}

/// The numbers of the plans that fit.
pub(super) fn counts_of(connection: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Count>> {
    let mut counts: Vec<Count> = Vec::new();
    for along in path::of(connection, filter)? {
        let Query { sql, values } = query(&Filter { limit: usize::MAX, ..filter.clone() }, along);
        let sql = format!("SELECT state, result, waits, count(*) FROM ({sql}) GROUP BY 1, 2, 3");
        let mut read = connection.prepare_cached(&sql)?;
        for found in read.query_map(params_from_iter(values), count)? {
            let found = found?;
            let same = |known: &&mut Count| {
                (known.state, known.result, known.waits) == (found.state, found.result, found.waits)
            };
            match counts.iter_mut().find(same) {
                Some(known) => known.plans += found.plans,
                None => counts.push(found),
            }
        }
    }
    Ok(counts)
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
