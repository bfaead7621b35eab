//! Limits of expressions: counting natives, inserted into a program before it is compiled.
//!
//! Every repetition passes one of them: each call of a definition, each element of a new array,
//! each number of a range. Values that can grow are checked after they have grown. An expression
//! that exceeds its limits is halted, which no `try` catches. The clock is not used, so that the
//! same expression has the same end everywhere.

use jaq_core::box_iter::box_once;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::{bome, v, Fun};
use jaq_core::path::Part;
use jaq_core::{Cv, Error, Exn, Native, ValXs};
use jaq_json::{Num, Val};

use super::budget::SIZE_MAX;
pub(super) use super::budget::{Budget, Limited, DEPTH_MAX, STACK_MAX};
use super::{numbers, regex, secrets, texts, update};

/// Maximum depth of the terms of an expression.
pub(super) const TERMS_MAX: usize = 256;

/// The exit code of what is halted; which limit it was is in [`Budget::tripped`].
const HALT: i32 = 1;

pub(super) fn halted<'a>() -> ValXs<'a, Val> {
    box_once(Err(Exn::halt(HALT)))
}

/// The natives that count, and those that replace others.
pub(super) fn natives() -> impl Iterator<Item = Fun<Limited>> {
    let others = numbers::natives().into_iter().chain(regex::natives());
    own().into_iter().chain(others).chain(secrets::natives()).chain(texts::natives())
}

/// Those of this file.
fn own() -> Vec<Fun<Limited>> {
    let tick =
        Native::<Limited>::new(
            |cv| {
                if cv.0.data().spend(1) {
                    box_once(Ok(cv.1))
                } else {
                    halted()
                }
            },
        );
    let tick = tick
        .with_paths(|cv| {
            if cv.0.data().spend(1) {
                box_once(Ok(cv.1))
            } else {
                box_once(Err(Exn::halt(HALT)))
            }
        })
        .with_update(|cv, update| if cv.0.data().spend(1) { update(cv.1) } else { halted() });
    vec![
        ("#tick", v(0), tick),
        (
            "#size",
            v(0),
            Native::new(|cv| if cv.0.data().bears(&cv.1) { box_once(Ok(cv.1)) } else { halted() }),
        ),
        ("#part", v(0), part()),
        ("#pairs", v(2), Native::<Limited>::new(|cv| pairs(cv))),
        ("#text", v(0), Native::<Limited>::new(|cv| text(cv))),
        ("#plain", v(0), Native::new(|cv| box_once(Ok(update::plain(cv.1))))),
        ("__set", v(2), Native::<Limited>::new(|cv| set(cv))),
        ("__delete", v(1), Native::<Limited>::new(|cv| delete(cv))),
        ("#times", v(2), Native::<Limited>::new(|cv| times(cv))),
        ("range", v(3), Native::<Limited>::new(|cv| range(cv))),
        ("now", v(0), Native::new(|cv| box_once(Ok(Val::Num(Num::Float(cv.0.data().now)))))),
    ]
}

/// Looks at a value that is copied or read as a whole: as a value, as what a path leads to, and
/// before an update.
fn part() -> Native<Limited> {
    Native::<Limited>::new(|cv| match cv.0.data().looks_at(&cv.1) {
        true => box_once(Ok(cv.1)),
        false => halted(),
    })
    .with_paths(|cv| match cv.0.data().looks_at(&cv.1 .0) {
        true => box_once(Ok(cv.1)),
        false => box_once(Err(Exn::halt(HALT))),
    })
    .with_update(|cv, update| if cv.0.data().looks_at(&cv.1) { update(cv.1) } else { halted() })
}

/// `#pairs(left; right)`: each element of one is compared with each of the other.
fn pairs(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    match cv.0.data().compares(&left, &right) {
        true => box_once(Ok(cv.1)),
        false => halted(),
    }
}

/// Whether a native reads its input and its arguments as a whole, or makes another one of them,
/// however long they are.
fn is_whole(name: &str) -> bool {
    let sorting = ["sort", "sort_by", "group_by", "min_by_or_empty", "max_by_or_empty"];
    let texts =
        ["ascii_downcase", "ascii_upcase", "startswith", "endswith", "trim", "ltrim", "rtrim"];
    let times = ["strftime", "strflocaltime", "strptime"];
    let is_code =
        ["escape_", "unescape_", "encode_", "decode_"].iter().any(|it| name.starts_with(it));
    is_code
        || name == "implode"
        || sorting.contains(&name)
        || texts.contains(&name)
        || times.contains(&name)
}

