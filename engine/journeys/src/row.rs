//! The row of a user: all that the store has of one user, written as one.
//!
//! A row is a version byte and a small binary encoding: a user who waits costs about 60 bytes.
//! Times are milliseconds since the begin of 1970.

use serde::{Deserialize, Serialize};

use crate::limits::{MOVES_MAX, SENDER_AGAIN_MS};

/// Version of the encoding.
const VERSION: u8 = 3;

/// Version of rows that have a [`Cause::Moved`]; the rest is the same. Older programs do not know
/// that cause: they refuse such a row by this number, and leave it as it is.
const MOVED: u8 = 4;

/// Version in whose rows the outbox has messages that are being sent, with claims.
const CLAIMED: u8 = 2;

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
    /// Messages that were given to a batch. Behind the rest, as older rows have no such field.
    #[serde(skip)]
    pub(crate) sending: Vec<Sending>,
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
    /// The wait at which it begins; 0 for a start.
    pub(crate) wait: u64,
    pub(crate) path: Vec<u16>,
    pub(crate) problem: Option<String>,
}

/// Why a user moved. Rows have the numbers of these: new ones come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    Event,
    Timer,
    /// An event was accepted and no line held, or the condition of the wait has failed: it stays.
    Unmatched,
    /// The wait is now at the element of a newer version that has another name. It was at this one.
    Moved {
        version: u32,
        element: u16,
    },
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
    /// When it may leave.
    pub(crate) from: u64,
    pub(crate) attempts: u32,
    pub(crate) channel: String,
    /// Content as JSON.
    pub(crate) body: String,
}

/// Batch of messages: a row of its own, as long as one of them is not known to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct BatchId {
    /// The world whose node sends it: worlds that are registered are alive.
    pub(crate) world: u64,
    /// The desk of that world, and the number that it has given.
    pub(crate) sender: u64,
    pub(crate) number: u64,
}

/// That a message was given to a batch, which has its content: one of this user. It is sent if the
/// batch has it no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sending {
    pub(crate) batch: BatchId,
    /// Its pass, and the message itself, once the batch was looked at.
    #[serde(skip)]
    pub(crate) pass: u64,
    #[serde(skip)]
    pub(crate) message: Option<Outgoing>,
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
        let fits = "memory takes all that is written";
        let version = if self.has_moved() { MOVED } else { VERSION };
        let bytes = postcard::to_extend(self, vec![version]).expect(fits);
        postcard::to_extend(&self.sending, bytes).expect(fits)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let malformed = |error| format!("it is malformed: {error}");
        let Some((version, rest)) = bytes.split_first() else {
            return Err("it is empty".to_owned());
        };
        if !(UNCLAIMED..=MOVED).contains(version) {
            return Err(format!("it is of version {version}, which is unknown"));
        }
        let (mut row, rest): (Self, &[u8]) = postcard::take_from_bytes(rest).map_err(malformed)?;
        match *version {
            VERSION | MOVED => row.sending = postcard::from_bytes(rest).map_err(malformed)?,
            // The sender may be gone: the message leaves when its claim is over, with its key.
            CLAIMED => {}
            _ if rest.is_empty() => {}
            _ => return Err("it is malformed: it is too long".to_owned()),
        }
        Ok(row)
    }

    /// Whether a history has a move to another version.
    fn has_moved(&self) -> bool {
        let passes = self.passes.iter().chain(self.ended.iter().map(|ended| &ended.pass));
        let mut moves = passes.flat_map(|pass| &pass.moves);
        moves.any(|made| matches!(made.cause, Cause::Moved { .. }))
    }

    /// When it has to be looked at.
    pub(crate) fn due(&self, now: u64) -> Option<u64> {
        let waits = self.passes.iter().flat_map(|pass| &pass.waits).filter_map(|wait| wait.due);
        // Messages behind one that is being sent: its sender goes on with them, if that lives.
        let behind = self.outbox.iter().filter(|message| self.is_sending(message.pass));
        let again = now.saturating_add(SENDER_AGAIN_MS);
        let behind = behind.map(|message| message.from.max(again));
        waits.chain(self.heads().map(|at| self.outbox[at].from)).chain(behind).min()
    }

    fn is_sending(&self, pass: u64) -> bool {
        self.sending.iter().any(|it| it.pass == pass)
    }

    /// Places of the next messages of each pass: those of one pass leave in their order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = usize> + '_ {
        let outbox = &self.outbox;
        let is_head = |at: &usize| {
            let pass = outbox[*at].pass;
            !self.is_sending(pass) && !outbox[..*at].iter().any(|it| it.pass == pass)
        };
        (0..outbox.len()).filter(is_head)
    }

    /// Places of the messages that may leave now.
    pub(crate) fn ready(&self, now: u64) -> impl Iterator<Item = usize> + '_ {
        self.heads().filter(move |at| self.outbox[*at].from <= now)
    }

    /// Takes a message back that is not sent: it is the next one of its pass.
    pub(crate) fn take_back(&mut self, message: Outgoing) {
        self.outbox.insert(0, message);
    }
}

