//! Every limit of the runtime: unit, reason, and what happens when it is reached.

use std::time::Duration;

/// Jobs one turn may run before the task goes behind all queued tasks.
///
/// Short jobs are bounded by this, long ones by [`TURN_TIME_MAX`]. A producer that floods in chunks
/// of a thousand would outrun a consumer with a smaller budget (128 was measured at twice the time
/// a message, all of it cache misses on the growing queue).
pub const TURN_JOBS_MAX: u32 = 1_024;

/// Time one turn may take before the task goes behind all queued tasks.
pub const TURN_TIME_MAX: Duration = Duration::from_micros(200);

/// Jobs between two clock reads inside a turn, at most. A clock read costs 31 to 47 ns.
pub(crate) const CLOCK_STRIDE_JOBS_MAX: u32 = 64;

/// Queued jobs of one task by default; a further one is answered `Full`.
pub const MAILBOX_JOBS_DEFAULT: u64 = 16_384;

/// Jobs that the urgent lane of a task holds, at most: it is for rare control jobs, not for floods.
pub const URGENT_JOBS_MAX: usize = 1_024;

/// Bound of a mailbox with the policy «reject», at most: its count has 20 bits of the task's state
/// word. For more, use [`Mailbox::unbounded`](crate::Mailbox::unbounded) and the group's
/// memory budget.
pub const MAILBOX_JOBS_MAX: u64 = (1 << 20) - 1;

/// Bytes that all mailboxes of a group may hold by default; beyond, `submit` answers `GroupMemory`.
pub const GROUP_MAILBOX_BYTES_DEFAULT: u64 = 2 << 30;

/// Bytes a worker may count on its own before it adds them to the group's total.
pub(crate) const MAILBOX_BYTES_FLUSH: i64 = 16 << 10;

/// Jobs in the fast lane of one task; `run` answers `Full` beyond. A job that makes more without
/// end would exhaust memory before any budget could stop it.
pub const FAST_JOBS_MAX: u32 = 1 << 20;

/// Workers of one group, at most: the sleep word has eight bits for each of its counts.
pub const WORKERS_MAX: usize = 255;

/// First pause between two attempts by default: a hiccup is over by then.
pub const BACKOFF_FIRST_DEFAULT: Duration = Duration::from_millis(100);

/// Longest pause between two attempts by default: a failing service is retried twice a minute.
pub const BACKOFF_CAP_DEFAULT: Duration = Duration::from_secs(30);

/// Jobs consumed before the count is published to the producers of a bounded mailbox.
pub(crate) const DONE_PUBLISH_JOBS: u64 = 32;

/// Spins for a producer that was preempted between its exchange and its link, before the task is
/// put back into the queue.
pub(crate) const LINK_SPINS_MAX: u32 = if cfg!(turnwheel_loom) { 1 } else { 128 };

/// Turns in a row that may come from the run-next slot while other tasks wait.
pub(crate) const SLOT_STREAK_MAX: u32 = 16;

/// Turns between two looks at the injector when no budget is exhausted. 61 as in tokio and Go.
pub(crate) const INJECTOR_TURNS: u32 = 61;

/// Turns between two looks at the clock and the timers, at most.
pub(crate) const CLOCK_STRIDE_TURNS_MAX: u32 = 64;

/// A worker that reads the clock more often than this looks less often, and the reverse.
pub(crate) const CLOCK_PERIOD_NS: u64 = 50_000;

/// Time that a task must have waited in a sibling's queue before it may be stolen, in nanoseconds.
///
/// Younger work is nearly always taken by its owner sooner than the cache lines could move.
pub(crate) const STEAL_AGE_NS: u64 = 20_000;

/// A sibling in one turn for so long is stuck: its queued tasks may be stolen at once, in
/// nanoseconds. Half a turn's budget.
pub(crate) const STUCK_TURN_NS: u64 = 100_000;

/// Time that a worker spins in search of work before it parks (latency first), in nanoseconds.
pub(crate) const SPIN_NS_LATENCY: u64 = 50_000;

/// Time that a worker spins in search of work before it parks (power first), in nanoseconds.
pub(crate) const SPIN_NS_POWER: u64 = 0;

/// Sleep of the worker on watch between two looks while a sibling works, in nanoseconds.
pub(crate) const WATCH_NS: u64 = 300_000;

/// Timers fired in one go before the worker looks at its queues again.
pub(crate) const TIMERS_FIRED_MAX: usize = 256;

/// Pending timers in one wheel; one more is refused.
pub(crate) const TIMERS_PENDING_MAX: usize = 1 << 27;

/// One in this many turns is measured (scheduling latency, execution time). A power of two. Three
/// clock reads a sample: at 64 they cost 2 ns a turn, at 256 half a nanosecond.
pub(crate) const SAMPLE_TURNS: u32 = 256;

/// Time that a turn may hold a worker before the watchdog names the actor.
pub const LONG_TURN: Duration = Duration::from_millis(500);

/// Sleep of the watchdog between two looks while a worker is awake.
pub(crate) const WATCHDOG_PERIOD: Duration = Duration::from_millis(100);

/// Turns in one poll of a hosted worker, at most; then the executor runs other tasks.
pub const HOSTED_TURNS_MAX: u32 = 128;

/// Time of one poll of a hosted worker, about, in nanoseconds.
pub const HOSTED_POLL_NS: u64 = 200_000;

/// Turns that a thread of the executor runs for one answer, at most.
pub(crate) const ASSIST_TURNS_MAX: u32 = 16;

/// One in so many answers is left to the executor, so that its other tasks get the thread.
pub(crate) const ASSISTS_IN_A_ROW: u32 = 64;

/// A poll of a hosted worker with this many turns is followed by another one before the worker
/// parks. More came at once: others will ask again before that poll, and need no wake-up.
pub(crate) const HOSTED_YIELD_TURNS: u32 = 4;

/// Sleep of the keeper of a hosted group between two looks while some workers are awake.
pub(crate) const KEEPER_PERIOD: Duration = Duration::from_millis(1);

/// Time that `shutdown` waits for actors to close before it stops them.
pub const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// Spare node chunks kept for reuse, process-wide (16 KiB each); more are given back.
#[cfg_attr(
    all(turnwheel_checked, not(turnwheel_loom)),
    expect(dead_code, reason = "no chunks there")
)]
pub(crate) const SPARE_CHUNKS_MAX: usize = 8_192;

/// Stack of a worker thread by default, in bytes.
pub const STACK_BYTES_DEFAULT: usize = 2 << 20;

/// Turns in one go after which a simulation counts as endless. A large test has some ten thousand.
pub const SIM_TURNS_MAX: u64 = 1_000_000;

/// Events that a simulation records, at most: a hundred megabytes or two. Later ones are counted
/// only.
pub const SIM_EVENTS_MAX: usize = 1_000_000;

/// Failed jobs that a simulation remembers, at most; enough to see the cause.
pub const SIM_FAILURES_MAX: usize = 10_000;

/// Virtual workers of a simulated group by default: two are enough for steals.
pub const SIM_WORKERS_DEFAULT: usize = 2;

const _: () = assert!(SAMPLE_TURNS.is_power_of_two());
const _: () = assert!(WATCH_NS >= STEAL_AGE_NS);
const _: () = assert!(SPIN_NS_LATENCY > STEAL_AGE_NS);
const _: () = assert!(DONE_PUBLISH_JOBS < MAILBOX_JOBS_DEFAULT);
