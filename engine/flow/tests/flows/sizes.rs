//! Bytes that the plan of a flow takes in the store.

use serde_json::json;
use turnwheel_engine::World;
use turnwheel_flow::{self as flow, CloudEvent, FakeIo, Flows, WithFlows};
use turnwheel_runtime::completion::block_on;
use turnwheel_sqlite::{rusqlite, SqliteStore};

use crate::flow_common::{add, load};

/// A text that is found nowhere else, and is not short.
fn text(length: usize) -> String {
    text_from(0, length)
}

fn text_from(first: usize, length: usize) -> String {
    (first..first + length / 8)
        .map(|number| format!("{:08x}", number * 2_654_435_761 % (1 << 32)))
        .collect()
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

/// Bytes of a plan that has collected so many events of so many bytes, and its output.
fn collected(count: usize, length: usize, rest: &str) -> (usize, serde_json::Value) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("wheel.db");
    let world = World::builder().flows(FakeIo::new()).build(SqliteStore::new(&path));
    let world = world.expect("it can be built");
    let flows = Flows::new(&world).expect("it has flows");
    let flow = load(&format!(
        "
do:
  - hear:
      listen:
        to: {{ any: [{{ with: {{ type: reading }} }}], until: {{ one: {{ with: {{ type: end }} }} }} }}
{rest}
"
    ));
    add(&flows, &flow);
    let plan = flows.start(&flow, json!({})).wait().expect("it starts");
    let event = |id: usize, kind: &str| CloudEvent::new(id.to_string(), "https://s.example", kind);
    let listens = || plan.view().wait().expect("it is there").waits_for().contains("reading");
    let begun = std::time::Instant::now();
    while !listens() {
        assert!(begun.elapsed().as_secs() < 20, "it does not listen");
        std::thread::yield_now();
    }
    for number in 0..count {
        let data = json!({ "n": number, "text": text_from(number * length, length) });
        let published = block_on(flows.publish(event(number, "reading").data(data)));
        assert_eq!(published.expect("off the workers").expect("it is told").delivered, 1);
    }
    let published = block_on(flows.publish(event(count, "end")));
    assert_eq!(published.expect("off the workers").expect("it is told").delivered, 1);
    let view = plan.finished().wait().expect("it ends");
    let output = flow::result(&view).expect("it ends well");
    world.shutdown().expect("it ends in time");
    (bytes(&path), output)
}

#[test]
fn collected_events_take_place_in_proportion_to_their_number() {
    const EACH: &str = "      foreach: { item: e, do: [ { s: { set: { n: '${ $e.n }' } } } ] }";
    // The state of iterations is stored in packs, which grow by steps: more room for those.
    let cases = [(60, 1_000, "", 2.5), (70, 5_000, "", 2.5), (60, 1_000, EACH, 3.0)];
    for (count, length, rest, times) in cases {
        let (small, _) = collected(count, length, rest);
        let (large, output) = collected(2 * count, length, rest);
        println!("{count} events of {length} bytes: {small} bytes, twice as many: {large}");
        // With all of them written anew for each it would be four times as much.
        let most = (small as f64 * times) as usize;
        assert!(large <= most, "{count} of {length}: {small}, twice as many: {large}");
        let numbers = output.as_array().expect("a list").iter().map(|it| it["n"].as_u64());
        assert!(numbers.eq((0..2 * count as u64).map(Some)));
    }
}
