//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::savina::Size;

/// Measures Turnwheel: beside its peers, by itself, and at rest.
///
/// Every run checks its result; a wrong or missing message is an error exit. Figures are worth
/// something only from a release build on a machine that does nothing else, and between machines
/// only as ratios taken in one run.
#[derive(Debug, Parser)]
#[command(name = "turnwheel-bench", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  turnwheel-bench compare --pattern count,ring --impl turnwheel,tokio
      two patterns, two implementations, 9 repetitions over 3 processes
  turnwheel-bench compare --beside old/turnwheel-bench --pattern count,ring
      this binary and another one in turn, our own implementations
  turnwheel-bench compare --json compare.json
      everything; takes a while, with progress
  turnwheel-bench diff before.json after.json
      what changed between two files of rows

Build it with `cargo build --release -p turnwheel-bench`.";

/// Cases and sizes of a measurement.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Turnwheel beside tokio, ractor, kameo and actix, one message at a time.
    Compare(CompareArgs),
    /// Keyed entities: messages by key, activation, passivation, look-up, bytes at rest.
    Entities(EntitiesArgs),
    /// Fourteen programs of the Savina suite, each with a known result.
    Savina(SavinaArgs),
    /// From the planned instant of a job to its start, open loop, in several situations.
    Latency(LatencyArgs),
    /// Durable plans: steps a second, and how long each waits for the disk.
    Engine(EngineArgs),
    /// Several nodes on PostgreSQL: steps a second, a kill, a drain, a take-over, a new node, rest.
    Cluster(ClusterArgs),
    /// Jobs: lateness of fires, bursts, many stored ones, a long history, a simulated week.
    Jobs(JobsArgs),
    /// Journeys of users: events, moves, users who wait, defaults that are due together.
    #[cfg(target_os = "linux")]
    Journeys(JourneysArgs),
    /// The binary: starts of a flow over HTTP, cold starts, requests of the pages of the console.
    #[cfg(target_os = "linux")]
    Server(ServerArgs),
    /// What timers cost with a million pending, and how late they run.
    Timers(TimersArgs),
    /// Processor time and wake-ups a second with many idle tasks and nothing due.
    Idle(IdleArgs),
    /// Faults against a server under load: is a start lost or doubled, and does health answer?
    #[cfg(target_os = "linux")]
    Abuse(AbuseArgs),
    /// Two files of rows, figure by figure.
    Diff(DiffArgs),
    /// One process of a comparison; `compare` starts it.
    #[command(hide = true)]
    CompareChild {
        /// Orders of the process, as JSON.
        orders: String,
    },
    /// One node of `cluster`, which starts it.
    #[command(hide = true)]
    ClusterChild {
        /// Orders of the process, as JSON.
        orders: String,
    },
    /// One process of `entities`, which starts it.
    #[command(hide = true)]
    EntitiesChild {
        /// Orders of the process, as JSON.
        orders: String,
    },
}

