//! A workload of plans that wait for one another: for a lock that each needs, and for the one place of a
//! queue.

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Next, OnInterrupt, PlanState, Planner, Queue, Run, Runs, Singleton,
    StepContext, WorldBuilder,
};
use turnwheel_testkit::{Client, Workload};

/// Two steps at the same time in a queue for one, of one plan after the other.
struct Turn;

impl Action for Turn {
    const NAME: &'static str = "turn";
    type Input = u64;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u64) -> Result<(), ActionError> {
        planner.plan_action::<Seat>(number)?;
        planner.plan_action::<Seat>(number)?;
        Ok(())
    }

    fn singleton(&self) -> Option<Singleton<u64>> {
        Some(Singleton::keyed(|number| format!("of {}", number % 2)).wait())
    }

    fn queue(&self) -> Option<&str> {
        Some("narrow")
    }
}

/// A step that needs a place.
struct Seat;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sat {
    number: u64,
}

impl Action for Seat {
    const NAME: &'static str = "seat";
    type Input = u64;
    type Output = Sat;
    type Phases = Runs;

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::RunAgain
    }
}

impl Run for Seat {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.number = step.input;
        Ok(Next::Done)
    }
}

/// So many plans that take turns.
pub(crate) struct Turns(pub(crate) u64);

impl Workload for Turns {
    fn name(&self) -> &str {
        "turns"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.action(Turn).action(Seat).queue(Queue::new("narrow").size(1))
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let mut plans = Vec::new();
        for number in 1..=self.0 {
            plans.push(client.trigger::<Turn>(&format!("turn {number}"), number).await?);
        }
        for (plan, number) in plans.into_iter().zip(1..) {
            let view = client.finished(plan).await?;
            if view.state != PlanState::Stopped {
                return Err(format!("turn {number} is {}", view.state.name()));
            }
            let sat = view.output::<Seat>().map_err(|error| error.to_string())?;
            if sat.number != number {
                return Err(format!("turn {number} has made {sat:?}"));
            }
        }
        Ok(())
    }
}
