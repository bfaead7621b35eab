//! Figures of jobs, by job.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use turnwheel_jobs::JobView;

use super::limits::JOB_FIGURES_MAX;

/// Name, help and value of a figure.
type Figure<T> = (&'static str, &'static str, fn(&JobView) -> T);

/// Seconds from planned to begun of the last run, and from begun to ended.
fn seconds(view: &JobView) -> Option<(f64, f64)> {
    let launch = view.last.as_ref()?;
    let run = launch.runs.last()?;
    let (started, ended) = (run.started_at?, run.ended_at?);
    let first = launch.runs.first().and_then(|run| run.started_at).unwrap_or(started);
    let late = first.since(launch.planned).as_secs_f64();
    Some((late, ended.since(started).as_secs_f64()))
}

/// Adds the figures of jobs, the first ones by name of very many.
pub(super) fn encode(
    views: &[JobView],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), std::fmt::Error> {
    let shown = &views[..views.len().min(JOB_FIGURES_MAX)];
    let counters: [Figure<u64>; 5] = [
        ("job_runs_succeeded", "Runs of a job that succeeded", |view| view.counts.success),
        ("job_runs_failed", "Runs of a job that did not", |view| view.counts.error),
        ("job_runs_lost", "Runs of which nobody knows the outcome", |view| view.counts.lost),
        ("job_launches_skipped", "Launches that a policy left out", |view| view.counts.skipped),
        ("job_times_missed", "Times that were missed and not made up for", |view| {
            view.counts.missed
        }),
    ];
    for (name, help, value) in counters {
        let kind = ConstCounter::new(0_u64).metric_type();
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for view in shown {
            let labels = [("job", view.spec.name.as_str())];
            ConstCounter::new(value(view)).encode(metric.encode_family(&labels)?)?;
        }
    }
    let gauges: [Figure<Option<f64>>; 4] = [
        ("job_lateness_seconds", "How late the last launch began", |view| {
            seconds(view).map(|(late, _)| late)
        }),
        ("job_duration_seconds", "How long the last run took", |view| {
            seconds(view).map(|(_, took)| took)
        }),
        ("job_active", "Launches of a job that have begun and are under way", |view| {
            Some(view.begun() as f64)
        }),
        ("job_failing", "Whether the last launch of a job failed", |view| {
            let is_good = |status: turnwheel_jobs::LaunchState| status.name() == "succeeded";
            view.status.map(|status| f64::from(u8::from(!is_good(status))))
        }),
    ];
    for (name, help, value) in gauges {
        let kind = ConstGauge::new(0.0).metric_type();
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for view in shown {
            let labels = [("job", view.spec.name.as_str())];
            if let Some(value) = value(view) {
                ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}
