//! Look-around of regular expressions: `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)`.
//!
//! The automaton has none. Each look-around is taken out of the pattern, and an empty group with a
//! name of its own is put in its place. One pass over the text finds the places at which it holds:
//! forwards for a look-behind, backwards over the reversed automaton for a look-ahead. A thread
//! passes the empty group at those places only. So time stays linear in the text, whatever is
//! nested or repeated, and each state that is visited counts. A look-behind may have any length.

use std::mem;

use regex_automata::nfa::thompson::{State, NFA};
use regex_automata::util::primitives::StateID;

use super::limit::Budget;
use super::regex::{begins, Stop, STATES_PER_STEP};

/// Look-arounds of a pattern: each keeps a byte for each place of the text.
const AROUND_MAX: usize = 16;

/// A look-around as it is written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) is_ahead: bool,
    is_negated: bool,
    /// The pattern inside of it, with the flags of the whole.
    pub(super) text: String,
}

/// The name of the empty group that stands for a look-around.
pub(super) fn group(index: usize) -> String {
    format!("turnwheel_around_{index}")
}

/// The pattern with an empty group in place of each look-around, and the look-arounds.
pub(super) fn taken_out(pattern: &str, is_spaced: bool) -> Result<(String, Vec<Part>), String> {
    let flags = flags(pattern);
    let is_spaced = is_spaced || flags.contains('x');
    let mut scan = Scan { text: pattern, at: flags.len(), is_spaced };
    let (mut own, mut parts, mut kept) = (String::new(), Vec::new(), 0);
    let mut has_other_flags = false;
    while let Some(token) = scan.next() {
        let Token::Open(begin) = token else { continue };
        has_other_flags |= is_flags(&pattern[begin..]);
        let Some((length, mut part)) = opened(&pattern[begin..]) else { continue };
        scan.at = begin + length;
        let end = scan.close()?;
        part.text = format!("{flags}{}", &pattern[begin + length..end]);
        own.push_str(&pattern[kept..begin]);
        own.push_str(&format!("(?P<{}>)", group(parts.len())));
        kept = end + 1;
        parts.push(part);
    }
    if parts.len() > AROUND_MAX {
        return Err(format!("it has more than {AROUND_MAX} look-arounds"));
    }
    if !parts.is_empty() && has_other_flags {
        return Err("beside look-arounds flags may stand at its begin only".to_owned());
    }
    own.push_str(&pattern[kept..]);
    Ok((own, parts))
}

/// The flags at the begin of a pattern, such as `(?i)`.
fn flags(pattern: &str) -> &str {
    match pattern.find(')') {
        Some(end) if is_flags(pattern) && !pattern[..end].contains(':') => &pattern[..=end],
        _ => "",
    }
}

/// Whether an open bracket begins flags.
fn is_flags(text: &str) -> bool {
    let after = text.strip_prefix("(?").and_then(|rest| rest.chars().next());
    after.is_some_and(|first| first == '-' || (first.is_ascii_alphabetic() && first != 'P'))
}

/// The look-around that an open bracket begins, and the bytes before what is inside.
fn opened(text: &str) -> Option<(usize, Part)> {
    let kinds =
        [("(?=", true, false), ("(?!", true, true), ("(?<=", false, false), ("(?<!", false, true)];
    let (begin, is_ahead, is_negated) = kinds.into_iter().find(|kind| text.starts_with(kind.0))?;
    Some((begin.len(), Part { is_ahead, is_negated, text: String::new() }))
}

/// The brackets of a pattern, without those in classes, comments and after a backslash.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    is_spaced: bool,
}

/// A bracket, and its place.
enum Token {
    Open(usize),
    Close(usize),
}

