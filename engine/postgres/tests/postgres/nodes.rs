//! Several processes share one store: they are killed, stopped for longer than their lease, and
//! started again, while a client triggers plans.

mod entities;
mod failover;
pub(crate) mod live;
mod rolling;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use turnwheel_engine::{
    action, Action, ActionError, BuildError, Next, PlanHandle, PlanResult, PlanState, SharedStore,
    StepContext, World,
};
use turnwheel_runtime::time::{Clock, SystemClock};
use turnwheel_runtime::{Group, Pinning};

use crate::server::{name, sql, start, store_of};
use crate::worlds::{check, check_chains, Add, Chain, Runs};

/// Says to this program that it is to be a node, and with what: the URL of the store, the file of
/// effects, the name of the node, the seconds of its lease, and those by which its clock is wrong.
const NODE: &str = "TURNWHEEL_TEST_NODE";

/// Seconds of the lease of nodes that are killed and stopped.
const LEASE: u64 = 1;

/// Seconds of a lease that a node keeps on a machine that has much to do: a commit takes some
/// seconds while others write to the disk. No test waits for its end.
const LONG_LEASE: u64 = 30;

/// Processes at a time.
const NODES: usize = 3;

/// Harms and the processes they meet follow from it.
const SEED: u64 = 20_261_123;

/// Kills, stops and orderly ends of processes.
const HARMS: u64 = 9;

/// Time for something that takes seconds on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for an event, and has it as its output.
#[action(output = String)]
async fn listen(step: &mut StepContext<Listen>) -> Result<Next, ActionError> {
    let Some(event) = step.event::<String>()? else { return Ok(step.wait_for_event("an event")) };
    step.output = event;
    Ok(Next::Done)
}

/// A clock whose wall time is wrong.
#[derive(Debug)]
struct Wrong {
    system: SystemClock,
    ahead: Duration,
}

impl Clock for Wrong {
    fn now_ns(&self) -> u64 {
        self.system.now_ns()
    }

    fn wall(&self) -> SystemTime {
        self.system.wall() + self.ahead
    }
}

/// Not a test by itself: a node, until its input ends.
#[test]
fn the_process_that_is_a_node() {
    let Ok(given) = std::env::var(NODE) else { return };
    let given: Vec<&str> = given.split('\n').collect();
    let [url, effects, name, lease, ahead] = given[..] else { panic!("{given:?}") };
    let [lease, ahead] =
        [lease, ahead].map(|text| Duration::from_secs(text.parse().expect("a number")));
    let clock: Arc<dyn Clock> = Arc::new(Wrong { system: SystemClock::new(), ahead });
    let group = |name: &str, workers| {
        let group = Group::builder(name).workers(workers).pinning(Pinning::None);
        group.clock(Arc::clone(&clock)).build().expect("threads")
    };
    let (plans, journal) = (group("plans", 2), group("journal", 3));
    let store = SharedStore::node_on(store_of(url), &journal, lease).expect("it opens");
    let builder = World::builder().name(name).group(&plans);
    let builder = builder.action(Add(Runs(Arc::default(), Some(effects.into())))).action(Chain);
    let joined = builder.action(Listen).join(&store);
    let world = match joined {
        Ok(world) => world,
        Err(error @ BuildError::NameTaken { .. }) => return println!("\n@@ refused: {error}"),
        Err(error) => panic!("{error}"),
    };
    let asked = group("entities", 2);
    // The others show what plans do alone.
    let _entities = name.starts_with(entities::NAMED).then(|| entities::serve(&world, &asked));
    println!("\n@@ world {}", world.id());
    std::io::stdin().read_to_end(&mut Vec::new()).expect("it is a pipe");
    world.shutdown().expect("it ends");
    store.close().expect("it ends");
    asked.shutdown().expect("it ends");
}

/// A process that is a node. It is killed when it is dropped.
struct Process {
    child: Child,
    name: String,
    world: u64,
    /// Open until it has ended.
    _output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a process, and waits until it has joined; its refusal if it was refused.
    fn start(url: &str, effects: &Path, name: &str, times: [u64; 2]) -> Result<Self, String> {
        let [lease, ahead] = times;
        let given = format!("{url}\n{}\n{name}\n{lease}\n{ahead}", effects.display());
        let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", "nodes::the_process_that_is_a_node", "--nocapture"])
            .env(NODE, given)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it begins");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let said = lines.find_map(|line| line.strip_prefix("@@ ").map(str::to_owned));
        let said = said.expect("it says whether it has joined");
        match said.strip_prefix("world ") {
            Some(world) => {
                let world = world.parse().expect("a number");
                Ok(Self { child, name: name.to_owned(), world, _output: output })
            }
            None => {
                child.wait().expect("it ends");
                Err(said)
            }
        }
    }