impl Pass {
    /// Adds a segment to the history. The oldest ones go.
    pub(crate) fn add(&mut self, made: Move) {
        self.moves.push(made);
        let surplus = self.moves.len().saturating_sub(MOVES_MAX);
        self.moves.drain(..surplus);
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
    fn rows_of_older_versions_are_read() {
        let entered = Entered { journey: 3, last: 4, times: 5, sent: vec![6] };
        let row = Row { revision: 2, entered: vec![entered], ..Row::default() };
        let mut bytes = row.encode();
        assert_eq!((bytes[0], bytes.pop()), (VERSION, Some(0)), "messages being sent are last");
        bytes[0] = UNCLAIMED;
        assert_eq!(Row::decode(&bytes), Ok(row.clone()));
        bytes[0] = CLAIMED;
        // One claim: of which pass and message, by which world, since when.
        bytes.extend([1, 7, 1, 9, 200, 1]);
        assert_eq!(Row::decode(&bytes), Ok(row));
        assert!(Row::decode(&[9]).is_err());
    }

    #[test]
    fn only_a_row_with_a_move_to_another_version_has_a_number_that_older_programs_refuse() {
        let made =
            |cause| Move { after: 1, version: 2, cause, wait: 3, path: vec![4], problem: None };
        let row = |cause| {
            let pass = Pass {
                journey: 1,
                version: 2,
                number: 1,
                began: 9,
                data: None,
                waits: Vec::new(),
                moves: vec![made(Cause::Event), made(cause)],
                messages: 0,
            };
            let ended = Ended { pass, at: 9, why: Why::End };
            Row { ended: vec![ended], ..Row::default() }
        };
        for (cause, version) in [
            (Cause::Timer, VERSION),
            (Cause::Unmatched, VERSION),
            (Cause::Moved { version: 1, element: 7 }, MOVED),
        ] {
            let row = row(cause);
            let bytes = row.encode();
            assert_eq!((bytes[0], Row::decode(&bytes)), (version, Ok(row)), "{cause:?}");
        }
    }

    #[test]
    fn message_behind_one_that_is_being_sent_is_looked_at_when_it_may_leave_and_not_before() {
        let message = |from| Outgoing {
            journey: 1,
            version: 1,
            pass: 2,
            number: 2,
            element: 3,
            from,
            attempts: 0,
            channel: "mail".to_owned(),
            body: String::new(),
        };
        let sending = vec![Sending { batch: BatchId::default(), pass: 2, message: None }];
        let due =
            |from| Row { outbox: vec![message(from)], sending: sending.clone(), ..Row::default() };
        assert_eq!(due(5).due(10), Some(10 + SENDER_AGAIN_MS));
        assert_eq!(due(1_000_000).due(10), Some(1_000_000), "such as the end of quiet hours");
    }

    #[test]
    fn messages_that_are_being_sent_are_named_without_their_content() {
        let batch = BatchId { world: 3, sender: 1, number: 9 };
        let sending = Sending { batch, pass: 0, message: None };
        let row = Row { sending: vec![sending], ..Row::default() };
        let bytes = row.encode();
        assert_eq!(bytes.len(), Row::default().encode().len() + 3);
        assert_eq!(Row::decode(&bytes), Ok(row));
    }
}