/// Rows of `compare`: median, smallest and largest nanoseconds a message; the time of the worst
/// process to that of the best; the ratio to tokio in the same processes, with the least and the most
/// of a process; the ratios to ractor and kameo; heap allocations and wake-ups a message.
///
/// Patterns: count, count_bounded, pingpong, ring (100 actors), fjcreate (100,000), fjthru (60),
/// big (120), entities (100,000; entities_two: from two producers), ask_lone (question and
/// answer), ask_64to1 (64 askers of one actor), ask_chain8 (through eight actors; a figure an actor),
/// pipe (each handler asks, takes the answer and sends its actor the next message), service (64 tokio
/// tasks ask 1,000 actors by key, by Zipf's law).
///
/// pingpong_ref, ring_ref and big_ref: each message carries its sender's address. fjcreate_ref: each
/// actor gets its creator's address. count_mid, big_mid: 40 bytes in each message.
///
/// Each also with 100 ns of real work a message (suffix _work100). And memory: bytes of an idle actor
/// that has handled one message.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Patterns, separated by commas [default: all]
    #[arg(long, value_name = "P", value_delimiter = ',')]
    pub(crate) pattern: Vec<String>,
    /// Implementations of turnwheel, turnwheel-actors, turnwheel-hosted, turnwheel-actors-hosted,
    /// tokio, ractor, kameo, actix [default: all]
    #[arg(long = "impl", value_name = "I", value_delimiter = ',')]
    pub(crate) contenders: Vec<String>,
    /// Repetitions of each, over all processes
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) reps: usize,
    /// Processes that share the repetitions: speed modes are per process
    #[arg(long, value_name = "M", default_value_t = 3)]
    pub(crate) procs: usize,
    /// Only this much work a message: 0 or 100 nanoseconds [default: both]
    #[arg(long, value_name = "NS")]
    pub(crate) work_ns: Option<u32>,
    /// Worker threads (arbiters for actix)
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) workers: usize,
    /// Instead of the peers, another binary of this harness, an older one for example: the processes
    /// of both in turn, ratios of their medians, for patterns that both know; implementations are
    /// turnwheel and turnwheel-actors unless named
    #[arg(long, value_name = "PATH")]
    pub(crate) beside: Option<PathBuf>,
    /// Ends the child process that reaches this case, for tests of the report
    #[arg(long, value_name = "CASE", hide = true)]
    pub(crate) fails_at: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `entities`: median, smallest and largest nanoseconds an operation, how many a second that
/// is, heap allocations an operation; for `idle` bytes of an entity that has handled one message, without
/// its state of 64 bytes.
///
/// Cases, each with every number of keys (but hot and hot_pair, which have one):
/// tell_get, tell_ref, ask_get, ask_ref: a message to a live entity, by its key each time or by a
/// reference that is held, keys drawn evenly; with suffix _zipf by Zipf's law (0.99).
/// activate, activate_text: first messages to keys that are numbers, or texts.
/// churn: activation, one message, passivation, over and over.
/// lookup, lookup_zipf: from a thread outside, is the entity with this key active?
/// idle, idle_text: bytes. hot, hot_pair: 64 or two senders on other workers to one entity; the
/// last row is the ratio of their throughputs.
#[derive(Debug, Args)]
pub(crate) struct EntitiesArgs {
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Numbers of keys, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100000,1000000")]
    pub(crate) keys: Vec<u32>,
    /// Repetitions of each, over all processes
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub(crate) reps: usize,
    /// Processes that share the repetitions: speed modes are per process
    #[arg(long, value_name = "M", default_value_t = 3)]
    pub(crate) procs: usize,
    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) workers: usize,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `journeys`: `workload`, `metric`, `value`.