/// Whether a native makes a text of a value.
fn is_text(name: &str) -> bool {
    name.starts_with('@') || matches!(name, "tostring" | "tojson")
}

/// Whether a native can make a value that is much larger than its input.
fn grows(name: &str) -> bool {
    matches!(name, "fromjson" | "explode" | "tobytes" | "keys_unsorted" | "__set" | "__delete")
}

/// Natives and definitions that reach outside of the expression, end the process, or are other
/// ones here.
pub(super) fn is_foreign(name: &str) -> bool {
    let foreign = [
        "halt",
        "halt_error",
        "env",
        "now",
        "range",
        "debug",
        "debug_empty",
        "stderr",
        "stderr_empty",
        "input",
        "inputs",
        "input_line_number",
    ];
    foreign.contains(&name)
        || numbers::is_replaced(name)
        || regex::is_replaced(name)
        || texts::is_replaced(name)
}

/// The characters of a text are counted one by one; the elements of a list are not.
fn text(cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let is_text = matches!(cv.1, Val::BStr(_) | Val::TStr(_));
    match !is_text || cv.0.data().looks_at(&cv.1) {
        true => box_once(Ok(cv.1)),
        false => halted(),
    }
}

/// A product of a text and a number is as long as both say.
fn times(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    let length = |value: &Val| match value {
        Val::BStr(text) | Val::TStr(text) => Some(text.len() as f64),
        _ => None,
    };
    let number = |value: &Val| match value {
        Val::Num(Num::Int(number)) => Some(*number as f64),
        Val::Num(Num::Float(number)) => Some(*number),
        Val::Num(_) => Some(f64::INFINITY),
        _ => None,
    };
    let product = length(&left).zip(number(&right)).or(length(&right).zip(number(&left)));
    if product.is_some_and(|(length, number)| length * number > SIZE_MAX as f64) {
        cv.0.data().trip("a value becomes too large");
        return halted();
    }
    box_once(Ok(cv.1))
}

/// `__set(path; value)`.
fn set(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (value, path) = (cv.0.pop_var(), cv.0.pop_var());
    let Val::Arr(path) = path else { return bome(Err(Error::str("a path is an array"))) };
    bome(update::set(cv.1, &path, value))
}

/// `__delete(path)`.
fn delete(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let Val::Arr(path) = cv.0.pop_var() else { return bome(Err(Error::str("a path is an array"))) };
    box_once(Ok(update::delete(cv.1, &path)))
}

/// `range(from; to; by)`, which counts.
fn range(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (by, to, from) = (cv.0.pop_var(), cv.0.pop_var(), cv.0.pop_var());
    let budget = *cv.0.data();
    let is_up = by > Val::from(0_isize);
    let is_down = by < Val::from(0_isize);
    let mut next = Some(from);
    Box::new(std::iter::from_fn(move || {
        let here = next.take()?;
        let goes_on = if is_up { here < to } else { is_down && here > to };
        if !goes_on {
            return None;
        }
        if !budget.spend(1) {
            return Some(Err(Exn::halt(HALT)));
        }
        match here.clone() + by.clone() {
            Ok(following) => next = Some(following),
            Err(error) => return Some(Err(error.into())),
        }
        Some(Ok(here))
    }))
}

