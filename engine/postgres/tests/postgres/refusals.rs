//! A server that cannot be used is refused with a remedy.

use std::fs;
use std::path::Path;
use std::time::Duration;

use turnwheel_engine::store::{Filter, StoreView};
use turnwheel_engine::{PlanState, SharedStore, Store, StoreError, Waiting, World};
use turnwheel_postgres::Format;

use crate::server::{name, sql, start, store_of, url};
use crate::worlds::{check, world, Chain, Runs};

/// Why a store is not opened.
pub(crate) fn refusal(url: &str) -> String {
    match store_of(url).writer() {
        Ok(_) => panic!("{url} is opened"),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "«{text}» does not say «{part}»");
    }
}

#[test]
fn wrong_password_and_missing_database_are_told() {
    let server = start(&[]);
    let url = server.url("postgres");
    sql(&url, "SET password_encryption = 'scram-sha-256'; CREATE USER ann PASSWORD 'right'");
    server.ask_for_passwords().expect("it is told");
    let as_ann = |password: &str, database: &str| {
        let url = server.url(database);
        url.replace("turnwheel@", &format!("ann{password}@"))
    };
    let wrong = refusal(&as_ann(":wrong", "postgres"));
    says(&wrong, &["password authentication failed", "ann", "PGPASSWORD", "pg_hba.conf"]);
    assert!(!wrong.contains("wrong"), "{wrong}");
    says(&refusal(&as_ann("", "postgres")), &["password", "PGPASSWORD"]);
    says(&refusal(&as_ann(":right", "plans")), &["\"plans\" does not exist", "createdb"]);
    // She may not make a schema, but may use her own.
    says(&refusal(&as_ann(":right", "postgres")), &["permission denied", "GRANT CREATE"]);
    sql(&url, "CREATE SCHEMA ann AUTHORIZATION ann");
    let own = format!("{}?schema=ann", as_ann(":right", "postgres"));
    store_of(&own).writer().expect("it is opened");
}

#[test]
fn unreachable_server_is_told_with_its_address() {
    let text = refusal("postgres://ann@127.0.0.1:1/plans");
    says(&text, &["127.0.0.1:1/plans", "refused", "PostgreSQL runs", "listen_addresses"]);
    let text = refusal("postgres://ann@%2Fnowhere/plans");
    says(&text, &["/nowhere", "PostgreSQL runs"]);
}

