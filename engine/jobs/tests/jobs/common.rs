//! A simulated server with jobs whose executor does what their settings say.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use turnwheel_engine::{MemoryStore, Store, Time, World};
use turnwheel_jobs::{
    Asking, Call, Done, Executor, Executors, JobError, JobSpec, JobView, Jobs, JobsOptions, Launch,
    Message, Node, Notifier, Notify, Processed, Processor, Settings, Span, Verdict, WithJobs, Work,
};
use turnwheel_runtime::sim::Sim;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// An executor that takes the time `takes`, fails the first `fails` attempts, and says `says`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Play {
    /// The attempts that have begun: job, launch, attempt.
    pub(crate) begun: Arc<Mutex<Vec<(String, u64, u32)>>>,
}

fn number(work: &Work, name: &str) -> u32 {
    work.config.get(name).map_or(0, |text| text.parse().expect("a number"))
}

impl Executor for Play {
    fn check(&self, config: &Settings) -> Result<(), String> {
        match config.get("takes").map(|text| text.parse::<Span>()) {
            Some(Err(problem)) => Err(format!("takes: {problem}")),
            _ => Ok(()),
        }
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        if !call.is_again {
            let begun = (work.job.clone(), work.launch, work.attempt);
            self.begun.lock().expect("no panic before").push(begun);
            if let Some(takes) = work.config.get("takes") {
                return Verdict::Later(takes.parse::<Span>().expect("it was checked").0);
            }
        }
        if call.is_cancelled() {
            return Verdict::Done(Done::failure("ended", ""));
        }
        if work.attempt <= number(work, "fails") {
            return Verdict::Done(Done::failure("as told", "sorry"));
        }
        Verdict::Done(Done::success(work.config.get("says").cloned().unwrap_or_default()))
    }
}

/// A processor that notes each output, and fails if its settings say so.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    pub(crate) name: &'static str,
    /// Outputs that came: name of the processor, output.
    pub(crate) seen: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Processor for Note {
    fn check(&self, settings: &Settings) -> Result<(), String> {
        match settings.keys().find(|name| *name != "broken") {
            Some(name) => Err(format!("{name}: no such setting")),
            None => Ok(()),
        }
    }

    fn process(&self, processed: &Processed<'_>, settings: &Settings) -> Result<String, String> {
        self.seen.lock().expect("no panic").push((self.name, processed.done.output.clone()));
        match settings.contains_key("broken") {
            true => Err("it is down".to_owned()),
            false => Ok(format!("note of {}", self.name)),
        }
    }
}

/// A post office that keeps what it sends, and refuses what goes to `nowhere`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Post {
    pub(crate) sent: Arc<Mutex<Vec<Message>>>,
    pub(crate) refused: Arc<Mutex<u32>>,
}

impl Notifier for Post {
    fn check(&self, notify: &Notify) -> Result<(), String> {
        match notify.webhook.starts_with("ftp:") {
            true => Err("webhook: no such way".to_owned()),
            false => Ok(()),
        }
    }

    fn send(&self, message: &Message, _: &(dyn Fn() -> bool + Sync)) -> Result<(), String> {
        if message.webhook == "nowhere" {
            *self.refused.lock().expect("no panic") += 1;
            return Err("nobody is there".to_owned());
        }
        self.sent.lock().expect("no panic").push(message.clone());
        Ok(())
    }
}

/// A simulated server.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) world: World,
    pub(crate) jobs: Jobs,
    pub(crate) play: Play,
    pub(crate) note: Note,
    pub(crate) post: Post,
    executors: Executors,
    /// Jobs of which each is read at the start.
    pub(crate) reading: usize,
    /// Zone of jobs that name none.
    pub(crate) zone: &'static str,
}

pub(crate) fn time(text: &str) -> Time {
    text.parse().expect("a time")
}

