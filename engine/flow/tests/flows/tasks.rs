//! Flows: what each kind of task does, and the way of data through it.

use serde_json::json;
use turnwheel_flow::{FakeIo, HttpResponse};

use crate::flow_common::{fault, run, run_with, trace};

#[test]
fn tasks_run_one_after_the_other_and_hand_on_their_outputs() {
    let flow = "
do:
  - one: { set: { list: '${ .list + [1] }' } }
  - two: { set: { list: '${ .list + [2] }' } }
  - inner:
      do:
        - three: { set: { list: '${ .list + [3] }' } }
";
    assert_eq!(run(flow, json!({})), json!({ "list": [1, 2, 3] }));
    let (_, view) = run_with(FakeIo::new(), flow, json!({}));
    let expected = ["/do/0/one", "/do/1/two", "/do/2/inner", "/do/2/inner/do/0/three"];
    assert_eq!(trace(&view), expected);
    assert_eq!(view.label, "test/it:1.0.0");
}

#[test]
fn directives_go_to_tasks_leave_lists_and_end_flows() {
    let flow = "
do:
  - one: { set: { list: '${ .list + [1] }' }, then: three }
  - two: { set: { list: '${ .list + [2] }' }, then: end }
  - three:
      do:
        - a: { set: { list: '${ .list + [3] }' }, then: exit }
        - b: { set: { list: never } }
      then: two
  - four: { set: { list: never } }
";
    assert_eq!(run(flow, json!({})), json!({ "list": [1, 3, 2] }));
    let nested = "
do:
  - outer:
      do:
        - a: { set: { x: 1 }, then: end }
  - after: { set: { x: 2 } }
";
    assert_eq!(run(nested, json!({})), json!({ "x": 1 }), "«end» ends all of it");
}

#[test]
fn a_switch_chooses_the_first_case_that_holds_or_the_default() {
    let flow = "
do:
  - choose:
      switch:
        - other: { then: small }
        - large: { when: .n > 10, then: large }
        - larger: { when: .n > 100, then: end }
      then: end
  - small: { set: { is: small }, then: end }
  - large: { set: { is: large } }
";
    assert_eq!(run(flow, json!({ "n": 500 })), json!({ "is": "large" }));
    assert_eq!(run(flow, json!({ "n": 5 })), json!({ "is": "small" }));
    let none = "
do:
  - choose: { switch: [ { one: { when: .n == 1, then: exit } } ] }
  - after: { set: { passed: '${ .n }' } }
";
    assert_eq!(run(none, json!({ "n": 2 })), json!({ "passed": 2 }));
    assert_eq!(run(none, json!({ "n": 1 })), json!({ "n": 1 }));
}

#[test]
fn a_loop_runs_its_list_for_each_item_while_its_condition_holds() {
    let flow = "
do:
  - all:
      for: { each: word, in: .words, at: place }
      while: (.seen | length) < 3
      do:
        - keep: { set: { seen: '${ .seen + [\"\\($place)\\($word)\"] }' } }
";
    let input = json!({ "words": ["a", "b", "c", "d"], "seen": [] });
    assert_eq!(run(flow, input), json!({ "seen": ["0a", "1b", "2c"] }));
    assert_eq!(run(flow, json!({ "words": [] })), json!({ "words": [] }));
    let nested = "
do:
  - rows:
      for: { each: row, in: .rows }
      do:
        - cells:
            for: { each: cell, in: $row, at: j }
            do:
              - add:
                  if: $cell != 0
                  set: { sum: '${ (.sum // 0) + $cell * ($j + 1) }' }
";
    assert_eq!(run(nested, json!({ "rows": [[1, 2], [0, 3]] })), json!({ "sum": 11 }));
}

#[test]
fn a_loop_has_the_items_that_there_were_when_it_began() {
    let flow = "
do:
  - begin: { set: { n: 0 }, export: { as: '{ list: [1, 2, 3] }' } }
  - all:
      for: { in: $context.list }
      do:
        - add:
            set: { n: '${ .n + $item }' }
            export: { as: '{ list: [] }' }
  - last: { set: { n: '${ .n }', list: '${ $context.list }' } }
";
    assert_eq!(run(flow, json!({})), json!({ "n": 6, "list": [] }));
}

#[test]
fn leaving_a_list_ends_the_round_of_a_loop() {
    let flow = "
do:
  - all:
      for: { in: .items }
      do:
        - odd: { switch: [ { skip: { when: $item % 2 == 0, then: exit } } ] }
        - keep: { set: { odd: '${ (.odd // []) + [$item] }' } }
";
    assert_eq!(run(flow, json!({ "items": [1, 2, 3] })), json!({ "odd": [1, 3] }));
}

