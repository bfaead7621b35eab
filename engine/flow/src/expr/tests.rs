//! Expressions: what they give, and where they are stopped.

use serde_json::json;

use super::*;

fn run(text: &str, input: Value) -> Result<Value, String> {
    let program = Program::compile(text, &["$context"]).map_err(|error| error.message)?;
    let outcome = program.run(&input, &[&json!({ "n": 7 })], 1_000.5);
    outcome.map_err(|failure| format!("{failure:?}"))
}

#[test]
fn a_secret_that_is_not_declared_is_refused() {
    let run = |text: &str, secrets: Value| {
        let program = Program::compile(text, &["$secrets"]).expect("it is one");
        program.run(&json!({ "key": "b" }), &[&secrets], 0.0)
    };
    let refused = |name: &str| Err(Failure::Secret(name.to_owned()));
    let declared = || json!({ "a": { "t": 1 } });
    assert_eq!(run("$secrets.a.t", declared()), Ok(json!(1)));
    for text in ["$secrets.b", "$secrets[\"b\"]", "$secrets[.key]", "try $secrets.b.c catch 1"] {
        assert_eq!(run(text, declared()), refused("b"), "{text}");
        assert_eq!(run(text, json!({})), refused("b"), "{text}");
        assert_eq!(run(text, Value::Null), Ok(Value::Null), "where secrets are not read");
    }
    for (text, name) in [("$secrets[.none]", "null"), ("$secrets[0]", "0")] {
        assert_eq!(run(text, declared()), refused(name), "{text}");
    }
    for text in [
        "$secrets",
        "$secrets | .a",
        "$secrets as $s | $s.a",
        "[$secrets][0].a",
        "$secrets[]",
        "($secrets + {}).a",
        "{ a: $secrets } | .a.a",
        "{ $secrets } | .secrets.a",
        "$secrets | has(\"a\")",
        "def f(g): g.b; f($secrets)",
        "\"\\($secrets)\"",
        "$secrets.a.t + ($secrets | keys | length)",
    ] {
        let refused = Program::compile(text, &["$secrets"]).map(drop).expect_err(text).message;
        assert!(refused.contains("«$secrets» must be followed"), "{text}: {refused}");
    }
    assert_eq!(run("if false then $secrets.b else 2 end", declared()), Ok(json!(2)));
}

#[test]
fn expressions_are_evaluated() {
    assert_eq!(run(".a[0] + $context.n", json!({ "a": [1] })), Ok(json!(8)));
    assert_eq!(run(".[]", json!([1, 2])), Ok(json!([1, 2])), "several results are an array");
    assert_eq!(run("empty", json!(1)), Ok(json!(null)));
    assert_eq!(run("[limit(3; repeat(1))] | add", json!(null)), Ok(json!(3)));
    assert_eq!(run(".a |= . + 1 | .b += 2", json!({ "a": 1 })), Ok(json!({ "a": 2, "b": 2 })));
    assert_eq!(run("[range(3)] | map(. * 2) | @json", json!(null)), Ok(json!("[0,2,4]")));
    assert_eq!(run("path(..) | tojson", json!([1])), Ok(json!(["[]", "[0]"])));
    assert_eq!(run("def f: .a; f |= 3", json!({})), Ok(json!({ "a": 3 })));
    assert_eq!(run("now", json!(null)), Ok(json!(1_000.5)));
    assert_eq!(run("\"x\" * 3", json!(null)), Ok(json!("xxx")));
    assert_eq!(run("test(\"^a+$\")", json!("aaa")), Ok(json!(true)));
    let linear = "(\"a\" * 4000) | test(\"(a|a?)*b\"; \"g\")";
    assert_eq!(run(linear, json!(null)), Ok(json!(false)), "no back-tracking");
    assert_eq!(run("to_entries[0].key", json!({ "k": 1 })), Ok(json!("k")));
    assert_eq!(run("1.0", json!(null)), Ok(json!(1)));
}

