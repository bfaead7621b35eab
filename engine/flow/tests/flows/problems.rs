//! Flows: what is wrong with a definition is said with line, column and a suggestion, and nothing breaks
//! the loader.

use turnwheel_flow::{self as flow, load_all};

use crate::flow_common::{define, problems};

#[test]
fn problems_have_places_and_suggestions() {
    let text = "do:\n  - one:\n      sett: { a: 1 }\n";
    let wrong = problems(text);
    assert!(wrong.starts_with("it.yaml:4:7: the task «one» has no field «sett»"), "{wrong}");
    assert!(
        wrong.contains("  |       sett: { a: 1 }\n  |       ^\n  = did you mean «set»?"),
        "{wrong}"
    );

    let said = [
        ("do: [ { a: { set: { x: '${ .a | $contxt }' } } } ]", "did you mean $context?"),
        (
            "do: [ { a: { set: { x: 1 }, then: bb } }, { b: { set: { x: 1 } } } ]",
            "did you mean «b»?",
        ),
        ("do: [ { a: { wait: 5 minutes } } ]", "«5 minutes» is no duration"),
        ("do: [ { a: { wait: { minute: 5 } } } ]", "did you mean «minutes»?"),
        ("do: [ { a: { call: fetch } } ]", "there is no function «fetch»"),
        (
            "do: [ { a: { call: http, with: { method: get, endpoint: nowhere } } } ]",
            "no absolute URI",
        ),
        ("do: [ { a: { set: { x: 1 }, raise: { error: e } } } ]", "several things at once"),
        ("do: [ { a: { metadata: {} } } ]", "does not say what it does"),
        ("do: [ { a: { set: {} }, b: { set: { x: 1 } } } ]", "2 names instead of one"),
        ("do: { a: { set: { x: 1 } } }", "must be a list and is an object"),
        ("do: [ { a: { if: '.x ==', set: { x: 1 } } } ]", "is no expression"),
        ("do: [ { a: { set: { x: 1 }, timeout: quick } } ]", "there is no timeout «quick»"),
        ("do: [ { a: { for: { in: . } } } ]", "must have the field «do»"),
        ("do: [ { a: { for: { in: ., each: 'a b' }, do: [] } } ]", "cannot be called «a b»"),
        ("do: []", "has no tasks"),
        (
            "do: [ { a: { try: [ { b: { set: { x: 1 } } } ], catch: { errors: { with: { status: '${ .s }' } } } } } ]",
            "«status» of «catch.errors.with» cannot be an expression",
        ),
        (
            "do: [ { a: { try: [ { b: { set: { x: 1 } } } ], catch: { errors: { with: { status: '503' } } } } } ]",
            "must be a whole number",
        ),
        ("do: [ { a: { set: { x: 1 } } }, { a: { set: { x: 1 } } } ]", "two tasks «a»"),
        ("do: [ { a: { set: { x: '${ $secrets.a }' } } } ]", "secrets are for calls"),
        ("schedule: { cron: 'x y' }\ndo: [ { a: { set: { x: 1 } } } ]", "schedule.cron"),
        ("input: { schema: { document: { typo: 1 } } }\ndo: [ { a: { set: { x: 1 } } } ]", "typo"),
        ("do: [ { a: { raise: { error: { type: x, status: 1000 } } } } ]", "100 to 599"),
        ("do: [ { a: { listen: { to: { one: { with: {} } } } } } ]", "an attribute at least"),
        ("do: [ { a: { emit: { event: { with: { type: t } } } } } ]", "field «source»"),
        ("do:\n  - a: { set: { x: 1 } }\n  - b: [\n", "no YAML"),
        ("do: [ { a: { set: { x: 1, x: 2 } } } ]", "«x» is there already"),
    ];
    for (text, expected) in said {
        let wrong = problems(text);
        assert!(wrong.contains(expected), "{text}\n{wrong}");
    }
}