/// Why a term is refused.
#[derive(Debug)]
pub(super) struct TooDeep(pub(super) &'static str);

/// Terms are nested deeper than [`TERMS_MAX`].
const NESTED: TooDeep = TooDeep("the expression is nested too deep");

/// Each call would put another filter around the one that it was given: a chain that nothing bounds.
const CHAIN: TooDeep =
    TooDeep("a definition that is given a filter cannot call itself with another one");

/// Whether a term calls a definition with other filters than those that it was given itself.
fn chains<'s>(term: &Term<&'s str>, name: &str, given: &[&'s str]) -> bool {
    let inside = |inner: &Term<&'s str>| chains(inner, name, given);
    match term {
        Term::Call(called, arguments) => {
            let is_itself = *called == name && arguments.len() == given.len();
            let is_given = |(argument, given): (&Term<&'s str>, &&'s str)| {
                given.starts_with('$')
                    || matches!(argument, Term::Call(passed, none) if passed == given && none.is_empty())
            };
            (is_itself && !arguments.iter().zip(given).all(is_given))
                || arguments.iter().any(inside)
        }
        Term::Str(_, parts) => parts.iter().any(|part| match part {
            StrPart::Term(inner) => inside(inner),
            _ => false,
        }),
        Term::Arr(inner) => inner.as_deref().is_some_and(inside),
        Term::Obj(fields) => {
            fields.iter().any(|(key, value)| inside(key) || value.as_ref().is_some_and(inside))
        }
        Term::Neg(inner) | Term::Label(_, inner) => inside(inner),
        Term::BinOp(left, _, right) => inside(left) || inside(right),
        Term::Fold(_, source, _, rest) => inside(source) || rest.iter().any(inside),
        Term::TryCatch(inner, handler) => inside(inner) || handler.as_deref().is_some_and(inside),
        Term::IfThenElse(branches, otherwise) => {
            branches.iter().any(|(test, then)| inside(test) || inside(then))
                || otherwise.as_deref().is_some_and(inside)
        }
        Term::Def(defs, rest) => defs.iter().any(|def| inside(&def.body)) || inside(rest),
        Term::Path(inner, path) => {
            inside(inner)
                || path.0.iter().any(|(part, _)| match part {
                    Part::Index(index) => inside(index),
                    Part::Range(from, to) => {
                        from.as_ref().is_some_and(inside) || to.as_ref().is_some_and(inside)
                    }
                })
        }
        _ => false,
    }
}

/// Puts the natives that count into a definition.
pub(super) fn def(def: Def<&str>, depth: usize) -> Result<Def<&str>, TooDeep> {
    if chains(&def.body, def.name, &def.args) {
        return Err(CHAIN);
    }
    let body = term(def.body, depth + 1)?;
    Ok(Def { body: pipe(call("#tick"), body), ..def })
}

pub(super) fn call(name: &str) -> Term<&str> {
    Term::Call(name, Vec::new())
}

pub(super) fn pipe<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

pub(super) fn bound<'s>(value: Term<&'s str>, name: &'s str, rest: Term<&'s str>) -> Term<&'s str> {
    let pattern = Some(Pattern::Var(name));
    Term::BinOp(Box::new(value), BinaryOp::Pipe(pattern), Box::new(rest))
}

/// Puts them into a term.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of term")]
pub(super) fn term<'s>(term_: Term<&'s str>, depth: usize) -> Result<Term<&'s str>, TooDeep> {
    if depth > TERMS_MAX {
        return Err(NESTED);
    }
    let inside = |inner: Term<&'s str>| term(inner, depth + 1);
    let boxed = |inner: Box<Term<&'s str>>| inside(*inner).map(Box::new);
    let all =
        |terms: Vec<Term<&'s str>>| terms.into_iter().map(inside).collect::<Result<Vec<_>, _>>();
    Ok(match term_ {
        Term::Arr(Some(inner)) => {
            let counted = pipe(inside(*inner)?, call("#tick"));
            pipe(Term::Arr(Some(Box::new(counted))), call("#size"))
        }
        Term::Obj(fields) => {
            let fields = fields
                .into_iter()
                .map(|(key, value)| Ok((inside(key)?, value.map(inside).transpose()?)));
            pipe(Term::Obj(fields.collect::<Result<_, _>>()?), call("#size"))
        }
        Term::Str(format, parts) => {
            let is_fixed = parts.iter().all(|part| !matches!(part, StrPart::Term(_)));
            let parts = parts.into_iter().map(|part| {
                Ok(match part {
                    StrPart::Term(inner) => StrPart::Term(pipe(inside(inner)?, call("#plain"))),
                    other => other,
                })
            });
            let text = Term::Str(format, parts.collect::<Result<_, _>>()?);
            if is_fixed {
                text
            } else {
                pipe(text, call("#size"))
            }
        }
        Term::Neg(inner) => Term::Neg(boxed(inner)?),
        Term::BinOp(left, operator, right) => {
            binary(boxed(left)?, pattern_of(operator, depth)?, boxed(right)?)
        }
        Term::Label(name, inner) => Term::Label(name, boxed(inner)?),
        Term::Fold(name, source, pattern_, rest) => {
            let source = pipe(inside(*source)?, call("#tick"));
            Term::Fold(name, Box::new(source), pattern(pattern_, depth)?, all(rest)?)
        }
        Term::TryCatch(inner, handler) => {
            Term::TryCatch(boxed(inner)?, handler.map(boxed).transpose()?)
        }
        Term::IfThenElse(branches, otherwise) => {
            let branches =
                branches.into_iter().map(|(test, then)| Ok((inside(test)?, inside(then)?)));
            let branches = branches.collect::<Result<_, _>>()?;
            Term::IfThenElse(branches, otherwise.map(boxed).transpose()?)
        }
        Term::Def(defs, rest) => {
            let defs = defs.into_iter().map(|inner| def(inner, depth + 1));
            Term::Def(defs.collect::<Result<_, _>>()?, boxed(rest)?)
        }
        Term::Call(name, arguments) if arguments.is_empty() && is_text(name) => {
            pipe(call("#plain"), pipe(Term::Call(name, arguments), call("#size")))
        }
        Term::Call(name, mut arguments)
            if matches!(name, "contains" | "indices") && arguments.len() == 1 =>
        {
            let (own, other) = (Term::Id, Term::Var("$#c"));
            let compared = Term::Call("#pairs", vec![own, other.clone()]);
            let call_ = pipe(compared, pipe(Term::Call(name, vec![other]), call("#size")));
            bound(inside(arguments.remove(0))?, "$#c", call_)
        }
        Term::Call("length", none) if none.is_empty() => {
            pipe(call("#text"), Term::Call("length", none))
        }
        Term::Call(name, arguments) if is_whole(name) => {
            let arguments = all(arguments)?.into_iter().map(|it| pipe(it, call("#part")));
            let made = pipe(Term::Call(name, arguments.collect()), call("#part"));
            pipe(call("#part"), made)
        }
        Term::Call(name, arguments) if grows(name) => {
            pipe(Term::Call(name, all(arguments)?), call("#size"))
        }
        Term::Call(name, arguments) => Term::Call(name, all(arguments)?),
        Term::Path(inner, path) => {
            let parts = path.0.into_iter().map(|(part, optional)| {
                let part = match part {
                    Part::Index(index) => Part::Index(inside(index)?),
                    Part::Range(from, to) => {
                        Part::Range(from.map(inside).transpose()?, to.map(inside).transpose()?)
                    }
                };
                Ok((part, optional))
            });
            match secrets::path(*inner, parts.collect::<Result<_, _>>()?) {
                Ok(checked) => checked,
                Err((inner, parts)) => {
                    let is_open =
                        |part: &Part<_>| matches!(part, Part::Range(None, None) | Part::Index(_));
                    let is_slice = !parts.iter().all(|(part, _)| is_open(part));
                    let path = update::sliced(boxed(Box::new(inner))?, parts);
                    if is_slice {
                        pipe(path, call("#part"))
                    } else {
                        path
                    }
                }
            }
        }
        Term::Var(name) => secrets::variable(name),
        other => other,
    })
}

