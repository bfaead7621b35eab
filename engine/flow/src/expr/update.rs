//! Updates as jq has them: a path that is not there yet is made.
//!
//! jaq updates in place, and refuses `{} | .a.b = 1`. So an update whose path is known when it is read
//! (`.a.b`, `.[0]`, `.a[].b`) becomes one of a path that is set; all others are jaq's.

use std::sync::Arc;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::{Opt, Part, Path};
use jaq_core::Error;
use jaq_json::{Num, Val};

use super::limit::{bound, call, pipe};
use super::numbers;

/// Elements of nothing that are put before an element that is set.
const PADDING_MAX: usize = 100_000;

/// A path whose keys are known, after an iteration perhaps.
struct Known<'s> {
    /// The iterated term, if there is one.
    before: Option<Term<&'s str>>,
    /// An array of keys.
    keys: Term<&'s str>,
}

/// The update of a path that is known; nothing for other ones.
pub(super) fn known<'s>(
    left: &Term<&'s str>,
    operator: &BinaryOp<&'s str>,
    right: &Term<&'s str>,
) -> Option<Term<&'s str>> {
    let Known { before, keys } = path(left)?;
    let value = || Box::new(Term::Var("$#v"));
    let changed = |operator| Term::BinOp(Box::new(Term::Id), operator, value());
    let change = match operator {
        BinaryOp::Update => right.clone(),
        BinaryOp::Assign => *value(),
        BinaryOp::UpdateMath(math) => numbers::arithmetic(Term::Id, *math, *value()),
        BinaryOp::UpdateAlt => changed(BinaryOp::Alt),
        _ => return None,
    };
    let update = Term::Call("__update", vec![keys, change]);
    let update = match before {
        Some(before) => Term::BinOp(Box::new(before), BinaryOp::Update, Box::new(update)),
        None => update,
    };
    if matches!(operator, BinaryOp::Update) {
        return Some(update);
    }
    // The right side sees what the whole sees.
    Some(bound(right.clone(), "$#v", update))
}

fn path<'s>(left: &Term<&'s str>) -> Option<Known<'s>> {
    let Term::Path(begin, Path(parts)) = left else { return None };
    if !matches!(**begin, Term::Id) {
        return None;
    }
    let is_iteration =
        |(part, _): &(Part<Term<&'s str>>, Opt)| matches!(part, Part::Range(None, None));
    let split = parts.iter().rposition(is_iteration).map_or(0, |last| last + 1);
    let (before, own) = parts.split_at(split);
    let keys: Option<Vec<_>> = own.iter().map(key).collect();
    let keys = keys.filter(|keys| !keys.is_empty())?;
    let list = keys
        .into_iter()
        .reduce(|list, key| Term::BinOp(Box::new(list), BinaryOp::Comma, Box::new(key)))?;
    let before =
        (!before.is_empty()).then(|| Term::Path(Box::new(Term::Id), Path(before.to_vec())));
    Some(Known { before, keys: Term::Arr(Some(Box::new(list))) })
}

/// A key that is one value, wherever it is looked at.
fn key<'s>((part, optional): &(Part<Term<&'s str>>, Opt)) -> Option<Term<&'s str>> {
    let Part::Index(key) = part else { return None };
    let is_fixed = |term: &Term<&'s str>| match term {
        Term::Num(_) | Term::Var(_) => true,
        Term::Str(None, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Neg(inner) => matches!(**inner, Term::Num(_)),
        _ => false,
    };
    (matches!(optional, Opt::Essential) && is_fixed(key)).then(|| key.clone())
}

pub(super) type Parts<'s> = Vec<(Part<Term<&'s str>>, Opt)>;

/// A path, whose slices with fixed ends give nothing of nothing.
pub(super) fn sliced<'s>(inner: Box<Term<&'s str>>, parts: Parts<'s>) -> Term<&'s str> {
    let is_fixed = |end: &Option<Term<&'s str>>| match end {
        None | Some(Term::Num(_) | Term::Var(_)) => true,
        Some(Term::Neg(number)) => matches!(**number, Term::Num(_)),
        Some(_) => false,
    };
    let is_slice = |(part, _): &(Part<Term<&'s str>>, Opt)| match part {
        Part::Range(None, None) | Part::Index(_) => false,
        Part::Range(from, to) => is_fixed(from) && is_fixed(to),
    };
    // The part after a slice sees another value: its keys must be fixed, too.
    let Some(at) = parts.iter().position(is_slice).filter(|at| at + 1 == parts.len()) else {
        return Term::Path(inner, Path(parts));
    };
    let (before, slice) = parts.split_at(at);
    let whole = match before {
        [] => *inner,
        before => Term::Path(inner, Path(before.to_vec())),
    };
    let is_nothing =
        Term::BinOp(Box::new(Term::Id), BinaryOp::Cmp(Cmp::Eq), Box::new(call("null")));
    let slice = Term::Path(Box::new(Term::Id), Path(slice.to_vec()));
    let checked = Term::IfThenElse(vec![(is_nothing, Term::Id)], Some(Box::new(slice)));
    pipe(whole, checked)
}

