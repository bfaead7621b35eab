//! The plans: three steps one after the other, the middle one sleeps. Each call leaves a line in a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, BuildError, Finalize, Finalizes, Input, Next, Planner, RunAsync,
    RunsAsync, StepContext, World,
};
use turnwheel_sqlite::SqliteStore;

/// The shortest sleep of a plan, and how many milliseconds it may be longer.
const SLEEP: (Duration, u64) = (Duration::from_millis(50), 250);

/// The file of what was called, as it happened outside of the engine.
#[derive(Debug)]
pub(crate) struct Log {
    file: Mutex<File>,
    /// Whether each line is also said to the parent, which counts them.
    is_telling: bool,
}

impl Log {
    pub(crate) fn open(folder: &Path, is_telling: bool) -> io::Result<Arc<Self>> {
        let file = File::options().append(true).create(true).open(folder.join("calls.log"))?;
        Ok(Arc::new(Self { file: Mutex::new(file), is_telling }))
    }

    pub(crate) fn write(&self, what: &str, key: &str) -> io::Result<()> {
        let line = format!("{what} {key}\n");
        self.file.lock().expect("whoever writes does not panic").write_all(line.as_bytes())?;
        if self.is_telling && io::stdout().write_all(b"call\n").is_err() {
            // The parent is gone: this life ends as if it had been killed.
            std::process::exit(1);
        }
        Ok(())
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) sum: u64,
}

/// Adds one.
struct Add(Arc<Log>);

impl Action for Add {
    const NAME: &'static str = "add";
    type Input = u64;
    type Output = Sum;
    type Phases = RunsAsync;
}

impl RunAsync for Add {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.write("add", &step.idempotency_key())?;
        step.output.sum = step.input + 1;
        Ok(Next::Done)
    }
}

/// Sleeps on a durable timer, which holds no thread, and adds one.
struct Sleep(Arc<Log>);

impl Action for Sleep {
    const NAME: &'static str = "sleep";
    type Input = Input<u64>;
    type Output = Sum;
    type Phases = RunsAsync;
}

impl RunAsync for Sleep {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let sum = *step.input.get()?;
        if !step.has_event() {
            self.0.write("sleep", &step.idempotency_key())?;
            let (shortest, longer) = SLEEP;
            let more = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            step.event_after(shortest + Duration::from_millis(more % longer), &"wake up")?;
            return Ok(Next::suspend("the alarm clock"));
        }
        self.0.write("wake", &step.idempotency_key())?;
        step.output.sum = sum + 1;
        Ok(Next::Done)
    }
}

/// Adds one, and again in the end.
struct Close(Arc<Log>);

impl Action for Close {
    const NAME: &'static str = "close";
    type Input = Input<u64>;
    type Output = Sum;
    type Phases = (RunsAsync, Finalizes);
}

impl RunAsync for Close {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        self.0.write("close", &step.idempotency_key())?;
        step.output.sum = step.input.get()? + 1;
        Ok(Next::Done)
    }
}

impl Finalize for Close {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        self.0.write("finalize", &step.idempotency_key())?;
        // From the input, not from the output: it may be called twice.
        step.output.sum = step.input.get()? + 2;
        Ok(())
    }
}

/// The three of them; the sum in the end is four more than the number.
pub(crate) struct Chain;

/// What the steps of a plan add in all.
pub(crate) const ADDED: u64 = 4;
/// Calls of a plan's code if nothing happens.
pub(crate) const CALLS: u64 = 5;

impl Action for Chain {
    const NAME: &'static str = "chain";
    type Input = u64;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u64) -> Result<(), ActionError> {
        planner.label(label(number));
        let add = planner.plan_action::<Add>(number)?;
        let sleep = planner.plan_action::<Sleep>(output!(add => sum)?.into())?;
        planner.plan_action::<Close>(output!(sleep => sum)?.into())?;
        Ok(())
    }
}

/// What the plan of a number is called; also its idempotency key.
pub(crate) fn label(number: u64) -> String {
    format!("chain {number}")
}

/// The sum of a plan in the end.
pub(crate) fn sum_of(
    view: &turnwheel_engine::PlanView,
) -> Result<u64, turnwheel_engine::PlanError> {
    Ok(view.output::<Close>()?.sum)
}

pub(crate) fn world(folder: &Path, log: &Arc<Log>) -> Result<World, BuildError> {
    World::builder()
        .action(Chain)
        .action(Add(Arc::clone(log)))
        .action(Sleep(Arc::clone(log)))
        .action(Close(Arc::clone(log)))
        .build(SqliteStore::new(folder.join("plans.db")))
}
