//! Several processes run the jobs of one store: those that serve are killed, and each planned time
//! is launched once all the same.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use turnwheel_engine::store::{slot_of_key, Store};
use turnwheel_engine::{SharedStore, Time, World};
use turnwheel_jobs::{
    Call, Done, Executor, Executors, JobSpec, Jobs, JobsOptions, Launch, LaunchState, Missed, Node,
    Run, RunState, Settings, Span, Unknown, Verdict, WithJobs, Work,
};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::{Group, Pinning};

use crate::server::{name, start, store_of};

/// Says to this program that it is to run jobs: the URL of the store, the file of effects, its name.
const NODE: &str = "TURNWHEEL_TEST_JOBS";

const LEASE: Duration = Duration::from_secs(3);

/// Time for something that takes seconds on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

/// Appends a line for each attempt; with `takes` it lasts so many milliseconds.
#[derive(Debug)]
struct Noting {
    effects: PathBuf,
    node: String,
}

impl Executor for Noting {
    fn check(&self, _: &Settings) -> Result<(), String> {
        Ok(())
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        let line = format!(
            "{} {} {} {}\n",
            work.job,
            work.planned.0,
            Time::from(SystemTime::now()).0,
            self.node
        );
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.effects);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file is there");
        let takes = work.config.get("takes").map_or(0, |text| text.parse().expect("a number"));
        let begun = Instant::now();
        let (_never, timer) = channel::<()>();
        while begun.elapsed() < Duration::from_millis(takes) && !call.is_cancelled() {
            let _elapsed = timer.recv_timeout(Duration::from_millis(10));
        }
        Verdict::Done(Done::success(self.node.clone()))
    }
}

/// Not a test by itself: a node with jobs, until its input ends.
#[test]
fn the_process_that_runs_jobs() {
    let Ok(given) = std::env::var(NODE) else { return };
    let given: Vec<&str> = given.split('\n').collect();
    let [url, effects, name] = given[..] else { panic!("{given:?}") };
    let noting = Noting { effects: effects.into(), node: name.to_owned() };
    let executors = Executors::new().with("note", noting);
    let store = SharedStore::node(store_of(url), LEASE).expect("it opens");
    let world = World::builder().name(name).jobs(&executors).join(&store).expect("it joins");
    let group = Group::builder("jobs").workers(1).pinning(Pinning::None).build().expect("threads");
    let options = JobsOptions::new(&executors).node(Node::new(name).label("name", name));
    let jobs = block_on(Jobs::open(&world, &group, options)).expect("it ends").expect("they open");
    println!("\n@@ {}", world.id());
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let (verb, rest) = line.split_once(' ').expect("a verb");
        match verb {
            "put" => {
                let spec: JobSpec = serde_json::from_str(rest).expect("a job");
                // A node whose lease is over, as on a machine with much else to do, takes nothing.
                until("the job is taken", || {
                    jobs.put(spec.clone(), None, "test").wait().expect("it ends").is_ok()
                });
                println!("\n@@ done");
            }
            "run" => {
                jobs.run(rest, "test", false).wait().expect("it ends").expect("it is launched");
                println!("\n@@ done");
            }
            _ => {
                // The node that is asked may go before it has answered.
                let read = || block_on(jobs.history(rest, None, 10_000)).expect("it ends").ok();
                let all = std::iter::repeat_with(read).take(100).flatten().next();
                let all = serde_json::to_string(&all.expect("it is read")).expect("JSON");
                println!("\n@@ {all}");
            }
        }
    }
    jobs.end();
    world.shutdown().expect("it ends");
    store.close().expect("it ends");
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Box<dyn Iterator<Item = String>>,
    name: String,
    world: u64,
}

impl Process {
    fn start(url: &str, effects: &Path, name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
            .args(["--exact", "jobs::the_process_that_runs_jobs", "--nocapture"])
            .env(NODE, format!("{url}\n{}\n{name}", effects.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it begins");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines = output.lines().map_while(Result::ok);
        let mut lines =
            Box::new(lines.filter_map(|line| line.strip_prefix("@@ ").map(str::to_owned)));
        let world = lines.next().expect("it joins").parse().expect("a number");
        let input = child.stdin.take();
        Self { child, input, lines, name: name.to_owned(), world }
    }

    fn say(&mut self, line: &str) -> String {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{line}").expect("it listens");
        self.lines.next().expect("it answers")
    }

    fn put(&mut self, spec: &JobSpec) {
        let text = serde_json::to_string(spec).expect("JSON");
        assert_eq!(self.say(&format!("put {text}")), "done");
    }

    fn history(&mut self, job: &str) -> Vec<Launch> {
        serde_json::from_str(&self.say(&format!("history {job}"))).expect("launches")
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("it ends").success(), "{} fails at its end", self.name);
    }
}

/// Kills it.
impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (_never, timer) = channel::<()>();
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        let _elapsed = timer.recv_timeout(Duration::from_millis(100));
    }
}

