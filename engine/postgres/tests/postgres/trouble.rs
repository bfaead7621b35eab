//! The server is in trouble while plans run.

use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use turnwheel_engine::store::Batch;
use turnwheel_engine::{PlanHandle, Store, World};
use turnwheel_postgres::LocalServer;

use crate::server::{name, sql, start, store_of};
use crate::suite::place::entry;
use crate::worlds::{check, check_chains, world, Chain, Runs};

/// Triggers a plan once, however often the store fails meanwhile.
fn trigger(world: &World, url: &str, number: u64) -> PlanHandle {
    for _ in 0..1_000 {
        let key = format!("chain {number}");
        match world.trigger_once::<Chain>(key, number).wait() {
            Ok(plan) => return plan,
            // A reader tries for some seconds, and waits for the server by that.
            Err(_) => drop(store_of(url).view()),
        }
    }
    panic!("no trigger was taken");
}

/// Runs plans while `harm` is done to the server again and again.
fn run_plans_during(server: &LocalServer, harm: impl Fn(&str, u32) + Sync) {
    let url = format!("{}?application_name=harmed&schema={}", server.url("postgres"), name());
    let runs = Runs::default();
    let world = world(store_of(&url), &runs);
    let (over, is_over) = channel::<()>();
    let harms = thread::scope(|scope| {
        let (url, harm) = (&url, &harm);
        let harming = scope.spawn(move || {
            let mut harms = 0;
            while is_over.recv_timeout(Duration::from_millis(150)) == Err(RecvTimeoutError::Timeout)
            {
                harm(url, harms);
                harms += 1;
            }
            harms
        });
        for round in 0..20 {
            let numbers = round * 10..round * 10 + 10;
            let plans: Vec<_> =
                numbers.map(|number| (number, trigger(&world, url, number))).collect();
            for (number, plan) in plans {
                let view = loop {
                    if let Ok(view) = plan.finished().wait() {
                        break view;
                    }
                };
                check(&view, number);
            }
        }
        drop(over);
        harming.join().expect("no panic")
    });
    assert!(harms > 2, "the server was hardly in trouble: {harms}");
    runs.check(2_000);
    world.shutdown().expect("it ends");
    check_chains(&url);
}

#[test]
fn plans_survive_the_end_of_their_backends() {
    let server = start(&[]);
    run_plans_during(&server, |url, harms| {
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'harmed'";
        if harms < 25 {
            sql(url, ends);
        }
    });
}

#[test]
fn plans_survive_stops_of_the_server() {
    let server = start(&[]);
    run_plans_during(&server, |_, harms| {
        if harms < 4 {
            server.stop().expect("it stops");
            server.resume().expect("it starts");
        }
    });
}

#[test]
fn commit_that_comes_late_is_refused_after_the_connection_was_replaced() {
    let server = start(&[]);
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let store = store_of(&url);
    let mut writer = store.writer().expect("a writer");
    let appends = [entry(1, 0, "a")];
    let batch = Batch { appends: &appends, changes: &[], rows: &[], projected: 0 };
    writer.commit(&batch).expect("it is written");
    // As if another connection of this writer had asked what became of a commit.
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let taken = format!("SELECT session FROM {schema}.session_1({})", writer.epoch());
    sql(&url, &taken);
    let appends = [entry(1, 1, "late")];
    let batch = Batch { appends: &appends, changes: &[], rows: &[], projected: 0 };
    let refused = writer.commit(&batch).expect_err("it comes late");
    assert!(refused.to_string().contains("another connection"), "{refused}");
    assert_eq!(writer.written_after(1).expect("it answers"), []);
    writer.commit(&batch).expect("the writer has a new connection");
}
