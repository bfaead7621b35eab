//! Bytes that the plan of a flow takes in the store.

use serde_json::json;
use turnwheel_engine::World;
use turnwheel_flow::{self as flow, FakeIo, Flows, WithFlows};
use turnwheel_sqlite::{rusqlite, SqliteStore};

use crate::flow_common::{add, load};

/// A text that is found nowhere else, and is not short.
fn text(length: usize) -> String {
    (0..length / 8).map(|number| format!("{:08x}", number * 2_654_435_761 % (1 << 32))).collect()
}

/// All bytes of the plans in a store.
fn bytes(path: &std::path::Path) -> usize {
    let database = rusqlite::Connection::open(path).expect("it is a database");
    let sum = |table: &str, column: &str| -> usize {
        let read = format!("SELECT coalesce(sum(length({column})), 0) FROM {table}");
        database.query_row(&read, [], |row| row.get(0)).expect("there is such a table")
    };
    sum("journal", "records")
        + sum("turnwheel_snapshots", "bytes")
        + sum("turnwheel_values", "bytes")
}

#[test]
fn large_input_is_stored_once_however_many_tasks_hand_it_on() {
    const LARGE: usize = 20_000;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("wheel.db");
    let open = || World::builder().flows(FakeIo::new()).build(SqliteStore::new(&path));
    let world = open().expect("it can be built");
    let flows = Flows::new(&world).expect("it has flows");
    let flow = load(
        "
do:
  - first: { wait: PT0.001S }
  - second: { set: { text: '${ .text }', n: 2 } }
  - third: { do: [ { inner: { wait: PT0.001S } } ] }
  - fourth: { set: { text: '${ .text }', list: ['${ .text }'] } }
",
    );
    add(&flows, &flow);
    let input = json!({ "text": text(LARGE), "id": 1 });
    let plan = flows.start(&flow, input).wait().expect("it starts");
    let view = plan.finished().wait().expect("it ends");
    let output = flow::result(&view).expect("it ends well");
    let id = plan.id();
    world.shutdown().expect("it ends in time");
    let stored = bytes(&path);
    assert!(stored < 2 * LARGE, "{stored} bytes for an input of {LARGE}");
    // It is whole when it is read again.
    let world = open().expect("it can be built");
    let view = world.plan(id).view().wait().expect("it is there");
    assert_eq!(flow::result(&view).expect("it ended well"), output);
    assert_eq!(output["list"][0], text(LARGE));
    world.shutdown().expect("it ends in time");
}