impl Scan<'_> {
    fn next(&mut self) -> Option<Token> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            let at = self.at;
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'[' => self.class(),
                b'#' if self.is_spaced => {
                    let line = bytes[at..].iter().position(|byte| *byte == b'\n');
                    self.at = line.map_or(bytes.len(), |line| at + line);
                }
                b'(' => return Some(Token::Open(at)),
                b')' => return Some(Token::Close(at)),
                _ => {}
            }
        }
        None
    }

    /// Goes to the end of a class, which may have classes inside.
    fn class(&mut self) {
        let bytes = self.text.as_bytes();
        let mut depth = 1;
        self.skip_first();
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'[' => {
                    depth += 1;
                    self.skip_first();
                }
                b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A closing bracket at the begin of a class is one of its characters.
    fn skip_first(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += usize::from(bytes.get(self.at) == Some(&b'^'));
        self.at += usize::from(bytes.get(self.at) == Some(&b']'));
    }

    /// The place of the bracket that closes a look-around.
    fn close(&mut self) -> Result<usize, String> {
        let mut depth = 1;
        while let Some(token) = self.next() {
            let begin = match token {
                Token::Open(begin) => begin,
                Token::Close(end) => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(end);
                    }
                    continue;
                }
            };
            depth += 1;
            let inner = &self.text[begin..];
            if opened(inner).is_some() {
                return Err("a look-around inside of another one is not supported".to_owned());
            }
            if !inner.starts_with("(?:") {
                return Err("a group inside of a look-around has no result: write (?:…)".to_owned());
            }
        }
        Err("a look-around is not closed".to_owned())
    }
}

/// A look-around that was compiled.
#[derive(Debug)]
pub(super) struct Around {
    /// Reversed, if it looks ahead.
    automaton: NFA,
    is_ahead: bool,
    is_negated: bool,
}

/// States at one place of the text.
struct States {
    found: Vec<StateID>,
    /// The turn in which each state was visited last.
    seen: Vec<usize>,
}

impl Around {
    pub(super) fn new(automaton: NFA, part: &Part) -> Self {
        Self { automaton, is_ahead: part.is_ahead, is_negated: part.is_negated }
    }

    pub(super) fn states(&self) -> usize {
        self.automaton.states().len()
    }

    /// Whether it holds at each place of a text.
    pub(super) fn places(&self, text: &[u8], budget: &Budget<'_>) -> Result<Vec<bool>, Stop> {
        if !budget.make(text.len(), text.len()) {
            return Err(Stop::Limit);
        }
        let mut places = vec![self.is_negated; text.len() + 1];
        let states = || States { found: Vec::new(), seen: vec![0; self.states()] };
        let (mut now, mut next, mut visited) = (states(), states(), 0);
        for turn in 1..=text.len() + 1 {
            let at = if self.is_ahead { text.len() + 1 - turn } else { turn - 1 };
            if begins(text, at) {
                visited += self.follow(self.automaton.start_anchored(), text, at, &mut now, turn);
            }
            let (read, after) = match self.is_ahead {
                true => (at.checked_sub(1), at.saturating_sub(1)),
                false => (Some(at), at + 1),
            };
            let byte = read.and_then(|read| text.get(read)).copied();
            for id in mem::take(&mut now.found) {
                let to = match self.automaton.state(id) {
                    State::Match { .. } => {
                        places[at] = !self.is_negated;
                        None
                    }
                    State::ByteRange { trans } => {
                        byte.filter(|byte| trans.matches_byte(*byte)).map(|_| trans.next)
                    }
                    State::Sparse(all) => byte.and_then(|byte| all.matches_byte(byte)),
                    State::Dense(all) => byte.and_then(|byte| all.matches_byte(byte)),
                    _ => None,
                };
                visited += 1;
                if let Some(to) = to {
                    visited += self.follow(to, text, after, &mut next, turn + 1);
                }
            }
            mem::swap(&mut now, &mut next);
            visited += 1;
            if !budget.spend((visited / STATES_PER_STEP) as u64) {
                return Err(Stop::Limit);
            }
            visited %= STATES_PER_STEP;
        }
        Ok(places)
    }

