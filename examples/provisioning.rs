//! Infrastructure from parts: hosts made of steps, plans made of hosts, and a plugin that joins them.
//!
//! ```sh
//! cargo run --release --example provisioning                    # ten infrastructures
//! cargo run --release --example provisioning -- --no-monitoring # without the plugin
//! ```
//!
//! What it shows: `CreateInfrastructure` plans a database and a storage host at the same time, and a web
//! host after both of them, which gets their addresses by *references* to outputs that do not exist
//! yet. `CreateHost` is a composition too: disk, machine, configuration. Disks are prepared in a *queue*
//! of their own, two at once. `Monitor` *extends* `CreateHost`, which knows nothing of it. The first
//! configuration of all fails; its plan is paused, and resumed.
//!
//! In the end the order of the steps is checked by their times, and the addresses by the outputs.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};
use turnwheel_engine::plan::ActionData;
use turnwheel_engine::{
    output, Action, ActionError, ActionRef, Input, Next, Plan, PlanHandle, PlanResult, PlanState,
    PlanView, Planner, Queue, Run, Runs, StepContext, World,
};
use turnwheel_runtime::completion::block_on_timeout;
use turnwheel_runtime::Failure;
use turnwheel_sqlite::SqliteStore;

/// The queue of disks, and its places.
const DISKS: (&str, u32) = ("disks", 2);
/// How long a disk takes.
const DISK_TIME: Duration = Duration::from_millis(20);
/// How long one look at a plan takes at most.
const LOOK: Duration = Duration::from_millis(100);
/// The exit code after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;

/// Makes infrastructures from hosts, and checks what came first and who knows whom.
#[derive(Parser, Debug)]
#[command(name = "provisioning")]
struct Options {
    /// Infrastructures
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Leave the plugin out
    #[arg(long)]
    no_monitoring: bool,
    /// Where the plans are kept; an earlier run goes on. A temporary folder if nothing is said,
    /// which is removed at the end
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
}

/// What is known of a host in the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Address {
    address: String,
}

/// Prepares a disk: slow, so it has a queue of its own.
#[derive(Default)]
struct PrepareDisk {
    under_way: AtomicU32,
    most: Arc<AtomicU32>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Disk {
    device: String,
}

impl Action for PrepareDisk {
    const NAME: &'static str = "prepare disk";
    type Input = String;
    type Output = Disk;
    type Phases = Runs;

    fn queue(&self) -> Option<&str> {
        Some(DISKS.0)
    }
}

impl Run for PrepareDisk {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        std::thread::sleep(DISK_TIME);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        step.output.device = format!("disk of {}", step.input);
        Ok(Next::Done)
    }
}

/// Makes a machine with a disk.
struct CreateMachine;

#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    name: String,
    disk: Input<String>,
}

impl Action for CreateMachine {
    const NAME: &'static str = "create machine";
    type Input = Machine;
    type Output = Address;
    type Phases = Runs;
}

impl Run for CreateMachine {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let Machine { name, disk } = &step.input;
        if disk.get()? != &format!("disk of {name}") {
            return Err(ActionError::new("wrong_disk", format!("{name} has {:?}", disk.get()?)));
        }
        step.output.address = format!("{name}.example");
        Ok(Next::Done)
    }
}

/// Configures a machine; the very first time of all it fails.
#[derive(Default)]
struct Configure {
    has_failed: AtomicBool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Configuration {
    address: Input<String>,
    peers: Vec<Input<String>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Configured {
    text: String,
}

impl Action for Configure {
    const NAME: &'static str = "configure";
    type Input = Configuration;
    type Output = Configured;
    type Phases = Runs;
}

impl Run for Configure {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            return Err(ActionError::new("unreachable", "the machine does not answer yet"));
        }
        let mut peers = Vec::new();
        for peer in &step.input.peers {
            peers.push(peer.get()?.as_str());
        }
        step.output.text = format!("{}: [{}]", step.input.address.get()?, peers.join(", "));
        Ok(Next::Done)
    }
}

/// A host: disk, machine, configuration. Its own step says where it is, for those that refer to it.
struct CreateHost;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Host {
    name: String,
    peers: Vec<Input<String>>,
    /// Known when the machine is there.
    address: Input<String>,
}

impl Host {
    fn new(name: String, peers: Vec<Input<String>>) -> Self {
        Self { name, peers, address: Input::default() }
    }
}

