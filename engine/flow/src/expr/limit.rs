//! Limits of expressions: counting natives, inserted into a program before it is compiled.
//!
//! Every repetition passes one of them: each call of a definition, each element of a new array,
//! each number of a range, each further result of a comma, an iteration or `..`, each filter that
//! is made of filters and handed on. Values that can grow are checked after they have grown. An expression
//! that exceeds its limits is halted, which no `try` catches. The clock is not used, so that the
//! same expression has the same end everywhere.

use jaq_core::box_iter::box_once;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::native::{v, Fun};
use jaq_core::path::{Part, Path};
use jaq_core::{Cv, Exn, Native, ValXs};
use jaq_json::{Num, Val};

use super::budget::SIZE_MAX;
pub(super) use super::budget::{Budget, Limited, DEPTH_MAX, STACK_MAX};
use super::terms::{bound, call, is_literal, pipe};
use super::update::Way;
use super::weight::TOO_DEEP;
use super::{grow, numbers, regex, secrets, texts, update};

/// Maximum depth of the terms of an expression.
pub(super) const TERMS_MAX: usize = 256;

/// Keys of a path while it is looked for.
const PATH_MAX: usize = 2 * DEPTH_MAX;

/// Further steps for a call of a definition that calls itself. Each call can leave a generator of some
/// 400 bytes behind, which goes on when the call is over.
const AGAIN_STEPS: u64 = 3;

/// The exit code of what is halted; which limit it was is in [`Budget::tripped`].
pub(super) const HALT: i32 = 1;

pub(super) fn halted<'a>() -> ValXs<'a, Val> {
    box_once(Err(Exn::halt(HALT)))
}

/// The natives that count, and those that replace others.
pub(super) fn natives() -> impl Iterator<Item = Fun<Limited>> {
    let others = numbers::natives().into_iter().chain(regex::natives());
    let others = others.chain(secrets::natives()).chain(texts::natives()).chain(grow::natives());
    own().into_iter().chain(others)
}

/// Those of this file.
fn own() -> Vec<Fun<Limited>> {
    vec![
        ("#tick", v(0), tick::<1>()),
        ("#again", v(0), tick::<AGAIN_STEPS>()),
        ("#size", v(0), Native::new(|cv| counted(cv.0.data().bears(&cv.1), cv.1))),
        ("#part", v(0), part()),
        ("#each", v(0), each()),
        ("#key", v(0), Native::<Limited>::new(|cv| counted(cv.0.data().searches(&cv.1), cv.1))),
        ("#pairs", v(2), Native::<Limited>::new(|cv| pairs(cv))),
        ("#text", v(0), Native::<Limited>::new(|cv| text(cv))),
        ("#plain", v(0), Native::new(|cv| box_once(Ok(update::plain(cv.1))))),
        ("#times", v(2), Native::<Limited>::new(|cv| times(cv))),
        ("range", v(3), Native::<Limited>::new(|cv| range(cv))),
        ("now", v(0), Native::new(|cv| box_once(Ok(Val::Num(Num::Float(cv.0.data().now)))))),
    ]
}

/// The value, unless there are no steps left.
fn counted<'a>(is_bearable: bool, value: Val) -> ValXs<'a, Val> {
    if is_bearable {
        box_once(Ok(value))
    } else {
        halted()
    }
}

/// Counts a call, or an element, for so many steps. Where paths are looked for, their length is bounded: there is no
/// value as deep, and jaq frees the keys of a path one inside of the other.
fn tick<const STEPS: u64>() -> Native<Limited> {
    Native::<Limited>::new(|cv| counted(cv.0.data().spend(STEPS), cv.1))
        .with_paths(|cv| {
            let is_long = cv.1 .1.iter().nth(PATH_MAX).is_some();
            let is_bearable =
                if is_long { cv.0.data().trip(TOO_DEEP) } else { cv.0.data().spend(STEPS) };
            match is_bearable {
                true => box_once(Ok(cv.1)),
                false => box_once(Err(Exn::halt(HALT))),
            }
        })
        .with_update(|cv, update| if cv.0.data().spend(STEPS) { update(cv.1) } else { halted() })
}

