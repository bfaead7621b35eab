//! A store with many plans, as a year of use would leave it: most are over, some have failed, some wait.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use turnwheel::engine::{PlanHandle, PlanId, TriggerOptions, World};
use turnwheel::flow::{self, Flows, WithFlows};
use turnwheel::io::HostIo;
use turnwheel::runtime::completion::block_on;
use turnwheel::sqlite::{SqliteStore, SqliteSync};

use super::work::{Chain, Fail, Named, NoOp, Times};
use super::{failed, Patience};
use crate::cli::exit::Exit;
use crate::cli::paint::tell;

/// Plans that are begun at once.
const AT_ONCE: u32 = 1_000;

/// Interval of progress reports.
const TOLD: Duration = Duration::from_secs(2);

/// One plan of so many has failed and is paused, one of so many has ended with an error, one of so
/// many waits for an event, one of so many is a flow that has ended well. The others are plans of
/// one step.
const PAUSED: u32 = 200;
const FAULTED: u32 = 100;
const WAITS: u32 = 100;
const FLOW: u32 = 10;

const GREETS: &str = "\
document: { dsl: '1.0.3', namespace: bench, name: order, version: '1.0.0' }
do:
  - check: { set: { total: '${ .amount * 2 }' } }
";

const FAULTS: &str = "\
document: { dsl: '1.0.3', namespace: bench, name: refused, version: '1.0.0' }
do:
  - refuse: { raise: { error: { type: https://example.org/refused, status: 409, title: it was refused } } }
";

const LISTENS: &str = "\
document: { dsl: '1.0.3', namespace: bench, name: approval, version: '1.0.0' }
do:
  - approval: { listen: { to: { one: { with: { type: org.example.approved } } } } }
";

/// Content of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// A plan with many steps.
    pub(super) large: PlanId,
    /// One of the others.
    pub(super) small: PlanId,
}

/// Makes a store with so many plans, and one of so many steps. It is not synced meanwhile: after a
/// power failure it must be made again.
pub(super) fn make(
    store: &Path,
    plans: u32,
    steps: u32,
    io: HostIo,
    patience: &Patience,
) -> Result<Crowd, Exit> {
    let store = SqliteStore::new(store).sync(SqliteSync::Off);
    let world = World::builder()
        .action(NoOp(Times::new()))
        .action(Chain)
        .action(Fail)
        .action(Named)
        .flows(io)
        .build(store)
        .map_err(Exit::from)?;
    let made = fill(&world, plans, steps, patience);
    let shut = world.shutdown();
    let made = made?;
    shut?;
    Ok(made)
}

fn fill(world: &World, plans: u32, steps: u32, patience: &Patience) -> Result<Crowd, Exit> {
    let flows = Flows::new(world).map_err(failed)?;
    let mut known = Vec::new();
    for text in [GREETS, FAULTS, LISTENS] {
        let flow = flow::load(text, "bench").map_err(failed)?;
        block_on(flows.add(&flow)).map_err(failed)?.map_err(failed)?;
        known.push(flow);
    }
    let [greets, faults, listens] = &known[..] else {
        return Err(failed("three flows were added"));
    };
    let mut told = Instant::now();
    let mut small = None;
    for begin in (0..plans).step_by(AT_ONCE as usize) {
        if patience.is_over() || told.elapsed() >= TOLD {
            tell!("{begin} of {plans} plans are made …");
            told = Instant::now();
        }
        if patience.is_over() {
            break;
        }
        let begun = (begin..plans.min(begin + AT_ONCE)).map(|number| {
            let customer = format!("customer-{}", number % 1_000);
            let options = TriggerOptions::new().label("customer", customer).by("bench");
            let begun = match number {
                number if number % PAUSED == 1 => world.trigger_with::<Fail>(options, ()),
                number if number % FAULTED == 2 => flows.start_with(faults, json!({}), options),
                number if number % WAITS == 3 => flows.start_with(listens, json!({}), options),
                number if number % FLOW == 4 => {
                    flows.start_with(greets, json!({ "amount": number }), options)
                }
                _ => world.trigger_with::<Named>(options, number),
            };
            (begun, number % WAITS == 3)
        });
        let begun: Vec<_> = begun.collect();
        let mut ending: Vec<PlanHandle> = Vec::with_capacity(begun.len());
        for (begun, waits) in begun {
            let plan = begun.wait().map_err(failed)?;
            small.get_or_insert(plan.id());
            if !waits {
                ending.push(plan);
            }
        }
        for plan in ending {
            plan.finished().wait().map_err(Exit::from)?;
        }
    }
    let large = world.trigger::<Chain>(steps).wait().map_err(failed)?;
    if !patience.is_over() {
        large.finished().wait().map_err(Exit::from)?;
    }
    Ok(Crowd { large: large.id(), small: small.unwrap_or(large.id()) })
}