impl Action for CreateHost {
    const NAME: &'static str = "create host";
    type Input = Host;
    type Output = Address;
    type Phases = Runs;

    fn plan(&self, planner: &mut Planner<'_, Self>, host: Host) -> Result<(), ActionError> {
        planner.sequence(|planner| {
            let disk = planner.plan_action::<PrepareDisk>(host.name.clone())?;
            let disk = output!(disk => device)?.into();
            let machine =
                planner.plan_action::<CreateMachine>(Machine { name: host.name.clone(), disk })?;
            let address: Input<String> = output!(machine => address)?.into();
            planner.plan_action::<Configure>(Configuration {
                address: address.clone(),
                peers: host.peers.clone(),
            })?;
            planner.plan_self(Host { address, ..host })?;
            Ok(())
        })
    }
}

impl Run for CreateHost {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.address = step.input.address.get()?.clone();
        Ok(Next::Done)
    }
}

/// Two hosts at the same time, and one after both. It has no step of its own.
struct CreateInfrastructure;

impl Action for CreateInfrastructure {
    const NAME: &'static str = "create infrastructure";
    type Input = u32;
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u32) -> Result<(), ActionError> {
        planner.label(format!("infrastructure {number}"));
        planner.sequence(|planner| {
            let (database, storage) = planner.concurrence(|planner| {
                let host = |name| Host::new(format!("{name}{number}"), Vec::new());
                let database = planner.plan_action::<CreateHost>(host("db"))?;
                Ok((database, planner.plan_action::<CreateHost>(host("storage"))?))
            })?;
            let peers = vec![address_of(&database)?, address_of(&storage)?];
            planner.plan_action::<CreateHost>(Host::new(format!("web{number}"), peers))?;
            Ok(())
        })
    }
}

fn address_of(host: &ActionRef<CreateHost>) -> Result<Input<String>, ActionError> {
    Ok(output!(host => address)?.into())
}

/// The plugin: watches every host, whoever plans it.
struct Monitor;

#[derive(Debug, Serialize, Deserialize)]
struct Watch {
    host: String,
    address: Input<String>,
}

impl Action for Monitor {
    const NAME: &'static str = "monitor";
    type Input = Watch;
    type Output = Address;
    type Phases = Runs;
}

impl Run for Monitor {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.address = step.input.address.get()?.clone();
        Ok(Next::Done)
    }
}

/// The actions as a tree.
fn print_tree(plan: &Plan, action: &ActionData, depth: usize) {
    let step = action.run_step.map(|id| plan.step(id));
    let state = step.map_or("planned", |step| step.state.name());
    let attempts = match step.map_or(1, |step| step.attempt) {
        1 => String::new(),
        attempts => format!(", {attempts} attempts"),
    };
    println!(
        "  {:indent$}{}: {state}{attempts}  {}",
        "",
        action.name,
        action.output,
        indent = depth * 2
    );
    for child in plan.children(action.id) {
        print_tree(plan, child, depth + 1);
    }
}

/// All run steps of a host, those of its parts included, and of what extends it: begins and ends.
fn times(plan: &Plan, action: &ActionData) -> Vec<(u64, u64)> {
    let own = action.run_step.map(|id| plan.step(id));
    let own = own.and_then(|step| Some((step.started_at?.0, step.ended_at?.0)));
    let parts = plan.children(action.id).flat_map(|child| times(plan, child));
    own.into_iter().chain(parts).collect()
}

