//! Operators as jq groups them.
//!
//! jaq lets `%` bind tighter than `*`, `//` tighter than `=`, and `as` name the result of all
//! operators before it. In jq `*`, `/` and `%` are equal, `=` binds tighter than `//`, which groups
//! from the right, and `as` names the operand before it. So the terms of jaq's parser are grouped
//! anew. That needs to know where parentheses were, and the parser drops them: an identity is put
//! after what is in them (`(a)` is read as `(a | .)`), and taken away here.

use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};
use jaq_core::load::parse::{BinaryOp, Def, Parser, Pattern, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};

/// Words after which a parenthesis does not begin arguments.
const KEYWORDS: [&str; 13] = [
    "if", "then", "elif", "else", "and", "or", "reduce", "foreach", "try", "catch", "as", "label",
    "end",
];

/// The term of a text that can be read, with the groups of jq.
pub(super) fn parse(text: &str) -> Option<Term<&str>> {
    let mut tokens = Lexer::new(text).lex().ok()?;
    mark_all(&mut tokens);
    Parser::new(&tokens).parse(|parser| parser.term()).ok().map(term)
}

fn mark_all(tokens: &mut [Token<&str>]) {
    let mut has_arguments = false;
    for token in tokens {
        mark(token, !has_arguments);
        has_arguments = matches!(token.1, Tok::Fmt)
            || (matches!(token.1, Tok::Word) && !KEYWORDS.contains(&token.0));
    }
}

/// Marks what is in parentheses, and in the parts of texts.
fn mark(token: &mut Token<&str>, is_group: bool) {
    let Token(text, kind) = token;
    match kind {
        Tok::Block(inner) => {
            mark_all(inner);
            if is_group && text.starts_with('(') && !inner.is_empty() {
                let end = inner.len() - 1;
                inner.splice(end..end, [Token("|", Tok::Sym), Token(".", Tok::Sym)]);
            }
        }
        Tok::Str(parts) => {
            for part in parts {
                if let StrPart::Term(inner) = part {
                    mark(inner, false);
                }
            }
        }
        _ => {}
    }
}

/// Operators that jq groups with one another in another way than jaq.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// `*`, `/` and `%`, from the left.
    Product,
    /// `//`, from the right, and assignments, which bind tighter.
    Assignment,
}

fn group<S>(operator: &BinaryOp<S>) -> Option<Group> {
    match operator {
        BinaryOp::Math(Math::Mul | Math::Div | Math::Rem) => Some(Group::Product),
        BinaryOp::Alt
        | BinaryOp::Assign
        | BinaryOp::Update
        | BinaryOp::UpdateMath(_)
        | BinaryOp::UpdateAlt => Some(Group::Assignment),
        _ => None,
    }
}

fn boxed(inner: Term<&str>) -> Box<Term<&str>> {
    Box::new(term(inner))
}

fn option(inner: Option<Box<Term<&str>>>) -> Option<Box<Term<&str>>> {
    inner.map(|inner| boxed(*inner))
}

