//! Search for an order that explains a history: the check of linearizability.
//!
//! The algorithm of Wing and Gong («Testing and Verifying Concurrent Objects», 1993) with Lowe's
//! memoisation («Testing for Linearizability», 2017), iterative as in Porcupine. Calls and answers
//! form a list in the order in which they happened. The search takes the first call of the list
//! that the model allows next, removes it with its answer, and starts over at the front. If it
//! meets an answer first, the calls taken so far exclude the answered call: the search puts the
//! last one back and continues behind it. Two orders of the same calls that end in the same state
//! have the same future, so the second is not followed: that is the memoisation.

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;

/// Operations of one key that are searched: each remembered state has a bit for each of them, so
/// that this and [`STATES_MAX`] bound the memory.
pub const OPERATIONS_MAX: usize = 4_096;

/// States that a search remembers before it gives up: a second or two without optimization and, for
/// the longest histories, some hundred megabytes.
pub const STATES_MAX: usize = 200_000;

/// Operations that an error shows.
const SHOWN_MAX: usize = 40;

/// A call to one key and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<I, O> {
    /// The request.
    pub input: I,
    /// The answer; `None` if there was none, and the effect of the request is unknown.
    pub output: Option<O>,
    /// When it was called; any clock on which no two events are at one time.
    pub called: u64,
    /// When it was answered.
    pub returned: Option<u64>,
}

/// Why no order was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unexplained {
    /// No order explains the history.
    NoOrder {
        /// Places of the operations of the longest order that explains its own answers.
        longest: Vec<usize>,
    },
    /// The history has more operations than [`OPERATIONS_MAX`].
    TooManyOperations,
    /// The search has reached more than [`STATES_MAX`] states: too many calls overlap.
    TooManyStates,
}

/// A history of one key that no order of its operations explains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotLinearizable {
    /// The key, as `Debug` shows it.
    pub key: String,
    /// Why.
    pub why: Unexplained,
    /// The operations that matter, one a line.
    pub shown: String,
}

/// Searches an order of the operations in which each lies between its call and its answer and the
/// model gives the recorded answers. An operation without an answer may lie anywhere after its
/// call, or have had no effect. [`History::check`](super::History::check) does it for every key.
///
/// # Errors
///
/// There is no order, or the search exceeds the limit.
pub fn linearize<S, I, O>(
    operations: &[Operation<I, O>],
    start: &S,
    step: impl Fn(&S, &I) -> (S, O),
) -> Result<Vec<usize>, Unexplained>
where
    S: Clone + Eq + Hash,
    O: PartialEq,
{
    if operations.len() > OPERATIONS_MAX {
        return Err(Unexplained::TooManyOperations);
    }
    let mut list = List::new(operations);
    let mut taken = Taken::new(operations.len());
    let mut seen = HashSet::new();
    let mut state = start.clone();
    // The operations taken, with the state before each.
    let mut order: Vec<(usize, S)> = Vec::new();
    let mut longest = Vec::new();
    let mut open = operations.iter().filter(|operation| operation.output.is_some()).count();
    let mut node = list.first();
    while open > 0 {
        let Some(index) = list.call_at(node) else {
            let Some((index, before)) = order.pop() else {
                return Err(Unexplained::NoOrder { longest });
            };
            state = before;
            taken.remove(index);
            open += usize::from(operations[index].output.is_some());
            node = list.put_back(index);
            continue;
        };
        let Operation { input, output, .. } = &operations[index];
        let (next, answer) = step(&state, input);
        let is_explained = output.as_ref().is_none_or(|output| *output == answer);
        if !is_explained || !seen.insert((taken.with(index), next.clone())) {
            node = list.after(node);
            continue;
        }
        if seen.len() > STATES_MAX {
            return Err(Unexplained::TooManyStates);
        }
        taken.add(index);
        open -= usize::from(output.is_some());
        order.push((index, std::mem::replace(&mut state, next)));
        if order.len() > longest.len() {
            longest = order.iter().map(|(index, _)| *index).collect();
        }
        list.remove(index);
        node = list.first();
    }
    Ok(order.into_iter().map(|(index, _)| index).collect())
}

/// The operations taken: a bit for each.
struct Taken(Box<[u64]>);

impl Taken {
    fn new(operations: usize) -> Self {
        Self(vec![0; operations.div_ceil(64)].into_boxed_slice())
    }

    fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    fn with(&self, index: usize) -> Box<[u64]> {
        let mut with = self.0.clone();
        with[index / 64] |= 1 << (index % 64);
        with
    }
}

