//! Requests about jobs: [`Jobs`].

use std::collections::BTreeMap;
use std::fmt;

use jiff::tz::TimeZone;
use turnwheel_engine::internal::WeakWorld;
use turnwheel_engine::{Time, World};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Context, Group, Mailbox, SpawnError, Task};

use crate::error::JobError;
use crate::graph::Graph;
use crate::launch::Launch;
use crate::limits::{NAME_PARTS, TIMES_MAX};
use crate::live::LiveOutput;
use crate::node::Node;
use crate::notify::Notify;
use crate::registry::Executors;
use crate::roster::{preview, times, Answer, Edit, Part, Roster};
use crate::spec::JobSpec;
use crate::store::JobStore;
use crate::view::JobView;

/// Requests and news that are on their way at once, at most.
const MAILBOX: u64 = 1 << 18;

/// Answer to a request: comes when its consequences are durable.
pub type Asking<T> = Completion<Result<T, JobError>>;

/// Options with which the jobs of a world are opened.
#[derive(Clone, Debug)]
pub struct JobsOptions {
    executors: Executors,
    node: Node,
    zone: TimeZone,
    notify: Vec<Notify>,
    is_at_rest: bool,
}

impl JobsOptions {
    /// The executors that [`WithJobs::jobs`](crate::WithJobs::jobs) has given to the world.
    pub fn new(executors: &Executors) -> Self {
        let (node, zone) = (Node::new("local"), TimeZone::system());
        let notify = Vec::new();
        Self { executors: executors.clone(), node, zone, notify, is_at_rest: false }
    }

    /// This node, with its labels.
    #[must_use]
    pub fn node(mut self, node: Node) -> Self {
        self.node = node;
        self
    }

    /// The zone of schedules that name none; that of the system if nothing is said. An unknown name
    /// is UTC.
    #[must_use]
    pub fn zone(mut self, name: &str) -> Self {
        self.zone = TimeZone::get(name).unwrap_or(TimeZone::UTC);
        self
    }

    /// Notifications of all jobs, beside their own ones.
    #[must_use]
    pub fn notify(mut self, notify: Vec<Notify>) -> Self {
        self.notify = notify;
        self
    }

    /// Edits only: nothing is launched, as by a command beside no server.
    #[must_use]
    pub fn at_rest(mut self) -> Self {
        self.is_at_rest = true;
        self
    }
}

/// The jobs of a world. Clones share them.
///
/// ```
/// use turnwheel_engine::{MemoryStore, World};
/// use turnwheel_jobs::{
///     Call, Done, Executor, Executors, JobSpec, Jobs, JobsOptions, Settings, Verdict, WithJobs, Work,
/// };
/// use turnwheel_runtime::{completion::block_on, Group};
///
/// #[derive(Debug)]
/// struct Hello;
/// impl Executor for Hello {
///     fn check(&self, _: &Settings) -> Result<(), String> {
///         Ok(())
///     }
///     fn execute(&self, work: &Work, _: &Call<'_>) -> Verdict {
///         Verdict::Done(Done::success(format!("hello from {}", work.job)))
///     }
/// }
///
/// let executors = Executors::new().with("hello", Hello);
/// let world = World::builder().jobs(&executors).build(MemoryStore::new())?;
/// let group = Group::builder("jobs").workers(1).build()?;
/// let jobs = block_on(Jobs::open(&world, &group, JobsOptions::new(&executors)))??;
/// let spec = JobSpec {
///     name: "greet".into(), schedule: "@daily".into(), executor: "hello".into(), ..JobSpec::default()
/// };
/// let view = jobs.put(spec, None, "ann").wait()??;
/// assert!(view.next.is_some());
/// let launch = jobs.run("greet", "ann", false).wait()??;
/// assert_eq!(launch, 1);
/// jobs.end();
/// world.shutdown()?;
/// group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Jobs {
    task: Task<Roster>,
    store: JobStore,
    world: WeakWorld,
    zone: TimeZone,
    node: Node,
    executors: Executors,
    is_at_rest: bool,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("node", &self.node).finish_non_exhaustive()
    }
}

type Reply<T> = Completer<Result<T, JobError>>;

fn reply<T>(to: Reply<T>, outcome: Result<T, JobError>) {
    // The caller may have given up.
    let _gone = to.complete(outcome);
}

