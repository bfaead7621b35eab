//! Definitions: both forms, and what is said of wrong ones.

use serde_json::{json, Value};
use turnwheel_journeys::{
    keyed, Channel, Channels, Definition, Entry, JourneyError, Kind, Message, Unsent,
};

use super::common::{ancestor, Stage};

#[test]
fn ancestor_definition_is_exported_as_it_was_imported() {
    let text = ancestor().to_string();
    let definition = Definition::read(&text, "wf.json").expect("it is read");
    assert_eq!(definition.to_ancestor(), ancestor(), "with fields and extensions of its own");
    assert_eq!((definition.name.as_str(), definition.elements.len()), ("wf 1", 23));
    assert_eq!(keyed(&definition)["P_4"], ancestor()[4]);
    let kinds: Vec<Kind> = definition.elements.iter().map(|element| element.kind).collect();
    assert_eq!((kinds[10], kinds[14], kinds[20]), (Kind::Rule, Kind::RuleCase, Kind::TriggerCase));
}

#[test]
fn ancestor_definition_with_empty_and_foreign_fields_is_exported_as_it_was_imported() {
    let mut list = ancestor();
    for (element, field) in
        [(1, "properties"), (1, "extensions"), (0, "incomings"), (22, "outgoings")]
    {
        list[element][field] = Value::Null;
    }
    list[3].as_object_mut().expect("an object").remove("properties");
    list[2]["extensions"] = json!({ "set": 1, "default": "yes", "parallel": [], "wait": null });
    list[4]["extensions"]["unmatched"] = json!(7);
    list[5]["extensions"] = json!({ "default": false, "parallel": false, "send": null });
    let definition = Definition::read(&list.to_string(), "wf.json").expect("it is read");
    assert_eq!(definition.to_ancestor(), list);
    assert_eq!(keyed(&definition)["P_2"], list[2]);
    let foreign = &definition.elements[2].extensions;
    assert!(foreign.set.is_none() && !foreign.default && !foreign.parallel, "{foreign:?}");
    let stored = Definition::read_stored(&list.to_string(), "wf.json").expect("it is read");
    assert_eq!(stored, definition);
    let mut changed = definition;
    changed.elements[2].extensions.default = true;
    changed.elements[2].extensions.extra.clear();
    assert_eq!(changed.to_ancestor()[2]["extensions"], json!({ "default": true }));
}

#[test]
fn numbers_that_cannot_be_kept_are_refused_in_new_definitions() {
    let list = |account: &str| {
        let mut list = ancestor();
        list[0]["extensions"]["account"] = json!("ACCOUNT");
        list.to_string().replace("\"ACCOUNT\"", account)
    };
    let large = list("123456789012345678901");
    let said = problems(&large);
    assert!(said.contains("a number as large as 1.2345678901234568e+20 is not kept"), "{said}");
    assert!(said.contains("put it in quotes"), "{said}");
    Definition::read_stored(&large, "wf.json").expect("one that is stored goes on");
    for kept in ["18446744073709551615", "-9223372036854775808", "0.1", "1e15"] {
        let definition = Definition::read(&list(kept), "wf.json").expect(kept);
        let account: Value = serde_json::from_str(kept).expect("a number");
        assert_eq!(definition.to_ancestor()[0]["extensions"]["account"], account);
    }
}

const OURS: &str = r#"
journey: onboarding
platform: shop
entry: once
cap: { messages: 2, per: P1D }
elements:
  signed-up: { start: { on: customer.created, if: '.event.data.consent' }, then: hello }
  hello: { send: { channel: mail, with: { name: "${ .event.data.name }" } }, then: first-order }
  first-order:
    wait: { on: order.paid, for: P3D }
    lines:
      - { name: large, if: '.event.data.total > 100', then: thanks }
      - { if: 'true', then: end }
    otherwise: remind
  remind: { send: { channel: mail }, then: which }
  which:
    choose: first
    lines: [ { if: '.user.vip', then: thanks } ]
    otherwise: end
  thanks: { set: '{ thanked: true }', then: end }
"#;