/// Calls and answers in order, as a doubly linked list in an array. Place 0 is before the first and
/// behind the last.
struct List {
    nodes: Vec<Node>,
    /// Positions of the call and the answer of each operation.
    places: Vec<(usize, Option<usize>)>,
}

struct Node {
    before: usize,
    after: usize,
    /// The operation that is called here; none at an answer.
    called: Option<usize>,
}

impl List {
    fn new<I, O>(operations: &[Operation<I, O>]) -> Self {
        let calls =
            operations.iter().enumerate().map(|(index, operation)| (operation.called, index));
        let mut events: Vec<_> = calls.map(|(time, index)| (time, index, true)).collect();
        // An answer without a time would come last, where it has no effect.
        events.extend(operations.iter().enumerate().filter_map(|(index, operation)| {
            operation.output.as_ref()?;
            Some((operation.returned.unwrap_or(u64::MAX), index, false))
        }));
        // At equal times calls go first, so that they overlap.
        events.sort_by_key(|(time, index, is_call)| (*time, !is_call, *index));
        let mut nodes = vec![Node { before: events.len(), after: 1, called: None }];
        let mut places = vec![(0, None); operations.len()];
        for (number, (_, index, is_call)) in events.iter().enumerate() {
            let place = number + 1;
            match is_call {
                true => places[*index].0 = place,
                false => places[*index].1 = Some(place),
            }
            let after = if place == events.len() { 0 } else { place + 1 };
            nodes.push(Node { before: number, after, called: is_call.then_some(*index) });
        }
        if events.is_empty() {
            nodes[0].after = 0;
        }
        Self { nodes, places }
    }

    fn first(&self) -> usize {
        self.nodes[0].after
    }

    fn after(&self, node: usize) -> usize {
        self.nodes[node].after
    }

    fn call_at(&self, node: usize) -> Option<usize> {
        self.nodes[node].called
    }

    /// Removes a call and its answer.
    fn remove(&mut self, index: usize) {
        let (call, answer) = self.places[index];
        for node in [Some(call), answer].into_iter().flatten() {
            let Node { before, after, .. } = self.nodes[node];
            self.nodes[before].after = after;
            self.nodes[after].before = before;
        }
    }

    /// Undoes the last removal; returns the position after the call.
    fn put_back(&mut self, index: usize) -> usize {
        let (call, answer) = self.places[index];
        for node in [answer, Some(call)].into_iter().flatten() {
            let Node { before, after, .. } = self.nodes[node];
            self.nodes[before].after = node;
            self.nodes[after].before = node;
        }
        self.after(call)
    }
}

impl NotLinearizable {
    pub(crate) fn new<I: Debug, O: Debug>(
        key: &impl Debug,
        operations: &[Operation<I, O>],
        why: Unexplained,
    ) -> Self {
        let shown = match &why {
            Unexplained::NoOrder { longest } => shown(operations, longest),
            _ => String::new(),
        };
        Self { key: format!("{key:?}"), why, shown }
    }
}

/// The end of the longest order, and the first operations that it does not hold.
fn shown<I: Debug, O: Debug>(operations: &[Operation<I, O>], longest: &[usize]) -> String {
    let line = |index: &usize| {
        let Operation { input, output, called, returned } = &operations[*index];
        let answer = output.as_ref().map_or("no answer".to_owned(), |output| format!("{output:?}"));
        let until = returned.map_or(String::new(), |returned| returned.to_string());
        format!("  {called:>5}..{until:<5} {input:?} -> {answer}\n")
    };
    let explained = &longest[longest.len().saturating_sub(SHOWN_MAX)..];
    let mut text = String::from("explained, in this order:\n");
    text.extend(explained.iter().map(line));
    text.push_str("not explained after that:\n");
    let held: HashSet<_> = longest.iter().copied().collect();
    let rest = (0..operations.len()).filter(|index| !held.contains(index));
    text.extend(rest.take(SHOWN_MAX).map(|index| line(&index)));
    text
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, why, shown } = self;
        match why {
            Unexplained::NoOrder { .. } => {
                write!(f, "no order of the calls to {key} explains their answers; {shown}")
            }
            Unexplained::TooManyOperations => {
                write!(f, "more than {OPERATIONS_MAX} calls to {key}: too many to check")
            }
            Unexplained::TooManyStates => {
                write!(f, "too many calls to {key} overlap: more than {STATES_MAX} states")
            }
        }
    }
}

impl std::error::Error for NotLinearizable {}