    fn signal(&self, signal: &str) {
        let told = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(told.expect("there is kill").success());
    }

    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Ends in order: its slots go to others at once.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success(), "{} fails at its end", self.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Waits until something is so, as somebody who looks now and then does.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let (_never, timer) = channel::<()>();
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        let _elapsed = timer.recv_timeout(Duration::from_millis(20));
    }
}

/// A client of a cluster: a world that runs no plans.
struct Client {
    world: World,
    store: SharedStore,
}

impl Client {
    fn new(url: &str, lease: u64) -> Self {
        let lease = Duration::from_secs(lease);
        let store = SharedStore::node(store_of(url), lease).expect("it opens");
        let world = World::builder().client().name("client").join(&store).expect("it joins");
        Self { world, store }
    }

    fn knows(&self, process: &Process) -> bool {
        self.world.worlds().iter().any(|world| world.id == process.world)
    }

    fn end(self) {
        self.world.shutdown().expect("it ends");
        self.store.close().expect("it ends");
    }
}

/// Triggers a plan once, however often its node goes meanwhile.
fn trigger(world: &World, number: u64) -> PlanHandle {
    trigger_until::<Chain>(world, format!("chain {number}"), number)
}

fn trigger_until<A: Action>(world: &World, key: String, input: A::Input) -> PlanHandle
where
    A::Input: Clone,
{
    let (_never, timer) = channel::<()>();
    let begun = Instant::now();
    loop {
        match world.trigger_once::<A>(key.clone(), input.clone()).wait() {
            Ok(plan) => return plan,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{key}: {error}"),
        }
        let _elapsed = timer.recv_timeout(Duration::from_millis(20));
    }
}

fn finished(plan: &PlanHandle) -> turnwheel_engine::PlanView {
    loop {
        match plan.finished().wait() {
            Ok(view) => return view,
            Err(error) => eprintln!("{} is waited for again: {error}", plan.id()),
        }
    }
}

/// The owners of all slots: none is without one.
fn has_owners(client: &Client) -> bool {
    let executors = client.world.worlds();
    executors.iter().map(|world| world.slots).sum::<usize>() == 1_024
}

/// No entry was written under an epoch that was over: places rise with the epochs of their slot.
fn check_epochs(url: &str) {
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let fallen = format!(
        "SELECT plan FROM (
            SELECT j.plan, j.epoch, max(j.epoch) OVER (PARTITION BY
                (get_byte(uuid_send(j.plan), 14) & 3) << 8 | get_byte(uuid_send(j.plan), 15)
                ORDER BY j.seq) AS highest FROM {schema}.journal j
        ) e WHERE e.epoch < e.highest"
    );
    assert_eq!(sql(url, &fallen), [] as [&str; 0]);
}

/// How often each step has run.
fn runs(effects: &Path) -> HashMap<String, u64> {
    let mut runs = HashMap::new();
    for line in std::fs::read_to_string(effects).expect("steps have run").lines() {
        *runs.entry(line.to_owned()).or_default() += 1;
    }
    runs
}

