//! `turnwheel serve` on PostgreSQL. `cargo test` alone needs no database: these tests run only when they
//! are asked for, by `.ci/run postgres`.

use turnwheel_postgres::LocalServer;

use crate::serve_common::Place;

/// Asks for these tests.
const ASKED: &str = "TURNWHEEL_TEST_POSTGRES";

fn is_asked() -> bool {
    let is_asked = std::env::var_os(ASKED).is_some();
    if !is_asked {
        eprintln!("LEFT OUT: no server was tried on PostgreSQL, because {ASKED} is not set");
    }
    is_asked
}

/// The message of a command that fails.
fn refusal(place: &Place, arguments: &[&str], code: i32) -> String {
    let output = place.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

#[test]
fn server_on_postgresql_is_found_by_commands_and_goes_on_after_kill_nine() {
    if !is_asked() {
        return;
    }
    let database = LocalServer::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let url = format!("{}?schema=served", database.url("postgres"));
    let place = Place::new();
    let missing = refusal(&place, &["store", "check", "--store", &url], 1);
    assert!(missing.contains("no tables") && missing.contains("store migrate"), "{missing}");
    let missing = refusal(&place, &["list", "--store", &url], 1);
    assert!(missing.contains("no tables of Turnwheel"), "{missing}");
    assert!(place.ok(&["store", "migrate", "--store", &url]).contains("its tables are made"));
    assert!(place.ok(&["store", "check", "--store", &url]).contains("that of this version"));

    let server = place.serve(&["--store", &url]);
    let (plan, cancelled) = (server.begin("p"), server.begin("q"));
    let listed = place.ok(&["list", "--json", "--store", &url]);
    assert!(listed.contains(&plan) && listed.contains(&cancelled), "{listed}");
    let second = ["serve", "--listen", "127.0.0.1:0", "--store", &url];
    let in_use = refusal(&place, &second, 4);
    assert!(in_use.contains("in use by process"), "{in_use}");
    place.ok(&["cancel", &cancelled, "--store", &url]);
    server.killed();

    let server = place.serve(&["--store", &url]);
    let state = |plan: &str| {
        let shown = server.get(&format!("/api/v1/plans/{plan}")).ok();
        (shown["state"].clone(), shown["result"].clone())
    };
    assert_eq!(state(&plan), ("running".into(), "pending".into()));
    assert_eq!(state(&cancelled), ("stopped".into(), "cancelled".into()));
    let no_file = refusal(&place, &["backup", "copy.db", "--store", &url], 1);
    assert!(no_file.contains("is no file") && no_file.contains("pg_dump"), "{no_file}");
}

#[test]
fn database_that_is_not_reached_is_told_without_its_password() {
    if !is_asked() {
        return;
    }
    let place = Place::new();
    let url = "postgres://ann:sesame@127.0.0.1:1/plans";
    for arguments in [["serve", "--store", url], ["list", "--store", url]] {
        let said = refusal(&place, &arguments, 1);
        assert!(said.contains("127.0.0.1:1/plans") && said.contains("PostgreSQL runs"), "{said}");
        assert!(!said.contains("sesame"), "{said}");
    }
    let settings = place.ok(&["config", "print", "--store", url]);
    assert!(settings.contains("ann:…@") && !settings.contains("sesame"), "{settings}");
}