#[test]
fn what_would_go_wrong_silently_is_a_problem() {
    let said = [
        ("do: [ { a: { set: { x: '${ .x[0 }' } } } ]", "it.yaml:2:25: «set» has an expression that is not closed"),
        (
            "do: [ { a: { set: { x: [ 'T ${ .a | (. + 1 } EUR' ] } } } ]",
            "it.yaml:2:29: «set» has an expression that is not closed",
        ),
        ("do: [ { a: { set: { x: 'a ${(1}' } } } ]", "to mean the text «${»"),
        ("do: [ { a: { set: { '${ .x }': 1 } } } ]", "it.yaml:2:21: «set» has the name «${ .x }»: names are texts"),
        ("do: [ { a: { set: { x: [ { '${ .x[0 }': 1 } ] } } } ]", "names are texts"),
        ("do: [ { a: { if: '${ .x[0 }', set: { x: 1 } } } ]", "«if» has an expression that is not closed"),
        ("do: [ { a: { wait: '${ .x[0 }' } } ]", "«wait» has an expression that is not closed"),
        (
            "do: [ { a: { call: http, with: { method: get, endpoint: 'https://a.b/${ .id[0 }' } } } ]",
            "a URI has an expression that is not closed",
        ),
        (
            "do: [ { a: { call: http, with: { method: get, endpoint: 'https://a.b', headers: '${ .h[0 }' } } } ]",
            "«headers» has an expression that is not closed",
        ),
        ("do: [ { a: { run: { shell: { command: 'echo ${ .x[0 }' } } } } ]", "expression that is not closed"),
        (
            "do: [ { a: { try: [ { b: { set: { x: 1 } } } ], catch: { errors: { with: { type: 'a:${ .t }' } } } } } ]",
            "«type» of «catch.errors.with» cannot be an expression",
        ),
        (
            "do: [ { a: { call: openapi, with: { document: { endpoint: 'https://a.b' }, operationId: '${ .o }' } } } ]",
            "«operationId» cannot be an expression",
        ),
        (
            "do: [ { a: { try: [ { b: { set: { x: 1 } } } ], catch: { errors: { with: {} } } } } ]",
            "«catch.errors.with» has no properties",
        ),
        (
            "do: [ { a: { try: [ { b: { set: { x: 1 } } } ], catch: { retry: {} } } } ]",
            "would try for ever without a pause",
        ),
        (
            "use: { retries: { r: { backoff: { linear: {} }, limit: { attempt: {} } } } }\ndo: [ { a: { set: { x: 1 } } } ]",
            "would try for ever without a pause",
        ),
        (
            "do: [ { a: { try: [ { b: { set: { x: 1 } } } ], catch: { retry: { jitter: { from: PT5S, to: PT1S } } } } } ]",
            "exchange «from» and «to»",
        ),
        ("do: [ { a: { for: { in: '.x', each: it, at: it }, do: [ { b: { set: { x: 1 } } } ] } } ]", "are both $it"),
        (
            "do: [ { a: { raise: { error: { type: 'https://a.b/c', status: 400, instance: shop } } } } ]",
            "the instance of an error is a JSON pointer",
        ),
        ("do: [ { a: { set: { x: 1e400 } } } ]", "it.yaml:2:24: «1e400» is a number that JSON does not have"),
        ("do: [ { a: { set: { x: -.inf } } } ]", "put it in quotes if it is a text"),
        (
            "use: { secrets: [ s ] }\ndo: [ { a: { run: { shell: { command: 'echo ${ $secrets | .t }' } } } } ]",
            "«$secrets» must be followed by the name of a secret",
        ),
        ("do: [ { a: { wait: 5s } } ]", "write PT5S"),
        ("do:\n  - a:\n      set:\n        x: ${ {a: .b} }\n", "put the expression in quotes"),
        ("do: [ { a: { set: { x: ${ .a } } } } ]", "put the expression in quotes"),
        (
            "schedule: { cron: 'CRON_TZ=Europe/Nowhere 0 3 * * *' }\ndo: [ { a: { set: { x: 1 } } } ]",
            "no time zone «Europe/Nowhere»",
        ),
        ("schedule: { cron: 'CRON_TZ=UTC' }\ndo: [ { a: { set: { x: 1 } } } ]", "schedule.cron"),
    ];
    for (text, expected) in said {
        let wrong = problems(text);
        assert!(wrong.contains(expected), "{text}\n{wrong}");
    }
}

