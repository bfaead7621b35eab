//! Common fields of tasks, with each kind of task; directives in each kind of list; values of the
//! descriptors in expressions.

use serde_json::{json, Value};
use turnwheel_flow::{FakeIo, HttpResponse};

use crate::flow_common::{fault, load, problems, run, run_with, trace, Stage};

/// A task of each kind, which gives `{"n": 1}`, or a list of it.
const KINDS: [(&str, &str); 9] = [
    ("set", "set: { n: 1 }"),
    ("do", "do: [ { a: { set: { n: 1 } } } ]"),
    ("for", "for: { in: '[1]' }, do: [ { a: { set: { n: 1 } } } ]"),
    ("fork", "fork: { compete: true, branches: [ { a: { set: { n: 1 } } } ] }"),
    ("try", "try: [ { a: { set: { n: 1 } } } ], catch: {}"),
    ("catch", "try: [ { a: { raise: { error: { type: 'x:y', status: 500 } } } } ], catch: { do: [ { b: { set: { n: 1 } } } ] }"),
    ("function", "call: one"),
    ("http", "call: http, with: { method: get, endpoint: 'http://a.b/' }"),
    ("shell", "run: { shell: { command: 'x' }, return: code }"),
];

fn io() -> FakeIo {
    FakeIo::new()
        .on_http(|_| {
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            Ok(HttpResponse { status: 200, headers, body: b"{\"n\":1}".to_vec() })
        })
        .on_process(|_| Ok(turnwheel_flow::ProcessResult { code: 0, ..Default::default() }))
}

/// Runs one task, with what is said about it besides.
fn task(kind: &str, more: &str, input: Value) -> Result<Value, String> {
    let flow = format!(
        "use: {{ functions: {{ one: {{ set: {{ n: 1 }} }} }} }}\n\
         do: [ {{ it: {{ {kind}, {more} }} }} ]\n"
    );
    let (result, _) = run_with(io(), &flow, input);
    result.map_err(|error| error.to_string())
}

#[test]
fn each_kind_of_task_has_what_all_tasks_have() {
    for (name, kind) in KINDS {
        let result = |more: &str| task(kind, more, json!({ "m": 2 }));
        let raw = result("metadata: { a: 1 }").unwrap_or_else(|error| panic!("{name}: {error}"));
        let n = if name == "shell" { json!(0) } else { json!({ "n": 1 }) };
        assert_eq!(raw, n, "{name}");
        assert_eq!(result("output: { as: '{ got: . }' }"), Ok(json!({ "got": n })), "{name}");
        let template = result("output: { as: { got: '${ . }', of: '${ $input.m }' } }");
        assert_eq!(template, Ok(json!({ "got": n, "of": 2 })), "{name}");
        assert_eq!(result("if: '.m == 3'"), Ok(json!({ "m": 2 })), "{name}: left out");
        let of = result("input: { from: '{ k: .m }' }, output: { as: '$input' }");
        assert_eq!(of, Ok(json!({ "k": 2 })), "{name}");
        let raw_input = result("input: { from: '{ k: .m }' }, output: { as: '$task.input' }");
        assert_eq!(raw_input, Ok(json!({ "m": 2 })), "{name}");
        let refused = result("input: { schema: { document: { required: [k] } } }");
        assert!(refused.is_err_and(|error| error.contains("«k» is missing")), "{name}");
        let refused = result("output: { schema: { document: { type: array } } }");
        assert!(refused.is_err_and(|error| error.contains("Validation")), "{name}");
        let refused = result("export: { as: '{ c: . }', schema: { document: { required: [d] } } }");
        assert!(refused.is_err_and(|error| error.contains("the context")), "{name}");
        let refused = result("export: { schema: { document: { required: [d] } } }");
        assert!(refused.is_err_and(|error| error.contains("the context")), "{name}");
        assert_eq!(result("timeout: { after: PT10M }"), Ok(n.clone()), "{name}");
    }
}

#[test]
fn each_kind_of_task_exports_and_follows_its_directive() {
    for (name, kind) in KINDS {
        let flow = |then: &str| {
            format!(
                "use: {{ functions: {{ one: {{ set: {{ n: 1 }} }} }} }}\n\
                 do:\n  \
                 - it: {{ {kind}, export: {{ as: '{{ kept: . }}' }}, then: {then} }}\n  \
                 - next: {{ set: {{ at: next }} }}\n  \
                 - last: {{ set: {{ at: '${{ .at? }}', kept: '${{ $context.kept }}' }} }}\n"
            )
        };
        let outcome = |then: &str| run_with(io(), &flow(then), json!({})).0.expect("it ends well");
        let n = if name == "shell" { json!(0) } else { json!({ "n": 1 }) };
        assert_eq!(outcome("continue"), json!({ "at": "next", "kept": n }), "{name}");
        assert_eq!(outcome("last")["kept"], n, "{name}");
        assert_eq!(outcome("last")["at"], json!(null), "{name}");
        assert_eq!(outcome("exit"), n, "{name}");
        assert_eq!(outcome("end"), n, "{name}");
    }
}

