//! Limits of journeys: each with unit and reason.

use std::time::Duration;

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

/// Elements of a definition: their numbers are in the history of each pass.
pub const ELEMENTS_MAX: usize = 4_096;

/// Versions of a definition. All are kept, as users may be under way on each of them.
pub const VERSIONS_MAX: usize = 256;

/// Passes that a user has under way at once.
pub const PASSES_MAX: usize = 64;

/// Ids of events that are remembered for a user. A repetition of an older one counts as new.
pub const SEEN_MAX: usize = 32;

/// Segments of the path of a pass that are kept; the oldest go first.
pub const MOVES_MAX: usize = 32;

/// Passes that are kept after their end, for each user.
pub const ENDED_MAX: usize = 4;

/// Messages of a user that wait to be sent. A walk that makes more is cut off and says so.
pub const OUTBOX_MAX: usize = 64;

/// Messages that were given up and are kept, for each user.
pub const LOST_MAX: usize = 4;

/// Elements that one walk visits: parallel lines may meet again.
pub const STEPS_MAX: usize = 10_000;

/// Attempts to send a message.
pub const ATTEMPTS_MAX: u32 = 10;

/// Pause before the second attempt; it doubles up to [`PAUSE_MAX`].
pub const PAUSE: Duration = Duration::from_secs(1);

/// Longest pause between two attempts.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Pause before a failed look at the store is repeated.
pub const AGAIN: Duration = Duration::from_secs(1);

/// Milliseconds that a desk has a message for itself: after that another node takes the sender for
/// gone and sends the message again, with its key. The desk itself never sends one twice at a time.
pub const SENDING_MS: u64 = 10_000;

/// Due users that are taken up at once.
pub const DUE_PAGE: usize = 1_024;

/// The clock is looked at again after this time at the latest: it may have been set.
pub const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// Rows that are read at once when all are listed.
pub const LIST_PAGE: usize = 1_024;

/// Times that a change is decided anew because another node has written the user.
pub const CONFLICTS_MAX: u32 = 100;

const _: () = assert!(ELEMENTS_MAX <= u16::MAX as usize);
