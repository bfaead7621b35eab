//! A world that is shut down in order interrupts nothing, whenever that is.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use turnwheel_engine::{
    Action, ActionError, Finalize, Finalizes, Next, OnInterrupt, PlanResult, Planner, Rescue,
    Revert, Reverts, RunAsync, RunsAsync, StepContext, WorldBuilder,
};
use turnwheel_testkit::{Client, FaultPoint, Faults, Moment, Trouble, Workload};

/// A leaf whose interruption pauses its plan.
struct Careful;

/// Gives its thread back once.
async fn a_moment() {
    let mut is_over = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Action for Careful {
    const NAME: &'static str = "careful";
    type Input = String;
    type Output = ();
    type Phases = (RunsAsync, Finalizes, Reverts);

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::Pause
    }

    fn rescue(&self, _: &ActionError) -> Rescue {
        Rescue::Revert
    }
}

impl RunAsync for Careful {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        a_moment().await;
        match step.input.as_str() {
            "fails" => Err(ActionError::new("failed", "as it was told").and_final()),
            "waits" if !step.has_event() => {
                step.event_after(Duration::from_secs(5), &1)?;
                Ok(step.wait_for_event("its time"))
            }
            "asks" if step.sub_plans().total == 0 => {
                step.trigger::<Self>(&"runs".to_owned())?;
                Ok(step.wait_for_sub_plans())
            }
            _ => Ok(Next::Done),
        }
    }
}

impl Finalize for Careful {
    fn finalize(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

impl Revert for Careful {
    fn revert(&self, _: &mut StepContext<Self>) -> Result<(), ActionError> {
        Ok(())
    }
}

/// Leaves one after the other.
struct Line;

impl Action for Line {
    const NAME: &'static str = "line";
    type Input = String;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, text: String) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            let mut leaves = text.split(' ').map(str::to_owned);
            leaves.try_for_each(|leaf| planner.plan_action::<Careful>(leaf).map(|_| ()))
        })
    }
}

struct Lines;

impl Workload for Lines {
    fn name(&self) -> &str {
        "careful lines"
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.action(Careful).action(Line).plan_idle(Duration::from_secs(1))
    }

    async fn client(&self, client: Client) -> Result<(), String> {
        let lines = [
            ("runs waits runs", PlanResult::Success),
            ("asks runs", PlanResult::Success),
            ("runs waits fails", PlanResult::Reverted),
        ];
        let mut plans = Vec::new();
        for (text, result) in lines {
            plans.push((client.trigger::<Line>(text, text.to_owned()).await?, result));
        }
        for (plan, result) in plans {
            let view = client.finished(plan).await?;
            if view.result() != result || view.steps.iter().any(|step| step.attempt > 1) {
                let history: Vec<_> = view.history.iter().map(|line| line.text.as_str()).collect();
                return Err(format!("plan {plan} ends as {}: {history:?}", view.result().name()));
            }
        }
        Ok(())
    }
}

#[test]
fn a_clean_shutdown_at_any_moment_interrupts_nothing() {
    let mut wrong = Vec::new();
    let moments = (1..=40).flat_map(|number| [Moment::Write(number), Moment::Timer(number)]);
    for moment in moments {
        let point = FaultPoint { moment, trouble: Trouble::Shutdown };
        if let Err(problem) = Faults::new().once(&Lines, 1, &[point]) {
            wrong.push(format!("{point}: {problem}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
