//! Expressions: jq, by `jaq`, within limits.
//!
//! | part | what it does |
//! | --- | --- |
//! | `budget` | what an evaluation may use |
//! | `limit` | what keeps expressions within limits |
//! | `numbers` | numbers as jq has them |
//! | `precedence` | operators as jq groups them |
//! | `regex`, `pattern`, `around` | regular expressions, with limits and look-around |
//! | `secrets` | which secrets an expression may see |
//! | `texts` | texts as jq has them |
//! | `update` | updates as jq has them |
//! | `prelude.jq` | what jq has and jaq has not |
//! | [`Program`] | one compiled expression |
//! | `template` | data with expressions in it |

mod around;
mod budget;
mod limit;
mod numbers;
mod pattern;
mod precedence;
mod quick;
mod regex;
mod secrets;
mod template;
mod texts;
mod update;

use std::fmt;

use jaq_core::load::parse::Def;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars};
use jaq_json::{Num, Val};
use serde_json::Value;

use limit::{Budget, Limited, STACK_MAX};
pub(crate) use quick::quickly;
pub(crate) use template::{as_text, has_expression, strip, unclosed, Piece, Template};

/// Bytes that the text of an expression may have.
const TEXT_MAX: usize = 16 << 10;

/// Maximum depth of its brackets.
const BRACKETS_MAX: usize = 200;

/// Stack for parser and compiler, which are recursive: memory is used as far as it is touched.
const COMPILER_STACK: usize = 64 << 20;

/// Results that an expression may have.
const RESULTS_MAX: usize = 100_000;

/// The name of the expression among the definitions that it uses.
const MAIN: &str = "__main";

/// Definitions of jq that are missing, or other ones, where the rest is from.
const PRELUDE: &str = include_str!("prelude.jq");

/// Stack for evaluations.
const STACK: usize = STACK_MAX + (5 << 20);

/// An expression that can be evaluated.
pub(crate) struct Program {
    filter: jaq_core::Filter<Limited>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").finish_non_exhaustive()
    }
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoProgram {
    pub(crate) message: String,
    /// The byte of the text at which it was noticed.
    pub(crate) at: usize,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The error.
    Problem(String),
    /// It asks for a secret that the flow does not declare; an empty name if it declares none at
    /// all.
    Secret(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(problem) => f.write_str(problem),
            Self::Secret(name) if name.is_empty() => {
                f.write_str("the flow has no secrets: «use.secrets» names none")
            }
            Self::Secret(name) => {
                write!(f, "the flow may not have the secret «{name}»: add it to «use.secrets»")
            }
        }
    }
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self::Problem(problem)
    }
}

impl Program {
    /// Compiles a text that may use variables, whose names begin with `$`.
    pub(crate) fn compile(text: &str, variables: &[&str]) -> Result<Self, NoProgram> {
        if text.len() > TEXT_MAX {
            let message = format!("an expression may have {TEXT_MAX} bytes");
            return Err(NoProgram { message, at: 0 });
        }
        let mut depth = 0_usize;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > BRACKETS_MAX {
                let message = "the expression is nested too deep".to_owned();
                return Err(NoProgram { message, at });
            }
        }
        stacker::grow(COMPILER_STACK, || compile(text, variables))
    }

    /// Evaluates it. No result is `null`; several are an array.
    pub(crate) fn run(
        &self,
        input: &Value,
        variables: &[&Value],
        now: f64,
    ) -> Result<Value, Failure> {
        stacker::maybe_grow(STACK, STACK, || self.run_here(input, variables, now))
    }

    fn run_here(&self, input: &Value, variables: &[&Value], now: f64) -> Result<Value, Failure> {
        let budget = Budget::new(&self.filter.lut, now);
        let outcome = self.results(&budget, input, variables);
        if let Some(secret) = budget.denied() {
            return Err(Failure::Secret(secret));
        }
        match budget.tripped() {
            Some(limit) => Err(format!("the expression was stopped: {limit}").into()),
            None => Ok(outcome?),
        }
    }

    fn results(
        &self,
        budget: &Budget<'_>,
        input: &Value,
        variables: &[&Value],
    ) -> Result<Value, String> {
        let variables = Vars::new(variables.iter().map(|value| from_json(value)));
        let context = Ctx::<Limited>::new(budget, variables);
        let mut results = Vec::new();
        for result in self.filter.id.run((context, from_json(input))) {
            if results.len() >= RESULTS_MAX || !budget.spend(1) {
                return Err(format!("the expression has more than {RESULTS_MAX} results"));
            }
            let value = result.map_err(|exception| match exception.get_err() {
                Ok(error) => error.to_string(),
                Err(_) => "the expression leaves a label that it is not in".to_owned(),
            })?;
            results.push(to_json(&value, 0)?);
        }
        Ok(match results.len() {
            0 => Value::Null,
            1 => results.remove(0),
            _ => Value::Array(results),
        })
    }
}