#[test]
fn plans_survive_the_ends_and_stops_of_their_nodes() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node = |name: &str| Process::start(&url, &effects, name, [LEASE, 0]).expect("it joins");
    let mut nodes: Vec<Process> = ["a", "b", "c"].map(node).into();
    assert_eq!(nodes.len(), NODES);
    let client = Client::new(&url, LEASE);
    // Without trouble each step runs once.
    let before: Vec<_> = (0..20).map(|number| (number, trigger(&client.world, number))).collect();
    before.iter().for_each(|(number, plan)| check(&finished(plan), *number));
    assert!(runs(&effects).values().all(|count| *count == 1), "{:?}", runs(&effects));

    let is_over = AtomicBool::new(false);
    let mut plans = BTreeMap::new();
    std::thread::scope(|scope| {
        let (client, is_over) = (&client, &is_over);
        let harming = scope.spawn(move || {
            let mut random = SEED;
            for harm in 0..HARMS {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let victim = nodes.remove((random >> 33) as usize % NODES);
                nodes.push(harmed(client, victim, harm, &node));
                until("every slot has an owner", || has_owners(client));
            }
            is_over.store(true, Ordering::SeqCst);
            nodes
        });
        for number in 20.. {
            plans.insert(number, trigger(&client.world, number));
            if is_over.load(Ordering::SeqCst) {
                break;
            }
            // At most so many are under way, so that all end soon after the last harm.
            if let Some(plan) = plans.get(&(number - 16)) {
                check(&finished(plan), number - 16);
            }
        }
        let nodes = harming.join().expect("no panic");
        plans.iter().for_each(|(number, plan)| check(&finished(plan), *number));
        nodes.into_iter().for_each(Process::end);
    });
    client.end();
    check_chains(&url);
    check_epochs(&url);
    let schema = url.rsplit('=').next().expect("it is the last setting");
    let kept = sql(&url, &format!("SELECT count(*) FROM {schema}.plans"));
    assert_eq!(kept, [(plans.len() + 20).to_string()], "a key has one plan");
    let ids: BTreeSet<_> = plans.values().map(PlanHandle::id).collect();
    assert_eq!(ids.len(), plans.len());
    let runs = runs(&effects);
    assert_eq!(runs.len(), (plans.len() + 20) * 10, "each step has run");
    // A step repeats only if its node went while it ran.
    let most = runs.values().max().copied().unwrap_or_default();
    let repeated = runs.values().filter(|count| **count > 1).count();
    assert!(most <= 1 + HARMS, "a step has run {most} times");
    eprintln!("{} plans, {repeated} steps have run more than once", plans.len() + 20);
}

/// Kills, stops or ends a node, and has another one in its place.
fn harmed(client: &Client, victim: Process, harm: u64, node: &dyn Fn(&str) -> Process) -> Process {
    let (name, begun) = (victim.name.clone(), Instant::now());
    match harm % 3 {
        0 => {
            let world = victim.world;
            victim.kill();
            // With the same name: it waits for the end of the lease.
            let next = node(&name);
            until("the killed one is gone", || {
                client.world.worlds().iter().all(|known| known.id != world)
            });
            eprintln!("{name} is replaced {:?} after a kill", begun.elapsed());
            next
        }
        1 => {
            victim.signal("-STOP");
            until("the stopped one is declared dead", || !client.knows(&victim));
            victim.signal("-CONT");
            until("it is registered again", || client.knows(&victim));
            eprintln!("{name} is back {:?} after it was stopped", begun.elapsed());
            victim
        }
        _ => {
            victim.end();
            node(&format!("{name}{harm}"))
        }
    }
}

#[test]
fn any_node_serves_requests_for_plans_of_another_whatever_its_clock_says() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let node = |name: &str, ahead| Process::start(&url, &effects, name, [LONG_LEASE, ahead]);
    let one = node("one", 0).expect("it joins");
    let two = node("two", 3_600).expect("it joins");
    let client = Client::new(&url, LONG_LEASE);
    until("slots are shared", || {
        let is_even = |world: &turnwheel_engine::WorldView| world.slots == 512;
        client.world.worlds().iter().filter(|world| is_even(world)).count() == 2
    });
    let mut owners = BTreeSet::new();
    let plans: Vec<PlanHandle> = (0..4)
        .map(|_| {
            let plan = client.world.trigger::<Listen>(()).wait().expect("it is taken");
            owners.insert(client.world.owner_of(plan.id()));
            plan
        })
        .collect();
    assert_eq!(owners.len(), 2, "nodes take turns");
    for plan in &plans[..2] {
        let view = plan.view().wait().expect("its node answers");
        assert_eq!(view.state, PlanState::Running);
        let step = view.steps.last().expect("it has a step that runs").id;
        for _ in 0..2 {
            let told = client.world.event(plan.id(), step, Some("1"), &"hello");
            told.wait().expect("no worker waits").expect("it is taken once");
        }
        assert_eq!(plan.finished().wait().expect("it ends").output::<Listen>().unwrap(), "hello");
    }
    for plan in &plans[2..] {
        plan.cancel("a test").wait().expect("no worker waits").expect("it is cancelled");
        assert_eq!(finished(plan).result(), PlanResult::Cancelled);
    }
    // A lease is by the clock of the database.
    let both = [&one, &two];
    assert!(both.iter().all(|process| client.knows(process)), "{:?}", client.world.worlds());
    let refused = node("one", 0).err().expect("the name is taken");
    let says = format!("process {} on ", one.child.id());
    assert!(refused.contains("«one»") && refused.contains(&says), "{refused}");
    both.iter().for_each(|process| assert!(client.knows(process), "it lives"));
    client.end();
    two.end();
    one.end();
}