#[test]
fn our_form_is_the_same_journey_in_the_form_of_the_ancestor() {
    let ours = Definition::read(OURS, "onboarding.yaml").expect("it is read");
    assert_eq!(ours.settings.entry, Entry::Once);
    let exported = serde_json::to_string_pretty(&ours.to_ancestor()).expect("it is JSON");
    let again = Definition::read(&exported, "onboarding.json").expect("it is read");
    assert_eq!(again, ours);
    let large = ours.elements.iter().find(|element| element.id.to_string() == "large");
    let large = large.expect("a line has its name");
    assert_eq!((large.kind, large.incomings[0].to_string().as_str()), (Kind::Line, "first-order"));
}

fn problems(text: &str) -> String {
    Definition::read(text, "j.yaml").expect_err("it is wrong").to_string()
}

/// Problems of a journey with these elements.
fn wrong(elements: &str) -> String {
    problems(&format!("journey: j\nplatform: p\nelements:\n{elements}"))
}

#[test]
fn wrong_definitions_are_refused_with_place_and_suggestion() {
    let start = "  a: { start: { on: go }, then: b }\n";
    for (elements, message, suggestion) in [
        ("  b: { end: true }\n  c: { end: true }\n", "«c» is reached from no start", "remove it"),
        ("  b: { set: '{}' }\n", "«b» leads nowhere: lines end at an end", "then: end"),
        (
            "  b: { wait: { on: x }, lines: [ { then: end }, { then: end } ] }\n",
            "«b» has several default lines",
            "a condition",
        ),
        ("  b: { set: '{}', then: b }\n", "no end is reached from «b»", "to an end"),
        (
            "  b: { choose: first, lines: [ { if: '.x', then: c } ], otherwise: end }\n  \
             c: { set: '{}', then: b }\n",
            "leads to itself without a wait",
            "put a wait into the circle",
        ),
        ("  b: { wait: { on: x, for: P1D }, then: end }\n", "has no default", "otherwise: end"),
        ("  b: { wait: { on: x }, then: edn }\n  end: end\n", "which is not there", "«end»"),
        ("  b: { send: { channel: m }, tehn: end }\n", "unknown field `tehn`", "«then»"),
        ("  b: { wait: { for: 1d }, then: end, otherwise: end }\n", "is no duration", ""),
        ("  b: { wait: { for: PT0S }, then: end, otherwise: end }\n", "waits for no time", "lasts"),
        ("  b: { wait: { if: '.a |' }, then: end }\n", "the expression «.a |»", ""),
    ] {
        let said = wrong(&format!("{start}{elements}"));
        assert!(said.contains(message), "{elements}{said}");
        assert!(said.contains(suggestion), "{elements}{said}");
        assert!(said.contains("j.yaml:5:") || said.contains("j.yaml:6:"), "{said}");
    }
    assert!(wrong("  b: { end: true }\n").contains("a journey has a start"));
    let other = problems("journey: j\nplatform: p\npriorty: 1\nelements: { a: end }\n");
    assert!(other.contains("j.yaml:3:1: a journey has no field «priorty»"), "{other}");
    assert!(other.contains("did you mean «priority»?"), "{other}");
    let quiet = "journey: j\nplatform: p\nquiet: { from: '25:00', to: '08:00' }\nelements:\n  \
                 a: { start: { on: go }, then: end }\n";
    assert!(problems(quiet).contains("«25:00» is no time of day"), "{}", problems(quiet));
    let cap =
        quiet.replace("quiet: { from: '25:00', to: '08:00' }", "cap: { messages: 0, per: P1D }");
    assert!(problems(&cap).contains("a cap of no message sends nothing"), "{}", problems(&cap));
    let same = quiet.replace("25:00", "08:00");
    assert!(problems(&same).contains("are none"), "{}", problems(&same));
    assert!(problems("[]").contains("the name has 1 to"), "{}", problems("[]"));
    assert!(problems("[{\"id\": 1}]").contains("this is no element"));
}

#[test]
fn line_of_a_start_with_a_condition_is_refused_in_our_form() {
    let start = |rest: &str| {
        format!("  a: {{ start: {{ on: go }}, lines: [ {{ if: .user.a, then: end }} ]{rest} }}\n")
    };
    let said = wrong(&start(""));
    assert!(said.contains("the only line of the start «a» has a condition"), "{said}");
    let text = format!("journey: j\nplatform: p\nelements:\n{}", start(", then: end"));
    Definition::read(&text, "j.yaml").expect("there are two lines");
}

#[test]
fn elements_that_are_named_before_others_lead_to_them() {
    let mut elements = ancestor();
    elements[6]["incomings"] = serde_json::json!([5, 7]);
    let said = problems(&elements.to_string());
    assert!(said.contains("«7» is named before «6» and leads not there"), "{said}");
}

