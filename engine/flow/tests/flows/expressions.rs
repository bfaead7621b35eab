//! Expressions of flows against what jq 1.6 makes of them.

use serde_json::{json, Value};

use crate::flow_common::{fault, run};

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn expressions_give_what_jq_gives() {
    let input = json!({"a": [3, 1, 2], "s": "Hello, World", "o": {"x": 1, "y": {"z": [1, 2]}}, "n": 5, "d": "2024-03-01T12:30:00Z", "t": true, "l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}]});
    let pairs = [
        (r##".l | INDEX(.k) | map_values(.v)"##, r##"{"a": 3, "b": 2}"##),
        (r##".a | map(IN(1, 2))"##, r##"[false, true, true]"##),
        (r##".a | @csv"##, r##""3,1,2""##),
        (r##"[.s, .n, .t, null, "a\"b"] | @csv"##, r##""\"Hello, World\",5,true,,\"a\"\"b\"""##),
        (r##"["a\tb", 1, "c\\d"] | @tsv"##, r##""a\\tb\t1\tc\\\\d""##),
        (r##"[.o | leaf_paths]"##, r##"[["x"], ["y", "z", 0], ["y", "z", 1]]"##),
        (
            r##"[.o | tostream]"##,
            r##"[[["x"], 1], [["y", "z", 0], 1], [["y", "z", 1], 2], [["y", "z", 1]], [["y", "z"]], [["y"]]]"##,
        ),
        (r##"[.o | tostream] | fromstream(.[])"##, r##"{"x": 1, "y": {"z": [1, 2]}}"##),
        (
            r##"[.o | [1 | truncate_stream([[0], 1], [[1, 0], 2], [[1, 0]], [[1]])] | .[]]"##,
            r##"[[[0], 2], [[0]]]"##,
        ),
        (r##".a | del(.[0, 2])"##, r##"[1]"##),
        (r##".o | del(.x, .y.z[0])"##, r##"{"y": {"z": [2]}}"##),
        (r##".n | ltrimstr("x")"##, r##"5"##),
        (r##".s | ltrimstr("Hello, ") | rtrimstr("ld")"##, r##""Wor""##),
        (r##"[[], [1, [2, [3]]]] | flatten(1)"##, r##"[1, [2, [3]]]"##),
        (r##"[] | flatten(1)"##, r##"[]"##),
        (r##".a | debug | length"##, r##"3"##),
        (r##".a | sort_by(-.)"##, r##"[3, 2, 1]"##),
        (
            r##".l | group_by(.k) | map({ k: .[0].k, sum: map(.v) | add })"##,
            r##"[{"k": "a", "sum": 4}, {"k": "b", "sum": 2}]"##,
        ),
        (
            r##".s | capture("(?<first>\\w+), (?<second>\\w+)")"##,
            r##"{"first": "Hello", "second": "World"}"##,
        ),
        (r##".s | gsub("(?<x>[A-Z])"; "<\(.x)>")"##, r##""<H>ello, <W>orld""##),
        (r##".s | [match("o"; "g").offset]"##, r##"[4, 8]"##),
        (r##".o | [paths(type == "number")]"##, r##"[["x"], ["y", "z", 0], ["y", "z", 1]]"##),
        (
            r##".o | walk(if type == "number" then . + 1 else . end)"##,
            r##"{"x": 2, "y": {"z": [2, 3]}}"##,
        ),
        (r##"[.a, .a] | transpose"##, r##"[[3, 3], [1, 1], [2, 2]]"##),
        (r##".d | fromdateiso8601"##, r##"1709296200"##),
        (r##"1700000000 | strftime("%Y-%m-%d")"##, r##""2023-11-14""##),
        (r##".a | [limit(2; .[])]"##, r##"[3, 1]"##),
        (
            r##"[label $out | foreach .a[] as $i (0; . + $i; if . > 3 then ., break $out else empty end)]"##,
            r##"[4]"##,
        ),
        (r##"def fac: if . <= 1 then 1 else . * (. - 1 | fac) end; 5 | fac"##, r##"120"##),
        (r##".o * { y: { q: 3 } }"##, r##"{"x": 1, "y": {"q": 3, "z": [1, 2]}}"##),
        (r##".l | unique_by(.k) | map(.k)"##, r##"["a", "b"]"##),
        (r##"[splits(", ")?]"##, r##"[]"##),
        (r##".s | @base64 | ., @base64d"##, r##"["SGVsbG8sIFdvcmxk", "Hello, World"]"##),
        (r##"@uri "q=\(.s)""##, r##""q=Hello%2C%20World""##),
        (
            r##"[.a[] as $x | .a[] as $y | select($x < $y) | [$x, $y]]"##,
            r##"[[1, 3], [1, 2], [2, 3]]"##,
        ),
        (r##"{ "b": 1, "a": 2 } | tojson"##, r##""{\"b\":1,\"a\":2}""##),
        (r##"[.[]? | type] | unique"##, r##"["array", "boolean", "number", "object", "string"]"##),
        (r##"{} | .a.b.c = 1"##, r##"{"a": {"b": {"c": 1}}}"##),
        (r##"null | .[2] = 1"##, r##"[null, null, 1]"##),
        (r##"[1] | .[3] = 2"##, r##"[1, null, null, 2]"##),
        (r##"{} | .a.b += 1"##, r##"{"a": {"b": 1}}"##),
        (r##"{} | .a.b //= [] | .a.b += [1]"##, r##"{"a": {"b": [1]}}"##),
        (r##"null | .a[1].b = 1"##, r##"{"a": [null, {"b": 1}]}"##),
        (r##"[{}, { "a": 1 }] | .[].b.c = 2"##, r##"[{"b": {"c": 2}}, {"a": 1, "b": {"c": 2}}]"##),
        (r##"{ "a": [1] } | .a[-1] |= . + 1"##, r##"{"a": [2]}"##),
        (r##"{ "a": [1] } | .a[0] |= empty"##, r##"{"a": []}"##),
        (r##"{ "x": { "y": 1 } } | .x.z = .x.y + 1"##, r##"{"x": {"y": 1, "z": 2}}"##),
        (r##"{} | setpath(["a", "b", 0]; 1)"##, r##"{"a": {"b": [1]}}"##),
        (r##""y" as $k | { "x": {} } | .x[$k] = 1"##, r##"{"x": {"y": 1}}"##),
        (r##"null | .[1:2]"##, r##"null"##),
        (r##"{} | .text[0:5]"##, r##"null"##),
        (r##"["a", 1, null, true] | join(",")"##, r##""a,1,,true""##),
        (r##"10 / 2 | tostring"##, r##""5""##),
        (r##""\(10 / 4 * 2), \(1 / 4)""##, r##""5, 0.25""##),
        (r##"[1, 2, 3] | add / length | tostring"##, r##""2""##),
        (r##"{ "a": [2 * 0.5] } | tojson"##, r##""{\"a\":[1]}""##),
        (r##"@base64 "\(9 / 3)""##, r##""Mw==""##),
        (r##"{ "a": 1 } | .b = (.a, 2)"##, r##"[{"a": 1, "b": 1}, {"a": 1, "b": 2}]"##),
        (r##"{ "a": 3 } | .a *= 2 | .a -= 1 | .a /= 5 | .a %= 2"##, r##"{"a": 1}"##),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in pairs {
        let flow = json!([{ "e": { "set": format!("${{ {text} }}") } }]);
        let expected: Value = serde_json::from_str(expected).expect("it is JSON");
        let is = run(&format!("do: {flow}\n"), input.clone());
        if is != expected {
            wrong.push(format!("{text}: {is} instead of {expected}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn ordinary_programs_work_on_a_hundred_thousand_items() {
    let items: Vec<Value> =
        (0..100_000).map(|i| json!({ "k": format!("key-{i}"), "v": i })).collect();
    let text = "
do:
  - all:
      set:
        merged: '${ .items | map({ (.k): .v }) | add | length }'
        index: '${ .items | INDEX(.k) | .\"key-99999\".v }'
        reduced: '${ reduce .items[] as $x ({}; .[$x.k] = $x.v) | length }'
        text: '${ .items | map(.k) | join(\",\") | length }'
        grown: '${ reduce .items[] as $x (\"\"; . + $x.k) | length }'
  - fewer:
      input: { from: '{ items: $context.items[:10000] }' }
      set:
        entries: '${ .items | map({ key: .k, value: .v }) | from_entries | length }'
        lists: '${ reduce .items[] as $x ({}; .[\"g\\($x.v % 10)\"] += [$x.v]) | .g7 | length }'
        even: '${ .items | del(.[] | select(.v % 2 == 1)) | length }'
        sum: '${ .items | map(.v) | add }'
        groups: '${ .items | group_by(.v % 100) | length }'
        sorted: '${ .items | sort_by(-.v) | first.v }'
        changed: '${ .items | map(.v |= . + 1) | last.v }'
        renamed: '${ .items | map({ (.k): .v }) | add | with_entries(.key |= ltrimstr(\"key-\")) | length }'
      output: { as: '. + $input.before' }
";
    let text = text.replace(
        "{ items: $context.items[:10000] }",
        "{ items: $context.items[:10000], before: . }",
    );
    let expected = json!({
        "merged": 100_000, "index": 99_999, "reduced": 100_000, "text": 988_889, "grown": 888_890,
        "entries": 10_000, "lists": 1_000, "even": 5_000, "sum": 49_995_000, "groups": 100,
        "sorted": 9_999, "changed": 10_000, "renamed": 10_000,
    });
    assert_eq!(run(&text, json!({ "items": items })), expected);
}

#[test]
fn paths_without_an_end_are_stopped_and_do_not_end_the_process() {
    let endless = [
        "null | path(until(false; .a))",
        "null | path(reduce range(4000000) as $i (.; .a)) | length",
        "null | path(last(limit(1000000; recurse(.a)))) | length",
        "null | setpath([range(1000000) | \"a\"]; 1)",
    ];
    for text in endless {
        let flow = format!("do: [ {{ a: {{ set: {{ x: '${{ {text} }}' }} }} }} ]");
        let detail = fault(&flow, json!({}))["detail"].to_string();
        assert!(detail.contains("was stopped: a value is nested too deep"), "{text}: {detail}");
    }
}
