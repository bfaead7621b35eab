//! Expressions: jq, by `jaq`, within limits.
//!
//! | part | what it does |
//! | --- | --- |
//! | `budget` | what an evaluation may use |
//! | `escapes` | characters that are written as two escapes |
//! | `grow` | changes of values that grow |
//! | `limit` | what keeps expressions within limits |
//! | `numbers` | numbers as jq has them |
//! | `precedence` | operators as jq groups them |
//! | `recursion` | definitions that are given filters and call themselves |
//! | `regex`, `pattern`, `around` | regular expressions, with limits and look-around |
//! | `secrets` | which secrets an expression may see |
//! | `terms` | parts of expressions |
//! | `texts` | texts as jq has them |
//! | `update` | updates as jq has them |
//! | `weight` | how large values are |
//! | `prelude.jq` | what jq has and jaq has not |
//! | [`Program`] | one compiled expression |
//! | `template` | data with expressions in it |

mod around;
mod budget;
mod escapes;
mod grow;
mod limit;
mod numbers;
mod pattern;
mod precedence;
mod quick;
mod recursion;
mod regex;
mod secrets;
mod template;
mod terms;
mod texts;
mod update;
mod weight;

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
const COMPILER_STACK: usize = 8 << 20;

/// More of it for each byte of the text, of which each may be one level deeper (`-----1`). A level
/// takes 5 KiB where code is not optimized.
const COMPILER_STACK_PER_BYTE: usize = 16 << 10;

/// Results that an expression may have.
const RESULTS_MAX: usize = 100_000;

/// The name of the expression among the definitions that it uses. No text can write it: an
/// expression that called itself would have no end.
const OWN: &str = "#main";

/// A name of it that can be written, which is known behind it alone.
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
    /// It asks for a secret that the flow does not declare.
    Secret(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(problem) => f.write_str(problem),
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
        let joined = escapes::joined(text);
        let stack = COMPILER_STACK + text.len() * COMPILER_STACK_PER_BYTE;
        let compiled = stacker::grow(stack, || compile(&joined.text, variables));
        compiled.map_err(|problem| NoProgram { at: joined.place(problem.at), ..problem })
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
        let (mut results, mut size) = (Vec::new(), 0);
        for result in self.filter.id.run((context, from_json(input))) {
            if results.len() >= RESULTS_MAX || !budget.spend(1) {
                return Err(format!("the expression has more than {RESULTS_MAX} results"));
            }
            let value = result.map_err(|exception| match exception.get_err() {
                Ok(error) => error.to_string(),
                Err(_) => "the expression leaves a label that it is not in".to_owned(),
            })?;
            // A value that others are part of is written out for each of them.
            size += budget.weigh(&value).map_or(0, |weight| weight.size);
            if !budget.looks_at(&value) || !budget.make(0, size) {
                return Err("the results become too large".to_owned());
            }
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
    let deep = |refused: limit::Refused| NoProgram { message: refused.0.to_owned(), at: 0 };
    let body = limit::term(recursion::term(term), 0).map_err(deep)?;
    let own_name = Def { name: OWN, args: Vec::new(), body };
    let main = [own_name, Def { name: MAIN, args: Vec::new(), body: terms::call(OWN) }];
    let own = load::parse(PRELUDE, |parser| parser.defs()).unwrap_or_default();
    let known = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    // The definitions of `range` with fewer arguments use the native one.
    let known = known.filter(|def| def.name == "range" || !limit::is_foreign(def.name));
    // Later definitions win where both exist.
    let known = known.chain(own);
    let known: Result<Vec<_>, _> = known.map(|def| limit::def(recursion::def(def), 0)).collect();
    let defs = known.map_err(deep)?.into_iter().chain(main);
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
mod tests;
