//! Figures of the server and its world, as Prometheus reads them.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use turnwheel_engine::schedule::ScheduleView;
use turnwheel_engine::store::Tally;
use turnwheel_engine::{Counts, Stats, World};
use turnwheel_jobs::JobView;

use super::flow_figures::{self, FlowFigures};
use super::job_figures;

/// Upper limits of the buckets for the time of a request, in seconds: from reads in memory to waits
/// for the end of a plan.
const SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// The version, with the commit where it is known.
const VERSION: &str = match option_env!("TURNWHEEL_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: String,
    /// The pattern of the path, so that there are as many as there are routes.
    path: String,
    status: u16,
    /// The code of the problem; empty if there was none.
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    path: String,
}

/// The figures.
#[derive(Debug)]
pub(super) struct Figures {
    registry: Registry,
    answered: Family<Answered, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    under_way: Gauge,
    streams: Gauge,
    cut_off: Counter,
    unread: Counter,
    flows: FlowFigures,
    seen: Arc<Mutex<Option<Seen>>>,
}

/// Answers of the world, requested before the figures are read: requests wait, reading must not.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) stats: Stats,
    pub(super) counts: Counts,
    pub(super) jobs: Vec<JobView>,
    /// The first ones by name.
    pub(super) schedules: Vec<ScheduleView>,
    /// Plans that have ended within an hour.
    pub(super) ended: Vec<Tally>,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct UnderWay(Gauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Figures {
    pub(super) fn new(world: &World) -> Self {
        let mut registry = Registry::with_prefix("turnwheel");
        let answered = Family::default();
        registry.register("http_requests", "Requests that were answered", answered.clone());
        let new: fn() -> Histogram = || Histogram::new(SECONDS);
        let seconds = Family::new_with_constructor(new);
        let help = "From the head of a request to the head of its answer, in seconds";
        registry.register("http_request_seconds", help, seconds.clone());
        let under_way = Gauge::default();
        registry.register("http_requests_under_way", "Requests not answered", under_way.clone());
        let streams = Gauge::default();
        registry.register("live_streams", "Open streams of live events", streams.clone());
        let cut_off = Counter::default();
        let help = "Streams of live events that were ended because their readers were too slow";
        registry.register("live_streams_cut_off", help, cut_off.clone());
        let unread = Counter::default();
        let help = "Connections that were ended because their peers took nothing of what was sent";
        registry.register("http_connections_unread", help, unread.clone());
        let build = Info::new([("version", VERSION)]);
        registry.register("build", "The version of the server", build);
        let seen = Arc::default();
        let flows = FlowFigures::default();
        let (world, counted) = (world.clone(), flows.clone());
        let of_world = OfWorld { world, flows: counted, seen: Arc::clone(&seen) };
        registry.register_collector(Box::new(of_world));
        Self { registry, answered, seconds, under_way, streams, cut_off, unread, flows, seen }
    }

    pub(super) fn begin(&self) -> UnderWay {
        self.under_way.inc();
        UnderWay(self.under_way.clone())
    }

    /// A stream of live events has begun.
    pub(super) fn stream(&self) -> UnderWay {
        self.streams.inc();
        UnderWay(self.streams.clone())
    }

    /// One was ended because its reader was too slow.
    pub(super) fn cut_off(&self) {
        self.cut_off.inc();
    }

    /// The runs of flows.
    pub(super) fn flows(&self) -> &FlowFigures {
        &self.flows
    }

    /// Counts connections whose peers do not read.
    pub(super) fn unread(&self) -> Counter {
        self.unread.clone()
    }

    pub(super) fn answered(
        &self,
        method: &Method,
        path: Option<&str>,
        status: u16,
        code: Option<&str>,
        took: Duration,
    ) {
        let path = path.unwrap_or("none").to_owned();
        // Methods are free text: unknown ones must not create unlimited figures.
        let method = match *method {
            Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::HEAD => {
                method.as_str().to_owned()
            }
            _ => "other".to_owned(),
        };
        self.seconds.get_or_create(&Route { path: path.clone() }).observe(took.as_secs_f64());
        let code = code.unwrap_or_default().to_owned();
        self.answered.get_or_create(&Answered { method, path, status, code }).inc();
    }

    /// All figures as text, with the answers of the world if there are some.
    pub(super) fn text(&self, seen: Option<Seen>) -> Result<String, std::fmt::Error> {
        *self.seen.lock() = seen;
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Figures of the world, requested at each read.
#[derive(Debug)]
struct OfWorld {
    world: World,
    flows: FlowFigures,
    seen: Arc<Mutex<Option<Seen>>>,
}

impl Collector for OfWorld {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let queues = self.world.queues();
        let mut family = |name: &str, help: &str, value: &dyn Fn(usize) -> i64| {
            let gauge = ConstGauge::new(0_i64);
            let mut metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            for (at, queue) in queues.iter().enumerate() {
                let labels = [("queue", queue.name.as_str())];
                ConstGauge::new(value(at)).encode(metric.encode_family(&labels)?)?;
            }
            Ok::<(), std::fmt::Error>(())
        };
        family("queue_size", "Steps that may run at once in a queue", &|at| {
            i64::from(queues[at].size)
        })?;
        family("queue_running", "Steps that have a place in a queue", &|at| {
            i64::from(queues[at].running)
        })?;
        family("queue_waiting", "Steps that wait for a place in a queue", &|at| {
            i64::from(queues[at].waiting)
        })?;
        #[cfg(feature = "otlp")]
        {
            let fate = crate::otlp::fate();
            let sent = ("trace_spans_sent", "Spans that a collector has taken", fate.sent);
            let dropped =
                ("trace_spans_dropped", "Spans that no collector has taken", fate.dropped);
            for (name, help, value) in [sent, dropped] {
                let counter = ConstCounter::new(value);
                let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
                counter.encode(metric)?;
            }
        }
        if let Some(bytes) = store_bytes(self.world.store_name()) {
            let gauge = ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
            let help = "Size of the store's file with its write-ahead log";
            let kind = gauge.metric_type();
            let metric = encoder.encode_descriptor("store_bytes", help, None, kind)?;
            gauge.encode(metric)?;
        }
        self.flows.encode(&mut encoder)?;
        let locks = self.world.locks();
        let held = i64::try_from(locks.iter().filter(|lock| lock.holder.is_some()).count());
        let gauge = ConstGauge::new(held.unwrap_or(i64::MAX));
        let help = "Locks that plans have";
        let metric = encoder.encode_descriptor("locks_held", help, None, gauge.metric_type())?;
        gauge.encode(metric)?;
        if let Some(keeping) = self.world.keeping() {
            let counter = ConstCounter::new(keeping.removed);
            let help = "Plans that were removed because they were long over";
            let metric =
                encoder.encode_descriptor("plans_removed", help, None, counter.metric_type())?;
            counter.encode(metric)?;
            let gauge = ConstGauge::new(i64::from(keeping.problem.is_some()));
            let help = "Whether plans that are long over could not be removed the last time";
            let kind = gauge.metric_type();
            let metric = encoder.encode_descriptor("retention_failing", help, None, kind)?;
            gauge.encode(metric)?;
        }
        match &*self.seen.lock() {
            Some(seen) => seen.encode(&mut encoder),
            None => Ok(()),
        }
    }
}

/// Bytes of a store in a file; nothing for others.
fn store_bytes(name: &str) -> Option<u64> {
    let main = std::fs::metadata(name).ok().filter(std::fs::Metadata::is_file)?.len();
    // Without readers and writers there is no log.
    let log = std::fs::metadata(format!("{name}-wal")).map_or(0, |log| log.len());
    Some(main + log)
}

/// Adds the launches of schedules, by what became of them.
fn encode_schedules(
    schedules: &[ScheduleView],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), std::fmt::Error> {
    let kind = ConstCounter::new(0_u64).metric_type();
    let help = "Launches of a schedule";
    let mut metric = encoder.encode_descriptor("schedule_launches", help, None, kind)?;
    for schedule in schedules {
        let counts = schedule.counts;
        for (outcome, value) in [
            ("launched", counts.launched),
            ("skipped", counts.skipped),
            ("missed", counts.missed),
            ("failed", counts.failed),
        ] {
            let labels = [("schedule", schedule.name.as_str()), ("outcome", outcome)];
            ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
        }
    }
    let kind = ConstGauge::new(0_i64).metric_type();
    let help = "Whether a schedule is paused";
    let mut metric = encoder.encode_descriptor("schedule_paused", help, None, kind)?;
    for schedule in schedules {
        let labels = [("schedule", schedule.name.as_str())];
        let is_paused = i64::from(schedule.paused.is_some());
        ConstGauge::new(is_paused).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Seen {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let journal = &self.stats.journal;
        let counters = [
            ("plans_begun", "Plans that have begun", journal.plans_begun),
            ("plans_ended", "Plans that were stopped, however", journal.plans_ended),
            ("plans_failed", "Plans that were stopped with an error", journal.plans_failed),
            ("plan_pauses", "How often plans were paused", journal.pauses),
            ("step_calls", "Calls of steps that have begun", journal.calls),
            ("steps", "Steps that have ended well, cancelled or left out", journal.steps),
            ("step_failures", "Calls of steps that have failed", journal.failures),
            ("events", "Events that were taken", journal.events),
            ("journal_entries", "Entries of the journal", journal.entries),
            ("journal_bytes", "Bytes of the entries of the journal", journal.bytes),
            ("commits", "Commits of the store", journal.commits),
            ("commits_failed", "Commits of the store that have failed", journal.commits_failed),
            ("dead_letters", "Events that could not be delivered", self.stats.dead_letters),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let gauges = [
            ("rows_behind", "Plans whose rows are behind their entries", journal.rows_behind),
            ("entries_waiting", "Entries that wait for a commit", journal.entries_waiting),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        let gauge = ConstGauge::new(0.0);
        let help = "The part of the commits that is named took no longer, in seconds";
        let kind = gauge.metric_type();
        let mut metric = encoder.encode_descriptor("commit_seconds", help, None, kind)?;
        for (quantile, us) in [("0.5", journal.commit_us.p50), ("0.99", journal.commit_us.p99)] {
            let labels = [("quantile", quantile)];
            ConstGauge::new(us as f64 / 1e6).encode(metric.encode_family(&labels)?)?;
        }
        let gauge = ConstGauge::new(0_i64);
        let help = "Plans that are alike";
        let mut metric = encoder.encode_descriptor("plans", help, None, gauge.metric_type())?;
        for group in self.counts.groups() {
            let labels = [
                ("state", group.state.name()),
                ("result", group.result.name()),
                ("waits", group.waits.name()),
            ];
            let plans = i64::try_from(group.plans).unwrap_or(i64::MAX);
            ConstGauge::new(plans).encode(metric.encode_family(&labels)?)?;
        }
        flow_figures::encode_hour(&self.ended, self.stats.at, encoder)?;
        encode_schedules(&self.schedules, encoder)?;
        job_figures::encode(&self.jobs, encoder)
    }
}
