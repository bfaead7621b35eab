//! Outputs that cannot be stored.

use serde::{Deserialize, Serialize, Serializer};
use turnwheel_engine::{Action, ActionError, Next, PlanState, Run, Runs, StepContext};

use crate::common::Theatre;

/// Cannot be written once it says so.
#[derive(Default, Deserialize)]
struct Handle {
    is_open: bool,
}

impl Serialize for Handle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_open {
            return Err(serde::ser::Error::custom("an open handle"));
        }
        serializer.collect_map([("is_open", false)])
    }
}

/// Opens something and forgets to close it.
struct Open;

impl Action for Open {
    const NAME: &'static str = "open";
    type Input = ();
    type Output = Handle;
    type Phases = Runs;
}

impl Run for Open {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.is_open = true;
        Ok(Next::Done)
    }
}

// D-034
#[test]
fn an_output_that_cannot_be_written_fails_its_step() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Open));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Open>(())).unwrap().unwrap();
    let view = theatre.finished(&plan);
    assert_eq!(view.state, PlanState::Paused);
    let error = view.errors()[0];
    assert!(error.message.contains("the output of «open»"), "{error}");
    assert!(error.message.contains("an open handle"), "{error}");
}