fn compile(text: &str, variables: &[&str]) -> Result<Program, NoProgram> {
    let arena = Arena::default();
    // Once for what is wrong with it, which a loader knows to say, and once for its terms.
    if let Err(errors) = Loader::new([]).load(&arena, File { code: text, path: () }) {
        return Err(malformed(text, errors));
    }
    let modules = || NoProgram { message: "an expression cannot have modules".to_owned(), at: 0 };
    let term = precedence::parse(text).ok_or_else(modules)?;
    let deep = |refused: limit::TooDeep| NoProgram { message: refused.0.to_owned(), at: 0 };
    let body = limit::term(term, 0).map_err(deep)?;
    let main = Def { name: MAIN, args: Vec::new(), body };
    let own = load::parse(PRELUDE, |parser| parser.defs()).unwrap_or_default();
    let known = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    // The definitions of `range` with fewer arguments use the native one.
    let known = known.filter(|def| def.name == "range" || !limit::is_foreign(def.name));
    // Later definitions win where both exist.
    let known = known.chain(own);
    let known: Result<Vec<_>, _> = known.map(|def| limit::def(def, 0)).collect();
    let defs = known.map_err(deep)?.into_iter().chain([main]);
    let program = File { code: MAIN, path: () };
    let modules = Loader::new(defs).load(&arena, program).map_err(|e| malformed(text, e))?;
    let natives = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let natives = natives.filter(|(name, _, _)| !limit::is_foreign(name));
    let compiled = Compiler::default()
        .with_funs(natives.chain(limit::natives()))
        .with_global_vars(variables.iter().copied())
        .compile(modules);
    match compiled {
        Ok(filter) => Ok(Program { filter }),
        Err(errors) => Err(undefined(text, variables, errors)),
    }
}

/// The error of a text that cannot be parsed.
fn malformed(text: &str, errors: load::Errors<&str, ()>) -> NoProgram {
    let first = errors.into_iter().next().map(|(_, error)| error);
    let (message, part) = match first {
        Some(load::Error::Lex(errors)) => match errors.into_iter().next() {
            Some((expected, found)) => (format!("expected {}", expected.as_str()), Some(found)),
            None => ("it cannot be read".to_owned(), None),
        },
        Some(load::Error::Parse(errors)) => match errors.into_iter().next() {
            Some((expected, found)) => {
                let here =
                    if found.is_empty() { "the end".to_owned() } else { format!("«{found}»") };
                (format!("expected {} before {here}", expected.as_str()), Some(found))
            }
            None => ("it cannot be read".to_owned(), None),
        },
        _ => ("an expression cannot have modules".to_owned(), None),
    };
    NoProgram { message, at: part.map_or(0, |part| position(text, part)) }
}

fn undefined(
    text: &str,
    variables: &[&str],
    errors: jaq_core::compile::Errors<&str, ()>,
) -> NoProgram {
    let first = errors.into_iter().flat_map(|(_, errors)| errors).next();
    let Some((name, what)) = first else {
        return NoProgram { message: "it cannot be compiled".to_owned(), at: 0 };
    };
    let message = match what {
        jaq_core::compile::Undefined::Var => {
            let near = super::text::nearest(name, variables.iter().copied());
            let known = variables.join(", ");
            match near {
                Some(near) => format!("there is no variable {name}: did you mean {near}?"),
                None => format!("there is no variable {name} here, only {known}"),
            }
        }
        jaq_core::compile::Undefined::Filter(arity) => {
            format!("there is no function {name} with {arity} arguments")
        }
        other => format!("there is no {} {name}", other.as_str()),
    };
    NoProgram { message, at: position(text, name) }
}

/// Position of a part of the text; 0 if it is no part of it.
fn position(text: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    if offset <= text.len() {
        offset
    } else {
        0
    }
}

fn from_json(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => Val::Num(match number.as_i64() {
            Some(number) => Num::from_integral(number),
            None => match number.as_u64() {
                Some(number) => Num::from_integral(number),
                None => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
        }),
        Value::String(text) => Val::utf8_str(text.clone().into_bytes()),
        Value::Array(elements) => elements.iter().map(from_json).collect(),
        Value::Object(fields) => Val::obj(
            fields
                .iter()
                .map(|(key, value)| (Val::utf8_str(key.clone().into_bytes()), from_json(value)))
                .collect(),
        ),
    }
}

fn to_json(value: &Val, depth: usize) -> Result<Value, String> {
    if depth > limit::DEPTH_MAX {
        return Err("the result is nested too deep".to_owned());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        Val::Num(number) => number_to_json(number),
        Val::BStr(bytes) | Val::TStr(bytes) => Value::String(text(bytes)),
        Val::Arr(elements) => {
            let elements = elements.iter().map(|element| to_json(element, depth + 1));
            Value::Array(elements.collect::<Result<_, _>>()?)
        }
        Val::Obj(fields) => {
            let fields = fields.iter().map(|(key, value)| {
                let (Val::TStr(key) | Val::BStr(key)) = key else {
                    return Err("the result has a key that is no text".to_owned());
                };
                Ok((text(key), to_json(value, depth + 1)?))
            });
            Value::Object(fields.collect::<Result<_, _>>()?)
        }
    })
}

/// Numbers that JSON cannot express are replaced, as in jq: NaN by `null`, an infinite one by the
/// largest number, a large one by a float.
fn number_to_json(number: &Num) -> Value {
    let float = |number: f64| {
        let is_whole = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
        if is_whole {
            return Value::from(number as i64);
        }
        let number = number.clamp(f64::MIN, f64::MAX);
        serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
    };
    match number {
        Num::Int(number) => Value::from(*number as i64),
        Num::Float(number) => float(*number),
        Num::BigInt(_) | Num::Dec(_) => {
            let text = number.to_string();
            let whole = text.parse::<u64>().map(Value::from);
            whole.unwrap_or_else(|_| text.parse::<f64>().map_or(Value::Null, float))
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(run("$secrets | .a.t", declared()), Ok(json!(1)));
        for text in ["$secrets.b", "$secrets[\"b\"]", "$secrets[.key]", "try $secrets.b.c catch 1"]
        {
            assert_eq!(run(text, declared()), refused("b"), "{text}");
            assert_eq!(run(text, json!({})), refused("b"), "{text}");
            assert_eq!(run(text, Value::Null), Ok(Value::Null), "where secrets are not read");
        }
        assert_eq!(run("$secrets | .b", json!({})), refused(""));
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
}
