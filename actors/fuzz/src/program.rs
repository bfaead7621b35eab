//! Programs as data: a tree of acts. A program is drawn from a seed, printed, parsed and shrunk.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::kind::Kind;

/// One operation with two small arguments and nested operations.
///
/// Arguments name slots, delays or variants; each is taken modulo what there is, so that every act
/// is valid anywhere and the deletion of an act never invalidates another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The operation.
    pub kind: Kind,
    /// First argument, mostly the slot.
    pub a: u8,
    /// Second argument, mostly a variant.
    pub b: u8,
    /// Behaviour of the created job, hook, future or destructor.
    pub body: Script,
}

/// A shared list of acts.
pub type Script = Arc<[Act]>;

/// A program and the seed of the simulation that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Seed of the simulation's choices.
    pub seed: u64,
    /// Virtual workers, memory budget and interceptor, see [`Program::workers`].
    pub shape: u8,
    /// Operations of the simulation's thread, in order.
    pub acts: Script,
}

impl Program {
    /// Virtual workers of the group: 1 to 3.
    #[must_use]
    pub fn workers(&self) -> usize {
        1 + usize::from(self.shape % 3)
    }

    /// Whether the group has a small memory budget: one program in eight.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.shape / 3 % 8 == 0
    }

    /// Whether an interceptor is around the messages of its actors: one program in three.
    #[must_use]
    pub fn is_intercepted(&self) -> bool {
        self.shape / 24 % 3 == 1
    }

    /// Whether an interceptor is around what is sent to its actors: one program in three.
    #[must_use]
    pub fn is_intercepted_outgoing(&self) -> bool {
        self.shape / 72 == 1
    }

    /// Whether the interceptors of `turnwheel-interceptors` are installed: two programs in five.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.shape / 72 >= 2
    }

    /// Number of acts, nested ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        count(&self.acts)
    }

    /// Whether there is no act.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// Calls `look` with each act, nested ones included.
    pub fn each(&self, look: &mut dyn FnMut(&Act)) {
        each(&self.acts, look);
    }
}

fn each(acts: &[Act], look: &mut dyn FnMut(&Act)) {
    for act in acts {
        look(act);
        each(&act.body, look);
    }
}

fn count(acts: &[Act]) -> usize {
    acts.iter().map(|act| 1 + count(&act.body)).sum()
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} {}", self.seed, self.shape)?;
        self.acts.iter().try_for_each(|act| write_act(f, act, 1))
    }
}

fn write_act(f: &mut fmt::Formatter<'_>, act: &Act, depth: usize) -> fmt::Result {
    write!(f, "{:width$}{} {} {}", "", act.kind.text(), act.a, act.b, width = depth * 2)?;
    if act.body.is_empty() {
        return writeln!(f);
    }
    writeln!(f, " {{")?;
    act.body.iter().try_for_each(|inner| write_act(f, inner, depth + 1))?;
    writeln!(f, "{:width$}}}", "", width = depth * 2)
}

/// A text that is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a program: {}", self.0)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Program {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = Words { words: text.split_whitespace().peekable() };
        words.expect("program")?;
        let (seed, shape) = (words.number()?, words.number()?);
        let acts = words.acts()?;
        match words.words.next() {
            None => Ok(Self { seed, shape, acts }),
            Some(word) => Err(ParseError(format!("unexpected '{word}'"))),
        }
    }
}

struct Words<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl Words<'_> {
    fn expect(&mut self, wanted: &str) -> Result<(), ParseError> {
        match self.words.next() {
            Some(word) if word == wanted => Ok(()),
            other => Err(ParseError(format!("expected '{wanted}', found {other:?}"))),
        }
    }

    fn number<N: FromStr>(&mut self) -> Result<N, ParseError> {
        let word = self.words.next().unwrap_or_default();
        word.parse().map_err(|_| ParseError(format!("'{word}' is not a number here")))
    }

    fn acts(&mut self) -> Result<Script, ParseError> {
        let mut acts = Vec::new();
        while let Some(word) = self.words.next_if(|word| *word != "}") {
            let kind = Kind::from_text(word)
                .ok_or_else(|| ParseError(format!("there is no operation '{word}'")))?;
            let (a, b) = (self.number()?, self.number()?);
            let mut body = Script::from([]);
            if self.words.next_if_eq(&"{").is_some() {
                body = self.acts()?;
                self.expect("}")?;
            }
            acts.push(Act { kind, a, b, body });
        }
        Ok(acts.into())
    }
}
