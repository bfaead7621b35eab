//! `engine --case listeners`: an event for one of very many plans that listen for its type.

use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use serde_json::json;
use turnwheel_engine::World;
use turnwheel_flow::{load as load_flow, CloudEvent, FakeIo, Flows, WithFlows};
use turnwheel_runtime::completion::block_on;

use super::disk::Memory;
use super::scenes::{failed, SceneRow};
use super::Options;
use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load;

/// Plans that are started at once.
const AT_ONCE: usize = 2_000;
/// Events that are published one after the other.
const EVENTS: usize = 1_000;
/// Time for plans to leave memory.
const SETTLE: std::time::Duration = std::time::Duration::from_secs(5);

const FLOW: &str = "
document: { dsl: '1.0.0', namespace: bench, name: listener, version: '1.0.0' }
do:
  - paid:
      listen:
        to:
          one:
            with: { type: order.paid }
            correlate: { order: { from: .order, expect: '${ .order }' } }
";

/// Times from the publication of an event until the plan that it is for has taken it.
pub(super) fn correlated(
    folder: &Path,
    options: &Options,
    count: usize,
    bar: &ProgressBar,
) -> Result<Vec<SceneRow>, BenchError> {
    let before = Memory::now()?;
    let world = World::builder()
        .flows(FakeIo::new())
        .build(options.place.store(&folder.join("listeners.db"))?)
        .map_err(|error| failed(&error))?;
    let flows = Flows::new(&world).map_err(|error| failed(&error))?;
    let flow = load_flow(FLOW, "listener.yaml").map_err(|error| failed(&error))?;
    let added = block_on(flows.add(&flow)).map_err(|error| failed(&error))?;
    added.map_err(|error| failed(&error))?;
    bar.set_length(count as u64);
    bar.set_message("starting flows that listen");
    let begin = Instant::now();
    let mut at = 0;
    while at < count {
        let until = (at + AT_ONCE).min(count);
        let start = |order: usize| flows.start(&flow, json!({ "order": order }));
        let started: Vec<_> = (at..until).map(start).collect();
        for plan in started {
            plan.wait().map_err(|error| failed(&error))?;
        }
        bar.inc((until - at) as u64);
        at = until;
    }
    while flows.listeners() < count {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let made = count as f64 / begin.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let memory = Memory::now()?.anonymous_mib - before.anonymous_mib;
    let mut us = Vec::with_capacity(EVENTS);
    let mut random = Random::new(7);
    let stride = (count / EVENTS).max(1);
    for number in 0..EVENTS.min(count) {
        let order = number * stride + random.below(stride as u64) as usize;
        let event = CloudEvent::new(number.to_string(), "bench", "order.paid");
        let begin = Instant::now();
        let published = block_on(flows.publish(event.data(json!({ "order": order }))));
        us.push(begin.elapsed().as_secs_f64() * 1e6);
        let published = published.map_err(|error| failed(&error))?;
        let published = published.map_err(|error| failed(&error))?;
        check("deliveries of one event", published.delivered, 1)?;
    }
    world.shutdown().map_err(|error| failed(&error))?;
    us.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| us[(us.len() - 1) * percent / 100];
    let row = |metric, value: f64| SceneRow {
        workload: format!("listeners_{count}"),
        metric,
        value: load::rounded(value),
    };
    Ok(vec![
        row("made_per_s", made),
        row("anonymous_mib", memory),
        row("event_p50_us", at(50)),
        row("event_p99_us", at(99)),
    ])
}
