//! Terms of expressions: their parts, and small ones that are made.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::path::Part;

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

/// Whether a term is a value that is written down, and no list.
pub(super) fn is_literal(term: &Term<&str>) -> bool {
    match term {
        Term::Num(_) => true,
        Term::Str(None, parts) => parts.iter().all(|part| !matches!(part, StrPart::Term(_))),
        Term::Call("null" | "true" | "false", none) => none.is_empty(),
        _ => false,
    }
}

/// Whether a term calls a definition with other filters than those that it was given itself.
pub(super) fn chains<'s>(term: &Term<&'s str>, name: &str, given: &[&'s str]) -> bool {
    let is_chain = match term {
        Term::Call(called, arguments) => {
            let is_itself = *called == name && arguments.len() == given.len();
            let is_given = |(argument, given): (&Term<&'s str>, &&'s str)| {
                given.starts_with('$')
                    || matches!(argument, Term::Call(passed, none) if passed == given && none.is_empty())
            };
            is_itself && !arguments.iter().zip(given).all(is_given)
        }
        _ => false,
    };
    is_chain || parts(term).into_iter().any(|inner| chains(inner, name, given))
}

/// The terms that are directly inside of a term.
pub(super) fn parts<'t, 's>(term: &'t Term<&'s str>) -> Vec<&'t Term<&'s str>> {
    match term {
        Term::Call(_, arguments) => arguments.iter().collect(),
        Term::Str(_, parts) => {
            let inner = parts.iter().filter_map(|part| match part {
                StrPart::Term(inner) => Some(inner),
                _ => None,
            });
            inner.collect()
        }
        Term::Arr(inner) => inner.as_deref().into_iter().collect(),
        Term::Obj(fields) => {
            fields.iter().flat_map(|(key, value)| std::iter::once(key).chain(value)).collect()
        }
        Term::Neg(inner) | Term::Label(_, inner) => vec![inner],
        Term::BinOp(left, _, right) => vec![left, right],
        Term::Fold(_, source, _, rest) => std::iter::once(&**source).chain(rest).collect(),
        Term::TryCatch(inner, handler) => {
            std::iter::once(&**inner).chain(handler.as_deref()).collect()
        }
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.iter().flat_map(|(test, then)| [test, then]);
            branches.chain(otherwise.as_deref()).collect()
        }
        Term::Def(defs, rest) => {
            defs.iter().map(|def| &def.body).chain(std::iter::once(&**rest)).collect()
        }
        Term::Path(inner, path) => {
            let keys = path.0.iter().flat_map(|(part, _)| match part {
                Part::Index(index) => [Some(index), None],
                Part::Range(from, to) => [from.as_ref(), to.as_ref()],
            });
            std::iter::once(&**inner).chain(keys.flatten()).collect()
        }
        _ => Vec::new(),
    }
}