#[test]
fn directives_are_followed_in_each_kind_of_list() {
    // In each: «a» leads over «b» to «c»; «exit» leaves the list; «end» the flow.
    let lists = [
        ("do: [ LIST ]", json!(["a", "c"])),
        ("for: { in: '[1, 2]' }, do: [ LIST ]", json!(["a", "c", "a", "c"])),
        ("try: [ LIST ], catch: {}", json!(["a", "c"])),
        ("try: [ { r: { raise: { error: { type: 'x:y', status: 500 } } } } ], catch: { do: [ LIST ] }", json!(["a", "c"])),
        ("fork: { compete: true, branches: [ { one: { do: [ LIST ] } } ] }", json!(["a", "c"])),
        ("call: listed", json!(["a", "c"])),
    ];
    for (list, by_name) in lists {
        let list = list.replace("[ LIST ]", "LIST");
        let whole = |then: &str| {
            let tasks = format!(
                "[ {{ a: {{ set: '${{ . + [\"a\"] }}', then: {then} }} }}, \
                 {{ b: {{ set: '${{ . + [\"b\"] }}' }} }}, {{ c: {{ set: '${{ . + [\"c\"] }}' }} }} ]"
            );
            let text = list.replace("LIST", &tasks);
            let text = format!(
                "use: {{ functions: {{ listed: {{ do: {tasks} }} }} }}\n\
                 do:\n  - it: {{ {text} }}\n  - after: {{ set: '${{ . + [\"after\"] }}' }}\n"
            );
            run_with(FakeIo::new(), &text, json!([])).0.expect("it ends well")
        };
        let mut expected = by_name.as_array().cloned().unwrap_or_default();
        expected.push(json!("after"));
        assert_eq!(whole("c"), Value::Array(expected), "{list}");
        let rounds = if list.starts_with("for:") {
            json!(["a", "a", "after"])
        } else {
            json!(["a", "after"])
        };
        assert_eq!(whole("exit"), rounds, "{list}");
        assert_eq!(whole("end"), json!(["a"]), "{list}");
    }
}

#[test]
fn branches_lead_to_no_other_branch() {
    let text = "do: [ { f: { fork: { branches: [ { a: { set: { n: 1 }, then: b } }, { b: { set: { n: 2 } } } ] } } } ]\n";
    assert!(problems(text).contains("«then» names «b», which is no task of the same list"));
}

#[test]
fn the_descriptors_say_what_the_specification_says() {
    let text = "
input: { from: '{ b: .a }' }
do:
  - one:
      set:
        context: ${ $context }
        raw: ${ $workflow.input }
        input: ${ $input }
        name: ${ $task.name }
        at: ${ $task.reference }
        definition: ${ $task.definition | keys }
        task: ${ $task.input }
        document: ${ $workflow.definition.document.name }
        id: ${ $workflow.id | length }
        started: ${ $workflow.startedAt.iso8601 | test(\"^[0-9-]+T[0-9:.]+Z$\") }
        epoch: ${ $workflow.startedAt.epoch | (.milliseconds / 1000 | floor) == .seconds }
        began: ${ $task.startedAt.epoch.milliseconds >= $workflow.startedAt.epoch.milliseconds }
        runtime: ${ $runtime | [.name, (.version | length > 0), .metadata] }
        authorization: ${ $authorization }
";
    let is = run(text, json!({ "a": 1 }));
    let expected = json!({
        "context": { "b": 1 }, "raw": { "a": 1 }, "input": { "b": 1 }, "name": "one",
        "at": "/do/0/one", "definition": ["set"], "task": { "b": 1 }, "document": "it",
        "id": 36, "started": true, "epoch": true, "began": true,
        "runtime": ["Turnwheel", true, {}], "authorization": null,
    });
    assert_eq!(is, expected);
    let output =
        run("do: [ { a: { set: { n: 1 } } } ]\noutput: { as: '$context' }\n", json!({ "x": 2 }));
    assert_eq!(output, json!({ "x": 2 }), "the context begins with the input of the flow");
    let text = "
do:
  - one: { set: { n: 1 }, export: { as: '$context + { one: . }' } }
  - two: { set: { m: 2 }, export: { as: '$context + { two: $output }' } }
output: { as: $context }
";
    assert_eq!(run(text, json!({})), json!({ "one": { "n": 1 }, "two": { "m": 2 } }));
    let nothing = "
do:
  - one: { set: { n: 1 }, export: { as: 'null' } }
  - two: { set: '${ $context }' }
";
    assert_eq!(run(nothing, json!({ "x": 1 })), json!({}), "exported is exported");
}

#[test]
fn a_task_that_takes_long_knows_when_it_began() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - long:
      do: [ { nap: { wait: PT5S } } ]
      output: { as: '${ $task.startedAt.epoch.seconds - $workflow.startedAt.epoch.seconds }' }
",
    );
    let plan = stage.start(&flow, json!({}));
    assert_eq!(stage.result(&plan).expect("it ends well"), json!(0));
}