/// Looks at a value that is copied or read as a whole: as a value, as what a path leads to, and
/// before an update.
fn part() -> Native<Limited> {
    Native::<Limited>::new(|cv| counted(cv.0.data().looks_at(&cv.1), cv.1))
        .with_paths(|cv| match cv.0.data().looks_at(&cv.1 .0) {
            true => box_once(Ok(cv.1)),
            false => box_once(Err(Exn::halt(HALT))),
        })
        .with_update(|cv, update| if cv.0.data().looks_at(&cv.1) { update(cv.1) } else { halted() })
}

/// Counts the elements of a list that is gone through, likewise.
fn each() -> Native<Limited> {
    Native::<Limited>::new(|cv| counted(cv.0.data().passes(&cv.1), cv.1))
        .with_paths(|cv| match cv.0.data().passes(&cv.1 .0) {
            true => box_once(Ok(cv.1)),
            false => box_once(Err(Exn::halt(HALT))),
        })
        .with_update(|cv, update| if cv.0.data().passes(&cv.1) { update(cv.1) } else { halted() })
}

/// `#pairs(left; right)`: each element of one is compared with each of the other.
fn pairs(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
    counted(cv.0.data().compares(&left, &right), cv.1)
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
    matches!(name, "fromjson" | "explode" | "tobytes" | "keys_unsorted" | "key_values")
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
        || grow::is_replaced(name)
}

/// The characters of a text are counted one by one; the elements of a list are not.
fn text(cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let is_text = matches!(cv.1, Val::BStr(_) | Val::TStr(_));
    counted(!is_text || cv.0.data().looks_at(&cv.1), cv.1)
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
pub(super) struct Refused(pub(super) &'static str);

/// Terms are nested deeper than [`TERMS_MAX`].
const NESTED: Refused = Refused("the expression is nested too deep");

/// Puts the natives that count into a definition.
pub(super) fn def(def: Def<&str>, depth: usize) -> Result<Def<&str>, Refused> {
    let body = term(def.body, depth + 1)?;
    // These words are values, whatever is defined.
    let is_value = matches!(def.name, "null" | "true" | "false") && def.args.is_empty();
    let name = if is_value && depth > 0 { "#value" } else { def.name };
    Ok(Def { body: pipe(call("#tick"), body), name, ..def })
}

/// Puts them into a term.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of term")]
pub(super) fn term<'s>(term_: Term<&'s str>, depth: usize) -> Result<Term<&'s str>, Refused> {
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
        Term::BinOp(left, operator, right) if is_update(&operator) => {
            // Each part is read once: twice at each level would take for ever.
            let way = match update::way(*left) {
                Way::Pass(left) => Way::Pass(inside(left)?),
                Way::Paths(paths) => Way::Paths(inside(paths)?),
                Way::Elements(before, paths) => Way::Elements(inside(before)?, inside(paths)?),
            };
            updated(way, operator, inside(*right)?)
        }
        Term::BinOp(left, operator, right) => {
            binary(boxed(left)?, pattern_of(operator, depth)?, boxed(right)?)
        }
        Term::Label(name, inner) => Term::Label(name, boxed(inner)?),
        Term::Fold(name, source, pattern_, rest) => {
            let source = pipe(inside(*source)?, call("#tick"));
            // The first one of the rest is the begin, and the others are repeated.
            let rest = all(rest)?.into_iter().enumerate().map(|(at, it)| match at {
                0 => it,
                _ => pipe(call("#tick"), it),
            });
            Term::Fold(name, Box::new(source), pattern(pattern_, depth)?, rest.collect())
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
            let is_time = matches!(name, "strftime" | "strflocaltime" | "strptime");
            let checked = |it| pipe(it, call("#part"));
            let arguments = all(arguments)?.into_iter().map(|it| match is_time {
                true => pipe(checked(it), call("#format")),
                false => checked(it),
            });
            let made = pipe(Term::Call(name, arguments.collect()), call("#part"));
            pipe(call("#part"), made)
        }
        Term::Call(name, arguments) if grows(name) => {
            pipe(Term::Call(name, all(arguments)?), call("#size"))
        }
        Term::Call(name, arguments) => Term::Call(name, all(arguments)?),
        Term::Path(_, path) if path.0.len() > TERMS_MAX => return Err(NESTED),
        Term::Path(inner, path) => {
            let parts = path.0.into_iter().map(|(part, optional)| {
                let part = match part {
                    Part::Index(index) if is_literal(&index) => Part::Index(index),
                    Part::Index(index) => Part::Index(pipe(inside(index)?, call("#key"))),
                    Part::Range(from, to) => {
                        Part::Range(from.map(inside).transpose()?, to.map(inside).transpose()?)
                    }
                };
                Ok((part, optional))
            });
            match secrets::path(*inner, parts.collect::<Result<_, _>>()?) {
                Ok(checked) => checked,
                Err((inner, parts)) => path_of(*boxed(Box::new(inner))?, parts),
            }
        }
        Term::Var(secrets::SECRETS) => return Err(secrets::ALL),
        Term::Recurse => pipe(Term::Recurse, call("#tick")),
        other => other,
    })
}