fn pattern(pattern_: Pattern<&str>, depth: usize) -> Result<Pattern<&str>, TooDeep> {
    if depth > TERMS_MAX {
        return Err(NESTED);
    }
    Ok(match pattern_ {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(inner) => Pattern::Arr(
            inner.into_iter().map(|p| pattern(p, depth + 1)).collect::<Result<_, _>>()?,
        ),
        Pattern::Obj(fields) => {
            let fields = fields
                .into_iter()
                .map(|(key, p)| Ok((term(key, depth + 1)?, pattern(p, depth + 1)?)));
            Pattern::Obj(fields.collect::<Result<_, _>>()?)
        }
    })
}

fn pattern_of(operator: BinaryOp<&str>, depth: usize) -> Result<BinaryOp<&str>, TooDeep> {
    Ok(match operator {
        BinaryOp::Pipe(Some(p)) => BinaryOp::Pipe(Some(pattern(p, depth + 1)?)),
        other => other,
    })
}

/// An operator whose result can be larger than what it is made of is looked at.
fn binary<'s>(
    left: Box<Term<&'s str>>,
    operator: BinaryOp<&'s str>,
    right: Box<Term<&'s str>>,
) -> Term<&'s str> {
    if let Some(update) = update::known(&left, &operator, &right) {
        return pipe(update, call("#size"));
    }
    match operator {
        BinaryOp::Math(math) => numbers::arithmetic(*left, math, *right),
        BinaryOp::UpdateMath(math) => {
            // `l += r` is `r as $x | l |= . + $x`.
            let changed =
                binary(Box::new(Term::Id), BinaryOp::Math(math), Box::new(Term::Var("$#u")));
            let update = Term::BinOp(left, BinaryOp::Update, Box::new(changed));
            bound(*right, "$#u", pipe(update, call("#size")))
        }
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateAlt => {
            pipe(Term::BinOp(left, operator, right), call("#size"))
        }
        BinaryOp::Cmp(_) => {
            let looked_at = |side: Box<Term<&'s str>>| match *side {
                Term::Num(_) => side,
                side => Box::new(pipe(side, call("#part"))),
            };
            Term::BinOp(looked_at(left), operator, looked_at(right))
        }
        other => Term::BinOp(left, other, right),
    }
}
