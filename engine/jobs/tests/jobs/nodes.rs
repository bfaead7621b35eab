//! Several nodes over one store, each in a simulation of its own. They share the store, and nothing
//! else; they are killed and started.

mod keys;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use turnwheel_engine::{MemoryStore, SharedStore, Time, World};
use turnwheel_jobs::{
    Asking, Call, Done, Executor, Executors, JobError, JobSpec, JobView, Jobs, JobsOptions, Launch,
    LaunchState, Missed, NoNode, Node, Nodes, Overlap, RunState, Settings, Span, Verdict, WithJobs,
    Work,
};
use turnwheel_runtime::sim::Sim;

use super::common::{job, row, set, time, MINUTE, SECOND};

const LEASE: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(100);

/// How late a fire may be if its node dies.
const LATE: Duration = Duration::from_millis(4_500);

/// An attempt that has begun: its key, its node, and the time.
#[derive(Clone, Debug)]
struct Begun {
    key: String,
    job: String,
    node: String,
    at: Time,
    planned: Time,
}

/// An executor that notes where it is called, and takes the time `takes`.
#[derive(Clone, Debug)]
struct Noting {
    node: String,
    us: Arc<AtomicU64>,
    begun: Arc<Mutex<Vec<Begun>>>,
}

impl Executor for Noting {
    fn check(&self, _: &Settings) -> Result<(), String> {
        Ok(())
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        if !call.is_again {
            let (key, job, node) = (work.key.clone(), work.job.clone(), self.node.clone());
            let (at, planned) = (Time(self.us.load(Ordering::Relaxed)), work.planned);
            self.begun.lock().expect("no panic").push(Begun { key, job, node, at, planned });
            if let Some(takes) = work.config.get("takes") {
                return Verdict::Later(takes.parse::<Span>().expect("a time").0);
            }
        }
        if let Some(says) = work.config.get("says") {
            call.wrote(says.as_bytes());
        }
        if work.config.get("fails_on") == Some(&self.node) {
            return Verdict::Done(Done::failure("as told", ""));
        }
        Verdict::Done(Done::success(self.node.clone()))
    }
}

/// A process with one world.
struct Process {
    name: String,
    world: World,
    jobs: Jobs,
    _store: SharedStore,
    sim: Sim,
}

struct Cluster {
    memory: MemoryStore,
    us: Arc<AtomicU64>,
    begun: Arc<Mutex<Vec<Begun>>>,
    processes: Vec<Process>,
    made: u64,
    random: u64,
}

