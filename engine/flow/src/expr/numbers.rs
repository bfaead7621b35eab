//! Numbers as in jq 1.7: failed computations and parses are errors that can be caught.
//!
//! jaq divides by zero to an infinity, takes the remainder of fractions, and reads the valid begin
//! of a text as JSON. Each of these would continue with a wrong value, or with `null`.

use jaq_core::box_iter::box_once;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::native::{bome, v, Fun};
use jaq_core::ops::Math;
use jaq_core::{Cv, Error, Native};
use jaq_json::{Num, Val};

use super::limit::Limited;
use super::terms::{bound, call, pipe};

/// Characters of a value that an error shows.
const SHOWN_MAX: usize = 40;

/// An arithmetic operator: products are bounded, and divisions by zero are errors.
pub(super) fn arithmetic<'s>(
    left: Term<&'s str>,
    math: Math,
    right: Term<&'s str>,
) -> Term<&'s str> {
    let checked_by = match math {
        Math::Mul => "#times",
        Math::Div => "#over",
        Math::Rem => "#rem",
        Math::Add => {
            let plus = pipe(left, Term::Call("#plus", vec![Term::Var("$#r")]));
            return bound(right, "$#r", plus);
        }
        // Lists: without what is in the other one.
        Math::Sub => "#pairs",
    };
    let (l, r) = (Term::Var("$#l"), Term::Var("$#r"));
    let checked = Term::Call(checked_by, vec![l.clone(), r.clone()]);
    let result = match math {
        Math::Rem => checked,
        // A quotient of texts is a list.
        _ => pipe(pipe(checked, operator(l, math, r)), call("#size")),
    };
    bound(right, "$#r", bound(left, "$#l", result))
}

fn operator<'s>(left: Term<&'s str>, math: Math, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Math(math), Box::new(right))
}

/// The natives of this file.
pub(super) fn natives() -> Vec<Fun<Limited>> {
    vec![
        ("#over", v(2), Native::<Limited>::new(|cv| bome(over(cv)))),
        ("#rem", v(2), Native::<Limited>::new(|cv| bome(remainder(cv)))),
        ("tonumber", v(0), Native::<Limited>::new(|cv| bome(to_number(cv.1)))),
        ("fromjson", v(0), Native::<Limited>::new(|cv| bome(from_json(cv.1)))),
        ("infinite", v(0), Native::new(|_| box_once(Ok(Val::Num(Num::Float(f64::INFINITY)))))),
        ("nan", v(0), Native::new(|_| box_once(Ok(Val::Num(Num::Float(f64::NAN)))))),
    ]
}

/// Whether the name is a native of jaq that is replaced here.
pub(super) fn is_replaced(name: &str) -> bool {
    matches!(name, "tonumber" | "fromjson" | "infinite" | "nan")
}

/// A number as a float; nothing for other values.
fn float(value: &Val) -> Option<f64> {
    match value {
        Val::Num(Num::Int(number)) => Some(*number as f64),
        Val::Num(Num::Float(number)) => Some(*number),
        // An integer with too many digits for a float is infinite as one.
        Val::Num(number) => Some(number.to_string().parse().unwrap_or(f64::NAN)),
        _ => None,
    }
}

/// A float that is a whole number as an integer.
pub(super) fn whole(number: f64) -> Num {
    match number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        true => Num::Int(number as isize),
        false => Num::Float(number),
    }
}

/// `#over(l; r)`: the input, unless a number is divided by zero.
fn over(mut cv: Cv<'_, Limited>) -> Result<Val, Error<Val>> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    match (float(&left), float(&right)) {
        (Some(_), Some(0.0)) => Err(divisor_is_zero(&left, &right, "divided")),
        _ => Ok(cv.1),
    }
}

/// `#rem(l; r)`: the remainder of whole numbers.
fn remainder(mut cv: Cv<'_, Limited>) -> Result<Val, Error<Val>> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    let (Some(l), Some(r)) = (float(&left), float(&right)) else {
        // It says itself what is wrong with them.
        return left % right;
    };
    if l.is_nan() || r.is_nan() {
        return Ok(Val::Num(Num::Float(f64::NAN)));
    }
    let exact = |value: &Val, float: f64| match value {
        Val::Num(Num::Int(number)) => *number as i64,
        // Beyond the range it is the end of the range.
        _ => float as i64,
    };
    let (dividend, divisor) = (exact(&left, l), exact(&right, r));
    if divisor == 0 {
        return Err(divisor_is_zero(&left, &right, "divided (remainder)"));
    }
    Ok(Val::Num(Num::Int(dividend.wrapping_rem(divisor) as isize)))
}

fn divisor_is_zero(left: &Val, right: &Val, how: &str) -> Error<Val> {
    let message = format_args!(
        "number ({}) and number ({}) cannot be {how} because the divisor is zero",
        shown(left),
        shown(right)
    );
    Error::str(message)
}

fn to_number(value: Val) -> Result<Val, Error<Val>> {
    let refused = |value: &Val| {
        Err(Error::str(format_args!("{} cannot be parsed as a number", shown(value))))
    };
    let text = match &value {
        Val::Num(_) => return Ok(value),
        Val::BStr(text) | Val::TStr(text) => std::str::from_utf8(text).unwrap_or_default(),
        _ => return refused(&value),
    };
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    if let Ok(number) = text.parse::<i64>() {
        return Ok(Val::Num(Num::from_integral(number)));
    }
    // Rust also reads names such as «inf» as floats.
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    match text.parse::<f64>() {
        Ok(number) if text.chars().all(is_number) => Ok(Val::Num(whole(number))),
        _ => refused(&value),
    }
}

/// Reads JSON; too deeply nested text is an error of the reader.
fn from_json(value: Val) -> Result<Val, Error<Val>> {
    let (Val::BStr(text) | Val::TStr(text)) = &value else {
        return Err(Error::str(format_args!("{} cannot be parsed as JSON", shown(&value))));
    };
    let read = serde_json::from_slice::<serde_json::Value>(text).or_else(|error| {
        let plain = with_plain_numbers(text).ok_or(error)?;
        serde_json::from_slice(&plain)
    });
    match read {
        Ok(read) => Ok(super::from_json(&read)),
        Err(error) => Err(Error::str(format_args!("{error} (while parsing {})", shown(&value)))),
    }
}

/// JSON whose numbers are written as jq reads them, too: `01`, `.5`, `1.` and `+1`.
fn with_plain_numbers(text: &[u8]) -> Option<Vec<u8>> {
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(first) = rest.first() {
        let length = match first {
            b'"' => {
                let mut is_escaped = false;
                let end = rest.iter().skip(1).position(|byte| {
                    let is_end = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    is_end
                });
                end? + 2
            }
            b'0'..=b'9' | b'.' | b'+' | b'-' => {
                let is_part = |byte: &u8| {
                    byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-' | b'e' | b'E')
                };
                let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                let number = std::str::from_utf8(&rest[..length]).ok()?;
                let written = match (number.parse::<i64>(), number.parse::<f64>()) {
                    (Ok(whole), _) => whole.to_string(),
                    (_, Ok(float)) if float.is_finite() => format!("{float:e}"),
                    _ => return None,
                };
                plain.extend_from_slice(written.as_bytes());
                rest = &rest[length..];
                continue;
            }
            _ => 1,
        };
        plain.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    Some(plain)
}

fn shown(value: &Val) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