#[test]
fn what_is_not_supported_is_refused_by_its_name() {
    let one = "do: [ { a: { set: { x: 1 } } } ]";
    let refused = [
        ("do: [ { a: { call: asyncapi, with: { document: { endpoint: 'http://a/b' }, operation: o, protocol: kafka, message: {} } } } ]".to_owned(), "call: asyncapi with the protocol kafka is not supported"),
        ("do: [ { a: { call: asyncapi, with: { document: { endpoint: 'http://a/b' }, operation: o, protocol: http } } } ]".to_owned(), "must have one thing to do"),
        ("do: [ { a: { call: asyncapi, with: { document: { endpoint: 'http://a/b' }, operation: o, channel: c, message: {} } } } ]".to_owned(), "«operation» or «channel», and one of them"),
        ("do: [ { a: { call: asyncapi, with: { document: { endpoint: 'http://a/b' }, operation: o, mesage: {} } } } ]".to_owned(), "did you mean «message»"),
        ("do: [ { a: { run: { container: { image: x, lifetime: { cleanup: eventually } } } } } ]".to_owned(), "must have the field «after»"),
        ("do: [ { a: { run: { container: { image: x, lifetime: { cleanup: always, after: PT1S } } } } } ]".to_owned(), "only for the cleanup «eventually»"),
        ("do: [ { a: { run: { container: { imag: x } } } } ]".to_owned(), "did you mean «image»"),
        ("do: [ { a: { run: { container: { image: x, pullPolicy: sometimes } } } } ]".to_owned(), "«pullPolicy» cannot be «sometimes»"),
        ("do: [ { a: { run: { await: false, container: { image: x, stdin: y } } } } ]".to_owned(), "«stdin» is not for what nobody awaits"),
        ("do: [ { a: { run: { await: false, shell: { command: x, stdin: y } } } } ]".to_owned(), "«stdin» is not for what nobody awaits"),
        ("do: [ { a: { run: { script: { language: ruby, code: x } } } } ]".to_owned(), "«ruby» is not supported"),
        (format!("evaluate: {{ language: js }}\n{one}"), "«js» is not supported"),
        (format!("input: {{ schema: {{ format: avro, document: {{}} }} }}\n{one}"), "«avro» is not supported"),
        (format!("use: {{ authentications: {{ c: {{ certificate: {{}} }} }} }}\n{one}"), "«certificate» here is not supported"),
        (format!("use: {{ authentications: {{ c: {{ oauth2: {{ authority: 'https://a.b', grant: authorization_code }} }} }} }}\n{one}"), "authorization_code"),
    ];
    for (text, expected) in refused {
        let wrong = problems(&text);
        assert!(wrong.contains(expected), "{text}\n{wrong}");
    }
    let old = define(one).replace("1.0.3", "0.8.0");
    let wrong = flow::load(&old, "old.yaml").unwrap_err().to_string();
    assert!(wrong.contains("version «0.8.0» of the DSL is not supported"), "{wrong}");
}

#[test]
fn json_and_several_documents_are_read() {
    let yaml = define("do: [ { a: { set: { x: '${ .y }', n: 1.5, t: true } } } ]");
    let flow = flow::load(&yaml, "a.yaml").unwrap();
    let json = serde_json::to_string_pretty(flow.source()).unwrap();
    assert_eq!(flow::load(&json, "a.json").unwrap().hash(), flow.hash());
    let two = format!("---\n{yaml}\n---\n{}", yaml.replace("name: it", "name: other"));
    let names: Vec<String> = load_all(&two, "two.yaml").unwrap().iter().map(|f| f.id()).collect();
    assert_eq!(names, ["test/it:1.0.0", "test/other:1.0.0"]);
    assert!(flow::load(&two, "two.yaml").unwrap_err().to_string().contains("2 definitions"));
    assert!(flow::load("", "none.yaml").unwrap_err().to_string().contains("no definition"));
}