impl Cluster {
    fn new(seed: u64, labels: &[&str]) -> Self {
        let us = Arc::new(AtomicU64::new(time("2026-01-01T00:00:00Z").0));
        let clock = Arc::clone(&us);
        let memory = MemoryStore::new().with_clock(move || Time(clock.load(Ordering::Relaxed)));
        let begun = Arc::default();
        let mut cluster = Self { memory, us, begun, processes: vec![], made: 0, random: seed };
        labels.iter().for_each(|labels| cluster.start(labels));
        // They hear of one another with their heartbeats.
        cluster.run(LEASE);
        cluster
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn now(&self) -> Time {
        Time(self.us.load(Ordering::Relaxed))
    }

    /// Starts a node with labels as `region=eu,disk=fast`.
    fn start(&mut self, labels: &str) {
        self.made += 1;
        let name = format!("node-{}", self.made);
        let sim = Sim::builder().seed(self.made).wall(SystemTime::from(self.now())).build();
        let store = SharedStore::node_on(self.memory.clone(), &sim.group("journal"), LEASE);
        let store = store.expect("it opens");
        let (us, begun) = (Arc::clone(&self.us), Arc::clone(&self.begun));
        let noting = Noting { node: name.clone(), us, begun };
        let executors = Executors::new().with("play", noting);
        let builder = World::builder().name(&name).jobs(&executors).seed(self.made << 32);
        let builder = builder.group(&sim.group("plans"));
        let world = self.passing(&sim, builder.join_later(&store)).expect("the world begins");
        let pairs = labels.split(',').filter_map(|label| label.split_once('='));
        let node = pairs.fold(Node::new(&name), |node, (name, value)| node.label(name, value));
        let options = JobsOptions::new(&executors).node(node).zone("UTC");
        let group = sim.group("jobs");
        let opened = self.passing(&sim, Jobs::open(&world, &group, options));
        let jobs = opened.expect("they are read");
        self.processes.push(Process { name, world, jobs, _store: store, sim });
    }

    /// The end of a future of a new node; time goes on for all.
    fn passing<F: Future>(&mut self, sim: &Sim, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..600 {
            if let Ok(output) = sim.block_on(future.as_mut()) {
                return output;
            }
            self.tick();
            sim.advance(TICK);
        }
        panic!("nothing happens for a minute");
    }

    fn tick(&mut self) {
        self.us.fetch_add(100_000, Ordering::Relaxed);
        for process in &mut self.processes {
            process.sim.advance(TICK);
        }
    }

    fn run(&mut self, length: Duration) {
        let end = self.now().after(length);
        while self.now() < end {
            self.tick();
        }
    }

    fn kill(&mut self, index: usize) -> String {
        self.processes.remove(index).name
    }

    /// The node that serves the jobs.
    fn server(&self) -> usize {
        use turnwheel_engine::store::{slot_of_key, Store};
        let worlds = self.memory.reader().and_then(|mut reader| reader.worlds());
        let owner = worlds.expect("they are read").owner(slot_of_key("jobs"));
        let is_it = |process: &Process| process.world.id() == owner;
        self.processes.iter().position(is_it).expect("one serves")
    }

    fn ask<T>(&mut self, asked: impl Future<Output = T>) -> T {
        let mut asked = pin!(asked);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..600 {
            if let Poll::Ready(outcome) = asked.as_mut().poll(&mut cx) {
                return outcome;
            }
            self.tick();
        }
        panic!("no answer for a minute");
    }

    fn done<T>(&mut self, asked: Asking<T>) -> Result<T, JobError> {
        self.ask(asked).expect("the jobs are there")
    }

    fn put(&mut self, at: usize, spec: JobSpec) -> JobView {
        let asked = self.processes[at].jobs.put(spec, None, "ann");
        self.done(asked).expect("it is taken")
    }

    fn history(&mut self, at: usize, name: &str) -> Vec<Launch> {
        let (jobs, name) = (self.processes[at].jobs.clone(), name.to_owned());
        let asked = async move { jobs.history(&name, None, 100_000).await };
        let mut all = self.ask(asked).expect("it is read");
        all.reverse();
        all
    }

    fn begun(&self) -> Vec<Begun> {
        self.begun.lock().expect("no panic").clone()
    }

    /// The nodes on which the attempts of a job have begun, without order.
    fn nodes_of(&self, job: &str) -> Vec<String> {
        let mut nodes: Vec<String> =
            self.begun().into_iter().filter(|it| it.job == job).map(|it| it.node).collect();
        nodes.sort();
        nodes
    }

    /// Each second since `from` has one row and began once, at most so late.
    fn check(&mut self, name: &str, from: Time, what: &str) {
        let until = Time(self.now().0 - 2 * 1_000_000);
        let rows = self.history(0, name);
        let mut planned: BTreeMap<Time, u32> = BTreeMap::new();
        rows.iter().for_each(|row| *planned.entry(row.planned).or_default() += 1);
        let begun = self.begun();
        let mut at = Time(from.0.next_multiple_of(1_000_000));
        while at < until {
            assert_eq!(planned.get(&at), Some(&1), "{what}: rows of {at}");
            let all: Vec<&Begun> =
                begun.iter().filter(|it| it.job == name && it.planned == at).collect();
            let mut keys: Vec<&String> = all.iter().map(|it| &it.key).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), all.len(), "{what}: {at} has begun twice: {all:?}");
            let first = all.iter().map(|it| it.at).min();
            let first = first.unwrap_or_else(|| panic!("{what}: {at} has not begun"));
            assert!(first.since(at) <= LATE, "{what}: {at} has begun {:?} late", first.since(at));
            at = at.after(SECOND);
        }
    }
}

fn each_second(name: &str) -> JobSpec {
    // Every time of a change of the serving node is made up for.
    let missed = Missed::All(Span::seconds(60));
    job(name, "* * * * * *", |spec| (spec.keep, spec.missed) = (10_000, missed))
}