/// The attempts of a job: planned, begun, node.
fn attempts(effects: &Path, job: &str) -> Vec<(Time, Time, String)> {
    let text = std::fs::read_to_string(effects).unwrap_or_default();
    let line = |line: &str| {
        let parts: Vec<&str> = line.split(' ').collect();
        let time = |at: usize| Time(parts[at].parse().expect("a number"));
        (parts[0] == job).then(|| (time(1), time(2), parts[3].to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn jobs_survive_the_deaths_of_their_nodes() {
    let (server, folder) = (start(&[]), tempfile::tempdir().expect("a folder"));
    let url = format!("{}?schema={}", server.url("postgres"), name());
    let effects = folder.path().join("effects");
    let mut nodes: Vec<Process> =
        ["a", "b", "c"].iter().map(|name| Process::start(&url, &effects, name)).collect();
    let spec = |name: &str, schedule: &str| JobSpec {
        name: name.to_owned(),
        schedule: schedule.to_owned(),
        executor: "note".to_owned(),
        keep: 10_000,
        ..JobSpec::default()
    };
    // Every time of a change of the serving node is made up for.
    let missed = Missed::All(Span::seconds(60));
    nodes[2].put(&JobSpec { missed, ..spec("tick", "* * * * * *") });
    // A run whose node dies in the middle of it: nobody knows its outcome, and it is retried. The node of
    // the retry may be the one that dies next.
    let mut long = spec("long", "@manually");
    (long.unknown, long.retries) = (Unknown::Retry, 2);
    long.config.insert("takes".to_owned(), "20000".to_owned());
    nodes[1].put(&long);
    assert_eq!(nodes[0].say("run long"), "done");
    until("the long run begins", || !attempts(&effects, "long").is_empty());
    let victim = attempts(&effects, "long")[0].2.clone();
    nodes.retain(|node| node.name != victim);
    // The node that serves dies too.
    let from = attempts(&effects, "tick").len();
    until("fires go on", || attempts(&effects, "tick").len() > from + 5);
    let owner = {
        let mut reader = store_of(&url).reader().expect("a reader");
        reader.worlds().expect("they are read").owner(slot_of_key("jobs"))
    };
    nodes.push(Process::start(&url, &effects, "d"));
    nodes.retain(|node| node.world != owner);
    let from = attempts(&effects, "tick").len();
    until("fires go on with the next one", || attempts(&effects, "tick").len() > from + 10);
    until("the long run ends", || {
        let launch = nodes[0].history("long").remove(0);
        launch.state.is_over()
    });
    let launch = nodes[0].history("long").remove(0);
    let states: Vec<RunState> = launch.runs.iter().map(|run| run.state).collect();
    let (last, before) = states.split_last().expect("it has run");
    assert_eq!(*last, RunState::Succeeded, "{launch:#?}");
    assert!(
        !before.is_empty() && before.iter().all(|state| *state == RunState::Lost),
        "{launch:#?}"
    );
    let are_apart = |runs: &[Run]| runs[0].node != runs[1].node;
    assert!(launch.runs.windows(2).all(are_apart), "each retry is on another node: {launch:#?}");

    let rows = nodes[0].history("tick");
    let mut planned: BTreeMap<Time, u32> = BTreeMap::new();
    rows.iter().for_each(|row| *planned.entry(row.planned).or_default() += 1);
    let begun = attempts(&effects, "tick");
    let (first, last) = (rows.last().expect("rows").planned, rows[0].planned);
    let (mut at, mut latest) = (first, Duration::ZERO);
    while at < last {
        assert_eq!(planned.get(&at), Some(&1), "{at} has one row");
        let row = rows.iter().find(|row| row.planned == at).expect("it was counted");
        let times: Vec<_> = begun.iter().filter(|(planned, ..)| *planned == at).collect();
        // A run that was under way on a node as it died may be lost, with its row saying so.
        let is_lost = row.runs.iter().any(|run| run.state == RunState::Lost);
        assert!(times.len() == 1 || (is_lost && times.len() <= 1), "{at}: {times:?} {row:#?}");
        assert!(row.state == LaunchState::Succeeded || is_lost || !row.state.is_over(), "{row:#?}");
        times.iter().for_each(|(_, begun, _)| latest = latest.max(begun.since(at)));
        at = at.after(Duration::from_secs(1));
    }
    eprintln!("{} times, the latest began {latest:?} late", rows.len());
    nodes.into_iter().for_each(Process::end);
}
