//! A node as a process: its actions, and the orders that it takes on standard input.

use std::io::{BufRead as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    Action, ActionError, Cause, Next, RunAsync, RunsAsync, SharedStore, StepContext, World,
    WorldBuilder,
};
use turnwheel_postgres::PostgresStore;

use crate::engine::{failed, plans};
use crate::error::BenchError;
use crate::{load, process};

const WORKERS: usize = 2;
/// Plans that are being triggered at once while many are made.
const AT_ONCE: u64 = 1_000;

/// Settings of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(super) url: String,
    pub(super) name: String,
    pub(super) lease_ms: u64,
}

/// Work of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Makes so many plans of its own that wait for an event.
    Sleepers(u64),
    /// Runs plans of its own for a while.
    Load { steps: u32, plans: u32, ms: u64 },
}

/// Result of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    Joined { world: u64 },
    Slept,
    Loaded { steps: u64, seconds: f64, p99_us: f64 },
}

/// Waits for a time, or for events until the world ends.
pub(super) struct Wait;

#[derive(Serialize, Deserialize)]
pub(super) struct Until {
    /// Ends after this time.
    pub(super) ms: Option<u64>,
}

impl Action for Wait {
    const NAME: &'static str = "wait";
    type Input = Until;
    type Output = u64;
    type Phases = RunsAsync;
}

impl RunAsync for Wait {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match (step.cause(), step.input.ms) {
            (Cause::Event, Some(_)) => return Ok(Next::Done),
            (Cause::Event, None) => step.output += 1,
            (_, Some(ms)) => step.event_after(Duration::from_millis(ms), &())?,
            _ => {}
        }
        Ok(Next::suspend("an event"))
    }
}

pub(super) fn actions(builder: WorldBuilder) -> WorldBuilder {
    builder.action(Wait)
}

/// In a child: a node until its input ends.
pub(crate) fn run(start: &Start) -> Result<(), BenchError> {
    let group = load::group("plans", WORKERS)?;
    let store = PostgresStore::new(&start.url).map_err(|error| failed(&error))?;
    let lease = Duration::from_millis(start.lease_ms);
    let store = SharedStore::node(store, lease).map_err(|error| failed(&error))?;
    let (builder, times) = plans::with_chains(World::builder().name(&start.name).group(&group));
    let world = actions(builder).join(&store).map_err(|error| failed(&error))?;
    process::tell(&Said::Joined { world: world.id() });
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| failed(&error))?;
        match process::orders(&line)? {
            Order::Sleepers(count) => {
                sleepers(&world, count)?;
                process::tell(&Said::Slept);
            }
            Order::Load { steps, plans, ms } => {
                let length = Duration::from_millis(ms);
                let wait = |until: std::time::Instant| {
                    std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
                };
                let driven = plans::drive(&world, &group, &times, [steps, plans], length, wait)?;
                let (seconds, p99_us) = (driven.seconds, driven.at(0.99));
                process::tell(&Said::Loaded { steps: driven.steps, seconds, p99_us });
            }
        }
    }
    world.shutdown().map_err(|error| failed(&error))?;
    store.close().map_err(|error| failed(&error))
}

fn sleepers(world: &World, count: u64) -> Result<(), BenchError> {
    let mut left = count;
    while left > 0 {
        let some = left.min(AT_ONCE);
        let made: Vec<_> = (0..some).map(|_| world.trigger::<Wait>(Until { ms: None })).collect();
        for plan in made {
            plan.wait().map_err(|error| failed(&error))?;
        }
        left -= some;
    }
    Ok(())
}

/// A node as its parent sees it. It is killed when it is dropped.
pub(super) struct Node {
    child: Child,
    orders: Option<ChildStdin>,
    said: std::io::Lines<std::io::BufReader<ChildStdout>>,
    pub(super) world: u64,
}

impl Node {
    /// Starts a process, and waits until it has joined.
    pub(super) fn start(start: &Start) -> Result<Self, BenchError> {
        let text = serde_json::to_string(start).map_err(|error| failed(&error))?;
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut child = Command::new(program)
            .args(["cluster-child", &text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let orders = child.stdin.take();
        let said = child.stdout.take().ok_or_else(|| failed(&"a node has no output"))?;
        let said = std::io::BufReader::new(said).lines();
        let mut node = Self { child, orders, said, world: 0 };
        match node.hear()? {
            Said::Joined { world } => node.world = world,
            other => return Err(failed(&format!("a node has not joined: {other:?}"))),
        }
        Ok(node)
    }

    pub(super) fn order(&mut self, order: &Order) -> Result<(), BenchError> {
        let mut text = serde_json::to_string(order).map_err(|error| failed(&error))?;
        text.push('\n');
        let orders = self.orders.as_mut().ok_or_else(|| failed(&"a node takes no orders"))?;
        orders.write_all(text.as_bytes()).map_err(|error| failed(&error))
    }

    pub(super) fn hear(&mut self) -> Result<Said, BenchError> {
        let line = self.said.next().ok_or_else(|| failed(&"a node has ended"))?;
        process::orders(&line.map_err(|error| failed(&error))?)
    }

    pub(super) fn kill(mut self) -> Result<(), BenchError> {
        self.child.kill().map_err(|error| failed(&error))?;
        self.child.wait().map(drop).map_err(|error| failed(&error))
    }

    /// Ends in order.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        self.orders = None;
        let status = self.child.wait().map_err(|error| failed(&error))?;
        crate::error::check("the end of a node", status.to_string(), "exit status: 0".to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}