///
/// Cases: idle (events that nobody waits for while all users wait, with one definition and with many:
/// of a kind in no definition, and of one that begins a journey under way), moves (each with state,
/// timer and one message), http (the same over HTTP, against the binary beside this one), waiting
/// (bytes, memory and start with users at a wait), due (default lines of all users due together),
/// month (a simulated month of all users, each path and each message checked). With `--store
/// postgres`: moves over HTTP at three nodes, and the users of one that dies.
#[derive(Debug, Args)]
pub(crate) struct JourneysArgs {
    /// Where the stores lie [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Users who wait
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) users: u64,
    /// Definitions of the second half of idle
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) definitions: usize,
    /// Events of idle, moves and http
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    pub(crate) events: u64,
    /// Events under way at once, in process
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) at_once: usize,
    /// Connections of http
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Tasks that users are spread over, in process
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) desks: usize,
    /// When the store waits for the disk: full, normal or off
    #[arg(long, value_name = "WHEN", default_value = "full")]
    pub(crate) sync: String,
    /// The store: sqlite, or postgres, which is started here
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    pub(crate) store: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `server`: `workload`, `metric`, `value`. Linux only; the server is the binary `turnwheel` beside this one,
/// and what it writes lies in a folder that is removed at the end. Ctrl-C ends the run early, with the rows until then.
///
/// Cases: starts (of a flow of one step, one after the other on each connection, each durable before its answer;
/// what was begun also runs to its end meanwhile), cold (processes of `turnwheel run` with a new store each and
/// with an old one, `turnwheel serve` until it listens and is healthy, the size of the binary), pages (the requests
/// of each page of the console, with many plans in the store; a browser adds the time to draw). The row `disk` is
/// one append with `fdatasync` in the same folder: nothing durable is faster.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Where the stores lie: the disk that is measured [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Connections of starts
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub(crate) connections: u16,
    /// Seconds of starts, after one that is not counted
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Processes of each kind of cold
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// Plans in the store of pages
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) plans: u64,
    /// Steps of the largest of them
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) steps: u32,
    /// The store of pages stays in this folder as `pages.db`, and is used again if it is there
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `engine`: durable steps a second of plans whose steps do nothing and follow one another,
/// the time from a step's call to that of the next (which waits for the disk), a raw append with
/// `fdatasync` in the same folder, commits a step and the longest write-ahead log, bytes written and
/// processor time a step, and what disk and processors allow: N / (F + N·C).
///
/// In a database: a commit of one row instead of the append, and batched inserts without any logic of
/// rows as large as the entries of the run instead of the last figure.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Where the stores lie [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Where plans are kept: sqlite; postgres for a server of this process, if PostgreSQL is
    /// installed; or the URL of a database
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    pub(crate) store: String,
    /// Steps of a plan, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,10")]
    pub(crate) steps: Vec<u32>,
    /// Plans at a time, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,16,64,256,1024")]
    pub(crate) plans: Vec<u32>,
    /// Seconds of each row
    #[arg(long, value_name = "S", default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Instead of throughput: suspended, timers, first_step, fan_out, sub_plans, large, events,
    /// listeners, separated by commas
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Instead of measuring: trouble of stores, clocks and processes at every moment of some workloads
    #[arg(long)]
    pub(crate) faults: bool,
    /// Seeds of `--faults`
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) seeds: u64,
    /// Points of `--faults` for each seed and workload [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) points: Option<usize>,
    /// Pairs of points of `--faults` for each seed and workload
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) pairs: usize,
    /// How many plans sleep in the cases suspended and timers, or listen, or events are sent
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) sleepers: usize,
    /// When the store waits for the disk: full, normal or off
    #[arg(long, value_name = "WHEN", default_value = "full")]
    pub(crate) sync: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `cluster`: `workload`, `metric`, `value`. Nodes are processes of this binary.