#[test]
fn standby_is_refused() {
    let server = start(&[]);
    let url = server.url("postgres");
    let data = sql(&url, "SHOW data_directory").remove(0);
    sql(&url, "CHECKPOINT");
    server.stop().expect("it stops");
    let signal = Path::new(&data).join("standby.signal");
    fs::write(&signal, "").expect("the folder is there");
    let mut all = fs::metadata(&signal).expect("it is there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut all, 0o666);
    fs::set_permissions(&signal, all).expect("it is ours");
    server.resume().expect("it starts");
    says(&refusal(&url), &["standby", "primary", "target_session_attrs=read-write"]);
}

#[test]
fn server_older_than_14_is_refused() {
    let url = url();
    // It says that it is an older one: a function of this name is found before that of the server.
    sql(
        &url,
        "CREATE SCHEMA older; CREATE FUNCTION older.current_setting(name text) RETURNS text
            LANGUAGE sql AS $$ SELECT CASE name WHEN 'server_version_num' THEN '130016'
                WHEN 'server_version' THEN '13.16' ELSE pg_catalog.current_setting(name) END $$",
    );
    let older = format!("options=-c%20search_path%3Dolder%2Cpg_catalog&schema={}", name());
    let url = format!("{}?{older}", url.split('?').next().expect("a text has a beginning"));
    let text = refusal(&url);
    says(&text, &["PostgreSQL 13.16", "14 is the oldest", "upgrade"]);
    let text = store_of(&url).reader().err().expect("it is too old").to_string();
    says(&text, &["PostgreSQL 13.16"]);
}

#[test]
fn server_that_takes_no_writes_is_told_and_plans_go_on_when_it_does() {
    let server = start(&[]);
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let runs = Runs::default();
    let world = world(store_of(&url), &runs);
    let is_read_only = |value: &str| {
        sql(&url, &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"));
        sql(&url, "SELECT pg_reload_conf()");
    };
    is_read_only("on");
    // Connections hear of it a moment later.
    let mut taken = Vec::new();
    let refused = (0..10_000).find_map(|number| match world.trigger::<Chain>(number).wait() {
        Ok(plan) => {
            taken.push((number, plan));
            None
        }
        Err(error) => Some(error.to_string()),
    });
    let told = ["read-only transaction", "takes no writes", "default_transaction_read_only"];
    says(&refused.expect("it is refused at last"), &told);
    let other = url.replace("schema=", "schema=x");
    says(&refusal(&other), &["read-only transaction", "name the primary"]);
    is_read_only("off");
    let after = (0..10_000).find_map(|_| world.trigger::<Chain>(0).wait().ok());
    taken.push((0, after.expect("it is taken at last")));
    for (number, plan) in &taken {
        check(&plan.finished().wait().expect("it ends"), *number);
    }
    world.shutdown().expect("it ends");
    runs.check(taken.len() * 10);
    let mut view = store_of(&url).view().expect("it can be looked at");
    assert_eq!(view.counts().expect("it counts").total(), taken.len() as u64);
}

#[test]
fn schema_of_another_cluster_is_refused() {
    let url = url();
    let of = |cluster: &str| format!("{url}&cluster={cluster}");
    store_of(&url).writer().expect("it is of no cluster yet");
    store_of(&of("blue")).writer().expect("it is of this one from now on");
    store_of(&of("blue")).writer().expect("it is of this one");
    let remedy = ["«blue»", "schema=NAME", "cluster=blue"];
    let text = refusal(&of("green"));
    says(&text, &remedy);
    says(&text, &["«green»"]);
    says(&refusal(&url), &remedy);
    says(&store_of(&url).reader().err().expect("it is of «blue»").to_string(), &remedy);
    let runs = Runs::default();
    let world = world(store_of(&of("blue")), &runs);
    check(&world.trigger::<Chain>(0).wait().unwrap().finished().wait().expect("it ends"), 0);
    world.shutdown().expect("it ends");
}

#[test]
fn schema_with_live_nodes_that_name_no_cluster_gets_no_name() {
    let url = url();
    let named = format!("{url}&cluster=blue");
    let shared = SharedStore::node(store_of(&url), Duration::from_secs(30)).expect("it opens");
    let builder = World::builder().name("one").action(Chain);
    let node = builder.join(&shared).expect("it joins");
    says(&refusal(&named), &["has no name", "take cluster=blue out of the URL", "stop all"]);
    store_of(&url).reader().expect("its own nodes may start again");
    node.shutdown().expect("it ends");
    shared.close().expect("it ends");
    store_of(&named).migrate().expect("nobody is there: it gets the name");
    says(&refusal(&url), &["«blue»"]);
}

#[test]
fn clusters_that_start_together_on_one_schema_are_not_both_taken() {
    let url = url();
    let taken: usize = std::thread::scope(|scope| {
        let begin = |name: usize| store_of(&format!("{url}&cluster=c{name}")).writer().is_ok();
        let all: Vec<_> = (0..4).map(|name| scope.spawn(move || begin(name))).collect();
        all.into_iter().map(|one| usize::from(one.join().expect("no panic"))).sum()
    });
    assert_eq!(taken, 1);
}

#[test]
fn tables_of_a_newer_release_and_of_others_are_refused() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let store = store_of(&url);
    assert_eq!(store.format().expect("it answers"), Format { found: 0, known: 5 });
    says(&store.reader().err().expect("no tables").to_string(), &["no tables of Turnwheel"]);
    assert_eq!(store.migrate().expect("it is made"), Format { found: 0, known: 5 });
    assert_eq!(store.format().expect("it answers"), Format { found: 5, known: 5 });
    assert_eq!(store.migrate().expect("it is there"), Format { found: 5, known: 5 });
    sql(&url, &format!("UPDATE {schema}.meta SET value = 99 WHERE name = 'version'"));
    let newer = store.writer().err().expect("it is newer");
    let expected = matches!(newer, StoreError::TooNew { found: 99, known: 5, .. });
    assert!(expected, "{newer:?}");
    assert!(matches!(store.reader(), Err(StoreError::TooNew { .. })));
    sql(&url, &format!("DELETE FROM {schema}.meta WHERE name = 'version'"));
    says(&refusal(&url), &["another program", "schema=NAME"]);
}

#[test]
fn database_that_is_not_unicode_is_refused() {
    let url = url();
    sql(&url, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    says(&refusal(&url.replace("/postgres?", "/latin?")), &["LATIN1", "UTF8", "template0"]);
}

#[test]
fn processes_that_start_together_make_the_tables_once() {
    let url = url();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| store_of(&url).open().expect("it is opened").epoch());
        }
    });
    let epoch = store_of(&url).open().expect("it is opened").epoch();
    assert_eq!(epoch, 9, "each has a number");
}

