//! The action of a run: its plan calls an executor once, and keeps the output.

use serde::{Deserialize, Serialize};
use turnwheel_engine::internal;
use turnwheel_engine::{
    Action, ActionError, ActionView, Cause, Concurrency, Next, OnInterrupt, Payload, Plan,
    PlanResult, PlanView, Planner, Queue, Rescue, Run, Runs, Singleton, StepContext, StepState,
    Time, WorldBuilder,
};

use crate::decide::Ended;
use crate::executor::{Call, Done, Verdict, Work};
use crate::launch::RunState;
use crate::limits::{MAIL_PLACES, WEBHOOK_PLACES};
use crate::mask;
use crate::notice::{SendMail, SendWebhook, MAIL_QUEUE, WEBHOOK_QUEUE};
use crate::registry::Executors;

/// Kinds of errors of a run.
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";
const MOVED: &str = "moved";

/// The queue of runs.
const QUEUE: &str = "jobs";

/// Result of a run, as its plan keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) started_at: Option<Time>,
    pub(crate) done: Option<Done>,
    /// When its work ended; processors may have taken longer.
    #[serde(default)]
    pub(crate) ended_at: Option<Time>,
    /// Whether its executor gave more than is kept; processors may have replaced the output since.
    #[serde(default)]
    pub(crate) is_cut: Option<bool>,
    /// Problems of processors.
    #[serde(default)]
    pub(crate) note: String,
    /// The node that has run it.
    #[serde(default)]
    pub(crate) node: Option<String>,
}

/// The action of a run.
#[derive(Debug)]
pub(crate) struct RunJob {
    executors: Executors,
}

/// Jobs for a world that is described.
pub trait WithJobs {
    /// Lets the world run jobs with these executors.
    #[must_use]
    fn jobs(self, executors: &Executors) -> Self;
}

impl WithJobs for WorldBuilder {
    fn jobs(self, executors: &Executors) -> Self {
        // A queue of their own: flows that wait for something take no places of jobs.
        let queue = Queue::new(QUEUE).size(executors.places()).only_blocking();
        // A server that hangs takes no places of runs, nor of the other kind of notifications.
        let webhooks = Queue::new(WEBHOOK_QUEUE).size(WEBHOOK_PLACES).only_blocking();
        let mails = Queue::new(MAIL_QUEUE).size(MAIL_PLACES).only_blocking();
        let builder = self.queue(queue).queue(webhooks).queue(mails);
        let builder = builder.action(RunJob { executors: executors.clone() }).action(RunKeyed);
        let builder = builder.action(SendWebhook { executors: executors.clone() });
        builder.action(SendMail { executors: executors.clone() })
    }
}

impl Action for RunJob {
    const NAME: &'static str = "job.run";
    type Input = Work;
    type Output = Kept;
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, work: Work) -> Result<(), ActionError> {
        planner.label(label(&work));
        planner.plan_self(work)?;
        Ok(())
    }

    fn queue(&self) -> Option<&str> {
        Some(QUEUE)
    }

    fn concurrency(&self) -> Concurrency<Work> {
        Concurrency::keyed(1, |work| format!("run {}", work.key))
    }

    fn rescue(&self, _error: &ActionError) -> Rescue {
        Rescue::Fail
    }

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::Fail
    }

    fn on_interrupt_of(&self, work: &Work) -> OnInterrupt {
        match self.executors.find(&work.executor) {
            Ok(executor) if executor.finds_its_own() => OnInterrupt::RunAgain,
            _ => OnInterrupt::Fail,
        }
    }

    fn is_cancellable(&self) -> bool {
        true
    }

    fn takes_events(&self) -> bool {
        false
    }

    fn present(&self, view: &mut ActionView<'_>) {
        mask::shown(&mut view.shown.input);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        mask::edited(stored, input)
    }
}

impl Run for RunJob {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let is_again = step.output.started_at.is_some();
        let here = self.executors.here();
        if let Some(here) = here.filter(|here| here.name != step.input.node && !is_again) {
            // Its node has gone before it began, and its plan is here now.
            if let Err(problem) = here.matches(&step.input.targets) {
                let problem =
                    format!("{} has gone before it began, and {problem}", step.input.node);
                return Err(ActionError::new(MOVED, problem).and_final());
            }
        }
        step.output.node = here.map(|here| here.name.clone());
        let now = step.now();
        let began = *step.output.started_at.get_or_insert(now);
        if !is_again {
            self.executors.began(&step.input, began);
        }
        let is_ending = matches!(step.cause(), Cause::Cancel { .. });
        let verdict = match self.executors.find(&step.input.executor) {
            Err(problem) => Verdict::Done(Done::failure(problem, "")),
            Ok(executor) => {
                let is_cancelled = || is_ending || step.is_cancelled();
                let live = self.executors.live(&step.input.key);
                let world = self.executors.world();
                let call =
                    Call { is_again, began, is_cancelled: &is_cancelled, live: &live, world };
                let verdict = executor.execute(&step.input, &call);
                if matches!(verdict, Verdict::Done(_)) {
                    live.end();
                }
                verdict
            }
        };
        let mut done = match verdict {
            Verdict::Done(done) => done,
            Verdict::Later(_) if is_ending => Done::failure("it was cancelled", ""),
            Verdict::Later(pause) => {
                step.event_after(pause, &())?;
                return Ok(step.wait_for_event("the executor goes on elsewhere"));
            }
        };
        keep_end(&mut done, step.input.output_max);
        step.output.is_cut = Some(done.output_bytes > done.output.len() as u64);
        // The time of a step stands still while it runs.
        let ended_at = self.executors.world().map_or(now, |world| internal::now(&world));
        let started_at = step.output.started_at.unwrap_or(now);
        step.output.ended_at = Some(ended_at);
        let problems = self.executors.process(&step.input, &mut done, started_at, ended_at);
        step.output.note = problems.join("; ");
        let (is_success, reason) = (done.is_success, done.reason.clone());
        step.output.done = Some(done);
        let is_cancelled = is_ending || step.is_cancelled();
        match is_success {
            true => Ok(Next::Done),
            // The end of a cancel is no failure: a plan whose clean-up fails is paused.
            false if is_ending => Ok(Next::Done),
            false => {
                let kind = if is_cancelled { CANCELLED } else { FAILED };
                Err(ActionError::new(kind, reason).and_final())
            }
        }
    }
}

