//! Limits of the measurements: every bound with its unit and reason.

/// Milliseconds one measurement may take, whatever its sample count: a slow disk must not hang it.
pub const MEASUREMENT_MS_MAX: u64 = 3_000;

/// Operations in one timed batch of the thread-local floors: enough to bury the two clock reads.
pub const LOCAL_BATCH_OPERATIONS: u32 = 100_000;

/// Batches of a thread-local floor: the median needs a few dozen, the total stays below 0.3 s.
pub const LOCAL_BATCHES: usize = 41;

/// Round trips in one timed batch of the hand-over floor.
pub const HANDOVER_BATCH_ROUND_TRIPS: u64 = 1_000;

/// Batches of the hand-over floor: together about 0.1 s on two idle cores.
pub const HANDOVER_BATCHES: usize = 201;

/// Fruitless looks at the line before a measuring thread yields, so that two threads that share one
/// core make progress at all.
pub const HANDOVER_SPINS_BEFORE_YIELD: u32 = 20_000;

/// Wake-ups in the unpark floor: enough for a p99 of twenty samples.
pub const UNPARK_ROUNDS: usize = 2_000;

/// Microseconds between a thread's run and its next wake-up: long enough for the thread to park and
/// its core to go idle, short enough that all rounds fit into a second.
pub const UNPARK_GAP_US: u64 = 300;

/// Bytes of one durable append: the page size that journals and file systems share.
pub const APPEND_BYTES: usize = 4_096;

/// Appends in the disk floor: at most 8 MiB of scratch file.
pub const APPEND_ROUNDS: usize = 2_000;

/// Appends before the first timed one: the file system allocates its first extents here.
pub const APPEND_WARM_UP_ROUNDS: usize = 10;

const _: () = assert!(UNPARK_ROUNDS as u64 * UNPARK_GAP_US / 1_000 < MEASUREMENT_MS_MAX);
const _: () = assert!(APPEND_WARM_UP_ROUNDS < APPEND_ROUNDS);
