//! Updates as jq has them: a path that is not there yet is made.
//!
//! jaq updates in place, and refuses `{} | .a.b = 1`. So an update is one of each path of its left side
//! (`grow.rs`); jaq makes those of all elements (`.a[]`), of slices and of all that is inside.

use std::sync::Arc;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::{Opt, Part, Path};
use jaq_json::{Num, Val};

use super::terms::{self, call, pipe};

/// How an update is made.
pub(super) enum Way<'s> {
    /// By jaq, in one pass over what is updated.
    Pass(Term<&'s str>),
    /// Each path by itself, as jq does.
    Paths(Term<&'s str>),
    /// The paths of each element of what comes first.
    Elements(Term<&'s str>, Term<&'s str>),
}

/// How what is on the left side of an update is updated.
pub(super) fn way(left: Term<&str>) -> Way<'_> {
    if recurses(&left) {
        return Way::Pass(left);
    }
    let (begin, mut parts) = match left {
        Term::Path(begin, Path(parts)) if matches!(*begin, Term::Id) => (begin, parts),
        other => return Way::Paths(other),
    };
    let is_iteration =
        |(part, _): &(Part<Term<&str>>, Opt)| matches!(part, Part::Range(None, None));
    let path = |parts| Term::Path(begin.clone(), Path(parts));
    let Some(last) = parts.iter().rposition(is_iteration) else { return Way::Paths(path(parts)) };
    if last + 1 == parts.len() {
        return Way::Pass(path(parts));
    }
    if !parts[last + 1..].iter().all(is_fixed) {
        return Way::Paths(path(parts));
    }
    let own = parts.split_off(last + 1);
    Way::Elements(path(parts), path(own))
}

/// Whether a path visits all that is inside of a value, whose parts jaq updates from the inside out.
fn recurses(term: &Term<&str>) -> bool {
    match term {
        Term::Recurse => true,
        Term::Call(name, _) if name.starts_with("recurse") => true,
        other => terms::parts(other).into_iter().any(recurses),
    }
}

/// Whether a key is one value, whatever it is looked for in.
fn is_fixed((part, _): &(Part<Term<&str>>, Opt)) -> bool {
    let Part::Index(key) = part else { return false };
    match key {
        Term::Num(_) | Term::Var(_) => true,
        Term::Str(None, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Neg(inner) => matches!(**inner, Term::Num(_)),
        _ => false,
    }
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
