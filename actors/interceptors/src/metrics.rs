//! Numbers of messages, by class and type.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::{Mutex, RwLock};
use turnwheel_actors::intercept::{Call, Direction, Interceptor, MessageInfo, Outcome};
use turnwheel_runtime::{Failure, Latency};

/// Rows of one [`Metrics`], at most: a row has a histogram of some kilobytes. Messages beyond it
/// count in one extra row, whose class and message are `(other)`.
pub const METRICS_ROWS_MAX: usize = 1_024;

/// Class and message of the extra row.
const OTHER: &str = "(other)";

/// Significant digits of latencies.
const DIGITS: u8 = 2;

/// Counts messages, failures and latencies by class of actor and type of message. Clones share the
/// numbers: install one, keep another.
///
/// The latency of an incoming message is that of its handler, from its begin to the end of its
/// future; of a call, until its answer; of an outgoing `tell`, until the mailbox has taken it.
/// Failures are messages that were refused or panicked, and calls without an answer; an answer that
/// is an `Err` is an answer.
///
/// Cost of a message: two readings of the clock, a look into a shared table, a short lock.
///
/// ```
/// use turnwheel_interceptors::Metrics;
/// use turnwheel_actors::{messages, Actor, System};
/// use turnwheel_runtime::Group;
///
/// #[derive(Actor, Default)]
/// struct Counter(u64);
///
/// #[messages]
/// impl Counter {
///     #[message]
///     fn add(&mut self, by: u64) -> u64 {
///         self.0 += by;
///         self.0
///     }
/// }
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let metrics = Metrics::new();
/// let system = System::builder(&group).intercept(metrics.clone()).build();
/// let counter = system.spawn(Counter::default())?;
/// counter.add(2).wait()?;
/// counter.add(3).wait()?;
/// let rows = metrics.rows();
/// assert_eq!((rows.len(), rows[0].messages, rows[0].failures), (1, 2, 0));
/// assert!(rows[0].message.ends_with("Add"));
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Metrics {
    table: Arc<RwLock<HashMap<Key, Arc<Row>>>>,
}

/// Key of a row.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    class: Arc<str>,
    message: &'static str,
    direction: Direction,
}

/// Numbers of one class and type.
struct Row {
    failures: AtomicU64,
    under_way: AtomicU64,
    latency: Mutex<Histogram<u64>>,
}

/// Numbers of the messages of one type to actors of one class.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MessageMetrics {
    /// The class of the actors.
    pub class: String,
    /// The type of the messages.
    pub message: &'static str,
    /// Whether this is about their handling or their sending.
    pub direction: Direction,
    /// Messages that have ended.
    pub messages: u64,
    /// Failed messages among them.
    pub failures: u64,
    /// Messages that have begun and not ended.
    pub under_way: u64,
    /// From their begin to their end.
    pub latency: Latency,
}

debug_fields!(impl Metrics, self => rows: self.table.read().len());

impl Metrics {
    /// Without any numbers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The numbers so far, by class, message and direction. Of messages that end meanwhile some may
    /// be counted in one number and not yet in another.
    pub fn rows(&self) -> Vec<MessageMetrics> {
        let table = self.table.read();
        let mut rows: Vec<_> = table.iter().map(|(key, row)| row.read(key)).collect();
        rows.sort_by(|a, b| {
            let order = |row: &MessageMetrics| (row.message, row.direction == Direction::Outgoing);
            a.class.cmp(&b.class).then_with(|| order(a).cmp(&order(b)))
        });
        rows
    }

    /// Begins anew: forgets all rows.
    pub fn clear(&self) {
        self.table.write().clear();
    }

    fn row(&self, info: &MessageInfo) -> Arc<Row> {
        let key = Key {
            class: info.shared_class(),
            message: info.message_type(),
            direction: info.direction(),
        };
        if let Some(row) = self.table.read().get(&key) {
            return Arc::clone(row);
        }
        let mut table = self.table.write();
        let key = match table.len() < METRICS_ROWS_MAX || table.contains_key(&key) {
            true => key,
            false => Key { class: OTHER.into(), message: OTHER, ..key },
        };
        Arc::clone(table.entry(key).or_default())
    }
}

impl Default for Row {
    fn default() -> Self {
        let latency =
            Histogram::new(DIGITS).expect("two digits are within what a histogram can have");
        Self {
            failures: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            latency: Mutex::new(latency),
        }
    }
}

impl Row {
    fn read(&self, key: &Key) -> MessageMetrics {
        let (messages, latency) = {
            let known = self.latency.lock();
            let at = |quantile| Duration::from_nanos(known.value_at_quantile(quantile));
            let max = Duration::from_nanos(known.max());
            (known.len(), Latency::new(at(0.5), at(0.9), at(0.99), max))
        };
        MessageMetrics {
            class: key.class.to_string(),
            message: key.message,
            direction: key.direction,
            messages,
            failures: self.failures.load(Ordering::Relaxed),
            under_way: self.under_way.load(Ordering::Relaxed),
            latency,
        }
    }
}

/// A message that is counted at its end.
pub struct Counted {
    row: Arc<Row>,
    begun_ns: u64,
}

debug_fields!(impl Counted, self => begun_ns: self.begun_ns);

impl Interceptor for Metrics {
    type State = Counted;

    fn begin(&self, call: &mut Call<'_>) -> Result<Counted, Failure> {
        let row = self.row(call);
        row.under_way.fetch_add(1, Ordering::Relaxed);
        Ok(Counted { row, begun_ns: call.now_ns() })
    }

    fn end(&self, state: &mut Counted, info: &MessageInfo, outcome: &mut Outcome<'_>) {
        let Counted { row, begun_ns } = state;
        if outcome.error().is_some() {
            row.failures.fetch_add(1, Ordering::Relaxed);
        }
        row.under_way.fetch_sub(1, Ordering::Relaxed);
        let took_ns = info.now_ns().saturating_sub(*begun_ns);
        let mut latency = row.latency.lock();
        // It grows with the longest; a time that no histogram has room for counts as its longest.
        if latency.record(took_ns).is_err() {
            latency.saturating_record(took_ns);
        }
    }
}
