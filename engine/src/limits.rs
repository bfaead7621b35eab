//! Every limit of the engine, with its unit and its reason.
//!
//! Each text that reaches the store has one. A text that names something is refused when it is too
//! long; a text for people is cut, and says how long it was.
//!
//! | text | limit | a longer one |
//! | --- | --- | --- |
//! | names of actions, queues, worlds, and of the kinds of chunks | [`NAME_BYTES_MAX`] | is refused |
//! | name of a schedule | [`SCHEDULE_NAME_BYTES_MAX`] | is refused |
//! | pattern of a schedule | 256 bytes | is refused |
//! | label of a plan | [`PLAN_LABEL_BYTES_MAX`] | fails the planning |
//! | names of locks, with the keys of singletons | [`LOCK_NAME_BYTES_MAX`] | fails the planning |
//! | names and values of labels | [`LABEL_NAME_BYTES_MAX`], [`LABEL_VALUE_BYTES_MAX`] | is refused |
//! | idempotency keys, keys of entities | [`KEY_BYTES_MAX`] | is refused |
//! | ids of events | [`EVENT_ID_BYTES_MAX`] | is refused |
//! | names of claims with their classes, and their data | [`CLAIM_NAME_MAX`], [`CLAIM_DATA_MAX`] | is refused |
//! | what a world says of itself, in all | [`META_BYTES_MAX`] | is refused |
//! | state of a trace | [`TRACE_STATE_BYTES_MAX`] | is left out |
//! | inputs, outputs, events, details of heartbeats | [`PAYLOAD_BYTES_MAX`] | is refused |
//! | messages of errors | [`ERROR_BYTES_MAX`] | is cut |
//! | reasons, principals, kinds of errors | [`REASON_BYTES_MAX`] | is cut |
//!
//! Keys of [`Concurrency`](crate::Concurrency) are not stored.

use std::time::Duration;

/// Bytes of one input, output or event as JSON. One entry must not hold up the commit that others
/// wait for; larger data belongs into a file or an object store, with its name in the payload.
pub const PAYLOAD_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Bytes from which on a text in an entry or a snapshot is kept apart: 64 KiB. A smaller one costs
/// less within its entry than a row of its own; larger ones would be written again with each
/// snapshot. Entries say what it was when they were written.
pub const VALUE_ASIDE_BYTES: usize = 64 * 1_024;

/// Plans that one search looks at before it answers what it has found: about 100 ms of reading.
pub const SEARCH_PLANS: usize = 400_000;

/// Plans that a search looks at first, as most find enough among those: about 2 ms.
pub const SEARCH_FIRST: usize = 5_000;

/// How long numbers of ended plans are kept by the minute: a day, and what a reader may be late.
pub const TALLY_KEPT: Duration = Duration::from_secs(26 * 3_600);

/// Names with numbers of their own in one commit, or in one answer. Labels are free texts, so there
/// may be one for each plan; plans with further names count together.
pub const TALLY_NAMES_MAX: usize = 500;

/// Limits of the durations that are counted apart, in milliseconds: from flows in memory to plans
/// of hours. Within a class a median is known to a factor of two or so.
pub const TALLY_TOOK_MS: [u64; 20] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000,
    300_000, 600_000, 1_800_000, 3_600_000,
];

/// Steps of one plan. Beyond it the graph of a plan is a data set; sub-plans split it.
pub const STEPS_MAX: usize = 1_000_000;

/// Maximum depth of planned actions: stops an action that plans itself.
pub const PLANNING_DEPTH_MAX: usize = 128;

/// Events that wait for one step. A step that takes no more of them must not fill the store.
pub const EVENTS_MAX: usize = 10_000;

/// How often an entry is tried that the codec cannot encode, about once a second: a codec that has
/// no key for a minute stops no plan.
pub const ENCODINGS_MAX: u32 = 60;

/// Bytes of one chunk of a plan's output stream: a reader gets pages of them.
pub const CHUNK_BYTES_MAX: usize = 1_024 * 1_024;

/// Bytes of all chunks of a plan: a longer stream belongs into a file.
pub const CHUNKS_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