/// A value with another one at a path.
pub(super) fn set(value: Val, path: &[Val], new: Val) -> Result<Val, Error<Val>> {
    let Some((key, rest)) = path.split_first() else { return Ok(new) };
    match (value, key) {
        (value @ (Val::Null | Val::Obj(_)), Val::TStr(_) | Val::BStr(_)) => {
            let mut fields = match value {
                Val::Obj(fields) => fields,
                _ => Default::default(),
            };
            let own = Arc::make_mut(&mut fields);
            let before = own.get_mut(key).map(std::mem::take).unwrap_or_default();
            own.insert(key.clone(), set(before, rest, new)?);
            Ok(Val::Obj(fields))
        }
        (value @ (Val::Null | Val::Arr(_)), Val::Num(number)) => {
            let mut elements = match value {
                Val::Arr(elements) => elements,
                _ => Default::default(),
            };
            let place = place(number, elements.len())?;
            let own = Arc::make_mut(&mut elements);
            if place >= own.len() {
                own.resize(place + 1, Val::Null);
            }
            let before = std::mem::take(&mut own[place]);
            own[place] = set(before, rest, new)?;
            Ok(Val::Arr(elements))
        }
        (value, key) => Err(Error::index(value, key.clone())),
    }
}

fn place(number: &Num, length: usize) -> Result<usize, Error<Val>> {
    let whole = match number {
        Num::Int(whole) => *whole,
        Num::Float(float) => *float as isize,
        _ => isize::MAX,
    };
    let place = if whole < 0 { whole.checked_add_unsigned(length) } else { Some(whole) };
    match place.and_then(|place| usize::try_from(place).ok()) {
        Some(place) if place < length + PADDING_MAX => Ok(place),
        Some(_) => Err(Error::str("the place in the array is too far")),
        None => Err(Error::str("the place in the array is before its begin")),
    }
}

/// A value without the part at a path; a missing part is no error.
pub(super) fn delete(value: Val, path: &[Val]) -> Val {
    let Some((key, rest)) = path.split_first() else { return Val::Null };
    match (value, key) {
        (Val::Obj(mut fields), Val::TStr(_) | Val::BStr(_)) => {
            let own = Arc::make_mut(&mut fields);
            if rest.is_empty() {
                own.shift_remove(key);
            } else if let Some(inner) = own.get_mut(key) {
                *inner = delete(std::mem::take(inner), rest);
            }
            Val::Obj(fields)
        }
        (Val::Arr(mut elements), Val::Num(number)) => {
            let own = Arc::make_mut(&mut elements);
            if let Some(place) = place(number, own.len()).ok().filter(|place| *place < own.len()) {
                if rest.is_empty() {
                    own.remove(place);
                } else {
                    own[place] = delete(std::mem::take(&mut own[place]), rest);
                }
            }
            Val::Arr(elements)
        }
        (Val::Arr(mut elements), Val::Obj(slice)) if rest.is_empty() => {
            let own = Arc::make_mut(&mut elements);
            let end = |name: &str, default: usize| {
                let value = slice.get(&Val::utf8_str(name.to_owned().into_bytes()));
                match value {
                    Some(Val::Num(number)) => place(number, own.len()).unwrap_or(0).min(own.len()),
                    _ => default,
                }
            };
            let (from, to) = (end("start", 0), end("end", own.len()));
            own.drain(from..to.max(from));
            Val::Arr(elements)
        }
        (value, _) => value,
    }
}

/// Numbers as jq writes them: whole ones without a fraction, an infinite one as the largest there
/// is, and
/// none as `null`.
pub(super) fn plain(value: Val) -> Val {
    match value {
        Val::Num(Num::Float(float)) if float.is_nan() => Val::Null,
        Val::Num(Num::Float(float)) if float.is_infinite() => {
            Val::Num(Num::Float(f64::MAX.copysign(float)))
        }
        Val::Num(Num::Float(float)) if float.fract() == 0.0 && float.abs() < 1e17 => {
            Val::Num(Num::Int(float as isize))
        }
        Val::Num(Num::Dec(text)) => match text.parse::<f64>() {
            Ok(float) => plain(Val::Num(Num::Float(float))),
            Err(_) => Val::Num(Num::Dec(text)),
        },
        Val::Arr(elements) if elements.iter().any(is_marked) => {
            Val::Arr(Arc::new(elements.iter().cloned().map(plain).collect()))
        }
        Val::Obj(fields) if fields.values().any(is_marked) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), plain(value.clone())));
            Val::obj(fields.collect())
        }
        other => other,
    }
}

fn is_marked(value: &Val) -> bool {
    match value {
        Val::Num(number) => !matches!(number, Num::Int(_) | Num::BigInt(_)),
        Val::Arr(elements) => elements.iter().any(is_marked),
        Val::Obj(fields) => fields.values().any(is_marked),
        _ => false,
    }
}