#[test]
fn any_node_answers_requests_and_one_serves_them() {
    let mut cluster = Cluster::new(1, &["", "", ""]);
    let server = cluster.server();
    let [other, third] = [(server + 1) % 3, (server + 2) % 3];
    let view = cluster.put(other, job("report", "@manually", |_| ()));
    assert_eq!(view.revision, 1);
    let asked = cluster.processes[third].jobs.get("report");
    assert_eq!(cluster.done(asked).expect("it is there").spec.name, "report");
    let asked = cluster.processes[third].jobs.run("report", "ann", false);
    assert_eq!(cluster.done(asked), Ok(1));
    cluster.run(5 * SECOND);
    for at in 0..3 {
        let rows: Vec<String> = cluster.history(at, "report").iter().map(row).collect();
        assert_eq!(rows.len(), 1, "node {at}: {rows:?}");
        assert!(rows[0].ends_with("succeeded"), "node {at}: {rows:?}");
    }
    // A refusal comes over as it is.
    let asked = cluster.processes[other].jobs.get("nothing");
    assert_eq!(cluster.done(asked), Err(JobError::Unknown("nothing".to_owned())));
    let stale = job("report", "@daily", |_| ());
    let asked = cluster.processes[other].jobs.put(stale, Some(7), "bob");
    assert!(matches!(cluster.done(asked), Err(JobError::Changed { expected: 7, found: 1, .. })));
}

#[test]
fn every_node_knows_the_nodes_and_which_one_serves() {
    let mut cluster = Cluster::new(11, &["region=eu", "region=us", ""]);
    let server = cluster.processes[cluster.server()].name.clone();
    for at in 0..3 {
        let asked = cluster.processes[at].jobs.server();
        assert_eq!(cluster.done(asked).expect("one serves").name, server, "node {at}");
        let nodes = cluster.processes[at].jobs.nodes();
        let names: Vec<&str> = nodes.iter().map(|(node, _)| node.name.as_str()).collect();
        assert_eq!(names, ["node-1", "node-2", "node-3"], "node {at}");
        assert!(nodes.iter().all(|(_, takes_runs)| *takes_runs));
        assert_eq!(nodes[1].0.labels["region"], "us");
    }
    let at = cluster.server();
    cluster.kill(at);
    cluster.run(3 * LEASE);
    let asked = cluster.processes[0].jobs.server();
    assert_ne!(cluster.done(asked).expect("another one serves").name, server);
    assert_eq!(cluster.processes[0].jobs.nodes().len(), 2, "the dead one is gone");
}

#[test]
fn the_output_of_a_run_is_followed_on_any_node() {
    let mut cluster = Cluster::new(12, &["disk=slow", "disk=fast", "disk=slow"]);
    cluster.put(
        0,
        job("far", "@manually", |spec| {
            spec.targets.insert("disk".to_owned(), "fast".to_owned());
            set(spec, "takes", "10s");
            set(spec, "says", "hello from far away");
        }),
    );
    let asked = cluster.processes[0].jobs.run("far", "ann", false);
    let launch = cluster.done(asked).expect("it is launched");
    cluster.run(2 * SECOND);
    let follow = |cluster: &mut Cluster, at: usize| {
        let jobs = cluster.processes[at].jobs.clone();
        cluster.ask(async move { jobs.follow("far", launch, None).await }).expect("it runs")
    };
    let outputs: Vec<_> = (0..3).map(|at| follow(&mut cluster, at)).collect();
    assert!(outputs.iter().all(|output| !output.read(0).is_over), "nothing is written yet");
    cluster.run(15 * SECOND);
    for (at, output) in outputs.iter().enumerate() {
        let chunk = output.read(0);
        assert_eq!(chunk.text, "hello from far away", "node {at}");
        assert!(chunk.is_over, "node {at}");
    }
    let state = cluster.history(2, "far").remove(0).state;
    assert_eq!(state, LaunchState::Succeeded);
}

