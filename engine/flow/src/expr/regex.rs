//! Regular expressions of jq, matched within the limits of expressions.
//!
//! The matcher runs all threads of a Thompson automaton side by side, so its time is linear in the
//! text. It counts each state that it visits and each value that it makes, so that a long text or
//! many matches end the expression with an error and not the process. No back-references: they
//! cannot be matched in linear time. Look-around is in `around.rs`, patterns with their flags in
//! `pattern.rs`.

use std::rc::Rc;

use jaq_core::box_iter::box_once;
use jaq_core::native::{v, Fun};
use jaq_core::{Cv, Error, Exn, Native, ValXs};
use jaq_json::{Num, Val};
use regex_automata::nfa::thompson::State;
use regex_automata::util::primitives::StateID;

use super::limit::{halted, Budget, Limited};
use super::pattern::Regex;

/// States that are visited for one step.
pub(super) const STATES_PER_STEP: usize = 16;

/// Elements that a match or a group counts for: an object with three or four fields.
const MATCH_ELEMENTS: usize = 24;

/// Elements that a part of a text counts for.
const PART_ELEMENTS: usize = 2;

/// A slot of a group that takes no part in the match.
const NONE: usize = usize::MAX;

/// The natives of this file, on which `test`, `match`, `capture`, `scan`, `split`, `sub` are built.
pub(super) fn natives() -> Vec<Fun<Limited>> {
    const MATCHES: Wanted = Wanted { mismatches: false, matches: true };
    const ALL: Wanted = Wanted { mismatches: true, matches: true };
    const MISMATCHES: Wanted = Wanted { mismatches: true, matches: false };
    vec![
        ("matches", v(2), Native::<Limited>::new(|cv| outcome(cv, MATCHES))),
        ("split_matches", v(2), Native::<Limited>::new(|cv| outcome(cv, ALL))),
        ("split_", v(2), Native::<Limited>::new(|cv| outcome(cv, MISMATCHES))),
    ]
}

/// Whether the name is a native of jaq that is replaced here, for lack of limits.
pub(super) fn is_replaced(name: &str) -> bool {
    matches!(name, "matches" | "split_matches" | "split_")
}

/// The parts of the text that the result has.
#[derive(Clone, Copy)]
struct Wanted {
    mismatches: bool,
    matches: bool,
}

/// Why there is no result.
pub(super) enum Stop {
    /// A limit is passed; the budget knows which.
    Limit,
    Error(Error<Val>),
}

fn outcome(mut cv: Cv<'_, Limited>, wanted: Wanted) -> ValXs<'_, Val> {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    match parts(cv.0.data(), &cv.1, &pattern, &flags, wanted) {
        Ok(parts) => box_once(Ok(parts.into_iter().collect())),
        Err(Stop::Limit) => halted(),
        Err(Stop::Error(error)) => box_once(Err(Exn::from(error))),
    }
}

fn parts(
    budget: &Budget<'_>,
    input: &Val,
    pattern: &Val,
    flags: &Val,
    wanted: Wanted,
) -> Result<Vec<Val>, Stop> {
    let subject = text(input)?;
    let (pattern, flags) = (text(pattern)?, if *flags == Val::Null { "" } else { text(flags)? });
    let regex = budget.regex(pattern, flags, Regex::new)?;
    let part = |from: usize, to: usize| part(input, &subject.as_bytes()[from..to]);
    let (mut parts, mut last) = (Vec::new(), 0);
    let mut matches = Matches::new(&regex, subject.as_bytes(), budget)?;
    // Characters before `counted`, a byte of the text.
    let (mut characters, mut counted) = (0, 0);
    while let Some(slots) = matches.next()? {
        let (start, end) = (slots[0], slots[1]);
        if regex.ignores_empty && start == end {
            continue;
        }
        if wanted.mismatches {
            matches.made(PART_ELEMENTS)?;
            parts.push(part(last, start));
            last = end;
        }
        if wanted.matches {
            characters += subject[counted..start].chars().count();
            counted = start;
            let groups = slots.chunks(2).zip(&regex.names).enumerate();
            let mut found = Vec::with_capacity(regex.names.len());
            for (group, (place, name)) in groups.filter(|(group, _)| !regex.is_around(*group)) {
                let (from, to) = (place[0], place[1]);
                matches.made(MATCH_ELEMENTS + (end - start) / STATES_PER_STEP)?;
                let taken = from != NONE && to != NONE;
                found.push(object(Group {
                    offset: taken.then(|| characters + subject[start..from].chars().count()),
                    length: if taken { subject[from..to].chars().count() } else { 0 },
                    string: if taken { part(from, to) } else { Val::Null },
                    name: (group > 0).then_some(name.as_deref()),
                }));
            }
            parts.push(found.into_iter().collect());
        }
        if !regex.is_global {
            break;
        }
    }
    if wanted.mismatches {
        parts.push(part(last, subject.len()));
    }
    Ok(parts)
}

fn text(value: &Val) -> Result<&str, Stop> {
    let text = match value {
        Val::TStr(text) | Val::BStr(text) => std::str::from_utf8(text).ok(),
        _ => None,
    };
    text.ok_or_else(|| error("a regular expression and what it matches are texts"))
}

fn error(message: impl std::fmt::Display) -> Stop {
    Stop::Error(Error::str(message))
}

/// A part of a text, which shares its memory.
fn part(whole: &Val, part: &[u8]) -> Val {
    match whole {
        Val::TStr(text) | Val::BStr(text) => Val::utf8_str(text.slice_ref(part)),
        other => other.clone(),
    }
}

/// A group of a match; the match itself is group 0, which has no name.
struct Group<'a> {
    offset: Option<usize>,
    length: usize,
    string: Val,
    name: Option<Option<&'a str>>,
}