impl Jobs {
    /// Reads the jobs of a world's store, and goes on with them on a task of the group.
    ///
    /// # Errors
    ///
    /// The store failed, the group takes no task, or a notification of all jobs is wrong. A job that cannot be read is logged and left
    /// alone.
    pub async fn open(
        world: &World,
        group: &Group,
        options: JobsOptions,
    ) -> Result<Self, JobError> {
        let failed = |problem: &dyn fmt::Display| JobError::Failed(problem.to_string());
        let store = JobStore { states: world.states() };
        let JobsOptions { executors, node, zone, notify, is_at_rest } = options;
        let checked = crate::notify::check(&notify).and_then(|()| executors.check_notify(&notify));
        checked.map_err(|problem| JobError::setting("*", "notify", problem))?;
        let mut roster = Roster {
            world: WeakWorld::new(world),
            group: group.clone(),
            store: store.clone(),
            node: node.clone(),
            zone: zone.clone(),
            executors: executors.clone(),
            notify,
            is_at_rest,
            entries: BTreeMap::new(),
            graph: Graph::default(),
            parts: Vec::new(),
            paused_by: None,
            paused_version: 0,
            due: Default::default(),
            armed: None,
            seen: Time::from(group.wall()),
        };
        (roster.paused_by, roster.paused_version) = store.paused().await.map_err(|e| failed(&e))?;
        for part in 0..NAME_PARTS {
            let names = store.names(part).await.map_err(|error| failed(&error))?;
            for name in &names.names {
                match store.load(name).await {
                    Ok((Some(record), version)) => roster.restore(name, record, version),
                    Ok((None, _)) => {}
                    Err(error) => tracing::error!(job = name, %error, "a job cannot be read"),
                }
            }
            roster.parts.push(Part::new(names));
        }
        let task = group.task(roster).name("jobs").mailbox(Mailbox::bounded(MAILBOX - 1)).spawn();
        let task = task.map_err(|error: SpawnError<_>| failed(&error.to_string()))?;
        let begun = task.call(|roster, cx| roster.begin(cx)).await;
        begun.map_err(|failure| failed(&failure))?;
        let world = WeakWorld::new(world);
        Ok(Self { task, store, world, zone, node, executors, is_at_rest })
    }

    /// Executors and processors of this node.
    pub fn executors(&self) -> &Executors {
        &self.executors
    }

    /// The node that runs the jobs.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Ends the task of the jobs. What runs goes on as plans; the next one who opens the jobs finds it.
    pub fn end(&self) {
        self.task.stop().detach();
    }

    /// Makes a job, or changes the one with its name; all settings are replaced. With a revision it is
    /// refused if the job was edited since; 0 is a job that is not there.
    ///
    /// Fails with a [`JobError`] that names the setting that is wrong.
    pub fn put(&self, spec: JobSpec, revision: Option<u64>, by: &str) -> Asking<JobView> {
        let edit = Edit { spec, revision, by: by.to_owned() };
        self.ask(move |roster, cx, to| {
            roster.put(edit, Box::new(move |outcome| reply(to, outcome)), cx);
        })
    }

    /// A job as it is now.
    pub fn get(&self, name: &str) -> Asking<JobView> {
        let name = name.to_owned();
        self.ask(move |roster, _, to| {
            reply(to, roster.found(&name).map(|entry| roster.view(&name, entry)));
        })
    }

    /// All jobs, by name.
    pub fn list(&self) -> Asking<Vec<JobView>> {
        self.ask(move |roster, _, to| {
            let entries = roster.entries.iter().filter(|(_, entry)| !entry.is_removed);
            reply(to, Ok(entries.map(|(name, entry)| roster.view(name, entry)).collect()));
        })
    }

    /// Removes a job with its history; answers the job as it was. What runs goes on as plans. A job
    /// with dependants is refused.
    pub fn remove(&self, name: &str) -> Asking<JobView> {
        let name = name.to_owned();
        self.ask(move |roster, cx, to| {
            roster.remove(&name, Box::new(move |outcome| reply(to, outcome)), cx);
        })
    }

