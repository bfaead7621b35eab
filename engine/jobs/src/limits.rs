//! Limits of jobs.

use std::time::Duration;

/// Jobs of one store; each takes about 400 bytes of memory at the node that serves them.
pub const JOBS_MAX: usize = 2_000_000;

/// Time until a job's next look below which it is kept ready in memory.
pub const REST_MIN: Duration = Duration::from_secs(60);

/// Number of jobs up to which each is read at the start, unless the options give another one.
pub const READ_AT_START: usize = 20_000;

/// Jobs whose stored next times are checked at once, at most each [`CLOCK_CHECK`].
pub const CHECKED_AT_ONCE: usize = 2_000;

/// Bytes of a job's name: it is part of the key of each run.
pub const NAME_BYTES_MAX: usize = 128;

/// Bytes of a job's settings as JSON: they are written with each change of its state.
pub const SPEC_BYTES_MAX: usize = 256 * 1_024;

/// Delay of a fire after which its time counts as missed; until then the fire is late.
pub const LATE_MAX: Duration = Duration::from_secs(10);

/// Interval of clock reads while jobs wait, so that a jump is noticed before times count as missed.
pub const CLOCK_CHECK: Duration = Duration::from_secs(5);

const _: () = assert!(CLOCK_CHECK.as_secs() < LATE_MAX.as_secs());

/// Launches of one job that are under way or wait: each is written with each change of the job.
pub const ACTIVE_MAX: usize = 100;

/// Launches of one job whose outcome a person is asked for; the oldest of more ends as unknown.
pub const ASKED_MAX: usize = 20;

const _: () = assert!(ASKED_MAX < ACTIVE_MAX);

/// Retries of one launch.
pub const RETRIES_MAX: u32 = 1_000;

/// Rows of missed times for one outage; older times share one row with their number.
pub const MISSED_ROWS_MAX: usize = 20;

/// Missed times that are counted for one outage; further ones are in the shared row uncounted.
pub const MISSED_MAX: usize = 100_000;

/// Times that are decided in one turn; others follow in the next turn.
pub const SLICE: usize = 256;

/// Ended launches that are kept with the state of a job; older ones are in pages.
pub const INLINE_MAX: usize = 24;

/// Launches of one page of history.
pub const PAGE: usize = 16;

/// Launches that a job keeps unless its settings give another number, as of Dkron.
pub const KEEP_DEFAULT: u32 = 100;

/// Launches that a job may keep.
pub const KEEP_MAX: u32 = 100_000;

/// Longest key that jobs wait for, in bytes: it is a part of the name of a lock.
pub const CONCURRENCY_KEY_BYTES_MAX: usize = 512;

/// Bytes of output that a run keeps, unless the settings give another number: the end is kept.
pub const OUTPUT_DEFAULT: u64 = 256_000;

/// Bytes of output that a run may keep.
pub const OUTPUT_MAX: u64 = 4 * 1_024 * 1_024;

/// Bytes of a reason in a row.
pub const REASON_BYTES_MAX: usize = 500;

/// Keys of requests to launch a job by hand that the job remembers; the oldest of more is forgotten.
/// They are written with each change of its state.
pub const RUN_KEYS_MAX: usize = 128;

/// Ends of parents that a job remembers, so that none starts it twice.
pub const SEEN_MAX: usize = 256;

/// Times of one preview.
pub const TIMES_MAX: usize = 10_000;

/// Pause before a refused write or start is tried again.
pub const AGAIN: Duration = Duration::from_secs(1);

/// Jobs that are read at once.
pub const LOAD_PAGE: usize = 1_000;

/// Pause between two looks for a node that can run a launch.
pub const NODE_LOOK: Duration = Duration::from_secs(1);

/// Requests that wait until the jobs were read.
pub const WAITING_MAX: usize = 1_024;

/// Runs that are under way at once unless the node says otherwise.
pub const RUNS_DEFAULT: u32 = 64;

/// Notifications of one job, and of a node for all jobs.
pub const NOTIFY_MAX: usize = 16;

/// Events of one job whose notifications have not begun; of more the oldest are dropped.
pub const NOTICES_MAX: usize = 64;

/// Bytes of an output in a notification, the last ones.
pub const NOTICE_OUTPUT_MAX: usize = 32 * 1_024;

/// Attempts to send a notification: with their pauses, about a quarter of an hour.
pub const NOTICE_ATTEMPTS: u32 = 10;

/// Webhooks that are sent at once; others wait.
pub const WEBHOOK_PLACES: u32 = 16;

/// Webhooks that are sent to one receiver at once: one that hangs leaves places for others. Half of
/// the places that this leaves are kept for receivers to which nothing is being sent.
pub const RECEIVER_PLACES: u32 = 4;

/// Mails that are sent at once: all of them go to one server.
pub const MAIL_PLACES: u32 = 4;

const _: () = assert!(RECEIVER_PLACES * 2 <= WEBHOOK_PLACES, "others have places as well");

/// Bytes that are kept of the output of a run under way, for those that begin to follow it.
pub const LIVE_BYTES_MAX: usize = 256 * 1_024;

/// Followers of a run that wait at once.
pub const FOLLOWERS_MAX: usize = 64;
