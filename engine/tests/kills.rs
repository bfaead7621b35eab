//! A process is killed at random moments, with SIGKILL and SIGTERM in turn, and the next one goes on with
//! its file.

#[path = "kills/mixed.rs"]
mod mixed;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};
use turnwheel_engine::{
    output, Action, ActionError, Finalize, Finalizes, Input, Next, PlanId, PlanResult, PlanState,
    Planner, Run, RunAsync, Runs, RunsAsync, StepContext, World,
};
use turnwheel_sqlite::SqliteStore;

/// Says to this binary that it is to be the process that is killed, and where its file is.
const FOLDER: &str = "TURNWHEEL_KILLED_IN";

/// Plans that have to end.
const PLANS: u64 = 240;

/// Kills, if the work is not done before.
const KILLS: u64 = 12;

/// What a line begins with that is meant for the parent.
const SAYS: &str = "@@ ";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sum {
    sum: u64,
}

/// Adds, and leaves a line in the file of effects.
struct Add {
    effects: PathBuf,
}

impl Action for Add {
    const NAME: &'static str = "add";
    type Input = Vec<Input<u64>>;
    type Output = Sum;
    type Phases = RunsAsync;
}

impl RunAsync for Add {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&self.effects)?;
        file.write_all(format!("{}\n", step.idempotency_key()).as_bytes())?;
        step.output.sum = 0;
        for number in &step.input {
            step.output.sum += number.get()?;
        }
        Ok(Next::Done)
    }
}

/// Three sums, one after the other, and a step of its own that may block.
struct Chain;

impl Action for Chain {
    const NAME: &'static str = "chain";
    type Input = u64;
    type Output = Sum;
    type Phases = (Runs, Finalizes);

    fn plan(&self, planner: &mut Planner<'_, Self>, number: u64) -> Result<(), ActionError> {
        let first = planner.plan_action::<Add>(vec![number.into(), 1.into()])?;
        let second =
            planner.plan_action::<Add>(vec![Input::from(output!(first => sum)?), 1.into()])?;
        planner.plan_action::<Add>(vec![Input::from(output!(second => sum)?), 1.into()])?;
        planner.plan_self(number)?;
        Ok(())
    }
}

impl Run for Chain {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.sum = step.input;
        Ok(Next::Done)
    }
}

impl Finalize for Chain {
    fn finalize(&self, step: &mut StepContext<Self>) -> Result<(), ActionError> {
        step.output.sum += 1_000;
        Ok(())
    }
}

fn world(folder: &Path) -> World {
    let effects = folder.join("effects");
    let store = SqliteStore::new(folder.join("plans.db"));
    World::builder().action(Add { effects }).action(Chain).build(store).expect("the world begins")
}

/// Not a test by itself: the process that is killed.
#[test]
fn the_process_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let world = world(Path::new(&folder));
    let mut plans = Vec::new();
    for number in 0..PLANS {
        let plan = world.trigger_once::<Chain>(format!("chain {number}"), number).wait().unwrap();
        println!("\n{SAYS}taken {number} {}", plan.id());
        plans.push(plan);
    }
    for plan in plans {
        let view = plan.finished().wait().unwrap();
        println!("\n{SAYS}over {} {}", plan.id(), view.result().name());
    }
    println!("\n{SAYS}done");
    world.shutdown().unwrap();
}

/// Ends a process: at once, or as a service manager does it.
fn end(child: &mut Child, gently: bool) {
    if gently {
        let id = child.id().to_string();
        let ended = Command::new("kill").args(["-TERM", &id]).status();
        if ended.is_ok_and(|status| status.success()) {
            return;
        }
    }
    child.kill().expect("it can be killed");
}

/// What the process has said before it was killed, or has ended.
fn life(process: &str, folder: &Path, lines_max: u64, gently: bool) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", process, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it begins");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut said = Vec::new();
    for line in lines.map_while(Result::ok) {
        if let Some(text) = line.strip_prefix(SAYS) {
            said.push(text.to_owned());
            if said.len() as u64 == lines_max {
                end(&mut child, gently);
            }
        }
    }
    child.wait().expect("it ends");
    said
}

/// What was said in all lives of a process, up to the one that has done its work.
#[derive(Default)]
struct Said {
    /// The plan of each key.
    taken: BTreeMap<u64, String>,
    /// The result of each plan.
    over: HashMap<String, String>,
    kills: u64,
}

impl Said {
    fn word(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["taken", number, plan] => {
                let number = number.parse().expect("a number");
                let known = self.taken.entry(number).or_insert_with(|| plan.to_owned());
                assert_eq!(known, plan, "a key has one plan");
            }
            ["over", plan, result] => {
                let known = self.over.entry(plan.to_owned()).or_insert_with(|| result.to_owned());
                assert_eq!(known, result, "an end is the end");
            }
            ["done"] => return true,
            _ => panic!("it says {line}"),
        }
        false
    }
}

/// Starts a process again and again, and kills it after some lines, so often.
fn lives(process: &str, folder: &Path, plans: u64, kills: u64) -> Said {
    let (mut said, mut random, mut is_done) = (Said::default(), 7_u64, false);
    while !is_done {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Some lines after those that tell what is known from before.
        let known = (said.taken.len() + said.over.len()) as u64;
        let lines = known + 1 + (random >> 33) % (plans / kills * 2);
        let lines = if said.kills < kills { lines } else { u64::MAX };
        for line in life(process, folder, lines, said.kills % 2 == 1) {
            is_done |= said.word(&line);
        }
        said.kills += u64::from(!is_done);
        assert!(said.kills <= kills + 1, "a life that was not killed did not end");
    }
    said
}

#[test]
fn what_was_said_before_a_kill_is_true_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let Said { taken, over, kills } =
        lives("the_process_that_is_killed", folder.path(), PLANS, KILLS);
    assert_eq!((taken.len() as u64, over.len() as u64), (PLANS, PLANS));
    let world = world(folder.path());
    for (number, plan) in &taken {
        let id: PlanId = plan.parse().unwrap();
        let view = world.plan(id).finished().wait().unwrap();
        assert_eq!((view.state, view.result()), (PlanState::Stopped, PlanResult::Success));
        let sums: Vec<u64> = view
            .actions
            .iter()
            .filter(|action| action.name == "add")
            .map(|action| action.output.read::<Sum>().unwrap().sum)
            .collect();
        assert_eq!(sums, [number + 1, number + 2, number + 3]);
        assert_eq!(view.output::<Chain>().unwrap().sum, number + 1_000, "finalized once");
    }
    world.shutdown().unwrap();
    let effects = std::fs::read_to_string(folder.path().join("effects")).unwrap();
    let mut counts = HashMap::<&str, u64>::new();
    effects.lines().for_each(|line| *counts.entry(line).or_default() += 1);
    assert_eq!(counts.len() as u64, PLANS * 3, "each step has had its effect, under one key");
    let again = counts.values().filter(|count| **count > 1).count();
    eprintln!("{kills} kills, {} steps, {again} of them called again", counts.len());
}
