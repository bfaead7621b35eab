//! `turnwheel delete`: what is over goes, what is not stays.

use serde_json::json;
use turnwheel::http::{Access, Options};

use crate::cli_common::Folder;

#[test]
fn only_plans_that_are_over_are_removed() {
    let (folder, plans) = Folder::with_plans();
    let done = plans.done.to_string();
    let would = folder.json(&["delete", "--since", "1d", "--dry-run", "--json"]);
    assert_eq!(would["plans"], json!([done]));
    assert_eq!(folder.json(&["list", "--json"])["plans"].as_array().unwrap().len(), 3);

    let gone = folder.ok(&["delete", "--since", "1d"]);
    assert!(gone.contains(&done) && gone.contains("delete is done"), "{gone}");
    let left = folder.json(&["list", "--json"])["plans"].clone();
    assert_eq!(left.as_array().unwrap().len(), 2, "{left}");
    folder.run(&["show", &done]).fails(3, &[&done]);
    // Nothing more fits, which is no failure.
    assert_eq!(folder.ok(&["delete", "--since", "1d"]), "");
}

#[test]
fn a_plan_that_is_not_over_is_left_and_that_is_said() {
    let (folder, plans) = Folder::with_plans();
    let waits = plans.waits.to_string();
    let ended = folder.run(&["delete", &waits, &plans.done.to_string()]);
    assert_eq!(ended.code(), 1);
    let said = ended.stdout();
    assert!(said.contains(&format!("plan {waits} is left")), "{said}");
    assert!(said.contains("delete is done"), "{said}");
    assert_eq!(folder.json(&["list", "--json"])["plans"].as_array().unwrap().len(), 2);
    folder.run(&["delete"]).fails(2, &["no plan is named"]);
}

#[test]
fn a_server_that_has_the_store_removes_them() {
    let (folder, plans) = Folder::with_plans();
    let store = folder.store();
    let world = crate::cli_common::builder().build(store.clone()).expect("the store is free");
    let runtime = tokio::runtime::Runtime::new().expect("it can be made");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let listen = turnwheel::http::serve::Listen::at(([127, 0, 0, 1], 0).into());
    let options = Options::new(Access::Loopback);
    let bound = turnwheel::http::serve::Server::bind(&world, options, listen);
    let server = runtime.block_on(bound).expect("a port is free");
    store.announce(&server.url()).expect("it has the store");
    let serving = runtime.spawn(server.run(async {
        // Whoever drops the sender stops it as well.
        let _either = stopped.await;
    }));
    let ended = folder.run(&["delete", &plans.done.to_string(), &plans.paused.to_string()]);
    assert_eq!(ended.code(), 1, "{}", ended.stderr());
    assert!(ended.stdout().contains(&format!("plan {} is left", plans.paused)));
    assert_eq!(folder.json(&["list", "--json"])["plans"].as_array().unwrap().len(), 2);
    stop.send(()).expect("it listens");
    runtime.block_on(serving).expect("it stops");
    world.shutdown().expect("it ends");
}