#[test]
fn conditions_of_a_list_that_are_not_known_or_cannot_hold_are_refused() {
    let with = |properties: serde_json::Value| {
        let mut elements = ancestor();
        elements[4]["properties"] = properties;
        problems(&elements.to_string())
    };
    let said = with(serde_json::json!([{ "event": "keyword", "contians": "z" }]));
    assert!(said.contains("«contians» of «4» is no condition"), "{said}");
    assert!(said.contains("did you mean «contains»?"), "{said}");
    let said = with(serde_json::json!([{ "type": "keyword", "operator": "contains" }]));
    assert!(said.contains("a condition has event, contains, equals, if"), "{said}");
    let said = with(serde_json::json!([{ "event": "keyword" }, { "event": "scan" }]));
    assert!(said.contains("several kinds at once"), "{said}");
}

#[test]
fn channels_that_a_server_has_not_are_refused() {
    let text = "journey: j\nplatform: p\nelements:\n  a: { start: { on: go }, then: b }\n  \
                b: { send: { channel: caht }, then: end }\n";
    Definition::read(text, "j.yaml").expect("nothing is said of channels");
    let channels = Channels::new().with("chat", |_: &Message| Ok(()));
    let said = channels.definition(text, "j.yaml").expect_err("there is no such channel");
    let said = said.to_string();
    assert!(said.contains("j.yaml:5:"), "{said}");
    assert!(said.contains("«caht», which is no channel"), "{said}");
    assert!(said.contains("did you mean «chat»?"), "{said}");
}

/// A channel that has to be told a receiver.
struct Picky;

impl Channel for Picky {
    fn send(&self, _: &Message) -> Result<(), Unsent> {
        Ok(())
    }

    fn check(&self, with: &Value) -> Result<(), String> {
        assert_ne!(with["to"], "panic");
        with.get("to").map(drop).ok_or_else(|| "it has no «to»".to_owned())
    }
}

#[test]
fn content_that_a_channel_could_never_send_is_refused_with_its_place() {
    let text = |with: &str| {
        format!(
            "journey: j\nplatform: p\nelements:\n  a: {{ start: {{ on: go }}, then: b }}\n  \
             b: {{ send: {{ channel: picky, with: {{ {with} }} }}, then: end }}\n"
        )
    };
    let channels = Channels::new().with("picky", Picky);
    channels.definition(&text("to: ann"), "j.yaml").expect("it could send that");
    let said = channels.definition(&text("too: ann"), "j.yaml").expect_err("it could not");
    let said = said.to_string();
    assert!(
        said.contains("j.yaml:5:3: «b» sends through «picky», which refuses it: it has no «to»"),
        "{said}"
    );
    let said =
        channels.definition(&text("to: panic"), "j.yaml").expect_err("it panics").to_string();
    assert!(said.contains("which refuses it: it panics at this content"), "{said}");
}

#[test]
fn an_expression_inside_of_a_text_is_refused_when_it_is_added_and_read_when_it_is_stored() {
    let text = |told: &str| {
        format!(
            "journey: j\nplatform: p\nelements:\n  a: {{ start: {{ on: go }}, then: b }}\n  \
             b: {{ send: {{ channel: picky, with: {{ to: ann, all: [ {{ told: '{told}' }} ] }} }}, then: end }}\n"
        )
    };
    let channels = Channels::new().with("picky", Picky);
    let whole = r#"an expression is a whole text: "${ \"Hello \\(.user.name)\" }""#;
    for mixed in
        ["Hello ${ .user.name }!", "${ .user.name } hello", "${ .user.name", "${ .a } ${ .b }"]
    {
        let said =
            channels.definition(&text(mixed), "j.yaml").expect_err("it is mixed").to_string();
        assert!(said.contains("j.yaml:5:3: ") && said.contains(whole), "{said}");
    }
    for fine in [r#"${ "Hello \(.user.name)" }"#, r#"${ "a ${ b" }"#, "5 $", "{ }"] {
        channels.definition(&text(fine), "j.yaml").unwrap_or_else(|said| panic!("{fine}: {said}"));
    }
    // Stored definitions of an earlier version are read as they are.
    Definition::read(&text("Hello ${ .user.name }!"), "j.yaml").expect("it is sent as it stands");
}