/// Bytes of chunks of one call that wait in memory for the disk.
pub const CHUNKS_WAITING_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Bytes of chunks of a call in one entry: others wait for the same commit.
pub const CHUNKS_ENTRY_BYTES: usize = 1_024 * 1_024;

const _: () = assert!(CHUNK_BYTES_MAX <= CHUNKS_WAITING_BYTES_MAX);

/// Plans of one bulk operation if nothing else is said: its report has a line for each of them.
pub const BULK_PLANS_MAX: usize = 100_000;

/// Plans that a bulk operation works on at once if nothing else is said.
pub const BULK_AT_ONCE: usize = 64;

/// Labels of one plan: each of them is a row of the index that plans are searched by.
pub const LABELS_MAX: usize = 64;

/// Bytes of a label's name.
pub const LABEL_NAME_BYTES_MAX: usize = 128;

/// Bytes of a label's value: it is part of the key of an index.
pub const LABEL_VALUE_BYTES_MAX: usize = 1_024;

/// Bytes of an idempotency key: each is the key of an index, and part of its plan's first entry.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Bytes of a name that a program gives: it is stored with each step, or in rows of lists.
pub const NAME_BYTES_MAX: usize = 200;

/// Bytes of the label of a plan: it is in its row, and in each list.
pub const PLAN_LABEL_BYTES_MAX: usize = 1_024;

/// Bytes of the name of a lock, with the key of its singleton: it is the key of an index.
pub const LOCK_NAME_BYTES_MAX: usize = 1_024;

/// Bytes of all that a world says of itself: each world of the store reads it at each change.
pub const META_BYTES_MAX: usize = 16 * 1_024;

/// Bytes of the state of a W3C trace, of which 512 are asked for: a longer one is left out.
pub const TRACE_STATE_BYTES_MAX: usize = 1_024;

/// Bytes of the id of an event: a step remembers [`EVENT_IDS_MAX`] of them.
pub const EVENT_ID_BYTES_MAX: usize = 1_024;

/// Bytes of an error's message: 64 KiB. It is in the history, in lists and in logs, and every retry
/// adds one. A longer message is cut, with a note of its length.
pub const ERROR_BYTES_MAX: usize = 64 * 1_024;

/// Bytes of the reason why a step waits, of an error's kind and of who has given an order: 4 KiB.
/// They are in rows of lists. A longer one is cut, and says how long it was.
pub const REASON_BYTES_MAX: usize = 4 * 1_024;

/// Ids of events that a step remembers, the newest ones: a repetition of one of them is dropped. A
/// step that takes events for years must not grow with each, and each event is looked up among
/// them.
pub const EVENT_IDS_MAX: usize = 10_000;

/// The same of a step that is over: a sender that has missed its answer repeats its event soon.
pub const EVENT_IDS_AFTER_END: usize = 64;

/// Events that could not be delivered that a store keeps; all of them are counted.
pub const DEAD_LETTERS: usize = 1_024;

/// Bytes of their contents: beyond it the oldest ones are forgotten before their time.
pub const DEAD_LETTER_BYTES: usize = 16 << 20;

/// Appends that wait for the journal's writer, over all plans.
pub const APPENDS_MAX: u64 = 1 << 18;

/// Appends in one commit: more would keep the first of them waiting without using the disk better.
pub const COMMIT_APPENDS_MAX: usize = 1_024;

/// Changes that are handed over together, to be in one commit, at most: half of a commit, so that
/// two such groups fit into it.
pub const TOGETHER_MAX: usize = COMMIT_APPENDS_MAX / 2;

/// Size up to which a commit is filled with changes that nobody waits for: a caller may wait for
/// one such commit and share the next one, so it is short.
pub const COMMIT_SPARE_MAX: usize = 256;

/// Rows of the search tables that one commit brings up to date, at most, while few are behind: they
/// make the commit longer for the plans that wait for it.
pub const COMMIT_ROWS_MAX: usize = 128;

/// The same while many are behind: as many as there may be entries, so that rows never fall further
/// behind than a few commits.
pub const COMMIT_ROWS_MANY: usize = COMMIT_APPENDS_MAX;

