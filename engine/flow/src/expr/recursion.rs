//! Definitions that are given filters and call themselves.
//!
//! jaq makes no stack frame of a call that comes last. A filter that such a call hands on remembers
//! the filters of its caller, so each call would add one to a chain that no stack limits. Reading or
//! dropping a chain of some hundred thousand filters overflows the stack and ends the process. So:
//!
//! * A call that hands on all filters unchanged calls an inner definition without filters:
//!   `def f(g): … f(g) …;` is `def f(g): def #own: … #own …; #own;`. It needs no stack and no chain.
//! * Another call is followed by an identity, so that it does not come last: the chain is as long as
//!   the stack, which is limited. The filters that it hands on count when they are evaluated, since
//!   each of them may evaluate the one before it.
//! * A definition that calls itself costs more steps, since each call can leave a generator behind.

use std::sync::LazyLock;

use jaq_core::load::parse::{Def, Term};

use super::terms::{call, map, pipe};

/// Nested definitions whose calls of themselves are rewritten.
const LEVELS_MAX: usize = 64;

/// Names of the inner definitions, by the number of definitions around them.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..LEVELS_MAX).map(|level| format!("#own{level}")).collect());

/// A name that a term can call.
enum Known<'s> {
    /// A definition whose body is being read.
    Open {
        name: &'s str,
        arguments: Vec<&'s str>,
        inner: Option<&'static str>,
        is_called: bool,
        is_inner_called: bool,
    },
    /// A definition that was read.
    Closed { name: &'s str, arguments: usize },
    /// A filter that the definition at this place of the list was given.
    Filter { name: &'s str, of: usize },
}

impl<'s> Known<'s> {
    fn is(&self, called: &str, arity: usize) -> bool {
        match self {
            Self::Open { name, arguments, .. } => *name == called && arguments.len() == arity,
            Self::Closed { name, arguments } => *name == called && *arguments == arity,
            Self::Filter { name, .. } => *name == called && arity == 0,
        }
    }
}

/// A definition, with its calls of itself rewritten.
pub(super) fn def(def: Def<&str>) -> Def<&str> {
    Reader::default().def(def)
}

/// A term, likewise.
pub(super) fn term(term: Term<&str>) -> Term<&str> {
    Reader::default().term(term)
}

fn is_value(argument: &str) -> bool {
    argument.starts_with('$')
}

/// The names that are known at one place of an expression, the nearest ones last.
#[derive(Default)]
struct Reader<'s> {
    known: Vec<Known<'s>>,
    /// Calls of filters that were handed on, so far.
    filter_calls: usize,
}

impl<'s> Reader<'s> {
    fn find(&self, name: &str, arity: usize) -> Option<usize> {
        self.known.iter().rposition(|known| known.is(name, arity))
    }

    fn def(&mut self, def: Def<&'s str>) -> Def<&'s str> {
        let before = self.known.len();
        let level = self.known.iter().filter(|known| matches!(known, Known::Open { .. })).count();
        self.known.push(Known::Open {
            name: def.name,
            arguments: def.args.clone(),
            inner: NAMES.get(level).map(String::as_str),
            is_called: false,
            is_inner_called: false,
        });
        let filters = def.args.iter().filter(|argument| !is_value(argument));
        self.known.extend(filters.map(|name| Known::Filter { name, of: before }));
        let body = self.term(def.body);
        let (is_called, inner) = match &self.known[before] {
            Known::Open { inner, is_called, is_inner_called, .. } => {
                (*is_called, inner.filter(|_| *is_inner_called))
            }
            _ => (false, None),
        };
        self.known.truncate(before);
        let body = if is_called { pipe(call("#again"), body) } else { body };
        let Some(inner) = inner else { return Def { body, ..def } };
        let values = || def.args.iter().copied().filter(|argument| is_value(argument));
        let begin = Term::Call(inner, values().map(Term::Var).collect());
        let own = Def { name: inner, args: values().collect(), body };
        Def { body: Term::Def(vec![own], Box::new(begin)), ..def }
    }

    fn term(&mut self, term: Term<&'s str>) -> Term<&'s str> {
        match term {
            Term::Def(defs, rest) => {
                let before = self.known.len();
                let mut read = Vec::new();
                for def in defs {
                    let (name, arguments) = (def.name, def.args.len());
                    read.push(self.def(def));
                    self.known.push(Known::Closed { name, arguments });
                }
                let rest = self.term(*rest);
                self.known.truncate(before);
                Term::Def(read, Box::new(rest))
            }
            Term::Call(name, arguments) => {
                let found = self.find(name, arguments.len());
                let arguments =
                    arguments.into_iter().map(|argument| self.argument(argument)).collect();
                match found {
                    Some(at) => self.call(at, name, arguments),
                    None => Term::Call(name, arguments),
                }
            }
            other => map(other, &mut |inner| self.term(inner)),
        }
    }

    /// Reads an argument. Filters made of filters multiply from call to call (`g | g`), so each use
    /// of one is counted.
    fn argument(&mut self, argument: Term<&'s str>) -> Term<&'s str> {
        let before = self.filter_calls;
        let read = self.term(argument);
        let is_plain = matches!(&read, Term::Call(_, none) if none.is_empty());
        match self.filter_calls == before || is_plain {
            true => read,
            false => pipe(call("#tick"), read),
        }
    }

    /// A call of what is at a place of the list.
    fn call(&mut self, at: usize, name: &'s str, given: Vec<Term<&'s str>>) -> Term<&'s str> {
        match &mut self.known[at] {
            Known::Open { is_called, .. } => *is_called = true,
            Known::Filter { .. } => self.filter_calls += 1,
            Known::Closed { .. } => {}
        }
        let Known::Open { arguments, inner, .. } = &self.known[at] else {
            return Term::Call(name, given);
        };
        if arguments.iter().all(|argument| is_value(argument)) {
            return Term::Call(name, given);
        }
        let is_same = |(argument, given): (&&'s str, &Term<&'s str>)| {
            let Term::Call(passed, none) = given else { return is_value(argument) };
            let is_own = passed == argument
                && none.is_empty()
                && self.find(passed, 0).is_some_and(
                    |found| matches!(self.known[found], Known::Filter { of, .. } if of == at),
                );
            is_value(argument) || is_own
        };
        let is_unchanged = arguments.iter().zip(&given).all(is_same);
        let values: Vec<bool> = arguments.iter().map(|argument| is_value(argument)).collect();
        let given = given.into_iter().zip(values);
        if let (true, Some(inner)) = (is_unchanged, *inner) {
            if let Known::Open { is_inner_called, .. } = &mut self.known[at] {
                *is_inner_called = true;
            }
            let values = given.filter(|(_, is_value)| *is_value).map(|(value, _)| value);
            return Term::Call(inner, values.collect());
        }
        let counted = given.map(|(given, is_value)| match is_value {
            true => given,
            false => pipe(call("#tick"), given),
        });
        pipe(Term::Call(name, counted.collect()), Term::Id)
    }
}