#[test]
fn branches_run_at_once_and_give_their_outputs_in_order() {
    let flow = "
do:
  - both:
      fork:
        branches:
          - left: { set: { is: left } }
          - right: { do: [ { deep: { set: { is: '${ .n }' } } } ] }
";
    assert_eq!(run(flow, json!({ "n": 7 })), json!([{ "is": "left" }, { "is": 7 }]));
}

#[test]
fn of_branches_that_compete_the_first_one_wins_and_the_others_are_dropped() {
    let flow = "
do:
  - race:
      fork:
        compete: true
        branches:
          - slow: { do: [ { rest: { wait: PT1000H } }, { late: { set: { by: slow } } } ] }
          - broken: { raise: { error: { type: 'https://a.b/c', status: 400 } } }
          - fast: { set: { by: fast } }
";
    let (output, view) = run_with(FakeIo::new(), flow, json!({}));
    assert_eq!(output.unwrap(), json!({ "by": "fast" }));
    assert_eq!(view.result().name(), "success");
    assert!(view.steps.iter().all(|step| !step.state.is_live()));
}

#[test]
fn branch_that_is_left_out_does_not_win_a_race() {
    let race = |branches: &str| {
        let branches = format!("{{ fork: {{ compete: true, branches: [ {branches} ] }} }}");
        run_with(FakeIo::new(), &format!("do: [ race: {branches} ]\n"), json!({ "n": 7 })).0
    };
    let skipped = "none: { if: '${ .n < 5 }', set: { by: none } }";
    let two = "two: { do: [ { a: { set: { by: 1 } } }, { b: { set: { by: two } } } ] }";
    assert_eq!(race(&format!("{skipped}, {two}")).unwrap(), json!({ "by": "two" }));
    assert_eq!(race(skipped).unwrap(), json!({ "n": 7 }), "all are left out");
    let broken = "broken: { raise: { error: { type: 'https://a.b/c', status: 418 } } }";
    let fault = race(&format!("{skipped}, {broken}")).unwrap_err();
    assert!(fault.to_string().contains("418"), "{fault}");
}

#[test]
fn a_fault_in_a_branch_ends_the_others() {
    let flow = "
do:
  - both:
      fork:
        branches:
          - rest: { wait: { days: 30 } }
          - broken: { raise: { error: { type: 'https://a.b/c', status: 418, title: Teapot, detail: '${ .none }' } } }
";
    let expected = json!({
        "type": "https://a.b/c", "status": 418, "title": "Teapot",
        "instance": "/do/0/both/fork/branches/1/broken",
    });
    assert_eq!(fault(flow, json!({})), expected);
}

#[test]
fn errors_are_caught_by_filter_and_condition_and_handled() {
    let flow = "
do:
  - careful:
      try:
        - fail: { raise: { error: { type: 'https://a.b/c', status: 503, detail: '${ \"no \\(.what)\" }' } } }
      catch:
        errors: { with: { status: 503 } }
        as: problem
        when: $problem.detail == \"no luck\"
        do:
          - note: { set: { caught: '${ $problem.detail }', at: '${ $problem.instance }' } }
  - after: { set: { before: '${ . }' } }
";
    let caught = json!({ "caught": "no luck", "at": "/do/0/careful/try/0/fail" });
    assert_eq!(run(flow, json!({ "what": "luck" })), json!({ "before": caught }));
    assert_eq!(fault(flow, json!({ "what": "time" }))["detail"], "no time");
    let other = flow.replace("status: 503 } }\n", "status: 500 } }\n");
    assert_eq!(fault(&other, json!({ "what": "luck" }))["status"], 503);
    let silent = "
do:
  - careful:
      try:
        - fail: { raise: { error: { type: 'https://a.b/c', status: 503 } } }
      catch: {}
";
    assert_eq!(run(silent, json!({ "kept": 1 })), json!({ "kept": 1 }));
}

#[test]
fn errors_are_raised_by_name_and_handlers_can_fault_themselves() {
    let flow = "
use:
  errors:
    sold-out: { type: 'https://shop.example/errors/sold-out', status: 409, title: Sold Out }
do:
  - careful:
      try: [ { first: { raise: { error: sold-out } } } ]
      catch:
        do: [ { second: { raise: { error: { type: 'https://a.b/d', status: 500 } } } } ]
";
    assert_eq!(fault(flow, json!({}))["instance"], "/do/0/careful/catch/do/0/second");
}

