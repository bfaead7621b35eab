//! Tables of an older format become those of today.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use turnwheel_engine::store::{Slots, Swap, WorldKind, WorldRow, WorldsWrite};
use turnwheel_engine::{Schedule, Store, Time, World};
use turnwheel_postgres::Format;

use crate::refusals::says;
use crate::server::{sql, store_of, url};
use crate::worlds::{check, world, Chain, Runs};

/// How long a test waits for a launch.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes away what formats 3 to 5 have brought.
fn without_3_to_5(schema: &str) -> String {
    format!(
        "{} DROP FUNCTION {schema}.schedules_3(bigint, bigint, integer[], text[], bigint[], bytea[],
            integer[], bigint[]);",
        without_4_and_5(schema)
    )
}

/// Takes away what formats 4 and 5 have brought. What format 5 has replaced may stay: it is called as before.
fn without_4_and_5(schema: &str) -> String {
    format!(
        "DROP FUNCTION {schema}.mail_4(bigint[], bigint[], bigint, bigint),
            {schema}.post_4(bigint[], bytea[], bigint[], text),
            {schema}.are_states_5(integer[], bytea[]),
            {schema}.states_5(bigint[], bigint[], integer[], integer[], bigint[], bigint[], bigint[],
                bytea[], text[], bytea[], bigint[]);
        ALTER TABLE {schema}.mail DROP COLUMN at;"
    )
}

/// Waits until a schedule has launched so often.
fn launched(world: &World, name: &str, least: u64) {
    let (_never, timer) = channel::<()>();
    let begun = Instant::now();
    loop {
        let view = world.schedules().get(name).wait().expect("it is answered");
        let counts = view.expect("it is there").counts;
        if counts.launched >= least {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{name} has launched {counts:?}, wanted {least}");
        let _elapsed = timer.recv_timeout(Duration::from_millis(50));
    }
}

#[test]
fn ended_plans_are_counted_when_tables_of_format_1_become_those_of_today() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let runs = Runs::default();
    let world = world(store_of(&url), &runs);
    check(&world.trigger::<Chain>(0).wait().unwrap().finished().wait().expect("it ends"), 0);
    world.shutdown().expect("it ends");
    let store = store_of(&url);
    let counted = || {
        let mut reader = store.reader().expect("a reader");
        let tallies = reader.tallies(Time(0)).expect("it counts");
        let total: u64 = tallies.iter().map(|tally| tally.plans).sum();
        (total, tallies.iter().map(|tally| tally.took.is_some()).collect::<Vec<_>>())
    };
    let before = counted();
    assert_eq!(before, (1, vec![true]), "the writer has counted it");
    // As it was before there were numbers of ended plans.
    let later = without_3_to_5(&schema);
    sql(
        &url,
        &format!(
            "DROP TABLE {schema}.tallies;
            DROP FUNCTION {schema}.kept_2(), {schema}.took_2(bigint, bigint),
                {schema}.tally_2(text, text, integer);
            {later}
            UPDATE {schema}.meta SET value = 1 WHERE name = 'version'"
        ),
    );
    says(&store.reader().err().expect("it is older").to_string(), &["format 1", "store migrate"]);
    assert_eq!(store.migrate().expect("it is brought up"), Format { found: 1, known: 5 });
    assert_eq!(counted(), before);
    let world = self::world(store_of(&url), &runs);
    check(&world.trigger::<Chain>(0).wait().unwrap().finished().wait().expect("it ends"), 0);
    world.shutdown().expect("it ends");
    assert_eq!(counted().0, 2);
}

#[test]
fn schedules_go_on_when_tables_of_format_2_become_those_of_today() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let runs = Runs::default();
    let first = world(store_of(&url), &runs);
    for name in ["ticks", "tocks"] {
        let every = Schedule::every(name, Duration::from_secs(1)).action::<Chain>(&0);
        let put = first.schedules().put(every.expect("it is complete"));
        put.wait().expect("it is answered").expect("it is put");
    }
    launched(&first, "ticks", 1);
    first.schedules().pause("tocks", "eva", "").wait().expect("it is answered").expect("it is");
    first.shutdown().expect("it ends");
    let rows = || sql(&url, &format!("SELECT name || version || data FROM {schema}.schedules"));
    let before = rows();
    assert_eq!(before.len(), 2);
    // As it was before schedules had slots.
    let later = without_3_to_5(&schema);
    sql(
        &url,
        &format!(
            "{later}
            UPDATE {schema}.meta SET value = 2 WHERE name = 'version'"
        ),
    );
    let store = store_of(&url);
    says(&store.reader().err().expect("it is older").to_string(), &["format 2", "store migrate"]);
    assert_eq!(store.migrate().expect("it is brought up"), Format { found: 2, known: 5 });
    assert_eq!(rows(), before, "rows stay as they were");
    let second = world(store_of(&url), &runs);
    let view = |name: &str| {
        second.schedules().get(name).wait().expect("it is answered").expect("it is there")
    };
    let (ticks, tocks) = (view("ticks"), view("tocks"));
    assert!(tocks.paused.is_some(), "{tocks:?}");
    launched(&second, "ticks", ticks.counts.launched + 2);
    assert_eq!(view("tocks").counts, tocks.counts, "it is paused still");
    second.schedules().remove("tocks").wait().expect("it is answered").expect("it is removed");
    second.shutdown().expect("it ends");
    assert_eq!(rows().len(), 1);
}

#[test]
fn requests_of_nodes_of_format_3_are_carried_by_tables_of_today() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let store = store_of(&url);
    let mut writer = store.open().expect("a writer");
    let row = WorldRow {
        epoch: 7,
        name: "seven".to_owned(),
        kind: WorldKind::Client,
        since: Time(1),
        meta: String::new(),
        slots: Slots::default(),
        claims: Vec::new(),
    };
    let join = WorldsWrite { from: 0, put: vec![row], gone: vec![] };
    assert_eq!(writer.write_worlds(&join).expect("it is written"), Swap::Done);
    let post = |byte: u8| {
        sql(
            &url,
            &format!("SELECT {schema}.post_1('{{7}}', ARRAY['\\x{byte:02x}'::bytea], 'hints')"),
        )
    };
    sql(
        &url,
        &format!(
            "{} UPDATE {schema}.meta SET value = 3 WHERE name = 'version'",
            without_4_and_5(&schema)
        ),
    );
    post(1);
    assert_eq!(store.migrate().expect("it is brought up"), Format { found: 3, known: 5 });
    post(2);
    let mut members = store.members().expect("it is open").expect("it has leases");
    let mut mail = members.mail(&[7], 9, 99).expect("it answers");
    assert!(mail.iter().all(|mail| mail.age < PATIENCE), "{mail:?}");
    assert_eq!(mail.iter_mut().map(|mail| mail.bytes.remove(0)).collect::<Vec<_>>(), [1, 2]);
    let taken = sql(&url, &format!("SELECT count(*) FROM {schema}.mail_1('{{7}}', '{{}}', 9)"));
    assert_eq!(taken, ["2"], "processes of the release before read them, too");
}