#[test]
fn wrong_settings_are_told_each_with_place_and_suggestion() {
    let text = "journey: j
platform: p
entry: onse
priority: high
essential: 1
attributes: { vip: bool, born: tiem, age: integer }
cap: { messages: 0, per: P1D }
quiet:
  from: '25:00'
  to: 8
every: 1d
under_way: stay
moves: [ a ]
elements:
  a: { start: { on: go }, then: end }
  b: { set: '{}' }
";
    let said = problems(text);
    for (place, message, suggestion) in [
        (
            "3:1",
            "«entry» is one of again, once, replace, parallel, and not «onse»",
            "did you mean «once»?",
        ),
        ("4:1", "«priority» is a whole number, and not «high»", "priority: 1"),
        ("5:1", "«essential» is true or false, and not 1", "essential: true"),
        ("6:15", "«attributes.vip» is one of boolean, ", "attributes: { vip: boolean }"),
        ("6:26", "«attributes.born» is one of boolean, ", "did you mean «time»?"),
        ("7:8", "a cap of no message sends nothing", "cap: { messages: 1, per: P1D }"),
        ("10:3", "«quiet.to» is a text, and not 8", "quiet: { from: '22:00', to: '08:00' }"),
        ("11:1", "«1d» is no duration", "every: P7D"),
        ("12:1", "«under_way» is one of finish, move, and not «stay»", "under_way: move"),
        ("13:1", "«moves» is an object, and not [\"a\"]", "moves: "),
        ("16:3", "«b» leads nowhere", "then: end"),
    ] {
        assert!(
            said.contains(&format!("j.yaml:{place}: {message}")),
            "{place} {message} in {said}"
        );
        assert!(said.contains(suggestion), "{suggestion} in {said}");
    }
    let parts = problems(
        "journey: j\nplatform: p\ncap: { mesages: 1 }\nquiet: { from: '25:00', to: '8', zone: Europe/Berln }\n\
         elements:\n  a: { start: { on: go }, then: end }\n  b: { wiat: { on: x } }\n",
    );
    for message in [
        "3:8: «cap» has no field «mesages»",
        "did you mean «messages»?",
        "3:1: «cap» has no «messages»",
        "3:1: «cap» has no «per»",
        "4:10: «25:00» is no time of day",
        "4:25: «8» is no time of day",
        "4:34: «Europe/Berln» is no time zone",
        "did you mean «Europe/Berlin»?",
        "7:3: «b» cannot be read",
    ] {
        assert!(parts.contains(message), "{message} in {parts}");
    }
    assert!(
        !parts.contains("is reached from no start"),
        "elements that lack make no others wrong: {parts}"
    );
}

#[test]
fn wrong_settings_of_a_list_are_told_at_their_places() {
    let mut list = ancestor();
    list[0]["extensions"]["settings"] =
        json!({ "platform": "P", "entry": "sometimes", "cap": { "messages": 0, "per": "P1D" } });
    let text = serde_json::to_string_pretty(&list).expect("it is JSON");
    let line =
        |part: &str| text.lines().position(|line| line.contains(part)).expect("it is there") + 1;
    let said = problems(&text);
    let entry = format!("j.yaml:{}:", line("\"entry\""));
    let cap = format!("j.yaml:{}:", line("\"messages\""));
    assert!(
        said.lines().any(|it| it.contains(&entry) && it.contains("«entry» is one of")),
        "{said}"
    );
    assert!(
        said.lines().any(|it| it.contains(&cap) && it.contains("a cap of no message")),
        "{said}"
    );
}

#[test]
fn definition_with_wrong_settings_is_not_stored() {
    let stage = Stage::new();
    let text = "journey: j\nplatform: P\nentry: sometimes\nelements:\n  a: { start: { on: go }, then: end }\n";
    let put = stage.sim.block_on(stage.journeys.put(text, "test")).expect("it ends");
    assert!(matches!(put, Err(JourneyError::Definition(_))), "{put:?}");
    let all = stage.sim.block_on(stage.journeys.list()).expect("it ends").expect("they are read");
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn circle_with_a_wait_is_allowed() {
    let text = "journey: j\nplatform: p\nelements:\n  a: { start: { on: go }, then: b }\n  \
                b: { wait: { on: x, for: P1D }, then: b, otherwise: end }\n";
    Definition::read(text, "j.yaml").expect("it is read");
}