#[test]
fn data_goes_through_filters_schemas_and_the_context() {
    let flow = "
input:
  from: .order
  schema: { document: { type: object, required: [order] } }
output: { as: '{ total: ., context: $context }' }
do:
  - price:
      input: { from: '.items[0]' }
      set: { price: '${ .cents / 100 }', had: '${ $input.name }', whole: '${ $workflow.input.order.id }' }
      output:
        as: { amount: '${ .price }', who: '${ $task.name }' }
        schema: { document: { properties: { amount: { type: number } } } }
      export: { as: '{ seen: $output.amount }' }
  - check:
      if: $context.seen > 1
      set: '${ .amount + $context.seen }'
  - skipped: { if: false, set: { never: true } }
";
    let input = json!({ "order": { "id": 3, "items": [{ "cents": 250, "name": "pen" }] } });
    assert_eq!(run(flow, input), json!({ "total": 5, "context": { "seen": 2.5 } }));
    let wrong = fault(flow, json!({}));
    assert_eq!(wrong["type"], "https://serverlessworkflow.io/spec/1.0.0/errors/validation");
    assert!(wrong["detail"].as_str().unwrap().contains("«order» is missing"), "{wrong}");
}

#[test]
fn a_broken_expression_is_a_fault_with_its_place() {
    let flow = "do:\n  - one: { set: { x: '${ .a + {} }' } }\n";
    let wrong = fault(flow, json!({ "a": 1 }));
    assert_eq!(wrong["type"], "https://serverlessworkflow.io/spec/1.0.0/errors/expression");
    assert_eq!((&wrong["status"], &wrong["instance"]), (&json!(400), &json!("/do/0/one")));
}

#[test]
fn functions_get_what_they_are_called_with() {
    let flow = "
use:
  functions:
    double: { set: { twice: '${ .n * 2 }' } }
    quadruple:
      do:
        - once: { call: double, with: { n: '${ .n }' } }
        - again: { call: double, with: { n: '${ .twice }' } }
do:
  - work: { call: quadruple, with: { n: '${ .start }' }, output: { as: .twice } }
";
    assert_eq!(run(flow, json!({ "start": 3 })), json!(12));
}

#[test]
fn extensions_run_before_and_after_and_can_stand_for_a_task() {
    let flow = "
use:
  extensions:
    - mock:
        extend: call
        when: ($task.with.endpoint | startswith(\"https://mocked\"))
        before: [ { answer: { set: { mocked: true }, then: exit } } ]
    - note:
        extend: set
        before: [ { b: { set: { lost: 1 } } } ]
        after: [ { a: { set: { lost: 2 }, export: { as: '{ last: $task.name }' } } } ]
do:
  - get: { call: http, with: { method: get, endpoint: 'https://mocked.example/a' } }
  - keep: { set: { was: '${ . }' } }
";
    let (output, view) = run_with(FakeIo::new(), flow, json!({}));
    assert_eq!(output.unwrap(), json!({ "was": { "mocked": true } }));
    assert!(trace(&view).contains(&"/use/extensions/1/note/after/0/a".to_owned()));
}

#[test]
fn loose_expressions_are_texts_if_they_cannot_be_evaluated() {
    let flow = "
evaluate: { mode: loose }
do:
  - one: { set: { a: .n, b: 'plain text', c: '${ .n + 1 }' } }
";
    assert_eq!(run(flow, json!({ "n": 1 })), json!({ "a": 1, "b": "plain text", "c": 2 }));
}

#[test]
fn http_calls_send_what_they_say_and_give_what_comes() {
    let flow = "
do:
  - send:
      call: http
      with:
        method: post
        endpoint: https://shop.example/items/{id}
        headers: { X-One: '${ .one }' }
        query: { q: a b, n: '${ .n }' }
        body: { count: '${ .n }' }
        output: response
      output: { as: '{ status: .statusCode, got: .content.ok, sent: .request.uri, links: .headers.link }' }
";
    let io = FakeIo::new().on_http(|request| {
        assert_eq!(
            (request.method.as_str(), request.body.as_deref()),
            ("POST", Some(&br#"{"count":3}"#[..]))
        );
        assert!(request.headers.contains(&("X-One".to_owned(), "1".to_owned())));
        let headers = [
            ("content-type", "application/json; charset=utf-8"),
            ("link", "</a>; rel=next"),
            ("link", "</b>"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Ok(HttpResponse { status: 201, headers, body: br#"{"ok":true}"#.to_vec() })
    });
    let (output, _) = run_with(io, flow, json!({ "id": "a/b", "one": 1, "n": 3 }));
    let uri = "https://shop.example/items/a%2Fb?n=3&q=a%20b";
    let links = "</a>; rel=next, </b>";
    let expected = json!({ "status": 201, "got": true, "sent": uri, "links": links });
    assert_eq!(output.unwrap(), expected);
}
