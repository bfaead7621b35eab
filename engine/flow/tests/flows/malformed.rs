//! Definitions that were damaged on purpose, one kind of damage a test: each is read or refused with a
//! place that is in the text, never with a panic, and soon.

use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel_flow::{self as flow, load_all, Problems};

use crate::flow_common::define;
use crate::problems::SEEDS;

/// Longer than any text may take, also where many tests share the machine: what grows with the square of
/// a text takes minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Changes of each place of a definition.
const EACH: usize = 2;

/// Reads a text; what is wrong with it has places in it, and can be shown.
fn read(text: &str) -> Result<usize, Problems> {
    let begin = Instant::now();
    let read = load_all(text, "it.yaml");
    let problems = match read {
        Ok(flows) => return Ok(flows.len()),
        Err(problems) => problems,
    };
    let shown = problems.to_string();
    let (head, took) = (text.chars().take(300).collect::<String>(), begin.elapsed());
    assert!(took < PATIENCE, "{took:?}: {head}");
    assert!(
        !problems.all.is_empty() && problems.all.len() <= 200,
        "{}: {head}",
        problems.all.len()
    );
    assert!(shown.len() <= problems.all.len() * 4_096, "{} bytes are shown: {head}", shown.len());
    let lines = text.split(['\n', '\r']).count();
    for problem in &problems.all {
        assert!((1..=lines + 1).contains(&problem.line), "{problem:?}: {head}");
        assert!(problem.column >= 1 && !problem.message.is_empty(), "{problem:?}: {head}");
    }
    Err(problems)
}

fn refused(text: &str, says: &str) {
    let problems = read(text).expect_err(says).to_string();
    assert!(problems.contains(says), "«{says}» is missing: {problems}");
}

/// The places of all parts of a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    let escape = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{index}"), all);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                pointers(item, &format!("{at}/{}", escape(name)), all);
            }
        }
        _ => {}
    }
}

fn sources() -> Vec<Value> {
    let load = |seed: &&str| flow::load(&define(seed), "seed.yaml").expect("it is right");
    SEEDS.iter().map(|seed| load(seed).source().clone()).collect()
}

#[test]
fn any_part_of_a_definition_can_be_any_value() {
    let deep = (0..90).fold(json!(1), |inner, _| json!([inner]));
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\u{0}\u{202e}\r\n${"),
        json!("${ . "),
        json!("x".repeat(20_000)),
        json!([]),
        json!({}),
        json!([null, [[]], {}]),
        json!({"": null, "do": 1, "1": {"2": []}}),
        json!({"do": [{"a": {"do": [{"a": {"wait": {"days": 1e18}}}]}}]}),
        deep,
    ];
    let (mut read_well, mut wrong) = (0, 0);
    let mut values = odd.iter().cycle();
    for source in sources() {
        let mut all = Vec::new();
        pointers(&source, "", &mut all);
        for pointer in &all {
            // Each place gets some of them in turn: a definition takes a while without optimization.
            for _ in 0..EACH {
                let value = values.next().expect("they come round again");
                let mut changed = source.clone();
                *changed.pointer_mut(pointer).expect("it is there") = value.clone();
                match read(&changed.to_string()) {
                    Ok(_) => read_well += 1,
                    Err(_) => wrong += 1,
                }
            }
        }
    }
    assert!(wrong > 200 && read_well > 20, "{wrong} were refused and {read_well} read");
}

#[test]
fn any_field_can_be_missing_misspelt_doubled_or_a_number() {
    let mut wrong = 0;
    let mut others = ["", "1", "null", "x", "<<", "true", "do "].iter().cycle();
    for source in sources() {
        let mut all = Vec::new();
        pointers(&source, "", &mut all);
        for pointer in &all {
            let Some(fields) = source.pointer(pointer).and_then(Value::as_object) else { continue };
            for name in fields.keys() {
                for other in others.by_ref().take(EACH) {
                    let mut changed = source.clone();
                    let object = changed.pointer_mut(pointer).and_then(Value::as_object_mut);
                    let object = object.expect("it is an object");
                    let value = object.remove(name).expect("it has it");
                    match *other {
                        "" => {}
                        "x" => drop(object.insert(format!("{name}x"), value)),
                        other => drop(object.insert(other.to_owned(), value)),
                    }
                    wrong += usize::from(read(&changed.to_string()).is_err());
                }
            }
        }
    }
    assert!(wrong > 100, "{wrong} were refused");
    // Twice the same, as JSON would take silently.
    for seed in SEEDS {
        let text = define(seed);
        for line in text.lines().filter(|line| line.trim_start().starts_with("do:")) {
            let doubled = text.replacen(line, &format!("{line}\n{line}"), 1);
            read(&doubled).expect_err("a field is there twice");
        }
    }
    refused(&define("do: [ { a: { set: { 1: x, '1': y } } } ]"), "«1» is there already");
    refused(&define("do: [ { a: { set: { ? [1] : x } } } ]"), "a key must be a text");
    refused(&define("do: [ { a: { set: { <<: { x: 1 } } } } ]"), "merge keys are not supported");
    for tagged in ["!!python/object:os.system { x: 1 }", "!mine { x: 1 }", "!!seq { x: 1 }"] {
        refused(&define(&format!("do: [ {{ a: {{ set: {tagged} }} }} ]")), "the tag ");
    }
    let tagged =
        |value: &str| define(&format!("do: [ {{ a: {{ set: !!map {{ x: {value} }} }} }} ]"));
    refused(&tagged("!!int x"), "«x» is not what its tag !!int says");
    assert_eq!(read(&tagged("!!str 5, y: !!int '5', z: !!seq [1]")).expect("they are so"), 1);
}