fn object(group: Group<'_>) -> Val {
    let key = |key: &str| Val::utf8_str(key.as_bytes().to_vec());
    let number = |number: isize| Val::Num(Num::Int(number));
    let name = group.name.map(|name| (key("name"), name.map_or(Val::Null, key)));
    let fields = [
        (key("offset"), number(group.offset.map_or(-1, |offset| offset as isize))),
        (key("length"), number(group.length as isize)),
        (key("string"), group.string),
    ];
    Val::obj(fields.into_iter().chain(name).collect())
}

impl Budget<'_> {
    /// A compiled regular expression, kept for the rest of the evaluation.
    fn regex(
        &self,
        pattern: &str,
        flags: &str,
        compile: impl FnOnce(&str, &str) -> Result<Regex, String>,
    ) -> Result<Rc<Regex>, Stop> {
        if let Some(known) = self.known_regex(pattern, flags) {
            return Ok(known);
        }
        let regex = Rc::new(compile(pattern, flags).map_err(error)?);
        if !self.spend(regex.steps()) {
            return Err(Stop::Limit);
        }
        self.keep_regex(pattern, flags, &regex);
        Ok(regex)
    }
}

/// Matches of a text that do not overlap, one after the other.
struct Matches<'a, 'b> {
    regex: &'a Regex,
    text: &'a [u8],
    budget: &'a Budget<'b>,
    /// For each look-around, whether it holds at each place of the text.
    holds: Vec<Vec<bool>>,
    /// The next search begins here; beyond the text there is none.
    from: usize,
    /// The end of the match before: an empty match there is none.
    last: Option<usize>,
    now: Threads,
    next: Threads,
    stack: Vec<Todo>,
    /// Bytes that were read so far, by all searches.
    turn: usize,
    visited: usize,
    elements: usize,
}

/// Open work while a thread follows states that read nothing.
enum Todo {
    Visit(StateID),
    Restore { slot: usize, place: usize },
}

/// Threads of the automaton at one place of the text, the preferred one first.
struct Threads {
    states: Vec<StateID>,
    /// The turn in which each state was visited last.
    seen: Vec<usize>,
    slots: Vec<usize>,
}

impl Threads {
    fn new(states: usize, slots: usize) -> Self {
        Self { states: Vec::new(), seen: vec![0; states], slots: vec![NONE; states * slots] }
    }
}

impl<'a, 'b> Matches<'a, 'b> {
    fn new(regex: &'a Regex, text: &'a [u8], budget: &'a Budget<'b>) -> Result<Self, Stop> {
        let holds = regex.around.iter().map(|(_, around)| around.places(text, budget));
        let holds = holds.collect::<Result<_, _>>()?;
        let (states, slots) = (regex.automaton.states().len(), regex.names.len() * 2);
        let threads = || Threads::new(states, slots);
        Ok(Self {
            regex,
            text,
            budget,
            holds,
            from: 0,
            last: None,
            now: threads(),
            next: threads(),
            stack: Vec::new(),
            turn: 0,
            visited: 0,
            elements: 0,
        })
    }

    /// Notes that elements are made.
    fn made(&mut self, elements: usize) -> Result<(), Stop> {
        self.elements += elements;
        self.budget.make(elements, self.elements).then_some(()).ok_or(Stop::Limit)
    }

    /// The places of the groups of the next match.
    fn next(&mut self) -> Result<Option<Vec<usize>>, Stop> {
        while self.from <= self.text.len() {
            let Some(slots) = self.search(self.from)? else {
                self.from = self.text.len() + 1;
                break;
            };
            let (start, end) = (slots[0], slots[1]);
            self.from = if start == end { self.after(end) } else { end };
            if start == end && self.last == Some(end) {
                continue;
            }
            self.last = Some(end);
            return Ok(Some(slots));
        }
        Ok(None)
    }

    /// The begin of the next character.
    fn after(&self, place: usize) -> usize {
        (place + 1..self.text.len()).find(|place| begins(self.text, *place)).unwrap_or(
            // The end of the text is a place for an empty match, and then there is none.
            if place < self.text.len() { self.text.len() } else { place + 1 },
        )
    }

