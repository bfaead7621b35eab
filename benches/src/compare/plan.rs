//! What is compared: patterns, contenders, and how many messages each run has.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// The nanoseconds of real work in the second form of each message pattern.
pub(crate) const WORK_NS: u32 = 100;
/// Messages that a producer sends before it sends itself «go on».
pub(crate) const CHUNK: u64 = 1_000;
/// The bound of the mailbox in `count_bounded`.
pub(crate) const BOUND: usize = 4_096;
/// Actors in the ring, in `fjthru`, in `big`.
pub(crate) const RING_ACTORS: u64 = 100;
pub(crate) const FJTHRU_ACTORS: u64 = 60;
pub(crate) const BIG_ACTORS: u64 = 120;
/// Those who ask one actor in `ask_64to1`; actors that a call of `ask_chain8` goes through.
pub(crate) const ASKERS: u64 = 64;
pub(crate) const CALL_DEPTH: u64 = 8;
/// Keyed entities of `service`; their askers are as many as in `ask_64to1`.
pub(crate) const SERVICE_KEYS: u32 = 1_000;
/// Actors made in `fjcreate`, alive in `entities`, idle in `memory`.
pub(crate) const MANY_ACTORS: u64 = 100_000;

/// A shape of messages between actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// One producer floods one actor.
    Count,
    /// The same with 40 bytes in each message.
    CountMid,
    /// `count` with a bounded mailbox.
    CountBounded,
    /// Two actors pass one message to and fro.
    PingPong,
    /// The same; each message carries the sender's address, and the answer goes there.
    PingPongRef,
    /// One token round a ring of 100.
    Ring,
    /// The same; the token carries the sender's address.
    RingRef,
    /// 100,000 actors are made, get one message, and end.
    FjCreate,
    /// The same; each actor gets the address of its creator.
    FjCreateRef,
    /// One producer floods 60 actors in turn.
    FjThru,
    /// 120 actors ping each other at random and wait for the answer.
    Big,
    /// The same; each message carries the sender's address, and the answer goes there.
    BigRef,
    /// `big` with 40 bytes in each message.
    BigMid,
    /// One producer sends to 100,000 actors at random.
    Entities,
    /// Two producers do, each its half of the messages: as many as there are workers.
    EntitiesTwo,
    /// One actor asks another and waits for the answer.
    AskLone,
    /// 64 askers of one actor.
    #[serde(rename = "ask_64to1")]
    AskCrowd,
    /// One asker of a chain of eight actors: each asks the next before it answers.
    #[serde(rename = "ask_chain8")]
    AskChain,
    /// Each handler of one actor asks another actor; the answer makes it send itself the next
    /// message.
    Pipe,
    /// 64 tokio tasks ask 1,000 entities by their keys, which are drawn by Zipf's law.
    Service,
    /// Bytes of an idle actor that has handled one message.
    Memory,
}

impl Shape {
    const ALL: [(Self, &'static str); 21] = [
        (Self::Count, "count"),
        (Self::CountMid, "count_mid"),
        (Self::CountBounded, "count_bounded"),
        (Self::PingPong, "pingpong"),
        (Self::PingPongRef, "pingpong_ref"),
        (Self::Ring, "ring"),
        (Self::RingRef, "ring_ref"),
        (Self::FjCreate, "fjcreate"),
        (Self::FjCreateRef, "fjcreate_ref"),
        (Self::FjThru, "fjthru"),
        (Self::Big, "big"),
        (Self::BigRef, "big_ref"),
        (Self::BigMid, "big_mid"),
        (Self::Entities, "entities"),
        (Self::EntitiesTwo, "entities_two"),
        (Self::AskLone, "ask_lone"),
        (Self::AskCrowd, "ask_64to1"),
        (Self::AskChain, "ask_chain8"),
        (Self::Pipe, "pipe"),
        (Self::Service, "service"),
        (Self::Memory, "memory"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(shape, _)| *shape == self).map_or("", |(_, name)| name)
    }
}

/// A shape, with or without 100 ns of real work a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pattern {
    pub(crate) shape: Shape,
    pub(crate) has_work: bool,
}

const WORK_SUFFIX: &str = "_work100";

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.shape.name(), if self.has_work { WORK_SUFFIX } else { "" })
    }
}

impl Pattern {
    /// Not messages but bytes.
    pub(crate) const MEMORY: Self = Self { shape: Shape::Memory, has_work: false };

    /// Every pattern, the plain forms first, memory last.
    pub(crate) fn all() -> Vec<Self> {
        let shapes = || Shape::ALL.iter().map(|(shape, _)| *shape).filter(|s| *s != Shape::Memory);
        let plain = shapes().map(|shape| Self { shape, has_work: false });
        let worked = shapes().map(|shape| Self { shape, has_work: true });
        plain.chain(worked).chain([Self::MEMORY]).collect()
    }