#[test]
fn signs_that_editors_leave_behind_are_read_or_told() {
    for seed in SEEDS {
        let text = define(seed);
        let marked = format!("\u{feff}{text}");
        assert_eq!(read(&marked).expect("a mark of the order of bytes is no text"), 1);
        assert_eq!(read(&text.replace('\n', "\r\n")).expect("lines of Windows"), 1);
        let hash = |text: &str| flow::load(text, "it.yaml").expect("it is right").hash().to_owned();
        assert_eq!(hash(&text.replace('\n', "\r\n")), hash(&text));
        assert_eq!(hash(&marked), hash(&text));
        // In front of every line: a tab, a space that does not break, a mark in the middle.
        for sign in ['\t', '\u{a0}', '\u{feff}', '\u{2028}', '\u{0}', '\u{1b}', '\u{200b}'] {
            for (at, _) in text.match_indices('\n') {
                let mut changed = text.clone();
                changed.insert(at + 1, sign);
                let _either = read(&changed);
                changed = text.clone();
                changed.insert(at, sign);
                let _either = read(&changed);
            }
        }
    }
    refused(&define("do:\n\t- a: { set: { x: 1 } }\n"), "no YAML");
    // UTF-16 that was read as if it were text.
    let wide: String = define(SEEDS[0]).chars().flat_map(|sign| [sign, '\u{0}']).collect();
    read(&wide).expect_err("every other sign is nothing");
}

#[test]
fn anchors_that_repeat_more_than_there_is_memory_are_refused() {
    let one = "do: [ { a: { set: { x: 1 } } } ]";
    // The repeated text is long, but has few parts.
    let long = "y".repeat(1 << 20);
    let many = vec!["*a"; 50_000].join(", ");
    refused(
        &define(&format!("metadata: {{ a: &a '{long}', b: [{many}] }}\n{one}")),
        "repeat too much",
    );
    // Each anchor keeps what is in it.
    let (open, close) = ((0..90).map(|n| format!("&n{n} [")).collect::<String>(), "]".repeat(90));
    let nested = format!("metadata: {{ a: {open}'{long}'{close} }}\n{one}");
    refused(&define(&nested), "repeat too much");
    for (text, says) in [
        ("&a [*a]", "part of what it repeats"),
        ("&a { x: { y: *a } }", "part of what it repeats"),
        ("*nobody", "no YAML"),
    ] {
        refused(&define(&format!("metadata: {{ a: {text} }}\n{one}")), says);
    }
    let text = define("do: [ { a: { set: &s { x: 1 } } }, { b: { set: *s } } ]");
    assert_eq!(read(&text).expect("an alias is what it repeats"), 1);
}

#[test]
fn long_texts_take_time_that_grows_with_their_length_alone() {
    let numbered = |count: usize, one: &dyn Fn(usize) -> String| -> String {
        (0..count).map(one).collect::<Vec<_>>().join("\n")
    };
    let bad_names = numbered(15_000, &|n| format!("  - a{n}: {{ set: {{ x: 1 }}, then: b{n} }}"));
    refused(&define(&format!("do:\n{bad_names}\n")), "which is no task of the same list");
    let same_names = numbered(15_000, &|n| format!("  - a{}: {{ set: {{ x: 1 }} }}", n / 2));
    refused(&define(&format!("do:\n{same_names}\n")), "there are two tasks «a0»");
    let functions = numbered(5_000, &|n| format!("    f{n}: {{ set: {{ x: 1 }} }}"));
    let calls = numbered(5_000, &|n| format!("  - a{n}: {{ call: g{n} }}"));
    refused(
        &define(&format!("use:\n  functions:\n{functions}\ndo:\n{calls}\n")),
        "no function «g0»",
    );
    let calls = calls.replace("call: g", "call: f");
    let good = define(&format!("use:\n  functions:\n{functions}\ndo:\n{calls}\n"));
    assert_eq!(read(&good).expect("all of them are known"), 1);
    refused(&"--- a\n".repeat(100_000), "must be an object");
    let typos = numbered(20_000, &|n| format!("      sett{n}: 1"));
    refused(&define(&format!("do:\n  - a:\n{typos}\n")), "has no field «sett0»");
    // On one line, what is wrong stands far to the right: what is shown of it stays short.
    let wide = numbered(15_000, &|n| format!("{{ a{n}: {{ sett: 1 }} }}")).replace('\n', ", ");
    refused(&define(&format!("do: [ {wide} ]")), "did you mean «set»?");
}

#[test]
fn what_uses_itself_is_told_or_ends() {
    let flow = "use: { functions: { f: { call: g }, g: { call: f } } }\ndo: [ { a: { call: f } } ]";
    refused(&define(flow), "calls itself");
    let own =
        "use: { functions: { f: { do: [ { a: { call: f } } ] } } }\ndo: [ { a: { call: f } } ]";
    refused(&define(own), "calls itself");
    // One that stops somewhere is a loop, and is bounded when it runs.
    let ends = "use: { functions: { f: { if: .n > 0, call: f, with: { n: '${ .n - 1 }' } } } }
do: [ { a: { call: f, with: { n: 3 } } } ]";
    assert_eq!(read(&define(ends)).expect("it ends"), 1);
    for text in [
        "use: { retries: { r: r } }\ndo: [ { a: { set: { x: 1 } } } ]",
        "use: { timeouts: { t: t } }\ndo: [ { a: { set: { x: 1 }, timeout: t } } ]",
        "use: { authentications: { p: { use: p } } }\ndo: [ { a: { set: { x: 1 } } } ]",
        "use: { errors: { e: e } }\ndo: [ { a: { raise: { error: e } } } ]",
    ] {
        read(&define(text)).expect_err(text);
    }
}