#[test]
fn nodes_are_picked_by_labels_and_counts() {
    let labels = ["region=eu,disk=fast", "region=eu", "region=eu", "region=us"];
    let mut cluster = Cluster::new(2, &labels);
    let target = |spec: &mut JobSpec, value: &str| {
        spec.targets.insert("region".to_owned(), value.to_owned());
    };
    let jobs = [
        job("all", "@manually", |spec| {
            target(spec, "eu");
            spec.nodes = Some(Nodes::All);
        }),
        job("two", "@manually", |spec| target(spec, "eu:2")),
        job("more", "@manually", |spec| target(spec, "us:2")),
        job("one", "@manually", |spec| target(spec, "eu")),
        job("smallest", "@manually", |spec| {
            target(spec, "eu:2");
            spec.targets.insert("disk".to_owned(), "fast:1".to_owned());
        }),
        job("prefer", "@manually", |spec| {
            spec.prefer.insert("region".to_owned(), "us".to_owned());
        }),
        job("avoid", "@manually", |spec| {
            spec.avoid.insert("region".to_owned(), "eu".to_owned());
            spec.nodes = Some(Nodes::Count(1));
        }),
        job("none", "@manually", |spec| target(spec, "mars")),
        job("partly", "@manually", |spec| {
            spec.nodes = Some(Nodes::All);
            set(spec, "fails_on", "node-2");
        }),
    ];
    for spec in jobs {
        let name = spec.name.clone();
        cluster.put(0, spec);
        let asked = cluster.processes[0].jobs.run(&name, "ann", false);
        cluster.done(asked).expect("it is launched");
    }
    cluster.run(10 * SECOND);
    assert_eq!(cluster.nodes_of("all"), ["node-1", "node-2", "node-3"]);
    assert_eq!(cluster.nodes_of("two").len(), 2);
    assert_eq!(cluster.nodes_of("more"), ["node-4"]);
    assert_eq!(cluster.nodes_of("one").len(), 1);
    assert_eq!(cluster.nodes_of("smallest"), ["node-1"]);
    assert_eq!(cluster.nodes_of("prefer"), ["node-4"]);
    assert_eq!(cluster.nodes_of("avoid"), ["node-4"]);
    assert_eq!(cluster.nodes_of("none").len(), 0);
    let none = cluster.history(0, "none").remove(0);
    assert_eq!(none.state, LaunchState::Failed);
    assert!(none.reason.contains("node-4 has «us»"), "{}", none.reason);
    let partly = cluster.history(0, "partly").remove(0);
    assert_eq!((partly.state, partly.runs.len()), (LaunchState::PartlyFailed, 4));
    assert_eq!(partly.reason, "as told");
    // A group is over when all of its runs are.
    let all = cluster.history(0, "all").remove(0);
    assert_eq!((all.state, all.runs.len()), (LaunchState::Succeeded, 3));
    let refused = job("zero", "@manually", |spec| spec.nodes = Some(Nodes::Count(0)));
    let asked = cluster.processes[0].jobs.put(refused, None, "ann");
    assert!(cluster.done(asked).expect_err("it is refused").to_string().contains("nodes"));
}

#[test]
fn nodes_are_drawn_evenly() {
    let mut cluster = Cluster::new(3, &["disk=fast,zone=a"; 3]);
    let spec = job("busy", "@manually", |spec| {
        spec.targets.insert("disk".to_owned(), "fast:1".to_owned());
        spec.targets.insert("zone".to_owned(), "a:1".to_owned());
    });
    cluster.put(0, spec);
    for _ in 0..60 {
        let asked = cluster.processes[0].jobs.run("busy", "ann", false);
        cluster.done(asked).expect("it is launched");
    }
    cluster.run(10 * SECOND);
    let nodes = cluster.nodes_of("busy");
    assert_eq!(nodes.len(), 60);
    for node in ["node-1", "node-2", "node-3"] {
        let count = nodes.iter().filter(|name| *name == node).count();
        assert!((10..=30).contains(&count), "{node} has {count} of 60");
    }
}

#[test]
fn a_retry_goes_to_another_node_and_the_launch_shows_both() {
    let mut cluster = Cluster::new(4, &["rank=first", ""]);
    let spec = job("moving", "@manually", |spec| {
        spec.prefer.insert("rank".to_owned(), "first".to_owned());
        spec.retries = 1;
        set(spec, "fails_on", "node-1");
    });
    cluster.put(1, spec);
    let asked = cluster.processes[1].jobs.run("moving", "ann", false);
    cluster.done(asked).expect("it is launched");
    cluster.run(10 * SECOND);
    let launch = cluster.history(0, "moving").remove(0);
    let runs: Vec<_> = launch.runs.iter().map(|run| (run.node.as_str(), run.state)).collect();
    assert_eq!(runs, [("node-1", RunState::Failed), ("node-2", RunState::Succeeded)]);
    assert_eq!(launch.state, LaunchState::Succeeded, "the last attempt counts");
}