    fn parse(name: &str) -> Result<Self, BenchError> {
        Self::all().into_iter().find(|pattern| pattern.to_string() == name).ok_or_else(|| {
            let known: Vec<String> = Self::all().iter().map(ToString::to_string).collect();
            BenchError::UnknownName {
                what: "pattern",
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// The patterns asked for. With an amount of work given, names stand for the shape, and the
    /// form with that work is meant; without, they are taken as they are.
    pub(crate) fn select(names: &[String], work_ns: Option<u32>) -> Result<Vec<Self>, BenchError> {
        let mut chosen = if names.is_empty() {
            Self::all()
        } else {
            names.iter().map(|name| Self::parse(name)).collect::<Result<Vec<_>, _>>()?
        };
        match work_ns {
            None => {}
            Some(0) => chosen.iter_mut().for_each(|pattern| pattern.has_work = false),
            Some(WORK_NS) => {
                chosen.retain(|pattern| pattern.shape != Shape::Memory);
                chosen.iter_mut().for_each(|pattern| pattern.has_work = true);
            }
            Some(other) => {
                let text = format!("--work-ns is 0 or {WORK_NS}, not {other}");
                return Err(BenchError::BadValue(text));
            }
        }
        let mut unique: Vec<Self> = Vec::new();
        for pattern in chosen {
            if !unique.contains(&pattern) {
                unique.push(pattern);
            }
        }
        if unique.is_empty() {
            return Err(BenchError::BadValue("no pattern is left to run".to_owned()));
        }
        Ok(unique)
    }
}

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Impl {
    /// Ours.
    Turnwheel,
    /// Ours, as typed actors.
    TurnwheelActors,
    /// Ours, with the workers on the tokio runtime of those who ask: `service` alone.
    TurnwheelHosted,
    /// The same as typed actors.
    TurnwheelActorsHosted,
    /// A tokio task with an mpsc channel of an enum, on two workers.
    Tokio,
    /// ractor, its only mailbox.
    Ractor,
    /// kameo with unbounded mailboxes and `try_send`.
    Kameo,
    /// actix, actors spread over arbiters.
    Actix,
}

impl Impl {
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Turnwheel, "turnwheel"),
        (Self::TurnwheelActors, "turnwheel-actors"),
        (Self::TurnwheelHosted, "turnwheel-hosted"),
        (Self::TurnwheelActorsHosted, "turnwheel-actors-hosted"),
        (Self::Tokio, "tokio"),
        (Self::Ractor, "ractor"),
        (Self::Kameo, "kameo"),
        (Self::Actix, "actix"),
    ];

    /// Ours on a runtime of tokio's; it has `service` alone.
    pub(crate) fn is_hosted(self) -> bool {
        matches!(self, Self::TurnwheelHosted | Self::TurnwheelActorsHosted)
    }

    /// The implementations asked for, all if none is named.
    pub(crate) fn select(names: &[String]) -> Result<Vec<Self>, BenchError> {
        if names.is_empty() {
            return Ok(Self::ALL.iter().map(|(one, _)| *one).collect());
        }
        let find = |name: &String| {
            let found = Self::ALL.iter().find(|(_, known)| known == name).map(|(one, _)| *one);
            found.ok_or_else(|| BenchError::UnknownName {
                what: "implementation",
                name: name.clone(),
                known: Self::ALL.map(|(_, known)| known).join(", "),
            })
        };
        let mut chosen = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }
}

impl fmt::Display for Impl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(one, _)| one == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// One run of one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The shape of its messages.
    pub(crate) shape: Shape,
    /// Messages handled in the time that is taken.
    pub(crate) messages: u64,
    /// Rounds of work in each message; none at zero.
    pub(crate) work: u32,
}

impl Run {
    /// A run with as many messages as the contender handles in about a tenth of a second; slow
    /// ones get fewer, since the figure is per message.
    pub(crate) fn new(pattern: Pattern, contender: Impl, work_rounds: u32) -> Self {
        let slow = match contender {
            Impl::Ractor | Impl::Kameo | Impl::Actix => 4,
            _ => 1,
        };
        // A message between arbiters costs a wake-up each.
        let crossing = if contender == Impl::Actix { 12 } else { 1 };
        let messages = match pattern.shape {
            Shape::Count | Shape::CountMid | Shape::CountBounded => 1_000_000 / slow,
            Shape::Entities | Shape::EntitiesTwo => 1_000_000 / slow,
            Shape::PingPong | Shape::PingPongRef | Shape::Ring | Shape::RingRef => {
                1_000_000 / slow / crossing
            }
            Shape::AskLone | Shape::Pipe => 400_000 / slow / crossing,
            Shape::AskCrowd => ASKERS * (10_000 / slow / crossing),
            // One for each actor on the way.
            Shape::AskChain => CALL_DEPTH * (50_000 / slow / crossing),
            Shape::Service => ASKERS * (4_000 / slow / crossing),
            Shape::FjCreate | Shape::FjCreateRef | Shape::Memory => MANY_ACTORS,
            Shape::FjThru => FJTHRU_ACTORS * 10_000,
            // Two messages for each ping.
            Shape::Big | Shape::BigRef | Shape::BigMid => {
                2 * BIG_ACTORS * (5_000 / slow / crossing)
            }
        };
        let work = if pattern.has_work { work_rounds } else { 0 };
        Self { shape: pattern.shape, messages, work }
    }

    /// The run in the words of an error.
    pub(crate) fn what(&self, contender: Impl) -> String {
        let pattern = Pattern { shape: self.shape, has_work: self.work > 0 };
        format!("{pattern} on {contender}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_found_by_its_own_name() {
        for pattern in Pattern::all() {
            assert_eq!(Pattern::parse(&pattern.to_string()).unwrap(), pattern);
        }
        assert_eq!(Pattern::all().len(), 41);
    }

    #[test]
    fn an_amount_of_work_turns_shapes_into_that_form() {
        let names = ["count".to_owned(), "ring_work100".to_owned()];
        let chosen = Pattern::select(&names, Some(100)).unwrap();
        assert_eq!(
            chosen.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["count_work100", "ring_work100"]
        );
        assert!(Pattern::select(&names, Some(7)).is_err());
    }
}