///
/// Cases: throughput (one node and three on the same cores, beside raw inserts), kill (from the kill -9 of a
/// node to its due plans going on elsewhere), drain (events to plans while their node drains: the longest
/// wait of each plan whose slot moves), takeover (a killed node had half of the sleepers: from its death
/// in the table until the due ones of it have ended), join (from the start of a process to its
/// fair share), idle (statements a second of a node that has nothing to do), calls (to entities
/// of another node: over a store in memory, and over rows of the database).
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Cases, separated by commas
    #[arg(
        long,
        value_name = "C",
        value_delimiter = ',',
        default_value = "throughput,kill,drain,takeover,join,idle,calls"
    )]
    pub(crate) case: Vec<String>,
    /// postgres for a server of this process, if PostgreSQL is installed, or the URL of a database
    #[arg(long, value_name = "STORE", default_value = "postgres")]
    pub(crate) store: String,
    /// Seconds of the lease of nodes
    #[arg(long, value_name = "S", default_value_t = 3)]
    pub(crate) lease: u64,
    /// Repetitions of kill, drain and join
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) reps: u32,
    /// Seconds of throughput and idle
    #[arg(long, value_name = "S", default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Plans that sleep in takeover
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) sleepers: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `savina`: milliseconds of a run (median, 5th and 95th percentile), steals and wake-ups
/// in it, and the time against one worker.
///
/// Programs: pingpong, count, fjthrput, fjcreate, threadring, chameneos, big, concdict, bndbuffer,
/// philosopher, banking, radixsort, fib, nqueenk.
#[derive(Debug, Args)]
pub(crate) struct SavinaArgs {
    /// How much of each program
    #[arg(long, value_enum, default_value_t = Size::Smoke)]
    pub(crate) size: Size,
    /// Programs, separated by commas [default: all]
    #[arg(long, value_name = "P", value_delimiter = ',')]
    pub(crate) program: Vec<String>,
    /// Numbers of workers to run each on
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2")]
    pub(crate) workers: Vec<usize>,
    /// Once more on the largest number of workers with stealing off
    #[arg(long)]
    pub(crate) no_steal: bool,
    /// Runs that are timed [default: 1 for smoke, 5 for standard]
    #[arg(long, value_name = "N")]
    pub(crate) reps: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `latency`: quantiles in microseconds, each the median of the repetitions, the smallest and
/// the largest 99th percentile of them, and the one-way unpark of this machine in the same run, as
/// `turnwheel doctor` measures it.
#[derive(Debug, Args)]
pub(crate) struct LatencyArgs {
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Jobs in each case (at most 500 in made_inside_5ms_turn)
    #[arg(long, value_name = "N", default_value_t = 3_000)]
    pub(crate) samples: usize,
    /// Repetitions of each: the system takes a processor away for some milliseconds now and then
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) reps: usize,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `timers`: nanoseconds of a call with a million or more pending; microseconds from the
/// deadline to the start of the job while idle, saturated, and with one of two workers blocked for a
/// second.
#[derive(Debug, Args)]
pub(crate) struct TimersArgs {
    /// Pending timers while costs are taken, in millions: about 300 MB each
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) millions: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The row of `idle`: what all threads but the measuring one use a second. Linux only.
#[derive(Debug, Args)]
pub(crate) struct IdleArgs {
    /// Idle tasks; each has handled one message
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) tasks: u64,
    /// How long to watch
    #[arg(long, value_name = "S", default_value_t = 5)]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `jobs`, over SQLite: workload, metric, value. steady: jobs that fire each five seconds,
/// how late their no-op executor is called, and how long a look at one job takes meanwhile; burst:
/// jobs due in one second, and when all have begun; stored: jobs that fire once a year, the start
/// with them, memory, and processor time idle and with 100 more due a second; history: processor time of a launch
/// with few and with many launches in the history of its job; week: five jobs each thirty seconds
/// in simulated time, memory and size of the file.
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// Cases, separated by commas
    #[arg(
        long,
        value_name = "C",
        value_delimiter = ',',
        default_value = "steady,burst,stored,history,week"
    )]
    pub(crate) case: Vec<String>,
    /// Where the files are made [default: the folder of temporary files]
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
    /// The store of steady, burst and history: sqlite, or postgres, which is started here
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    pub(crate) store: String,
    /// Jobs of steady, burst and stored [default: 4,000, 20,000, 1,000,000]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Length of steady
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Launches in the long history
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) history: u64,
    /// Days of week
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) days: u64,
    /// Runs that are under way at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rows of `abuse`: starts that were accepted and refused; accepted ones that are not there, are there
/// twice, or have not ended well after a last `kill -9` and a start; answers of `/health`, each on a
/// connection of its own, their 99th percentile and the slowest in milliseconds, how many took more
/// than 100 ms, and how many never came. Linux only; the server is the binary `turnwheel` beside this
/// one, and listens on the loopback address.
///
/// Cases: kill (kill -9), term (SIGTERM), disk (a small full disk in a namespace; without namespaces a limit
/// of file sizes, which is said), descriptors (more silent connections than open files), slow (heads and
/// bodies that drip, readers that never read), bombs (expressions without an end).
///
/// An accepted start that is lost or doubled, or a health without an answer, is an error exit.
#[derive(Debug, Args)]
pub(crate) struct AbuseArgs {
    /// Cases, separated by commas [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Seconds of each case
    #[arg(long, value_name = "S", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where rows go.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Write the rows as a JSON array into this file («-»: to standard output, without the table)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Two files that `--json` has written.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The rows before
    pub(crate) old: PathBuf,
    /// The rows after
    pub(crate) new: PathBuf,
}