/// Definitions that are right and use much of the DSL.
pub(crate) const SEEDS: [&str; 4] = [
    "
use:
  secrets: [s]
  errors: { gone: { type: 'https://a.b/gone', status: 410 } }
  retries: { usual: { delay: PT1S, backoff: { linear: {} }, limit: { attempt: { count: 3 } } } }
  functions: { f: { set: { y: '${ .x }' } } }
do:
  - careful:
      try: [ { get: { call: http, with: { method: get, endpoint: 'https://a.b/{id}' } } } ]
      catch: { errors: { with: { status: 404 } }, as: e, retry: usual, do: [ { n: { set: { e: '${ $e }' } } } ] }
  - call: { call: f, with: { x: 1 } }
  - bad: { raise: { error: gone } }
",
    "
input: { from: '.a', schema: { document: { type: object, properties: { n: { type: integer } } } } }
timeout: { after: { minutes: 5 } }
do:
  - choose: { switch: [ { one: { when: .n > 1, then: loop } }, { other: { then: end } } ] }
  - loop:
      for: { each: x, in: .list, at: i }
      while: $i < 10
      do: [ { add: { set: { sum: '${ .sum + $x }' }, export: { as: '{ s: .sum }' } } } ]
  - both: { fork: { compete: true, branches: [ { w: { wait: PT5S } }, { s: { set: { a: 1 } } } ] } }
",
    "
schedule: { on: { any: [ { with: { type: t, source: 'https://a.b' } } ] } }
do:
  - hear:
      listen: { to: { any: [ { with: { type: a, data: '${ .x > 1 }' } } ], until: length > 2 }, read: envelope }
      foreach: { item: e, do: [ { k: { set: { id: '${ $e.id }' } } } ], output: { as: .id } }
  - tell: { emit: { event: { with: { source: 'https://a.b', type: b, data: { n: '${ . }' } } } } }
",
    "
use:
  authentications: { o: { oauth2: { authority: 'https://l.b', grant: client_credentials, client: { id: a, secret: b } } } }
  extensions: [ { log: { extend: call, before: [ { l: { set: { a: 1 } } } ] } } ]
do:
  - shell: { run: { shell: { command: 'echo ${ .x }', arguments: [ a ] }, return: all } }
  - api:
      call: openapi
      with: { document: { endpoint: 'https://a.b/api.json' }, operationId: op, parameters: { p: 1 }, authentication: { use: o } }
      if: .go
      then: exit
",
];

/// Changes a text at random, the same for the same seed: cuts, doubles, swaps, replaces.
fn mutated(text: &str, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut characters: Vec<char> = text.chars().collect();
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        "-",
        "'",
        "\"",
        "${",
        "null",
        "true",
        "12",
        "*a",
        "&a ",
        "!!x ",
        "\t",
        "\n",
        "do",
        "set",
        "then: end",
        "|",
        ">",
        "#",
        ",",
        "é",
        "\u{0}",
        "<<: 1",
        "? ",
        "%",
        "@",
    ];
    for _ in 0..=next(3) {
        let at = next(characters.len());
        match next(5) {
            0 => drop(characters.drain(at..(at + 1 + next(12)).min(characters.len()))),
            1 => characters.splice(at..at, words[next(words.len())].chars()).for_each(drop),
            2 => {
                let end = (at + 1 + next(40)).min(characters.len());
                let part: Vec<char> = characters[at..end].to_vec();
                let to = next(characters.len());
                characters.splice(to..to, part).for_each(drop);
            }
            3 => {
                let end = (at + 1).min(characters.len());
                characters.splice(at..end, words[next(words.len())].chars()).for_each(drop);
            }
            _ => characters.truncate(at.max(10)),
        }
    }
    characters.into_iter().collect()
}

#[test]
fn a_thousand_broken_definitions_are_read_or_refused_with_a_place() {
    let (mut refused, mut read) = (0, 0);
    for (number, seed) in SEEDS.iter().enumerate() {
        let text = define(seed);
        flow::load(&text, "seed.yaml").unwrap_or_else(|problems| panic!("{problems}"));
        for mutation in 0..250 {
            let text = mutated(&text, (number * 1_000 + mutation + 1) as u64);
            match load_all(&text, "it.yaml") {
                Ok(_) => read += 1,
                Err(problems) => {
                    refused += 1;
                    let lines = text.lines().count().max(1);
                    assert!(!problems.all.is_empty());
                    for problem in &problems.all {
                        assert!((1..=lines + 1).contains(&problem.line), "{problem:?}\n{text}");
                        assert!(problem.column >= 1 && !problem.message.is_empty());
                    }
                }
            }
        }
    }
    assert!(refused >= 200, "{refused} of {} were refused", refused + read);
}

#[test]
fn huge_and_deep_texts_are_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(flow::load(&deep, "deep.yaml").is_err());
    let nested: String = (0..5_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    assert!(flow::load(&nested, "nested.yaml").is_err());
    let bomb: String = (1..30).map(|n| format!("k{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)).collect();
    let bomb = format!("k0: &a0 [1, 2]\n{bomb}");
    let wrong = flow::load(&bomb, "bomb.yaml").unwrap_err().to_string();
    assert!(wrong.contains("aliases repeat too much"), "{wrong}");
    let long = define(&format!("do: [ {{ a: {{ set: {{ x: '{}' }} }} }} ]", "y".repeat(5 << 20)));
    assert!(flow::load(&long, "long.yaml").is_err());
}