    fn search(&mut self, from: usize) -> Result<Option<Vec<usize>>, Stop> {
        let automaton = &self.regex.automaton;
        let mut found: Option<Vec<usize>> = None;
        for threads in [&mut self.now, &mut self.next] {
            threads.states.clear();
        }
        self.turn += 1;
        let mut empty = vec![NONE; self.regex.names.len() * 2];
        for at in from..=self.text.len() {
            let is_begin = at == 0 || !automaton.is_always_start_anchored();
            if found.is_none() && is_begin && begins(self.text, at) {
                self.follow(automaton.start_anchored(), at, &mut empty, Which::Now);
            }
            if self.now.states.is_empty() && (found.is_some() || !is_begin) {
                break;
            }
            if let Some(slots) = self.step(at) {
                // Threads that began later go on if the longest match is looked for.
                if found.as_ref().is_none_or(|found| slots[0] <= found[0]) {
                    found = Some(slots);
                }
            }
            std::mem::swap(&mut self.now, &mut self.next);
            self.next.states.clear();
            self.turn += 1;
            self.spend(1)?;
        }
        Ok(found)
    }

    fn spend(&mut self, visited: usize) -> Result<(), Stop> {
        self.visited += visited;
        let steps = self.visited / STATES_PER_STEP;
        self.visited %= STATES_PER_STEP;
        match steps == 0 || self.budget.spend(steps as u64) {
            true => Ok(()),
            false => Err(Stop::Limit),
        }
    }

    /// All threads read one byte; the groups of the preferred thread that matches.
    fn step(&mut self, at: usize) -> Option<Vec<usize>> {
        let width = self.regex.names.len() * 2;
        let byte = self.text.get(at).copied();
        let mut matched = None;
        for index in 0..self.now.states.len() {
            let id = self.now.states[index];
            let own = id.as_usize() * width..(id.as_usize() + 1) * width;
            let next = match self.regex.automaton.state(id) {
                State::Match { .. } => {
                    let slots = self.now.slots[own.clone()].to_vec();
                    if !self.regex.is_longest {
                        return Some(slots);
                    }
                    matched.get_or_insert(slots);
                    None
                }
                State::ByteRange { trans } => {
                    byte.filter(|byte| trans.matches_byte(*byte)).map(|_| trans.next)
                }
                State::Sparse(all) => byte.and_then(|byte| all.matches_byte(byte)),
                State::Dense(all) => byte.and_then(|byte| all.matches_byte(byte)),
                _ => None,
            };
            self.visited += 1;
            if let Some(next) = next {
                let mut slots = self.now.slots[own].to_vec();
                self.follow(next, at + 1, &mut slots, Which::Next);
            }
        }
        matched
    }

    /// Adds a thread, and those that it becomes without reading anything.
    fn follow(&mut self, state: StateID, at: usize, slots: &mut [usize], which: Which) {
        let (threads, turn) = match which {
            Which::Now => (&mut self.now, self.turn),
            Which::Next => (&mut self.next, self.turn + 1),
        };
        let automaton = &self.regex.automaton;
        self.stack.push(Todo::Visit(state));
        while let Some(todo) = self.stack.pop() {
            let mut id = match todo {
                Todo::Visit(id) => id,
                Todo::Restore { slot, place } => {
                    slots[slot] = place;
                    continue;
                }
            };
            loop {
                self.visited += 1;
                if std::mem::replace(&mut threads.seen[id.as_usize()], turn) == turn {
                    break;
                }
                id = match automaton.state(id) {
                    State::Look { look, next } => {
                        if !automaton.look_matcher().matches(*look, self.text, at) {
                            break;
                        }
                        *next
                    }
                    State::Union { alternates } => {
                        let Some((first, others)) = alternates.split_first() else { break };
                        self.stack.extend(others.iter().rev().map(|id| Todo::Visit(*id)));
                        *first
                    }
                    State::BinaryUnion { alt1, alt2 } => {
                        self.stack.push(Todo::Visit(*alt2));
                        *alt1
                    }
                    State::Capture { next, slot, group_index, .. } => {
                        let group = group_index.as_usize();
                        let around = self.regex.around.iter().position(|it| it.0 == group);
                        if around.is_some_and(|around| !self.holds[around][at]) {
                            break;
                        }
                        let slot = slot.as_usize();
                        self.stack.push(Todo::Restore { slot, place: slots[slot] });
                        slots[slot] = at;
                        *next
                    }
                    State::Fail => break,
                    _ => {
                        let width = slots.len();
                        let begin = id.as_usize() * width;
                        threads.slots[begin..begin + width].copy_from_slice(slots);
                        threads.states.push(id);
                        self.visited += width / STATES_PER_STEP;
                        break;
                    }
                };
            }
        }
    }
}

/// Whether a character begins there.
pub(super) fn begins(text: &[u8], place: usize) -> bool {
    text.get(place).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
}

/// The threads that another one joins.
#[derive(Clone, Copy)]
enum Which {
    Now,
    Next,
}