/// Whether a plan is what it should be.
fn check(number: u32, plan: &PlanView, is_monitored: bool) -> Result<(), Box<dyn Error>> {
    let wrong = |what: &str| format!("{}: {what}", plan.label);
    if plan.result() != PlanResult::Success {
        return Err(wrong(plan.result().name()).into());
    }
    let root = plan.root().ok_or_else(|| wrong("it has no actions"))?;
    let hosts: Vec<&ActionData> = plan.children(root.id).collect();
    let [database, storage, web] = hosts.as_slice() else {
        return Err(wrong("it has other than three hosts").into());
    };
    let before = times(plan, database).into_iter().chain(times(plan, storage));
    let ended = before.map(|(_, end)| end).max();
    let begun = times(plan, web).into_iter().map(|(begin, _)| begin).min();
    if ended.is_none() || ended > begun {
        return Err(wrong("the web host began before both others were done").into());
    }
    let mut texts = BTreeSet::new();
    for action in plan.actions.iter().filter(|action| action.name == Configure::NAME) {
        texts.insert(action.output.read::<Configured>()?.text);
    }
    let expected = BTreeSet::from([
        format!("db{number}.example: []"),
        format!("storage{number}.example: []"),
        format!("web{number}.example: [db{number}.example, storage{number}.example]"),
    ]);
    if texts != expected {
        return Err(wrong(&format!("configured is {texts:?} instead of {expected:?}")).into());
    }
    let mut watched = 0;
    for host in hosts {
        for monitor in plan.children(host.id).filter(|action| action.name == Monitor::NAME) {
            watched += 1;
            if monitor.output.read::<Address>()? != host.output.read::<Address>()? {
                return Err(wrong("another address is watched than that of the host").into());
            }
        }
    }
    if watched != if is_monitored { 3 } else { 0 } {
        return Err(wrong(&format!("{watched} hosts are watched")).into());
    }
    Ok(())
}

/// Waits for the end of a plan; resumes it when it is paused. None if it is interrupted before.
fn see_through(
    plan: &PlanHandle,
    is_interrupted: &AtomicBool,
) -> Result<Option<PlanView>, Box<dyn Error>> {
    let mut finished = plan.finished();
    loop {
        match block_on_timeout(&mut finished, LOOK) {
            Err(Failure::TimedOut(_)) if is_interrupted.load(Ordering::Relaxed) => return Ok(None),
            Err(Failure::TimedOut(_)) => {}
            Err(failure) => return Err(failure.into()),
            Ok(view) => {
                let view = view?;
                if view.state == PlanState::Stopped {
                    return Ok(Some(view));
                }
                println!("{}: {}; the operator resumes it", view.label, view.waits_for());
                plan.resume("the operator").wait()??;
                finished = plan.finished();
            }
        }
    }
}

/// Answers whether all came to their end: no if it was interrupted.
fn run_in(folder: &Path, options: &Options) -> Result<bool, Box<dyn Error>> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("folder {}: {error}; choose another", folder.display()))?;
    let disks = PrepareDisk::default();
    let most = Arc::clone(&disks.most);
    let mut builder = World::builder()
        .queue(Queue::new(DISKS.0).size(DISKS.1))
        .action(CreateInfrastructure)
        .action(CreateHost)
        .action(disks)
        .action(CreateMachine)
        .action(Configure::default());
    if !options.no_monitoring {
        builder = builder.action(Monitor).extend::<Monitor, CreateHost>(|host, created| {
            Ok(Watch { host: host.name, address: address_of(&created)? })
        });
    }
    let world = builder.build(SqliteStore::new(folder.join("plans.db")))?;
    println!("plans: {}", folder.display());
    let mut plans = Vec::new();
    for number in 1..=options.count {
        let key = format!("infrastructure {number}");
        plans.push(world.trigger_once::<CreateInfrastructure>(key, number).wait()?);
    }
    let mut shown = None;
    for (plan, number) in plans.iter().zip(1..) {
        let Some(view) = see_through(plan, &is_interrupted)? else {
            world.shutdown()?;
            return Ok(false);
        };
        check(number, &view, !options.no_monitoring)?;
        shown.get_or_insert(view);
    }
    world.shutdown()?;
    if let Some((view, root)) = shown.as_ref().and_then(|view| Some((view, view.root()?))) {
        println!("\n{}, {:.3} s", view.label, view.real_time().as_secs_f64());
        print_tree(view, root, 0);
    }
    let most = most.load(Ordering::Relaxed);
    if most > DISKS.1 {
        return Err(format!("{most} disks were prepared at once, of {}", DISKS.1).into());
    }
    println!("\nok: {} infrastructures, at most {most} disks at once", options.count);
    Ok(true)
}

fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    if let Some(folder) = &options.folder {
        return run_in(folder, options);
    }
    let folder = tempfile::Builder::new().prefix("turnwheel-provisioning-").tempdir()?;
    let ran = run_in(folder.path(), options);
    if !matches!(ran, Ok(true)) {
        // It is needed to go on, or to see what is wrong.
        println!("go on with --folder {}", folder.keep().display());
    }
    ran
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("provisioning: interrupted; nothing is lost");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("provisioning: {error}");
            ExitCode::FAILURE
        }
    }
}