#[test]
fn a_launch_waits_for_a_node_and_fails_at_its_deadline() {
    let mut cluster = Cluster::new(5, &["region=eu"]);
    let spec = |name: &str, limit: u64| {
        job(name, "@manually", |spec| {
            spec.targets.insert("region".to_owned(), "us".to_owned());
            spec.no_node = NoNode::Wait(Span::seconds(limit));
            spec.overlap = Overlap::Forbid;
        })
    };
    for (name, limit) in [("patient", 600), ("hasty", 5)] {
        cluster.put(0, spec(name, limit));
        let asked = cluster.processes[0].jobs.run(name, "ann", false);
        cluster.done(asked).expect("it is launched");
    }
    cluster.run(20 * SECOND);
    let hasty = cluster.history(0, "hasty").remove(0);
    assert_eq!(hasty.state, LaunchState::Failed);
    let patient = cluster.history(0, "patient").remove(0);
    assert_eq!(patient.state, LaunchState::Queued);
    assert!(patient.reason.contains("region=us"), "{}", patient.reason);
    // Another one is refused: this one waits.
    let asked = cluster.processes[0].jobs.run("patient", "bob", false);
    assert!(matches!(cluster.done(asked), Err(JobError::Overlaps { .. })));
    cluster.start("region=us");
    cluster.run(5 * SECOND);
    assert_eq!(cluster.nodes_of("patient"), ["node-2"]);
    let patient = cluster.history(0, "patient").remove(0);
    assert_eq!((patient.state, patient.reason.as_str()), (LaunchState::Succeeded, ""));
}

#[test]
fn when_the_serving_node_dies_each_time_is_launched_once_and_little_late() {
    let mut cluster = Cluster::new(6, &["", "", ""]);
    cluster.put(0, each_second("tick"));
    let from = cluster.now().after(SECOND);
    cluster.run(3 * SECOND);
    for _ in 0..2 {
        let server = cluster.server();
        cluster.kill(server);
        cluster.run(8 * SECOND);
    }
    cluster.check("tick", from, "the last node");
}

#[test]
fn a_run_whose_node_died_before_it_began_goes_to_another_one() {
    let mut cluster = Cluster::new(7, &["", "disk=fast", "disk=fast"]);
    let spec = job("far", "@manually", |spec| {
        spec.targets.insert("disk".to_owned(), "fast".to_owned());
    });
    cluster.put(0, spec);
    // The one that serves stays.
    let victim = if cluster.server() == 1 { 2 } else { 1 };
    let left = format!("node-{}", 4 - victim);
    let dead = cluster.kill(victim);
    for _ in 0..6 {
        let asked = cluster.processes[0].jobs.run("far", "ann", false);
        cluster.done(asked).expect("it is launched");
    }
    cluster.run(MINUTE);
    let rows = cluster.history(0, "far");
    let states: Vec<LaunchState> = rows.iter().map(|row| row.state).collect();
    assert_eq!(states, [LaunchState::Succeeded; 6], "{rows:#?}");
    assert_eq!(cluster.nodes_of("far"), vec![left.clone(); 6]);
    let given = rows.iter().any(|row| row.runs.iter().any(|run| run.node == dead));
    let is_here = |row: &Launch| row.runs.last().is_some_and(|run| run.node == left);
    assert!(
        rows.iter().all(is_here),
        "the row names the node that ran it; {dead} had one: {given}"
    );
}

/// Nodes die and come, and jobs fire each second.
fn troubled(seed: u64) {
    let mut cluster = Cluster::new(seed, &["", "", ""]);
    for name in ["tick", "tack"] {
        cluster.put(0, each_second(name));
    }
    let slow = job("slow", "*/5 * * * * *", |spec| {
        (spec.keep, spec.overlap) = (10_000, Overlap::Forbid);
        set(spec, "takes", "7s");
    });
    cluster.put(0, slow);
    let from = cluster.now().after(SECOND);
    // A second death while the first one is noticed makes a fire later than the limit.
    for _ in 0..4 {
        let pause = Duration::from_millis(6_000 + cluster.draw(3_000));
        cluster.run(pause);
        let index = usize::try_from(cluster.draw(cluster.processes.len() as u64)).expect("few");
        match cluster.draw(3) {
            0 if cluster.processes.len() < 4 => cluster.start(""),
            _ if cluster.processes.len() > 1 => drop(cluster.kill(index)),
            _ => cluster.start(""),
        }
    }
    cluster.run(10 * SECOND);
    cluster.check("tick", from, &format!("seed {seed}"));
    cluster.check("tack", from, &format!("seed {seed}"));
    let slow = cluster.history(0, "slow");
    let mut began: Vec<(Time, Time)> = slow
        .iter()
        .filter(|launch| !launch.runs.is_empty())
        .map(|launch| (launch.decided, launch.ended_at.unwrap_or(Time(u64::MAX))))
        .collect();
    began.sort();
    for pair in began.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "seed {seed}: two at once: {pair:?}");
    }
}

#[test]
fn nodes_that_die_and_come_lose_and_double_no_launch() {
    // More by command: TURNWHEEL_SEEDS=100.
    let seeds = std::env::var("TURNWHEEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 1..=seeds.unwrap_or(4) {
        troubled(seed);
    }
}