#[test]
fn full_disk_of_the_database_is_told_and_plans_go_on_when_there_is_room() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let runs = Runs::default();
    let world = world(store_of(&url), &runs);
    let before = world.trigger::<Chain>(0).wait().expect("it is taken");
    check(&before.finished().wait().expect("it ends"), 0);
    // The server says this when a table cannot grow.
    let full = format!(
        "CREATE FUNCTION {schema}.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full',
                HINT = 'Check free disk space.'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.journal
            EXECUTE FUNCTION {schema}.full()"
    );
    sql(&url, &full);
    let refused = world.trigger::<Chain>(1).wait().expect_err("there is no room").to_string();
    says(&refused, &["the disk of the database", "Check free disk space"]);
    sql(&url, &format!("DROP TRIGGER full_disk ON {schema}.journal"));
    let after = world.trigger::<Chain>(2).wait().expect("there is room again");
    check(&after.finished().wait().expect("it ends"), 2);
    runs.check(20);
    world.shutdown().expect("it ends");
    let mut view = store_of(&url).view().expect("it can be looked at");
    assert_eq!(view.counts().expect("it counts").total(), 2, "the refused one is not there");
}

#[test]
fn row_that_was_damaged_by_hand_is_told_and_harms_no_other_plan() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let first = world(store_of(&url), &Runs::default());
    let trigger = |number| first.trigger::<Chain>(number).wait().expect("it is taken");
    let plans = [trigger(0), trigger(1)];
    for (number, plan) in (0..).zip(&plans) {
        check(&plan.finished().wait().expect("it ends"), number);
    }
    let ids = plans.map(|plan| plan.id());
    first.shutdown().expect("it ends");
    let damage = format!(
        "UPDATE {schema}.journal SET records = '\\xff00' WHERE plan = '{id}';
        UPDATE {schema}.snapshots SET bytes = '\\xff00' WHERE plan = '{id}'",
        id = ids[0],
    );
    sql(&url, &damage);
    let second = world(store_of(&url), &Runs::default());
    let told = second.plan(ids[0]).view().wait().expect_err("it is damaged").to_string();
    assert!(told.contains(&ids[0].to_string()), "{told}");
    check(&second.plan(ids[1]).finished().wait().expect("it is whole"), 1);
    let next = second.trigger::<Chain>(2).wait().expect("it is taken");
    check(&next.finished().wait().expect("it ends"), 2);
    second.shutdown().expect("it ends");
}

#[test]
fn row_of_a_plan_with_an_unknown_state_is_listed_as_damaged_beside_the_others() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let world = world(store_of(&url), &Runs::default());
    let plans = [0, 1].map(|number| world.trigger::<Chain>(number).wait().expect("it is taken"));
    for (number, plan) in (0..).zip(&plans) {
        check(&plan.finished().wait().expect("it ends"), number);
    }
    let ids = plans.map(|plan| plan.id());
    world.shutdown().expect("it ends");
    sql(&url, &format!("UPDATE {schema}.plans SET state = 'odd' WHERE id = '{}'", ids[0]));
    let mut view = StoreView::of(&store_of(&url)).expect("it opens");
    let rows = view.list(&Filter::default()).expect("one row keeps no list from being read");
    let row = |id| rows.iter().find(|row| row.id == id).expect("it is listed");
    assert_eq!(row(ids[0]).waits, Waiting::Unreadable);
    says(&row(ids[0]).waits_for, &["nobody can read its row", "column state", "«odd»"]);
    assert_eq!(row(ids[1]).state, PlanState::Stopped);
}

#[test]
fn rows_of_slots_that_were_deleted_by_hand_are_told_and_plans_go_on_when_they_are_back() {
    let url = url();
    let schema = url.rsplit('=').next().expect("it is the last setting").to_owned();
    let runs = Runs::default();
    let world = world(store_of(&url), &runs);
    sql(
        &url,
        &format!("CREATE TABLE {schema}.kept AS TABLE {schema}.slots; DELETE FROM {schema}.slots"),
    );
    let refused = world.trigger::<Chain>(0).wait().expect_err("no slot has an owner").to_string();
    says(&refused, &["damaged", "rows of slots are missing", "backup of the schema"]);
    sql(&url, &format!("INSERT INTO {schema}.slots TABLE {schema}.kept"));
    let after = world.trigger::<Chain>(1).wait().expect("it is whole again");
    check(&after.finished().wait().expect("it ends"), 1);
    world.shutdown().expect("it ends");
    runs.check(10);
}