    /// Adds a state and those that it leads to without reading; how many were visited.
    fn follow(
        &self,
        state: StateID,
        text: &[u8],
        at: usize,
        states: &mut States,
        turn: usize,
    ) -> usize {
        let (mut stack, mut visited) = (vec![state], 0);
        while let Some(id) = stack.pop() {
            visited += 1;
            if mem::replace(&mut states.seen[id.as_usize()], turn) == turn {
                continue;
            }
            match self.automaton.state(id) {
                State::Look { look, next } => {
                    // A reversed automaton has the begin for the end.
                    let look = if self.is_ahead { look.reversed() } else { *look };
                    if self.automaton.look_matcher().matches(look, text, at) {
                        stack.push(*next);
                    }
                }
                State::Union { alternates } => stack.extend(alternates.iter().copied()),
                State::BinaryUnion { alt1, alt2 } => stack.extend([*alt1, *alt2]),
                State::Capture { next, .. } => stack.push(*next),
                State::Fail => {}
                _ => states.found.push(id),
            }
        }
        visited
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::*;
    use crate::expr::Program;

    #[test]
    fn look_arounds_are_taken_out_where_they_are_none_of_a_class_or_a_comment() {
        let (own, parts) = taken_out("(?i)a(?=b[)]\\)(?:c))d(?<!x)", false).expect("it is one");
        assert_eq!(own, "(?i)a(?P<turnwheel_around_0>)d(?P<turnwheel_around_1>)");
        let text = |index: usize| parts[index].text.as_str();
        assert_eq!((text(0), text(1)), ("(?i)b[)]\\)(?:c)", "(?i)x"));
        assert_eq!((parts[0].is_ahead, parts[1].is_ahead), (true, false));
        for plain in ["[(?=a)]", "\\(?=a", "[]](?P<n>a)", "[[:alpha:](?=]", "(?i:a)b"] {
            assert_eq!(taken_out(plain, false), Ok((plain.to_owned(), Vec::new())), "{plain}");
        }
        assert_eq!(taken_out("a # (?=b\n b", true).expect("it is one").1, []);
        for wrong in ["(?=a", "(?=(?!a))", "(?=(a))", "(?=(?<n>a))", "(?=a)(?i:b)", "(?=a(?i)b)"] {
            assert!(taken_out(wrong, false).is_err(), "{wrong}");
        }
        assert!(taken_out(&"(?=a)".repeat(AROUND_MAX + 1), false).is_err());
    }

    #[test]
    fn look_arounds_match_as_those_of_jq_do() {
        let run = |text: &str| {
            let program =
                Program::compile(&format!("[{text}]"), &[]).map_err(|error| error.message);
            program?.run(&Value::Null, &[], 0.0).map_err(|failure| format!("{failure:?}"))
        };
        for (text, expected) in [
            (r#""foobar foobaz" | match("foo(?=baz)"; "g").offset"#, json!([7])),
            (r#""foobar foobaz" | match("foo(?!baz)"; "g").offset"#, json!([0])),
            (r#""5 EUR, 7 USD" | capture("(?<n>\\d+)(?= USD)")"#, json!([{ "n": "7" }])),
            (r#""5 EUR, 7 USD" | scan("\\d+(?= EUR)")"#, json!(["5"])),
            (r#""a1 b2" | scan("(?<=b)\\d")"#, json!(["2"])),
            (r#""a1 b2" | scan("(?<!b)\\d")"#, json!(["1"])),
            (r#""1234567" | gsub("(?<=\\d)(?=(?:\\d{3})+$)"; ",")"#, json!(["1,234,567"])),
            (r#""abc123" | test("^(?=.*\\d)(?=.*[a-z])(?!.*\\s).{6,}$")"#, json!([true])),
            (r#""abc 123" | test("^(?=.*\\d)(?=.*[a-z])(?!.*\\s).{6,}$")"#, json!([false])),
            (r#""äö äx" | sub("(?<=ä)x"; "y")"#, json!(["äö äy"])),
            (r#""äöü" | match("(?=ü)").offset"#, json!([2])),
            (r#""Straße" | test("straß(?=E)"; "i")"#, json!([true])),
            (r#""Straße" | test("(?i)straß(?=E$)")"#, json!([true])),
            (r#""a b" | [splits("(?<=a) (?=\\bb)")]"#, json!([["a", "b"]])),
            (r#""xay" | match("(?<=^x)(a)(?=y$)") | .captures | length"#, json!([1])),
            (r#""aab" | [match("(?:(?=a).)+").length]"#, json!([[2]])),
            (r#"("a" * 3000) | test("(?=(?:a|a?)*b)c"; "g")"#, json!([false])),
        ] {
            assert_eq!(run(text), Ok(expected), "{text}");
        }
        let huge = run(r#"("a" * 400000) | test("(?=a*b)(?<=a*)c")"#);
        assert!(huge.is_err_and(|error| error.contains("steps")), "a long text ends at a limit");
        for wrong in
            [r#""a" | test("(?=(a))")"#, r#""a" | test("(?=a")"#, r#""a" | test("(a)\\1")"#]
        {
            assert!(run(wrong).is_err(), "{wrong}");
        }
    }
}
