//! Runs of flows for Prometheus: how many have ended, by flow and result.
//!
//! The counters follow the durable happenings from the first time that
//! somebody reads them, as counters of Prometheus may begin at any time.

use std::collections::BTreeMap;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream as _;
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use turnwheel_engine::store::Tally;
use turnwheel_engine::watch::{Happening, Watch, WatchFilter, Watched, What};
use turnwheel_engine::{PlanState, StoreError, Time, World};

use super::limits::FLOW_FIGURES_MAX;
use crate::api::EndedPlans;
use crate::shape;

/// Counts by flow and by what became of a run.
type Counts = BTreeMap<(String, &'static str), u64>;

/// The runs of flows since the figures were read for the first time.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowFigures(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    has_begun: AtomicBool,
    counts: Mutex<Counts>,
}

impl FlowFigures {
    /// Begins to count, once; what happens after this returned is counted.
    pub(super) async fn begin(
        &self,
        world: &World,
        stopped: impl Future<Output = ()> + Send + 'static,
    ) {
        if self.0.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut watch = listen(world).await;
        let (figures, world) = (self.clone(), world.clone());
        tokio::spawn(async move {
            let mut stopped = std::pin::pin!(stopped);
            loop {
                let next = tokio::select! {
                    () = &mut stopped => return,
                    next = next(&mut watch) => next,
                };
                match next {
                    Some(Ok(Watched::Happened(happening))) => figures.count(&happening),
                    Some(Ok(Watched::Missed { entries, .. })) => {
                        tracing::warn!(entries, "runs of flows were not counted: too many at once");
                        watch = listen(&world).await;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::warn!(%error, "runs of flows are counted no more");
                        return;
                    }
                    None => return,
                }
            }
        });
    }

    fn count(&self, happening: &Happening) {
        let Some(flow) = flow_of(&happening.label) else { return };
        let outcome = match &happening.what {
            What::Plan { to: PlanState::Stopped, result, .. } => result.name(),
            _ => return,
        };
        let mut counts = self.0.counts.lock();
        let is_known = counts.contains_key(&(flow.to_owned(), outcome));
        let flow = if is_known || counts.len() < FLOW_FIGURES_MAX { flow } else { "others" };
        *counts.entry((flow.to_owned(), outcome)).or_default() += 1;
    }

    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let counts = self.0.counts.lock();
        let kind = ConstCounter::new(0_u64).metric_type();
        let help = "Runs of a flow that have ended, by result";
        let mut metric = encoder.encode_descriptor("flow_runs", help, None, kind)?;
        for ((flow, outcome), runs) in counts.iter() {
            let labels = [("flow", flow.as_str()), ("outcome", *outcome)];
            ConstCounter::new(*runs).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Name, help and value of a figure.
type Figure = (&'static str, &'static str, fn(&EndedPlans) -> u64);

/// The span of the figures that the store counts.
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// Runs of flows that have ended within an hour, by flow without its version: counted in the store,
/// so all processes tell the same, and at once after a start.
pub(super) fn encode_hour(
    tallies: &[Tally],
    now: Time,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), std::fmt::Error> {
    let of_flow = |tally: &Tally| {
        let name = flow_of(&tally.name)?.to_owned();
        Some(Tally { name, ..tally.clone() })
    };
    let tallies: Vec<Tally> = tallies.iter().filter_map(of_flow).collect();
    let flows = shape::ended(&tallies, now, HOUR, 1).names;
    let shown = &flows[..flows.len().min(FLOW_FIGURES_MAX)];
    let counts: [Figure; 2] = [
        ("flow_hour_runs", "Runs of a flow that ended within an hour", |plans| plans.ended),
        ("flow_hour_failures", "Runs of a flow that failed within an hour", |plans| plans.failed),
    ];
    for (name, help, value) in counts {
        let kind = ConstGauge::new(0_i64).metric_type();
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for flow in shown {
            let runs = i64::try_from(value(&flow.plans)).unwrap_or(i64::MAX);
            let labels = [("flow", flow.name.as_str())];
            ConstGauge::new(runs).encode(metric.encode_family(&labels)?)?;
        }
    }
    let help = "The named part of the runs of a flow within an hour took no longer, in seconds";
    let kind = ConstGauge::new(0.0).metric_type();
    let mut metric = encoder.encode_descriptor("flow_hour_seconds", help, None, kind)?;
    for flow in shown {
        let parts = [("0.5", flow.plans.p50_ms), ("0.99", flow.plans.p99_ms)];
        for (quantile, ms) in parts {
            let Some(ms) = ms else { continue };
            let labels = [("flow", flow.name.as_str()), ("quantile", quantile)];
            ConstGauge::new(ms / 1e3).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

async fn next(watch: &mut Watch) -> Option<Result<Watched, StoreError>> {
    poll_fn(|cx| Pin::new(&mut *watch).poll_next(cx)).await
}

async fn listen(world: &World) -> Watch {
    let mut watch = world.watch(WatchFilter::new().plans_only());
    poll_fn(|cx| watch.poll_listening(cx)).await;
    watch
}

/// The flow of a run by its label, `shop/mail:1.0.0`, without the version; others have no such label.
fn flow_of(label: &str) -> Option<&str> {
    let (flow, version) = label.rsplit_once(':')?;
    let is_version = version.starts_with(|first: char| first.is_ascii_digit());
    (is_version && flow.split('/').count() == 2).then_some(flow)
}

#[cfg(test)]
mod tests {
    use super::flow_of;

    #[test]
    fn only_labels_of_flows_are_flows() {
        assert_eq!(flow_of("shop/mail:1.0.0"), Some("shop/mail"));
        for label in ["", "mail", "a:b", "shop/mail", "shop/mail:latest", "a/b/c:1.0.0"] {
            assert_eq!(flow_of(label), None, "{label}");
        }
    }
}
