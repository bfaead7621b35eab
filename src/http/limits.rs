//! Every limit of the server, with its unit and its reason.

use std::time::Duration;

/// Bytes of a body: an input of [`PAYLOAD_BYTES_MAX`](turnwheel_engine::limits::PAYLOAD_BYTES_MAX)
/// and its envelope.
pub const BODY_BYTES_MAX: usize = turnwheel_engine::limits::PAYLOAD_BYTES_MAX + 64 * 1_024;

/// Time limit of a body: a slow sender must not hold its connection for ever.
pub const BODY_WITHIN: Duration = Duration::from_secs(30);

/// Time limit of a body whose sender has not shown a token: what strangers send is small.
pub const STRANGER_BODY_WITHIN: Duration = Duration::from_secs(3);

/// Time limit of the head of a request, including the time between two requests of a connection.
pub const HEAD_WITHIN: Duration = Duration::from_secs(60);

/// Lifetime of a browser's session.
pub const SESSION_LENGTH: Duration = Duration::from_secs(12 * 60 * 60);

/// Sessions at once; for a further one the one that ends first is ended.
pub const SESSIONS_MAX: usize = 10_000;

/// Attempts to sign in a second, of all browsers together: guesses are slowed down to that.
pub const SIGN_IN_PER_SECOND: u32 = 1;

/// Attempts to sign in at once, after a pause.
pub const SIGN_IN_AT_ONCE: u32 = 20;

/// Bytes of the head of a request.
pub const HEAD_BYTES_MAX: usize = 64 * 1_024;

/// Time limit of the TLS handshake.
pub const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Time in which a new connection must send something: each holds a file descriptor.
pub const SILENT_WITHIN: Duration = Duration::from_secs(10);

/// Connections at once: each costs a file descriptor and some kilobytes. For a further one the
/// connection that has been idle longest is closed; if none is idle, it is refused.
pub const CONNECTIONS_MAX: usize = 4_096;

/// Concurrent requests of one connection in HTTP/2: more than one page of a browser sends.
pub const STREAMS_MAX: u32 = 128;

/// Interval of pings to the peer of an HTTP/2 connection, and time limit of their answer.
pub const ALIVE_WITHIN: Duration = Duration::from_secs(20);

/// Time for running requests to end when the server stops.
pub const STOP_WITHIN: Duration = Duration::from_secs(20);

/// Maximum age of the last commit of a healthy server without a probe, as long as the store has
/// refused no write since.
pub const HEALTH_FRESH: Duration = Duration::from_secs(1);

/// Time limit of the commit of a probe.
pub const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// Rows of a page if nothing is said.
pub const PAGE: usize = 50;

/// Rows of a page: a larger one would hold up others.
pub const PAGE_MAX: usize = 1_000;

/// Jobs of one list of Dkron, whose clients ask for all of them: some ten megabytes.
pub const DKRON_JOBS_MAX: usize = 10_000;

/// Jobs that are checked by one request: they hold up the others meanwhile.
pub const JOBS_CHECKED_MAX: usize = 200;

/// Steps of a page: they carry inputs and outputs.
pub const STEP_PAGE_MAX: usize = 500;

pub use crate::shape::{HISTORY_SHOWN, SUB_PLANS_SHOWN};

/// Plans that one order may be for.
pub const BULK_MAX: usize = 10_000;

/// Bytes of an entity's stored state that are shown.
pub const STATE_SHOWN_BYTES: usize = 100_000;

/// Actions on a page of a plan's tree, at most.
pub const TREE_PAGE_MAX: usize = 5_000;

/// Actions on a page of a plan's tree if nothing is said.
pub const TREE_PAGE: usize = 1_000;

/// Nodes, bars, happenings or calls of a page of a plan's graph, timeline, history or calls, at most.
pub const PICTURE_PAGE_MAX: usize = 5_000;

/// The same if nothing is said.
pub const PICTURE_PAGE: usize = 500;

/// Spans of a page of a timeline, for each bar that it may have.
pub const SPANS_FOR_EACH: usize = 4;

/// Spans that a page of a timeline may always have: a polling step has very many, and must not
/// displace the others.
pub const SPANS: usize = 10_000;

/// Plans that one order may name.
pub const BULK_NAMED_MAX: usize = 1_000;

/// Plans that one order is for if nothing is said.
pub const BULK: usize = 1_000;

/// Principals whose rates are remembered; beyond it, those with a full budget are forgotten.
pub const RATED_MAX: usize = 10_000;

/// Bytes of an idempotency key.
pub const KEY_BYTES_MAX: usize = 255;

/// Time for which a request may wait for the end of a plan.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Time in which a peer must read some of the data sent to it: a peer that does not read must not
/// hold its connection for ever.
pub const WRITE_WITHIN: Duration = Duration::from_secs(30);

/// Plans that one stream of live events names.
pub const LIVE_PLANS_MAX: usize = 100;

/// Interval of comments in a stream of live events, also before its begin, so that no proxy cuts
/// it.
pub const LIVE_SIGN: Duration = Duration::from_secs(15);

/// Jobs whose figures are told, the first ones by name: each is some lines.
pub const JOB_FIGURES_MAX: usize = 2_000;

/// Schedules whose figures are told, the first ones by name: each is some lines.
pub const SCHEDULE_FIGURES_MAX: usize = 1_000;

/// Flows whose runs are counted for Prometheus, times their outcomes; those beyond are counted together.
pub const FLOW_FIGURES_MAX: usize = 2_000;

/// Interval of looks at a run whose output is followed: its end may come without a word.
pub const OUTPUT_LOOK: Duration = Duration::from_millis(250);

/// Delay before a browser reconnects after the end of a stream.
pub const LIVE_AGAIN: Duration = Duration::from_secs(1);

/// Topics of one lease: each costs a look-up.
pub const TOPICS_MAX: usize = 100;

/// Bytes of the name of a worker: it is part of the ids of its tasks.
pub const WORKER_BYTES_MAX: usize = 200;

/// Tasks of one lease.
pub const LEASES_MAX: usize = 100;

/// Events of one batch: each is a commit for all listeners.
pub const EVENTS_AT_ONCE: usize = 1_000;

/// Hours of ended plans in one answer: what the store counts.
pub const ENDED_HOURS_MAX: u32 = 24;

/// Parts of that time: a picture is not wider.
pub const ENDED_PARTS_MAX: u32 = 120;

/// Plans that are read at once while those of one node are looked for.
pub const NODE_PAGE: usize = 5_000;

/// How often they are read for one answer.
pub const NODE_PAGES_MAX: usize = 10;
