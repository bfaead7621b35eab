//! Events that leave the host: those that flows emit, and life-cycle events, for each sink that wants
//! them.
//!
//! The outbox is made of plans: one for each event and sink, which is durable before the task that
//! emits the event ends. So a delivery is tried again with pauses that grow, goes on after a crash, and
//! can be seen, retried and cancelled as all plans.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turnwheel_engine::action::{Action, ActionView, Next, Run, Runs, StepContext};
use turnwheel_engine::internal::key_of_cause;
use turnwheel_engine::plan::Planner;
use turnwheel_engine::{ActionError, RetryPolicy, Singleton, TriggerOptions, World};
use turnwheel_runtime::Backoff;

use crate::bench::Bench;
use crate::event::CloudEvent;
use crate::flows::FlowError;
use crate::io::{IoCall, IoErrorKind};

/// Attempts of a delivery: two days with pauses of an hour at the end.
const ATTEMPTS: u32 = 58;

/// Pauses between them.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(3_600);

/// Time limit of one attempt.
const WITHIN: Duration = Duration::from_secs(30);

/// Characters of an event's type in the name of its plan.
const LABEL_CHARS: usize = 100;

/// The label of a delivery: the name of its sink.
const SINK: &str = "sink";

/// Delivers an event to a sink: at once, or when the events before it are over.
#[derive(Debug)]
pub(crate) struct Delivers<const IN_ORDER: bool> {
    pub(crate) bench: Arc<Bench>,
}

/// Delivers an event at once.
pub(crate) type Delivery = Delivers<false>;

/// Delivers an event when those before it are delivered, or given up.
pub(crate) type Ordered = Delivers<true>;

/// Input of a delivery.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    /// The name of the sink.
    sink: String,
    event: CloudEvent,
}

impl<const IN_ORDER: bool> Action for Delivers<IN_ORDER> {
    const NAME: &'static str = if IN_ORDER { "flow.delivery.ordered" } else { "flow.delivery" };
    type Input = Outgoing;
    type Output = ();
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, input: Outgoing) -> Result<(), ActionError> {
        // The types of events have no limit, labels have one.
        let kind: String = input.event.kind.chars().take(LABEL_CHARS).collect();
        planner.label(format!("{kind} to {}", input.sink));
        planner.plan_self(input)?;
        Ok(())
    }

    /// Plans that wait for the same lock get it in the order of their ids.
    fn singleton(&self) -> Option<Singleton<Outgoing>> {
        IN_ORDER.then(|| Singleton::keyed(|input: &Outgoing| input.sink.clone()).wait())
    }

    fn retry(&self) -> RetryPolicy {
        let pauses = Backoff::exponential(FIRST_PAUSE, LAST_PAUSE).jitter_percent(25);
        RetryPolicy::attempts(ATTEMPTS).pauses(pauses)
    }

    fn present(&self, view: &mut ActionView<'_>) {
        view.shown.name = "delivers an event".to_owned();
    }
}

impl<const IN_ORDER: bool> Run for Delivers<IN_ORDER> {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let (key, cancelled) = (step.idempotency_key(), || step.is_cancelled());
        let call = IoCall::new(&key, &cancelled).limit(Some(WITHIN));
        let event = step.input.event.to_value();
        let delivered = self.bench.io.deliver(&step.input.sink, &event, &call);
        delivered.map_err(|error| {
            let told = ActionError::new("delivery", &error);
            match error.kind {
                IoErrorKind::NotFound | IoErrorKind::Forbidden | IoErrorKind::Unsupported => {
                    told.and_final()
                }
                _ => told,
            }
        })?;
        Ok(Next::Done)
    }
}

/// Writes an event down for the sinks that want it; the same event once for each.
pub(crate) async fn to_sinks(
    bench: &Bench,
    world: &World,
    event: &CloudEvent,
) -> Result<(), FlowError> {
    for sink in bench.io.sinks(&event.kind) {
        // Ids and sources have no limit, keys have one.
        let key = format!("sink:{sink}:{:x}", Sha256::digest(event.key()));
        let options = key_of_cause(TriggerOptions::new(), key).by("flows").label(SINK, &sink);
        let is_ordered = bench.io.is_ordered(&sink);
        let outgoing = Outgoing { sink, event: event.clone() };
        let _plan = match is_ordered {
            true => world.trigger_with::<Ordered>(options, outgoing).await?,
            false => world.trigger_with::<Delivery>(options, outgoing).await?,
        };
    }
    Ok(())
}
