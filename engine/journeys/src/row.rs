//! The row of a user: all that the store has of one user, written as one.
//!
//! A row is a version byte and a small binary encoding: a user who waits costs about 60 bytes.
//! Times are milliseconds since the begin of 1970.

use serde::{Deserialize, Serialize};

/// Version of the encoding.
const VERSION: u8 = 2;

/// Version without claims.
const UNCLAIMED: u8 = 1;

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Attributes as JSON.
    pub(crate) attributes: Option<String>,
    /// Number of changes of the attributes.
    pub(crate) revision: u64,
    pub(crate) has_opted_out: bool,
    /// Numbers that were given: none is given twice to a user.
    pub(crate) last_wait: u64,
    pub(crate) last_pass: u64,
    pub(crate) passes: Vec<Pass>,
    pub(crate) ended: Vec<Ended>,
    pub(crate) entered: Vec<Entered>,
    /// Digests of the ids of events, the newest last.
    pub(crate) seen: Vec<[u8; 8]>,
    pub(crate) outbox: Vec<Outgoing>,
    pub(crate) lost: Vec<Lost>,
    /// Messages of the outbox that are being sent. Last, as older rows have no such field.
    pub(crate) claims: Vec<Claim>,
}

/// One walk of a user through a journey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pass {
    /// Number of the journey, and version of its definition.
    pub(crate) journey: u32,
    pub(crate) version: u32,
    pub(crate) number: u64,
    pub(crate) began: u64,
    /// Data as JSON.
    pub(crate) data: Option<String>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) moves: Vec<Move>,
    /// Messages that it has made.
    pub(crate) messages: u32,
}

/// A wait at a trigger. Its number is the token that answer and timer race for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) number: u64,
    pub(crate) element: u16,
    pub(crate) since: u64,
    pub(crate) due: Option<u64>,
}

/// One segment of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Move {
    /// Since the begin of the pass.
    pub(crate) after: u64,
    /// Version whose elements the path names.
    pub(crate) version: u32,
    pub(crate) cause: Cause,
    /// The wait that it has ended; 0 for a start.
    pub(crate) wait: u64,
    pub(crate) path: Vec<u16>,
    pub(crate) problem: Option<String>,
}

/// Why a user moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    Event,
    Timer,
    /// An event was accepted and no line held: the wait stays.
    Unmatched,
}

/// A pass that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) pass: Pass,
    pub(crate) at: u64,
    pub(crate) why: Why,
}

/// Why a pass is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Why {
    End,
    /// No line held at an element without a default.
    NoLine,
    Replaced,
    Removed,
    OptedOut,
}

/// That a user has entered a journey.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entered {
    pub(crate) journey: u32,
    pub(crate) last: u64,
    pub(crate) times: u32,
    /// Messages within the time of the journey's cap.
    pub(crate) sent: Vec<u64>,
}

/// A message that was decided on, and is not known to be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    pub(crate) journey: u32,
    pub(crate) version: u32,
    pub(crate) pass: u64,
    /// Number in the pass.
    pub(crate) number: u32,
    pub(crate) element: u16,
    /// When it may leave: while it is being sent, when its sender counts as gone.
    pub(crate) from: u64,
    pub(crate) attempts: u32,
    pub(crate) channel: String,
    /// Content as JSON.
    pub(crate) body: String,
}

/// That a node is sending a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) pass: u64,
    pub(crate) number: u32,
    /// The world of the node: worlds that are registered are alive.
    pub(crate) sender: u64,
    pub(crate) since: u64,
}

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) message: Outgoing,
    pub(crate) at: u64,
    pub(crate) reason: String,
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = vec![VERSION];
        postcard::to_extend(self, bytes).expect("memory takes all that is written")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => {
                postcard::from_bytes(rest).map_err(|error| format!("it is malformed: {error}"))
            }
            Some((&UNCLAIMED, rest)) => {
                let rest = [rest, &[0]].concat();
                postcard::from_bytes(&rest).map_err(|error| format!("it is malformed: {error}"))
            }
            Some((version, _)) => Err(format!("it is of version {version}, which is unknown")),
            None => Err("it is empty".to_owned()),
        }
    }

    /// When it has to be looked at.
    pub(crate) fn due(&self) -> Option<u64> {
        let waits = self.passes.iter().flat_map(|pass| &pass.waits).filter_map(|wait| wait.due);
        waits.chain(self.heads().map(|at| self.outbox[at].from)).min()
    }

    /// Places of the next messages of each pass: those of one pass leave in their order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = usize> + '_ {
        let outbox = &self.outbox;
        let is_head = |at: &usize| !outbox[..*at].iter().any(|it| it.pass == outbox[*at].pass);
        (0..outbox.len()).filter(is_head)
    }
}

impl Claim {
    pub(crate) fn is_of(&self, message: &Outgoing) -> bool {
        (self.pass, self.number) == (message.pass, message.number)
    }
}

impl Outgoing {
    /// The key that is the same in all attempts, and no other message has.
    pub(crate) fn key(&self, of: &str) -> String {
        format!("{of}/{}/{}/{}", self.journey, self.pass, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_without_claims_is_read_as_it_was_written_before() {
        let entered = Entered { journey: 3, last: 4, times: 5, sent: vec![6] };
        let row = Row { revision: 2, entered: vec![entered], ..Row::default() };
        let mut bytes = row.encode();
        assert_eq!((bytes[0], bytes.pop()), (VERSION, Some(0)), "the number of claims is last");
        bytes[0] = UNCLAIMED;
        assert_eq!(Row::decode(&bytes), Ok(row));
        assert!(Row::decode(&[9]).is_err());
    }
}
