//! Limits of journeys: each with unit and reason.

use std::time::Duration;

use turnwheel_engine::limits::TOGETHER_MAX;

/// Bytes of the name of a platform or of a journey: they are in keys and labels.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of the id of a user: it is in a key, twice.
pub const USER_BYTES_MAX: usize = 200;

/// Bytes of the id of an event and of its kind.
pub const EVENT_ID_BYTES_MAX: usize = 512;

/// Bytes of the data of an event, as JSON: conditions copy it.
pub const EVENT_BYTES_MAX: usize = 64 << 10;

/// Bytes of the attributes of a user, as JSON: they are written with each change of the user.
pub const ATTRIBUTES_BYTES_MAX: usize = 16 << 10;

/// Bytes of the data of a pass, as JSON, for the same reason.
pub const DATA_BYTES_MAX: usize = 16 << 10;

/// Bytes of the body of a message: it is in the row until it is sent.
pub const BODY_BYTES_MAX: usize = 16 << 10;

/// Levels of attributes and of the data of an event: what is read again has at most 128.
pub const LEVELS_MAX: usize = 64;

/// Elements of a definition: their numbers are in the history of each pass.
pub const ELEMENTS_MAX: usize = 4_096;

/// Versions of a definition. All are kept, as users may be under way on each of them.
pub const VERSIONS_MAX: usize = 256;

/// Passes that a user has under way at once.
pub const PASSES_MAX: usize = 64;

/// Waits of a pass, which parallel lines add up: an event looks at all of them.
pub const WAITS_MAX: usize = 64;

/// Ids of events that are remembered for a user, and events of a user in one batch. A repetition of
/// an older one counts as new.
pub const SEEN_MAX: usize = 128;

/// Segments of the path of a pass that are kept; the oldest go first.
pub const MOVES_MAX: usize = 32;

/// Passes that are kept after their end, for each user.
pub const ENDED_MAX: usize = 4;

/// Bytes of the problems that a move or an answer tells; further ones are counted.
pub const PROBLEMS_BYTES_MAX: usize = 1 << 10;

/// Bytes of one of them: its begin and its end are kept. Two have their place.
pub const PROBLEM_BYTES_MAX: usize = PROBLEMS_BYTES_MAX / 2;

/// Milliseconds between two lines of the log that say that conditions fail, of one task: an event of
/// each user may make one fail.
pub const TOLD_MS: u64 = 60_000;

/// Messages of a user that wait to be sent. One more is given up, and counts as lost.
pub const OUTBOX_MAX: usize = 64;

/// Messages that were given up and are kept, for each user.
pub const LOST_MAX: usize = 4;

/// Elements that one walk visits: parallel lines may meet again.
pub const STEPS_MAX: usize = 10_000;

/// Attempts to send a message.
pub const ATTEMPTS_MAX: u32 = 10;

/// Pause before the second attempt; it doubles up to [`PAUSE_MAX`].
pub const PAUSE: Duration = Duration::from_secs(2);

/// Longest pause between two attempts.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Pause before a failed look at the store is repeated.
pub const AGAIN: Duration = Duration::from_secs(1);

/// Milliseconds for which the sender of a batch of messages counts as there; it says so again
/// before they are over. If it does not, another node sends what is left, with the same keys.
pub const SENDING_MS: u64 = 3_000;

/// Milliseconds after which a user is looked at again whose message waits behind one that is being
/// sent: by a node that has died meanwhile, perhaps.
pub const SENDER_AGAIN_MS: u64 = 3_000;

/// Batches of messages whose senders are gone that are taken over at once: each has as many
/// messages as users are written at once.
pub const BATCHES_PAGE: usize = 16;

const _: () = assert!(BATCHES_PAGE <= TOGETHER_MAX);

/// Messages that a desk sends at once: each is in memory meanwhile. More wait in their rows.
pub const SENDING_MAX: usize = 4_096;

/// Threads that send messages at once, of the 128 of the pool of a server: actions have the others.
/// The desks share them.
pub const CALLS_MAX: usize = 96;

/// Tasks that users are spread over. Each has three of the threads that send at least: two for a
/// receiver that hangs, and one for others.
pub const DESKS_MAX: usize = 32;

const _: () = assert!(CALLS_MAX / DESKS_MAX >= 3);

/// Milliseconds after which a message is looked at again that found too many others being sent.
pub const POSTPONED_MS: u64 = 1_000;

/// Requests that a desk has under way at once; more are refused with
/// [`JourneyError::Busy`](crate::JourneyError::Busy).
pub const REQUESTS_MAX: usize = 1 << 16;

/// Rows of users that a desk reads with one question.
pub const READ_MAX: usize = 256;

// A commit has as many users, and the batch of their messages.
const _: () = assert!(READ_MAX < TOGETHER_MAX);

/// Questions of a desk that are under way at once: one is answered while the next one is gathered.
pub const READS_MAX: usize = 2;

/// Events of kinds that no journey looks at, which wait for one look at the index of journeys.
pub const UNHEARD_MAX: usize = 4_096;

/// Due users that are taken up at once. Events go before their writes, but are decided behind them:
/// twice as many as a commit has, so that one part is decided while another is written.
pub const DUE_PAGE: usize = 512;

/// Rows that are read at once when users move to a newer version.
pub const MOVES_PAGE: usize = 1_024;

/// Users who move at once: events are decided behind them.
pub const MOVED_AT_ONCE: usize = 128;

/// The clock is looked at again after this time at the latest: it may have been set.
pub const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// Rows that are read at once when all are listed.
pub const LIST_PAGE: usize = 1_024;

/// Users that are looked at when those of a journey are counted, at most: some seconds of reading.
pub const COUNTED_MAX: u64 = 2_000_000;

/// Recorded events that are tried at once on a definition.
pub const TRIED_EVENTS_MAX: usize = 100_000;

/// Elements that recorded events may visit, and messages and problems that may come of them, each with a
/// further one for every [`TRIED_MESSAGE_BYTES`] of its content. All of it is in memory.
pub const TRIED_STEPS_MAX: usize = 300_000;

/// See [`TRIED_STEPS_MAX`].
pub const TRIED_MESSAGE_BYTES: usize = 64;

/// Time that recorded events may take: conditions may be slow.
pub const TRIED_TIME_MAX: Duration = Duration::from_secs(10);

/// Times that a change is decided anew because another node has written the user.
pub const CONFLICTS_MAX: u32 = 100;

const _: () = assert!(ELEMENTS_MAX <= u16::MAX as usize);
