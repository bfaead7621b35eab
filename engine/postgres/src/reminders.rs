//! Reminders of entities, as they are read.

use tokio_postgres::types::Type;
use tokio_postgres::Row;
use turnwheel_actors::entity::{DueRange, ReminderId, ReminderRow};
use turnwheel_engine::StoreError;

use crate::batch::missed_of;
use crate::cell::{count, count_if_any, damaged, digest, limit, named, number, string, text};
use crate::session::{Session, Value};

const COLUMNS: &str = "entity, key, name, first_due, delay, period, missed, planned, due, failures,
    skipped, revision, version";

pub(crate) fn one(
    session: &mut Session,
    id: &ReminderId,
) -> Result<Option<ReminderRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM tw.reminders WHERE digest = $1");
    let digest = digest(&[&id.entity, &id.key, &id.name]);
    let rows = session.read(&sql, &[(&digest, Type::BYTEA)])?;
    rows.first().map(row).transpose()
}

pub(crate) fn of(
    session: &mut Session,
    entity: &str,
    key: &str,
    most: usize,
) -> Result<Vec<ReminderRow>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS} FROM tw.reminders WHERE of_digest = $1 ORDER BY name LIMIT $2");
    let (digest, most) = (digest(&[entity, key]), limit(most));
    let rows = session.read(&sql, &[(&digest, Type::BYTEA), (&most, Type::INT8)])?;
    rows.iter().map(row).collect()
}

pub(crate) fn due(session: &mut Session, range: &DueRange) -> Result<Vec<ReminderRow>, StoreError> {
    let (until, most) = (number(range.until_ms), limit(range.limit));
    let (due, entity, key, name) = match &range.after {
        Some((due, id)) => (number(*due), text(&id.entity), text(&id.key), text(&id.name)),
        None => (-1, "".into(), "".into(), "".into()),
    };
    let after: [Value<'_>; 6] = [
        (&until, Type::INT8),
        (&most, Type::INT8),
        (&due, Type::INT8),
        (&entity, Type::TEXT),
        (&key, Type::TEXT),
        (&name, Type::TEXT),
    ];
    let mut sql = format!(
        "SELECT {COLUMNS} FROM tw.reminders
         WHERE due <= $1 AND due >= $3 AND (due, entity, key, name) > ($3, $4, $5, $6)"
    );
    let of = range.of.as_ref().map(|(entity, key)| digest(&[entity, key]));
    let mut values = after.to_vec();
    if let Some(of) = &of {
        sql.push_str(" AND of_digest = $7");
        values.push((of, Type::BYTEA));
    }
    sql.push_str(" ORDER BY due, entity, key, name LIMIT $2");
    session.read(&sql, &values)?.iter().map(row).collect()
}

fn row(row: &Row) -> Result<ReminderRow, StoreError> {
    let id = ReminderId::new(&string(row, 0)?, &string(row, 1)?, &string(row, 2)?);
    let mut reminder = ReminderRow::new(id);
    reminder.first_due_ms = count(row, 3)?;
    reminder.delay_ms = count_if_any(row, 4)?;
    reminder.period_ms = count_if_any(row, 5)?;
    reminder.missed = named(row, 6, missed_of)?;
    reminder.planned_ms = count(row, 7)?;
    reminder.due_ms = count(row, 8)?;
    reminder.failures =
        u32::try_from(count(row, 9)?).map_err(|error| damaged(row, 9, &error.to_string()))?;
    reminder.skipped = count(row, 10)?;
    reminder.revision = count(row, 11)?;
    reminder.version = count(row, 12)?;
    Ok(reminder)
}
