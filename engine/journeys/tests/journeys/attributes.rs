//! Declared types of users' attributes.

use serde_json::{json, Value};
use turnwheel_journeys::{Definition, JourneyError, Recording};

use super::common::{attributes, Stage, P};

fn journey(name: &str, types: &str) -> String {
    format!(
        "journey: {name}\nplatform: P\nattributes: {{ {types} }}\nelements:\n  \
         go: {{ start: {{ on: go, if: .user.vip }}, then: end }}\n"
    )
}

fn put(stage: &Stage, text: &str) -> Result<(), JourneyError> {
    let put = stage.sim.block_on(stage.journeys.put(text, "test")).expect("it ends");
    put.map(drop)
}

fn set(stage: &Stage, value: Value) -> Result<u64, String> {
    let set = stage.wait(stage.journeys.set_user(P, "u", attributes(value), None));
    set.map(|user| user.revision).map_err(|error| error.to_string())
}

#[test]
fn value_of_another_type_than_the_declared_one_is_refused_and_named() {
    let stage = Stage::new();
    let types = "vip: boolean, age: integer, score: number, name: string, since: time, \
                 tags: array, address: object";
    put(&stage, &journey("one", types)).expect("it is taken");
    let right = json!({
        "vip": true, "age": 7, "score": 1.5, "name": "Ann", "since": "2026-01-05T12:00:00Z",
        "tags": [1], "address": {}, "other": [{}],
    });
    assert_eq!(set(&stage, right.clone()), Ok(1));
    let wrong = [
        ("vip", json!("yes"), "a boolean"),
        ("age", json!(1.5), "an integer"),
        ("score", json!("1"), "a number"),
        ("name", json!(1), "a string"),
        ("since", json!("yesterday"), "a time (RFC 3339)"),
        ("tags", json!({}), "an array"),
        ("address", json!([]), "an object"),
    ];
    for (name, value, kind) in wrong {
        let mut all = right.clone();
        all[name] = value.clone();
        let said = set(&stage, all).expect_err("it is refused");
        let expected =
            format!("attributes: «{name}» is {kind}, and not {value} (declared by journey «one»)");
        assert_eq!(said, expected);
    }
    assert_eq!(stage.user("u").revision, 1, "nothing has changed");
    assert_eq!(set(&stage, json!({ "vip": null, "age": 8 })), Ok(2), "null removes an attribute");
    assert_eq!(
        set(&stage, json!({ "vip": 1, "age": "x" })).map_err(|it| it.contains("; ")),
        Err(true)
    );
}

#[test]
fn two_journeys_of_a_platform_cannot_declare_different_types() {
    let stage = Stage::new();
    put(&stage, &journey("one", "vip: boolean")).expect("it is taken");
    let refused = put(&stage, &journey("two", "vip: string")).expect_err("it is refused");
    assert_eq!(
        refused.to_string(),
        "attributes: «vip» is a boolean in the journey «one», and a string here"
    );
    let other = journey("two", "vip: string").replace("platform: P", "platform: Q");
    put(&stage, &other).expect("it is another platform");
    put(&stage, &journey("one", "vip: integer")).expect("a journey may change its own");
    assert_eq!(set(&stage, json!({ "vip": 3 })), Ok(1));
    stage.sim.block_on(stage.journeys.remove("one")).expect("it ends").expect("it is removed");
    assert_eq!(set(&stage, json!({ "vip": "x" })), Ok(2), "nobody declares it any more");
}

#[test]
fn declared_types_are_exported_and_hold_in_a_dry_run() {
    let text = journey("one", "vip: boolean");
    let definition = Definition::read(&text, "one").expect("it is read");
    let exported = definition.to_ancestor().to_string();
    assert_eq!(Definition::read(&exported, "one").expect("it is read"), definition);
    let mut recording = Recording::new(Vec::new());
    recording.users = [("u".to_owned(), attributes(json!({ "vip": 1 })))].into_iter().collect();
    let said = recording.on(&definition).expect_err("it is refused").to_string();
    assert!(said.starts_with("attributes: «vip» is a boolean"), "{said}");
    let unknown = Definition::read(&journey("one", "vip: bool"), "one").expect_err("no such type");
    assert!(unknown.to_string().contains("boolean"), "{unknown}");
}