    /// Switches a job off or on; the opposite of now if nothing is said.
    pub fn toggle(&self, name: &str, disabled: Option<bool>, by: &str) -> Asking<JobView> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.ask(move |roster, cx, to| {
            let spec = roster.found(&name).map(|entry| entry.record.spec.clone());
            match spec {
                Err(error) => reply(to, Err(error)),
                Ok(mut spec) => {
                    spec.disabled = disabled.unwrap_or(!spec.disabled);
                    let edit = Edit { spec, revision: None, by };
                    roster.put(edit, Box::new(move |outcome| reply(to, outcome)), cx);
                }
            }
        })
    }

    /// Launches a job now, also a disabled one; answers the number of the launch. Its overlap policy is
    /// heeded unless it is forced.
    pub fn run(&self, name: &str, by: &str, is_forced: bool) -> Asking<u64> {
        let (name, by, is_at_rest) = (name.to_owned(), by.to_owned(), self.is_at_rest);
        self.ask(move |roster, cx, to| {
            if is_at_rest {
                return reply(to, Err(JobError::AtRest));
            }
            if let Err(error) = roster.found(&name) {
                return reply(to, Err(error));
            }
            let launched = roster.decide(&name, |turn| turn.by_hand(&by, is_forced));
            let launched = launched.unwrap_or_else(|| Err(JobError::Unknown(name.clone())));
            let answer: Answer = Box::new(move |done| reply(to, done.and(launched)));
            roster.changed(&name, answer, cx);
        })
    }

    /// Ends a launch: what runs is cancelled with its process group, what waits does not begin.
    pub fn cancel(&self, name: &str, launch: u64, by: &str) -> Asking<JobView> {
        let (name, by, is_at_rest) = (name.to_owned(), by.to_owned(), self.is_at_rest);
        self.ask(move |roster, cx, to| {
            if is_at_rest {
                return reply(to, Err(JobError::AtRest));
            }
            if let Err(error) = roster.found(&name) {
                return reply(to, Err(error));
            }
            let why = format!("cancelled by {by}");
            let ended = roster.decide(&name, |turn| turn.end(launch, &by, &why));
            if ended != Some(true) {
                roster.advance(&name, cx);
                let (job, launch) = (name, launch.to_string());
                return reply(to, Err(JobError::UnknownLaunch { job, launch }));
            }
            roster.changed(&name, Box::new(move |outcome| reply(to, outcome)), cx);
        })
    }

    /// Forgets the history of a job with its counts and last times, in one step.
    pub fn forget(&self, name: &str) -> Asking<JobView> {
        let name = name.to_owned();
        self.ask(move |roster, cx, to| {
            if let Err(error) = roster.found(&name) {
                return reply(to, Err(error));
            }
            if let Some(entry) = roster.entries.get_mut(&name) {
                let record = &mut entry.record;
                record.ended.clear();
                record.pages.0 = record.pages.1;
                record.counts = Default::default();
                (record.last_success, record.last_error, record.status) = (None, None, None);
            }
            roster.changed(&name, Box::new(move |outcome| reply(to, outcome)), cx);
        })
    }

    /// The launches of a job, the newest first: at most `limit` before one.
    ///
    /// # Errors
    ///
    /// There is no such job, or the store failed.
    pub async fn history(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Launch>, JobError> {
        let (name, store) = (name.to_owned(), self.store.clone());
        let of = name.clone();
        let asked = self.ask(move |roster, _, to| {
            let found = roster.found(&of).map(|entry| {
                let record = &entry.record;
                let here: Vec<Launch> =
                    record.active.iter().chain(&record.ended).cloned().collect();
                (here, record.pages, record.created_at, record.spec.keep)
            });
            reply(to, found);
        });
        let (mut launches, pages, made, keep) = asked.await.map_err(|f| lost(&f))??;
        launches.sort_by_key(|launch| std::cmp::Reverse(launch.id));
        let is_wanted = |launch: &Launch| before.is_none_or(|before| launch.id < before);
        launches.retain(is_wanted);
        for page in (pages.0..pages.1).rev() {
            if launches.len() >= limit {
                break;
            }
            let mut older =
                store.page(&name, made, page).await.map_err(|e| JobError::Failed(e.to_string()))?;
            older.sort_by_key(|launch| std::cmp::Reverse(launch.id));
            launches.extend(older.into_iter().filter(is_wanted));
        }
        launches.truncate(limit.min(usize::try_from(keep).unwrap_or(usize::MAX)));
        Ok(launches)
    }

    /// A launch of a job.
    ///
    /// # Errors
    ///
    /// As [`Jobs::history`], or it is not there any more.
    pub async fn launch(&self, name: &str, launch: u64) -> Result<Launch, JobError> {
        let found = self.history(name, launch.checked_add(1), 1).await?;
        found.into_iter().find(|found| found.id == launch).ok_or_else(|| JobError::UnknownLaunch {
            job: name.to_owned(),
            launch: launch.to_string(),
        })
    }

    /// The output that a run has kept; empty while it runs, or when its plan is not kept any more.
    ///
    /// # Errors
    ///
    /// The world has ended.
    pub async fn output(&self, run: &crate::launch::Run) -> Result<String, JobError> {
        let world = self
            .world
            .upgrade()
            .ok_or_else(|| JobError::Failed("the world has ended".to_owned()))?;
        let Some(plan) = run.plan else { return Ok(String::new()) };
        match world.plan(plan).view().await {
            Ok(view) => Ok(crate::action::output(&view)),
            Err(turnwheel_engine::PlanError::Unknown(_)) => Ok(String::new()),
            Err(error) => Err(JobError::Failed(error.to_string())),
        }
    }

    /// The output of a run as it is written: the last run of the launch if no number is given,
    /// from 1.
    ///
    /// # Errors
    ///
    /// As [`Jobs::launch`], or it has no such run yet.
    pub async fn follow(
        &self,
        name: &str,
        launch: u64,
        run: Option<usize>,
    ) -> Result<LiveOutput, JobError> {
        let found = self.launch(name, launch).await?;
        let made = self.get(name).await.map_err(|f| lost(&f))??.created_at;
        let place = run.unwrap_or(found.runs.len()).checked_sub(1);
        let row = place.and_then(|place| found.runs.get(place)).ok_or_else(|| {
            let (job, state) = (name.to_owned(), found.state.name());
            JobError::NoRun { job, launch, state }
        })?;
        Ok(self.executors.live(&found.key(name, made, row)))
    }

    /// The next times of a job, at most so many, without jitter.
    pub fn next(&self, name: &str, limit: usize) -> Asking<Vec<Time>> {
        let (name, limit) = (name.to_owned(), limit.min(TIMES_MAX));
        self.ask(move |roster, _, to| {
            let now = roster.now();
            let found = roster.found(&name).map(|entry| match &entry.schedule {
                Some(schedule) => times(&entry.record.spec, schedule, now, limit),
                None => Vec::new(),
            });
            reply(to, found);
        })
    }

    /// The next times of settings that are not stored: a preview.
    ///
    /// # Errors
    ///
    /// The schedule is wrong.
    pub fn preview(&self, spec: &JobSpec, limit: usize) -> Result<Vec<Time>, JobError> {
        let now = Time::from(self.task.group().wall());
        preview(spec, &self.zone, now, limit.min(TIMES_MAX))
    }

    /// The user that has paused changes of jobs.
    pub fn paused_by(&self) -> Asking<Option<String>> {
        self.ask(|roster, _, to| reply(to, Ok(roster.paused_by.clone())))
    }

    /// Refuses new and changed jobs until nobody does any more; launches are unaffected.
    pub fn pause_changes(&self, by: Option<&str>) -> Asking<()> {
        let by = by.map(str::to_owned);
        self.ask(move |roster, cx, to| {
            let (store, version) = (roster.store.clone(), roster.paused_version);
            let given = by.clone();
            let saved = async move { store.save_paused(given, version).await };
            cx.await_interleaved(saved, move |roster: &mut Roster, _, outcome| {
                let outcome = outcome.map(|version| {
                    (roster.paused_by, roster.paused_version) = (by, version);
                });
                reply(to, outcome.map_err(|error| JobError::Failed(error.to_string())));
            });
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Roster, &mut Context<'_, Roster>, Reply<T>) + Send + 'static,
    ) -> Asking<T> {
        let (to, asked) = completion();
        let refusal = to.clone();
        if let Err(error) = self.task.submit(move |roster, cx| request(roster, cx, to)) {
            let problem = format!("the jobs take no requests: {:?}", error.kind);
            reply(refusal, Err(JobError::Failed(problem)));
        }
        asked
    }
}

fn lost(failure: &turnwheel_runtime::Failure) -> JobError {
    JobError::Failed(failure.to_string())
}