/// Rows of the search tables that may be behind before commits start to bring them up to date.
pub const ROWS_BEHIND: usize = 1_024;

/// Time for which a waiting plan stays in memory after its last event.
pub const PLAN_IDLE: Duration = Duration::from_secs(2);

/// Due times of plans outside memory that a world keeps in memory, the earliest ones; twice as
/// many while plans are added. Later ones are read from the store a minute before their turn: 1
/// million of them would take 100 MiB.
pub const WAKES_KEPT: usize = 32_768;

/// Entries after which a plan that leaves memory is stored in full, so that loading it stays short.
/// The entries must also have as many bytes as the plan had then: so the bytes stored for an event
/// do not grow with the plan.
pub const SNAPSHOT_RECORDS: u32 = 64;

/// The same for a plan that does not leave memory.
pub const SNAPSHOT_RECORDS_LIVE: u32 = 1_024;

/// Lines of its history that a plan keeps in memory, the newest ones: the others are in the
/// journal.
pub const HISTORY_KEPT: usize = 500;

/// Bytes that a store may take if nothing is said: no limit but that of the disk.
pub const STORE_BYTES_MAX: u64 = u64::MAX;

/// Bytes that a store keeps for plans that are under way: with less room it takes no new ones.
pub const STORE_RESERVE_BYTES: u64 = 64 * 1_024 * 1_024;

/// Bytes of a page in the write-ahead log, with its head.
pub const LOG_BYTES_PAGE: u64 = 4_096 + 24;

/// Pages in the write-ahead log of a file from which on they are moved to their places, beside the
/// writer: 4 MiB. A longer log is read at each start after a crash, a shorter one is synced more
/// often.
pub const LOG_PAGES_SOON: u64 = 1_000;

/// Pages in the write-ahead log of a file at which the writer waits until they are moved: 64 MiB.
/// Only when they come faster than they can be moved beside it.
pub const LOG_PAGES_MAX: u64 = 16_000;

/// Time that the writer waits for readers of the write-ahead log before the log is restarted. If a
/// reader takes longer (a backup), the log grows on, and the writer tries again 4 MiB later.
pub const LOG_RESTART_WAIT: std::time::Duration = std::time::Duration::from_millis(200);

/// Bytes that the file of the write-ahead log keeps at a restart: its need between two restarts.
pub const LOG_BYTES_KEPT: u64 = 16 * 1_024 * 1_024;

/// Pause before outdated rows are written again, after a refusal of the store.
pub const ROWS_AGAIN: Duration = Duration::from_secs(1);

/// Stopped plans that are exported and removed in one go: more would keep commits waiting.
pub const CLEAN_PLANS: usize = 64;

/// Interval of a world's looks for old stopped plans: often enough that there is little to do each
/// time.
pub const CLEAN_EVERY: Duration = Duration::from_secs(600);

/// Pause between two slices: others use the store meanwhile.
pub const CLEAN_PAUSE: Duration = Duration::from_millis(20);

/// Steps that run their code at once in a queue whose size is not said. The group has 128 threads
/// for code that blocks: half of them are left to other queues.
pub const DEFAULT_QUEUE_SIZE: u32 = 64;

/// Calls that a queue's rate may count: it remembers when each of them began.
pub const RATE_MAX: u32 = 100_000;

/// Bytes of the state of an entity: it is written in full at each change, within a shared commit.
pub const STATE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Schedules of one store.
pub const SCHEDULES_MAX: usize = 100_000;

/// Bytes of a schedule's name: it is part of the key of each launch.
pub const SCHEDULE_NAME_BYTES_MAX: usize = 200;

/// Requests that wait while a world reads the schedules of slots that it has got; later ones are
/// refused, and may be sent again.
pub const SCHEDULE_HELD_MAX: usize = 10_000;

/// Delay of a launch after which its time counts as missed. It is longer than
/// [`SCHEDULE_CLOCK_CHECK`]: a jump of the clock is noticed only after that.
pub const SCHEDULE_LATE_MAX: Duration = Duration::from_secs(120);

/// Interval of clock reads while schedules wait, so that a jump is noticed.
pub const SCHEDULE_CLOCK_CHECK: Duration = Duration::from_secs(60);

