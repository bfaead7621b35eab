//! Terms of expressions: their parts, and small ones that are made.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::{Part, Path};

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

/// A change of the terms inside of a term.
type Change<'c, 's> = &'c mut dyn FnMut(Term<&'s str>) -> Term<&'s str>;

/// Changes the terms that are directly inside of a term.
pub(super) fn map<'s>(term: Term<&'s str>, change: Change<'_, 's>) -> Term<&'s str> {
    match term {
        Term::Call(name, arguments) => {
            Term::Call(name, arguments.into_iter().map(change).collect())
        }
        Term::Str(format, parts) => {
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Term(inner) => StrPart::Term(change(inner)),
                other => other,
            });
            Term::Str(format, parts.collect())
        }
        Term::Arr(inner) => Term::Arr(inner.map(|inner| Box::new(change(*inner)))),
        Term::Obj(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(key, value)| (change(key), value.map(&mut *change)));
            Term::Obj(fields.collect())
        }
        Term::Neg(inner) => Term::Neg(Box::new(change(*inner))),
        Term::Label(name, inner) => Term::Label(name, Box::new(change(*inner))),
        Term::BinOp(left, operator, right) => {
            let left = Box::new(change(*left));
            let operator = match operator {
                BinaryOp::Pipe(Some(names)) => BinaryOp::Pipe(Some(map_pattern(names, change))),
                other => other,
            };
            Term::BinOp(left, operator, Box::new(change(*right)))
        }
        Term::Fold(name, source, names, rest) => {
            let source = Box::new(change(*source));
            let names = map_pattern(names, change);
            Term::Fold(name, source, names, rest.into_iter().map(change).collect())
        }
        Term::TryCatch(inner, handler) => {
            let inner = Box::new(change(*inner));
            Term::TryCatch(inner, handler.map(|handler| Box::new(change(*handler))))
        }
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.into_iter();
            let branches = branches.map(|(test, then)| (change(test), change(then))).collect();
            Term::IfThenElse(branches, otherwise.map(|inner| Box::new(change(*inner))))
        }
        Term::Def(defs, rest) => {
            let defs = defs.into_iter().map(|def| Def { body: change(def.body), ..def }).collect();
            Term::Def(defs, Box::new(change(*rest)))
        }
        Term::Path(inner, Path(parts)) => {
            let inner = Box::new(change(*inner));
            let parts = parts.into_iter().map(|(part, optional)| {
                let part = match part {
                    Part::Index(index) => Part::Index(change(index)),
                    Part::Range(from, to) => {
                        Part::Range(from.map(&mut *change), to.map(&mut *change))
                    }
                };
                (part, optional)
            });
            Term::Path(inner, Path(parts.collect()))
        }
        other => other,
    }
}

fn map_pattern<'s>(names: Pattern<&'s str>, change: Change<'_, 's>) -> Pattern<&'s str> {
    match names {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(inner) => {
            Pattern::Arr(inner.into_iter().map(|inner| map_pattern(inner, change)).collect())
        }
        Pattern::Obj(fields) => {
            let fields = fields.into_iter();
            Pattern::Obj(fields.map(|(key, p)| (change(key), map_pattern(p, change))).collect())
        }
    }
}