#[test]
fn what_jq_gives_is_given() {
    let cases: Vec<(String, Value)> =
        serde_json::from_str(include_str!("jq-cases.json")).expect("it is JSON");
    let mut wrong = Vec::new();
    for (text, expected) in &cases {
        let is = run(&format!("[{text}]"), Value::Null);
        let is = is.as_ref().map_or_else(|_| json!("error"), Value::clone);
        if is != *expected {
            wrong.push(format!("{text}: {is} instead of {expected}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn what_differs_from_jq_is_as_the_table_says() {
    let text = include_str!("../../../../docs/flows.md");
    let (_, table) = text.split_once("### What differs from jq 1.7").expect("it is there");
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<&str> = rows.take_while(|line| !line.starts_with("## ")).collect();
    let mut wrong = Vec::new();
    for row in &rows {
        let cells = row.replace("\\|", "\u{1}").replace(" | ", "\u{2}").replace('\u{1}', "|");
        let cells: Vec<&str> = cells.split('\u{2}').collect();
        let [program, jq, here, _] = cells.as_slice() else { panic!("{row}") };
        let program = program.trim_start_matches("| ").trim_matches('`');
        let value = |cell: &str| match cell {
            "an error" => json!("error"),
            value => serde_json::from_str(value.trim_matches('`')).expect("it is JSON"),
        };
        let is = run(&format!("[{program}]"), Value::Null);
        let is = is.as_ref().map_or_else(|_| json!("error"), Value::clone);
        if is != value(here) || is == value(jq) {
            wrong.push(format!("{program}: {is} instead of {}", value(here)));
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(rows.len() > 20, "{} rows", rows.len());
}

#[test]
fn hostile_expressions_are_stopped() {
    let stopped = [
        "def f: f; f",
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f: try f catch .; f",
        "[range(1e12)]",
        "reduce range(64) as $i (\"x\"; . + .)",
        "reduce range(64) as $i (1; [., .])",
        "reduce range(64) as $i ({a: \"x\"}; .a += .a)",
        "reduce range(64) as $i ({}; .a = . | .b = .)",
        "reduce range(1e6) as $i (0; [.])",
        "reduce range(64) as $i (10; . * .)",
        "\"x\" * 1e9",
        "[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]\
         |[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]\
         |[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]|[.[],.[]]",
        "until(false; .)",
        "[while(true; .)]",
        "last(repeat(1))",
        "isempty(repeat(empty))",
        "(\"[\" * 200) | fromjson",
        "def f(x): f(x | x); f(.)",
        "[limit(1e9; repeat(0))] | length",
        "reduce range(64) as $i (\"x\"; \"\\(.)\\(.)\")",
        "any(repeat(false); .)",
        "(\"a\" * 400000) | matches(\"a\"; \"g\") | length",
        "(\"a\" * 400000) | split_(\"\"; \"g\") | length",
        "(\"a\" * 4000) | [match(\".*b|a\"; \"g\")] | length",
        "\"a\" | test(\"(((a{90}){90}){90}){90}\")",
        "\"a\" | test(\"()\" * 4000)",
        "\"a\" | test(\"a\" * 20000)",
        "reduce range(40) as $i (\"\\\\\"; tojson) | length",
        "(\"a\" * 400000) | explode | length",
        "(\"a\" * 400000) / \"\" | length",
        "[range(20000)] as $a | [range(20000) | $a | .[:1e4], sort, del(.[0])] | length",
        "[range(9000)] as $a | [range(9000) | $a == ($a | .[0] = 0), ($a - $a), ($a | contains($a))]",
        "(\"a\" * 2e6) as $a | [range(1e5) | $a | length, startswith($a), ascii_downcase == 1]",
        "(\"[\" + \"{},\" * 100000 + \"{}]\") | fromjson | length",
        "[range(20000)] as $a | range(20000) | $a",
        "null | path(until(false; .a))",
        "null | path(reduce range(20000) as $i (.; .a)) | length",
        "null | [path(foreach range(20000) as $i (.; .a))] | length",
        "null | path(last(limit(20000; recurse(.a)))) | length",
        "null | path(getpath([range(20000) | \"a\"])) | length",
        "null | setpath([range(20000) | \"a\"]; 1)",
        "null | getpath([range(20000) | \"a\"]) = 1",
        "null | reduce range(20000) as $i (.; .a) = 1",
        "[range(20000)] as $a | [range(20000) | $a | first(.[])] | length",
        "[range(20000)] as $a | reduce range(20000) as $i ([]; . + [$a | .[0] = $i])",
        "[range(20000)] as $a | [range(20000) | $a | .[[1]]] | length",
        "[range(20000)] as $a | reduce range(20000) as $i (0; $a + [1] | 0)",
        "reduce range(64) as $i ({}; .[\"a\\($i % 2)\"] = .)",
        "reduce range(64) as $i ([]; .[length] = . | . + .)",
        "reduce range(1e6) as $i ({}; .a = { b: . })",
        "reduce range(64) as $i ([0]; first(.[]) |= . + 1 | . += .)",
        "[range(20000)] as $a | def null: $a; [range(20000) | $a | . == [null]] | length",
    ];
    for text in stopped {
        let outcome = run(text, json!([0, 1, 2, 3, 4, 5, 6, 7]));
        assert!(outcome.is_err(), "{text}: {outcome:?}");
    }
    let nested = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    for deep in [nested, ".|".repeat(20_000) + "."] {
        assert!(Program::compile(&deep, &[]).is_err());
    }
}

#[test]
fn what_is_wrong_with_a_text_is_said_with_its_place() {
    let error = |text| Program::compile(text, &["$context", "$input"]).unwrap_err();
    assert_eq!(
        error(".a | $contxt").message,
        "there is no variable $contxt: did you mean $context?"
    );
    assert_eq!(error(".a | $contxt").at, 5);
    assert!(error(".a | foo(1)").message.contains("foo"));
    assert!(error("env").message.contains("env"), "nothing of the process is shown");
    assert!(error(".a +").at >= 3);
    assert!(error("\"abc").at <= 4);
    assert!(error("import \"a\" as a; 1").message.len() > 5);
}

/// Programs that change a growing value for each of 2,000 elements, and what they give.
const GROWING: [(&str, &str); 14] = [
    ("map({ (.k): .v }) | add | length", "2000"),
    ("map({ key: .k, value: .v }) | from_entries | .k1999", "1999"),
    ("INDEX(.k) | .k7.v", "7"),
    ("reduce .[] as $x ({}; .[$x.k] = $x.v) | length", "2000"),
    ("reduce .[] as $x ({}; .[$x.k] += $x.v | .sum += $x.v) | .sum", "1999000"),
    ("reduce .[] as $x ([]; . + [$x.v]) | length", "2000"),
    ("reduce .[] as $x ([]; .[length] = $x.v) | .[1999]", "1999"),
    ("reduce .[] as $x ({ list: [] }; .list += [$x.v]) | .list | length", "2000"),
    ("reduce .[] as $x ({}; .groups[\"g\\($x.v % 10)\"] += [$x.v]) | .groups.g3 | length", "200"),
    ("map(.k) | join(\",\") | length", "10889"),
    ("reduce .[] as $x (\"\"; . + $x.k) | length", "8890"),
    ("[foreach .[] as $x (0; . + $x.v)] | last", "1999000"),
    ("del(.[] | select(.v % 2 == 0)) | length", "1000"),
    ("INDEX(.k) | with_entries(.value |= .v) | .k5", "5"),
];

#[test]
fn values_that_grow_cost_what_is_put_in() {
    let list: Vec<Value> = (0..2_000).map(|i| json!({ "k": format!("k{i}"), "v": i })).collect();
    let list = Value::Array(list);
    for (text, expected) in GROWING {
        let expected: Value = serde_json::from_str(expected).expect("it is JSON");
        assert_eq!(run(text, list.clone()), Ok(expected), "{text}");
    }
}

#[test]
fn programs_give_what_jq_gives() {
    let cases = [
        ("null | getpath([\"a\", \"b\"]) = 1", json!({ "a": { "b": 1 } })),
        ("{} | getpath([\"a\", 1]) |= 2", json!({ "a": [null, 2] })),
        ("[1, 2] | first(.[]) |= . + 10", json!([11, 2])),
        ("[1, 2, 3] | limit(2; .[]) |= . * 2", json!([2, 4, 3])),
        ("[1, 2, 3] | last(.[]) = 9", json!([1, 2, 9])),
        ("{ \"a\": 1 } | (.a, .b) = 5", json!({ "a": 5, "b": 5 })),
        ("[1, 2, 3, 4] | .[(0, 2)] |= empty", json!([2, 4])),
        ("{} | .[\"a\", \"b\"] += 1", json!({ "a": 1, "b": 1 })),
        ("{ \"a\": { \"b\": 1 } } | .a[\"b\", \"c\"] //= 7", json!({ "a": { "b": 1, "c": 7 } })),
        ("null | .a[1:3] = [5]", json!({ "a": [5] })),
        ("[1, 2, 3, 4] | getpath([{ \"start\": 1, \"end\": 3 }]) = [9]", json!([1, 9, 4])),
        ("[[1, 2], [3]] | .[][0] |= . + 1", json!([[2, 2], [4]])),
        ("def f: .a; f |= 3", json!({ "a": 3 })),
        ("{ \"a\": [1, [2]] } | .a |= . + . | .a[1][0] += 5", json!({ "a": [1, [7], 1, [2]] })),
        ("[1, [2, 3]] | del(.[1][0], .[0])", json!([[3]])),
        ("[0, 1, 2, 3, 4] | del(.[1:3], .[4])", json!([0, 3])),
        (
            "{ \"a\": 1, \"b\": { \"c\": 2 } } | delpaths([[\"b\", \"c\"], [\"a\"]])",
            json!({ "b": {} }),
        ),
        ("[(1, 2) + (10, 20)]", json!([11, 12, 21, 22])),
        ("[null, 1, \"a\", true] | join(\"-\")", json!("-1-a-true")),
        ("[[] | join(\",\")]", json!([""])),
        ("[1] | join(5)", json!("1")),
        ("[{}] | try join(\",\") catch \"no\"", json!("no")),
        ("def null: 5; null", json!(null)),
        (
            "[\"01\", \"-007\", \".5\", \"1.\", \"[01, {\\\"a01\\\": 02.50}]\" | fromjson]",
            json!([1, -7, 0.5, 1, [1, { "a01": 2.5 }]]),
        ),
        (
            "[\"1 2\", \"0x1\", \"1..2\", \"01a\", \"\\\"01\" | try fromjson catch \"no\"]",
            json!(["no", "no", "no", "no", "no"]),
        ),
        (
            "1425599621 | strftime(\"%c|%x|%X|%r|%%c\")",
            json!("Thu Mar  5 23:53:41 2015|03/05/15|23:53:41|11:53:41 PM|%c"),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(run(text, json!({})), Ok(expected), "{text}");
    }
}