const _: () = assert!(SCHEDULE_CLOCK_CHECK.as_secs() < SCHEDULE_LATE_MAX.as_secs());

/// Launches of one schedule that wait for their turn.
pub const SCHEDULE_QUEUE_MAX: usize = 1_000;

/// Plans of one schedule that are watched, and launches that are made up for at once.
pub const SCHEDULE_RUNNING_MAX: usize = 64;

/// Launches that a schedule remembers; all of them are in the list of plans.
pub const SCHEDULE_HISTORY_MAX: usize = 50;

/// Times of one preview: more would hold up other schedules.
pub const SCHEDULE_TIMES_MAX: usize = 100_000;

/// Times of one backfill.
pub const SCHEDULE_BACKFILL_MAX: u64 = 100_000;

/// Ranges of one schedule that are to be made up for.
pub const SCHEDULE_RANGES_MAX: usize = 100;

/// Missed times are counted up to this number at once; more would hold up other schedules.
pub const SCHEDULE_MISSED_MAX: u64 = 10_000;

/// Instructions of SQLite that a step's own SQL may take in a commit that it shares with others:
/// about 50 milliseconds.
pub const WORK_SHARED_OPS: u64 = 2_000_000;

/// The same in a commit of its own: about a second, in which no plan goes on.
pub const WORK_ALONE_OPS: u64 = 50_000_000;

/// Plans in memory at once: some kilobytes each, so this is well below what a small machine has.
pub const PLANS_IN_MEMORY: usize = 16_384;

/// Time for which heartbeats of steps are kept in memory before they are written without another
/// record: a plan has at most one entry for them in this time.
pub const BEATS_BEHIND: Duration = Duration::from_secs(5);

/// Maximum repetitions of a step that was silent for too long, until its plan is resumed.
pub const SILENCES_MAX: u32 = 10;

/// Journal entries that wait for a listener if nothing else is said: some seconds of a busy store.
pub const WATCH_ENTRIES: usize = 4_096;

/// Journal entries that may wait for a listener at most; older ones are read from the store.
pub const WATCH_ENTRIES_MAX: usize = 65_536;

/// Bytes of journal entries that may wait for a listener: a slow one must not fill the memory.
pub const WATCH_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// Journal entries that a listener reads from the store in one go: others read between.
pub const WATCH_PAGE: usize = 256;

/// Pause between two looks at a store that several processes share, for entries of the others,
/// while there are some. A look has one statement, and one more for each page of entries.
pub const FEED_PAUSE_MIN: Duration = Duration::from_millis(20);

/// The same while nothing comes: four statements a second of a node at which somebody listens.
pub const FEED_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Pause after a look that has failed.
pub const FEED_AGAIN: Duration = Duration::from_secs(1);

/// Nanoseconds after which it is told that commits hold up live events: a commit takes some
/// milliseconds, and much longer while a disk or a standby stands still.
pub const FEED_STALL_NS: u64 = 10_000_000_000;

/// Looks at an entry that cannot be decoded, each a pause after the one before, until it is left
/// out: what gives the codec its keys may be away for some seconds.
pub const FEED_DECODES: u32 = 10;

/// Plans that a listener keeps in memory; others are read from the store when something happens to
/// them.
pub const WATCH_PLANS_MAX: usize = 1_024;

/// Steps of the plans that a listener keeps in memory: some 64 MiB.
pub const WATCH_STEPS_MAX: usize = 1 << 18;

/// Polls of steps that are asked about in one call, if their action says nothing.
pub const POLLS_TOGETHER: usize = 100;

/// The time between two batches of polls, if their action says nothing.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Polls of one action that are on their way to their batch: more are refused, and count as failed.
pub const POLLS_WAITING_MAX: u64 = 1 << 18;
/// Happenings in the history of one plan, the newest ones: older ones are left out and counted.
pub const HISTORY_MAX: usize = 100_000;

/// Requests to other worlds that are taken up at once.
pub const DESK_MAX: u64 = (1 << 18) - 1;

