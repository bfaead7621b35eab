//! The worlds and the owners of slots.

use std::borrow::Cow;

use tokio_postgres::types::Type;
use turnwheel_engine::store::{Owner, Slots, WorldKind, WorldRow, Worlds, WorldsWrite, SLOTS};
use turnwheel_engine::{StoreError, Time};

use crate::cell::{count, moment, named, number, string, text};
use crate::session::{Session, Value};

pub(crate) const WRITE: &str =
    "SELECT tw.worlds_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

/// One statement, so that worlds and slots are of the same moment.
const READ: &str = "SELECT 0, value, NULL::text, NULL::text, 0::bigint, NULL::text, NULL::text, 0
        FROM tw.meta WHERE name = 'worlds'
    UNION ALL SELECT 1, number, name, kind, since, meta, claims, 0 FROM tw.worlds
    UNION ALL SELECT 2, owner, NULL, NULL, epoch, NULL, NULL, slot FROM tw.slots
    ORDER BY 1, 8, 2";

/// A change as arrays; `is_dead` says that the leases of the worlds that go must be over.
pub(crate) struct Columns<'a> {
    is_dead: bool,
    from: i64,
    gone: Vec<i64>,
    numbers: Vec<i64>,
    names: Vec<Cow<'a, str>>,
    kinds: Vec<&'static str>,
    since: Vec<i64>,
    metas: Vec<Cow<'a, str>>,
    claims: Vec<String>,
    slots: Vec<i32>,
    owners: Vec<i64>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(write: &'a WorldsWrite, is_dead: bool) -> Result<Self, StoreError> {
        let put = &write.put;
        let claims = put.iter().map(|row| serde_json::to_string(&row.claims));
        let claims = claims.collect::<Result<_, _>>();
        let claims = claims.map_err(|error| StoreError::Failed(format!("claims: {error}")))?;
        let slots =
            put.iter().flat_map(|row| row.slots.iter().map(|slot| (slot as i32, row.epoch)));
        let (slots, owners) = slots.map(|(slot, world)| (slot, number(world))).unzip();
        Ok(Self {
            is_dead,
            from: number(write.from),
            gone: write.gone.iter().copied().map(number).collect(),
            numbers: put.iter().map(|row| number(row.epoch)).collect(),
            names: put.iter().map(|row| text(&row.name)).collect(),
            kinds: put.iter().map(|row| kind_name(row.kind)).collect(),
            since: put.iter().map(|row| moment(row.since)).collect(),
            metas: put.iter().map(|row| text(&row.meta)).collect(),
            claims,
            slots,
            owners,
        })
    }

    pub(crate) fn values(&self) -> [Value<'_>; 11] {
        [
            (&self.is_dead, Type::BOOL),
            (&self.from, Type::INT8),
            (&self.gone, Type::INT8_ARRAY),
            (&self.numbers, Type::INT8_ARRAY),
            (&self.names, Type::TEXT_ARRAY),
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.since, Type::INT8_ARRAY),
            (&self.metas, Type::TEXT_ARRAY),
            (&self.claims, Type::TEXT_ARRAY),
            (&self.slots, Type::INT4_ARRAY),
            (&self.owners, Type::INT8_ARRAY),
        ]
    }
}

/// All worlds.
pub(crate) fn all(session: &mut Session) -> Result<Worlds, StoreError> {
    let answer = session.read(READ, &[])?;
    let (mut version, mut rows, mut owners) = (0, Vec::new(), Vec::with_capacity(SLOTS));
    for row in &answer {
        match row.get::<_, i32>(0) {
            0 => version = count(row, 1)?,
            1 => {
                let epoch = count(row, 1)?;
                let claims = serde_json::from_str(&string(row, 6)?).map_err(|error| {
                    StoreError::Corrupt(format!("the claims of world {epoch}: {error}"))
                })?;
                rows.push(WorldRow {
                    epoch,
                    name: string(row, 2)?,
                    kind: named(row, 3, kind_of)?,
                    since: Time(count(row, 4)?),
                    slots: Slots::default(),
                    meta: string(row, 5)?,
                    claims,
                });
            }
            _ => owners.push(Owner { world: count(row, 1)?, epoch: count(row, 4)? }),
        }
    }
    if owners.len() != SLOTS {
        return Err(StoreError::Corrupt(format!("it has {} slots of {SLOTS}", owners.len())));
    }
    session.shared.seen.worlds(version);
    Ok(Worlds::new(version, rows, owners))
}

fn kind_name(kind: WorldKind) -> &'static str {
    match kind {
        WorldKind::Client => "client",
        WorldKind::Executor => "executor",
    }
}

fn kind_of(name: &str) -> Option<WorldKind> {
    match name {
        "client" => Some(WorldKind::Client),
        "executor" => Some(WorldKind::Executor),
        _ => None,
    }
}