fn pattern(pattern_: Pattern<&str>, depth: usize) -> Result<Pattern<&str>, Refused> {
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

fn pattern_of(operator: BinaryOp<&str>, depth: usize) -> Result<BinaryOp<&str>, Refused> {
    Ok(match operator {
        BinaryOp::Pipe(Some(p)) => BinaryOp::Pipe(Some(pattern(p, depth + 1)?)),
        other => other,
    })
}

/// A path, which counts slices, and lists that it goes through.
fn path_of<'s>(inner: Term<&'s str>, parts: update::Parts<'s>) -> Term<&'s str> {
    let is_open = |part: &Part<_>| matches!(part, Part::Range(None, None) | Part::Index(_));
    if !parts.iter().all(|(part, _)| is_open(part)) {
        return pipe(update::sliced(Box::new(inner), parts), call("#part"));
    }
    let (mut whole, mut own) = (inner, Vec::new());
    for (part, optional) in parts {
        if matches!(part, Part::Range(..)) {
            let before = match own.is_empty() {
                true => whole,
                false => Term::Path(Box::new(whole), Path(std::mem::take(&mut own))),
            };
            whole = pipe(before, call("#each"));
        }
        own.push((part, optional));
    }
    Term::Path(Box::new(whole), Path(own))
}

fn is_update(operator: &BinaryOp<&str>) -> bool {
    matches!(
        operator,
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt
    )
}

/// An update: what changes the value at a path, and how the paths are found.
fn updated<'s>(way: Way<'s>, operator: BinaryOp<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    let (own, other) = (|| Box::new(Term::Id), || Box::new(Term::Var("$#u")));
    let (change, named) = match operator {
        BinaryOp::UpdateMath(math) => (numbers::arithmetic(Term::Id, math, *other()), Some(right)),
        BinaryOp::UpdateAlt => (Term::BinOp(own(), BinaryOp::Alt, other()), Some(right)),
        BinaryOp::Assign => (*other(), Some(right)),
        _ => (right, None),
    };
    let modify = |paths, change| Term::Call("#modify", vec![paths, change]);
    let passed = |left: Term<&'s str>, change| {
        pipe(Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(change)), call("#size"))
    };
    let update = match way {
        Way::Paths(paths) => modify(paths, change),
        Way::Elements(before, paths) => passed(before, modify(paths, change)),
        Way::Pass(left) => passed(left, change),
    };
    match named {
        // The right side sees what the whole sees.
        Some(right) => bound(right, "$#u", update),
        None => update,
    }
}

/// An operator whose result can be larger than what it is made of is looked at.
fn binary<'s>(
    left: Box<Term<&'s str>>,
    operator: BinaryOp<&'s str>,
    right: Box<Term<&'s str>>,
) -> Term<&'s str> {
    match operator {
        BinaryOp::Math(math) => numbers::arithmetic(*left, math, *right),
        // To compare with a short value takes no time.
        BinaryOp::Cmp(_) if !is_literal(&left) && !is_literal(&right) => {
            let looked_at = |side: Box<Term<&'s str>>| Box::new(pipe(*side, call("#part")));
            Term::BinOp(looked_at(left), operator, looked_at(right))
        }
        // Pipes of them multiply their results.
        BinaryOp::Comma => {
            Term::BinOp(left, BinaryOp::Comma, Box::new(pipe(call("#tick"), *right)))
        }
        other => Term::BinOp(left, other, right),
    }
}