/// The action of a run with a `concurrency_key`: its plan has the lock of the key while it is under
/// way, on whichever node. Runs without a key have plans without a lock, which cost less.
#[derive(Debug)]
pub(crate) struct RunKeyed;

impl Action for RunKeyed {
    const NAME: &'static str = "job.run.keyed";
    type Input = Work;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, input: Work) -> Result<(), ActionError> {
        planner.label(label(&input));
        planner.plan_action::<RunJob>(input)?;
        Ok(())
    }

    fn queue(&self) -> Option<&str> {
        Some(QUEUE)
    }

    fn singleton(&self) -> Option<Singleton<Work>> {
        Some(Singleton::keyed(|work: &Work| work.concurrency_key.clone()).wait())
    }

    fn present(&self, view: &mut ActionView<'_>) {
        mask::shown(&mut view.shown.input);
    }

    fn edited(&self, stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
        mask::edited(stored, input)
    }
}

/// Name of a run in lists: its job.
fn label(work: &Work) -> String {
    format!("job {}", work.job)
}

/// Cuts an output to its last bytes.
fn keep_end(done: &mut Done, max: u64) {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    if done.output.len() <= max {
        return;
    }
    let mut from = done.output.len() - max;
    while !done.output.is_char_boundary(from) {
        from += 1;
    }
    done.output.drain(..from);
}

/// When the work of a run under way began, as its plan says; nothing if it waits for a place or its
/// key.
pub(crate) fn began(view: &PlanView) -> Option<Time> {
    let kept = view.output::<RunJob>().unwrap_or_default();
    let step = view.run_step::<RunJob>().filter(|step| {
        !step.is_queued && matches!(step.state, StepState::Running | StepState::Suspended)
    });
    kept.started_at.or(step.and_then(|step| step.started_at))
}

/// The outcome of a run, as its plan says.
pub(crate) fn ended(view: &PlanView) -> Ended {
    let kept = view.output::<RunJob>().unwrap_or_default();
    let result = view.result();
    let is_of = |kind: &str| view.errors().first().is_some_and(|error| error.kind == kind);
    let is_cancelled = result == PlanResult::Cancelled || is_of(CANCELLED);
    let is_unbegun = kept.done.is_none() && is_of(MOVED);
    let (state, reason) = match (&kept.done, result) {
        (Some(done), _) if done.is_success => (RunState::Succeeded, String::new()),
        _ if is_cancelled => (RunState::Cancelled, String::new()),
        _ if is_unbegun => (RunState::Lost, problem(view)),
        (Some(done), _) => (RunState::Failed, done.reason.clone()),
        (None, PlanResult::Error) => (RunState::Unknown, problem(view)),
        (None, _) => (RunState::Unknown, format!("its plan ended as «{}»", result.name())),
    };
    let step = view.run_step::<RunJob>();
    // A step that has waited for its place only has not begun.
    let began = step.filter(|step| step.was_called).and_then(|step| step.started_at);
    let ended_at = kept.ended_at.or(step.and_then(|step| step.ended_at)).or(view.ended_at);
    let (note, was_cut, node) = (kept.note, kept.is_cut, kept.node);
    let done = kept.done.unwrap_or_default();
    Ended {
        state,
        reason,
        started_at: kept.started_at.or(began),
        ended_at,
        output_bytes: done.output_bytes,
        is_cut: was_cut.unwrap_or(done.output_bytes > done.output.len() as u64),
        note,
        node,
        is_unbegun,
    }
}

/// The whole output that a run has kept.
pub(crate) fn output(view: &PlanView) -> String {
    view.output::<RunJob>()
        .ok()
        .and_then(|kept| kept.done)
        .map_or(String::new(), |done| done.output)
}

fn problem(plan: &Plan) -> String {
    let errors = plan.errors();
    let text = errors.first().map(|error| error.message.clone());
    text.unwrap_or_else(|| "its plan failed without a reason".to_owned())
}