/// A term with the groups of jq, without the marks.
fn term(term_: Term<&str>) -> Term<&str> {
    match term_ {
        Term::BinOp(inner, BinaryOp::Pipe(None), right) if matches!(*right, Term::Id) => {
            term(*inner)
        }
        Term::BinOp(left, BinaryOp::Pipe(Some(named)), right) => {
            let named = pattern(named);
            match bound(*left, named, *right) {
                // Nothing is before the operand that is named.
                Term::BinOp(left, operator @ BinaryOp::Pipe(Some(_)), right) => {
                    Term::BinOp(boxed(*left), operator, boxed(*right))
                }
                other => term(other),
            }
        }
        Term::BinOp(left, operator, right) => match group(&operator) {
            Some(of) => grouped(Term::BinOp(left, operator, right), of),
            None => Term::BinOp(boxed(*left), operator, boxed(*right)),
        },
        Term::Str(format, parts) => {
            let parts = parts.into_iter().map(|part| match part {
                StrPart::Term(inner) => StrPart::Term(term(inner)),
                other => other,
            });
            Term::Str(format, parts.collect())
        }
        Term::Arr(inner) => Term::Arr(option(inner)),
        Term::Obj(fields) => {
            let fields = fields.into_iter();
            Term::Obj(fields.map(|(key, value)| (term(key), value.map(term))).collect())
        }
        Term::Neg(inner) => Term::Neg(boxed(*inner)),
        Term::Label(name, inner) => Term::Label(name, boxed(*inner)),
        Term::Fold(name, source, named, rest) => {
            let rest = rest.into_iter().map(term).collect();
            Term::Fold(name, boxed(*source), pattern(named), rest)
        }
        Term::TryCatch(inner, handler) => Term::TryCatch(boxed(*inner), option(handler)),
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches.into_iter().map(|(test, then)| (term(test), term(then)));
            Term::IfThenElse(branches.collect(), option(otherwise))
        }
        Term::Def(defs, rest) => {
            let defs = defs.into_iter().map(|def| Def { body: term(def.body), ..def });
            Term::Def(defs.collect(), boxed(*rest))
        }
        Term::Call(name, arguments) => Term::Call(name, arguments.into_iter().map(term).collect()),
        Term::Path(inner, Path(parts)) => {
            let parts = parts.into_iter().map(|(part, optional)| match part {
                Part::Index(index) => (Part::Index(term(index)), optional),
                Part::Range(from, to) => (Part::Range(from.map(term), to.map(term)), optional),
            });
            Term::Path(boxed(*inner), Path(parts.collect()))
        }
        other => other,
    }
}

fn pattern(pattern_: Pattern<&str>) -> Pattern<&str> {
    match pattern_ {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(inner) => Pattern::Arr(inner.into_iter().map(pattern).collect()),
        Pattern::Obj(fields) => {
            let fields = fields.into_iter().map(|(key, inner)| (term(key), pattern(inner)));
            Pattern::Obj(fields.collect())
        }
    }
}

/// `left as $name | rest`: the name is for the last operand of what is on the left.
fn bound<'s>(left: Term<&'s str>, named: Pattern<&'s str>, rest: Term<&'s str>) -> Term<&'s str> {
    match left {
        Term::BinOp(_, BinaryOp::Pipe(None), ref mark) if matches!(**mark, Term::Id) => {
            Term::BinOp(Box::new(left), BinaryOp::Pipe(Some(named)), Box::new(rest))
        }
        Term::BinOp(first, operator, last) => {
            Term::BinOp(first, operator, Box::new(bound(*last, named, rest)))
        }
        Term::Neg(inner) => Term::Neg(Box::new(bound(*inner, named, rest))),
        operand => Term::BinOp(Box::new(operand), BinaryOp::Pipe(Some(named)), Box::new(rest)),
    }
}

/// Operands in their order, each with the operator before it.
type Chain<'s> = Vec<(Option<BinaryOp<&'s str>>, Term<&'s str>)>;

/// The operands of operators of one group.
fn operands<'s>(term_: Term<&'s str>, of: Group, before: Option<BinaryOp<&'s str>>) -> Chain<'s> {
    let (mut chain, mut open) = (Vec::new(), vec![(before, term_)]);
    while let Some((before, next)) = open.pop() {
        match next {
            Term::BinOp(left, operator, right) if group(&operator) == Some(of) => {
                open.push((Some(operator), *right));
                open.push((before, *left));
            }
            operand => chain.push((before, term(operand))),
        }
    }
    chain
}

fn grouped(term_: Term<&str>, of: Group) -> Term<&str> {
    let join = |left, operator, right| Term::BinOp(Box::new(left), operator, Box::new(right));
    // Terms whose operators bind tightest, joined from the left, with those between them.
    let (mut terms, mut between) = (Vec::new(), Vec::new());
    for (before, operand) in operands(term_, of, None) {
        match before {
            None => terms.push(operand),
            Some(BinaryOp::Alt) => {
                between.push(BinaryOp::Alt);
                terms.push(operand);
            }
            Some(operator) => {
                let left = terms.pop().unwrap_or(Term::Id);
                terms.push(join(left, operator, operand));
            }
        }
    }
    let mut whole = terms.pop().unwrap_or(Term::Id);
    while let (Some(left), Some(operator)) = (terms.pop(), between.pop()) {
        whole = join(left, operator, whole);
    }
    whole
}