/// A job of this name with a schedule; `edit` sets the rest.
pub(crate) fn job(name: &str, schedule: &str, edit: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut spec = JobSpec {
        name: name.to_owned(),
        schedule: schedule.to_owned(),
        executor: "play".to_owned(),
        timezone: String::new(),
        ..JobSpec::default()
    };
    edit(&mut spec);
    spec
}

pub(crate) fn set(spec: &mut JobSpec, name: &str, value: &str) {
    spec.config.insert(name.to_owned(), value.to_owned());
}

impl Stage {
    pub(crate) fn at(wall: &str) -> Self {
        Self::seeded(9, wall)
    }

    pub(crate) fn seeded(seed: u64, wall: &str) -> Self {
        Self::over(MemoryStore::new(), seed, wall)
    }

    pub(crate) fn over(store: impl Store, seed: u64, wall: &str) -> Self {
        let sim = Sim::builder().seed(seed).wall(SystemTime::from(time(wall))).build();
        let play = Play::default();
        let note = Note::default();
        let other = |name| Note { name, ..note.clone() };
        let executors = Executors::new().with("play", play.clone());
        let executors = executors.with_processor("ink", other("ink"));
        let executors = executors.with_processor("paper", other("paper"));
        let post = Post::default();
        let executors = executors.with_notifier(post.clone());
        let builder = World::builder().jobs(&executors).seed(1);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store));
        let world = world.expect("it ends").expect("the world begins");
        let (reading, zone) = (usize::MAX, "UTC");
        let jobs = open(&sim, &world, &executors, (reading, zone));
        Self { sim, world, jobs, play, note, post, executors, reading, zone }
    }

    /// Ends the jobs, lets time pass without them, and opens them again.
    pub(crate) fn outage(&mut self, length: Duration) {
        self.jobs.end();
        self.sim.run_until_idle();
        self.sim.advance(length);
        let how = (self.reading, self.zone);
        self.jobs = open(&self.sim, &self.world, &self.executors, how);
        self.sim.run_until_idle();
    }

    pub(crate) fn wait<T>(&self, asked: Asking<T>) -> Result<T, JobError> {
        self.sim.block_on(asked).expect("it ends").expect("the jobs are there")
    }

    pub(crate) fn block<F: Future>(&self, future: F) -> F::Output {
        self.sim.block_on(future).expect("it ends")
    }

    pub(crate) fn put(&self, spec: JobSpec) -> JobView {
        self.wait(self.jobs.put(spec, None, "test")).expect("the job is taken")
    }

    pub(crate) fn refused(&self, spec: JobSpec) -> String {
        self.wait(self.jobs.put(spec, None, "test")).expect_err("it is refused").to_string()
    }

    pub(crate) fn get(&self, name: &str) -> JobView {
        self.wait(self.jobs.get(name)).expect("the job is there")
    }

    pub(crate) fn history(&self, name: &str) -> Vec<Launch> {
        let mut all = self.block(self.jobs.history(name, None, 100_000)).expect("it is read");
        all.reverse();
        all
    }

    /// The launches of a job: planned time of day, state, number of runs.
    pub(crate) fn rows(&self, name: &str) -> Vec<String> {
        self.history(name).iter().map(row).collect()
    }
}

pub(crate) fn row(launch: &Launch) -> String {
    let planned = launch.planned.to_string();
    let times = if launch.times > 1 { format!(" x{}", launch.times) } else { String::new() };
    format!("{} {}{times}", &planned[11..19], launch.state.name())
}

pub(crate) fn open(
    sim: &Sim,
    world: &World,
    executors: &Executors,
    (reading, zone): (usize, &str),
) -> Jobs {
    let node = Node::new("here").label("region", "eu").label("disk", "fast");
    let options = JobsOptions::new(executors).node(node).zone(zone).read_at_start(reading);
    let group = sim.group("jobs");
    sim.block_on(Jobs::open(world, &group, options)).expect("it ends").expect("they are read")
}