/// Time limit of a request to another world, after which its outcome is unknown.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Time limit of a look at a plan of another world, after which the store is read. A world that has
/// no trouble answers in milliseconds, or with its next heartbeat where the store carries requests.
pub const LOOK_LIMIT: Duration = Duration::from_secs(3);

/// A world that does not own what it is asked for, though it is said to, is asked again after this
/// time, and then after twice the time before, up to [`REQUEST_AGAIN_MAX`].
pub const REQUEST_AGAIN: Duration = Duration::from_millis(50);

/// The longest such pause: between nodes each attempt is two rows, as large as the request and its
/// answer. A change of the owner ends the pause.
pub const REQUEST_AGAIN_MAX: Duration = Duration::from_secs(1);

/// Calls to entities of other nodes that a world has under way; a further one is told at once that
/// its owner is unavailable. Each waits for its owner as long as its caller does, so nothing else
/// bounds them.
pub const ENTITY_CALLS_MAX: usize = 4_096;

/// Bytes of the messages of these calls together.
pub const ENTITY_CALL_BYTES_MAX: usize = 64 << 20;

const _: () =
    assert!((ENTITY_CALLS_MAX as u64) < DESK_MAX && PAYLOAD_BYTES_MAX < ENTITY_CALL_BYTES_MAX);

/// Time after which other nodes have the slots of one that is silent; a usual one.
pub const NODE_LEASE: Duration = Duration::from_secs(3);

/// The shortest lease of a node.
pub const NODE_LEASE_MIN: Duration = Duration::from_millis(100);

/// Time limit of a world's answer to a ping.
pub const PING_LIMIT: Duration = Duration::from_secs(5);

/// Names that a world may have claimed at once.
pub const CLAIMS_MAX: usize = 1_024;

/// Bytes of class and name of a claim together, at most.
pub const CLAIM_NAME_MAX: usize = 1_024;

/// Bytes of the data of a claim, at most.
pub const CLAIM_DATA_MAX: usize = 16 * 1_024;

/// Messages that are kept for a plan while its planning is under way: orders, events, and plans
/// that wait for its end. More are refused.
pub const EARLY_MESSAGES_MAX: usize = 1_024;

/// Sub-plans of one step that are under way at once if it says nothing: more would fill memory,
/// and the mailbox of the plan that waits for them, without being done earlier.
pub const SUB_PLANS_AT_ONCE: u32 = 1_024;

/// The same at most, whatever the step says: below what the mailbox of a plan takes.
pub const SUB_PLANS_AT_ONCE_MAX: u32 = 8_192;

/// Sub-plans of one step that wait with their inputs in memory; further ones stay in the journal.
pub const SUB_PLANS_IN_MEMORY: usize = 1_024;

/// Sub-plans whose inputs are read from the journal in one go: half of them are left when the next
/// ones are read.
pub const SUB_PLANS_PAGE: usize = 512;

/// Bytes of the inputs that are read in one go, about: beyond it a page has fewer sub-plans.
pub const SUB_PLANS_PAGE_BYTES: usize = 256 * 1_024;

/// Sub-plans that one call asks for, if it gives some of them keys.
pub const SUB_PLANS_NAMED_MAX: usize = 10_000;

/// Sub-plans whose outputs are read from the store in one go.
pub const CHILD_OUTPUTS_PAGE: usize = 64;

/// Sub-plans that are over of which a plan keeps the results by id; all of them are counted.
pub const SUB_PLANS_KEPT: usize = 10_000;

/// Interval of clock reads while plans wait for a time, so that a jump is noticed.
pub const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// Time for which plans count on after a jump of the wall clock as if it had not happened: a clock
/// that is wrong for a moment changes no limit and no timer.
pub const CLOCK_HOLD: Duration = Duration::from_secs(60);

/// Interval of clock reads while a jump of the wall clock is not followed.
pub const CLOCK_LOOK: Duration = Duration::from_secs(5);

/// Due times that a world remembers while the clock is in doubt, so that they keep to elapsed time.
pub const CLOCK_DUES_MAX: usize = 1_000_000;

/// A change of the wall clock that is more than this is a jump.
pub const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Pause before work that found no free thread of the blocking pool tries again.
pub const POOL_AGAIN: Duration = Duration::from_millis(20);