#[test]
fn a_task_that_takes_long_goes_on_with_what_it_began_with() {
    let stage = Stage::new(FakeIo::new());
    let flow = load(
        "
do:
  - now: { set: { t: '${ now }' } }
  - long:
      if: '${ now < .t + 2 }'
      input: { from: '${ { t: .t, began: now } }' }
      do: [ { w: { wait: { seconds: 5 } } }, { s: { set: { done: true } } } ]
      output: { as: '${ . + { took: (now - $input.began) } }' }
",
    );
    let plan = stage.start(&flow, json!({}));
    let output = stage.result(&plan).expect("it ends");
    assert_eq!(output, json!({ "done": true, "took": 5 }), "it is not left out in its middle");
}

#[test]
fn extensions_know_the_task_that_they_extend() {
    let flow = "
use:
  extensions:
    - log:
        extend: set
        before:
          - inside: { do: [ { say: { call: http, with: { method: post, endpoint: 'http://a.b/', body: '${ [$task.reference, $task.input, $task.output] }' } } } ] }
        after:
          - say: { call: http, with: { method: post, endpoint: 'http://a.b/', body: '${ [$task.name, $task.output] }' } }
do:
  - one: { set: { n: 1 } }
";
    let io = io();
    let (result, _) = run_with(io.clone(), flow, json!({ "a": 1 }));
    assert_eq!(result.expect("it ends well"), json!({ "n": 1 }));
    let bodies: Vec<Value> = io
        .asked()
        .iter()
        .filter_map(|asked| match asked {
            turnwheel_flow::Asked::Http(request, _) => {
                request.body.as_ref().map(|body| serde_json::from_slice(body).expect("it is JSON"))
            }
            _ => None,
        })
        .collect();
    assert_eq!(bodies, [json!(["/do/0/one", { "a": 1 }, null]), json!(["one", { "n": 1 }])]);
}

#[test]
fn directives_in_extensions_lead_within_their_list() {
    let flow = |before: &str, after: &str| {
        format!(
            "use:\n  extensions:\n    - x:\n        extend: set\n        before: [ {before} ]\n        after: [ {after} ]\n\
             do:\n  - one: {{ set: {{ n: 1 }} }}\n  - two: {{ do: [ {{ w: {{ wait: PT0.001S }} }} ] }}\n"
        )
    };
    let ran = |before: &str, after: &str| {
        let (result, view) = run_with(FakeIo::new(), &flow(before, after), json!({}));
        let names: Vec<String> =
            trace(&view).iter().filter_map(|at| at.rsplit('/').next().map(str::to_owned)).collect();
        (result.expect("it ends well"), names.join(" "))
    };
    let leads = "{ a: { wait: PT0S, then: c } }, { b: { wait: PT0S } }, { c: { wait: PT0S } }";
    let (result, names) = ran(leads, leads);
    assert_eq!(result, json!({ "n": 1 }));
    assert_eq!(names, "one a c one a c two w");
    let leaves = "{ a: { wait: PT0S, then: exit } }, { b: { wait: PT0S } }";
    assert_eq!(ran(leads, leaves).1, "one a c one a two w");
    let ends = "{ a: { set: { m: 2 }, then: end } }, { b: { wait: PT0S } }";
    assert_eq!(ran(ends, leads), (json!({ "m": 2 }), "one a".to_owned()));
}

#[test]
fn a_flow_that_runs_another_one_can_leave_its_output() {
    let child = "
do:
  - end: { if: '.child', set: { n: 7 }, then: end }
  - run: { run: { workflow: { namespace: test, name: it, version: '1.0.0', input: { child: true } }, return: RETURN } }
";
    assert_eq!(run(&child.replace("RETURN", "none"), json!({})), json!(null));
    assert_eq!(run(&child.replace("RETURN", "stdout"), json!({})), json!({ "n": 7 }));
    assert!(problems(&child.replace("RETURN", "code")).contains("no exit code"));
}

#[test]
fn faults_say_the_task_that_they_come_from() {
    let raised = fault(
        "
use: { errors: { full: { type: 'https://a.b/full', status: 507, title: '${ \"full: \\(.what)\" }' } } }
do:
  - outer: { do: [ { inner: { raise: { error: full } } } ] }
",
        json!({ "what": "disk" }),
    );
    let expected = json!({
        "type": "https://a.b/full", "status": 507, "title": "full: disk",
        "instance": "/do/0/outer/do/0/inner",
    });
    assert_eq!(raised, expected);
    let computed = fault(
        "do: [ { r: { raise: { error: { type: '${ .type }', status: '${ .status }', detail: '${ .list }' } } } } ]\n",
        json!({ "type": "https://a.b/c", "status": 418, "list": [1] }),
    );
    assert_eq!((&computed["status"], &computed["detail"]), (&json!(418), &json!("[1]")));
}
