//! Requests about jobs: [`Jobs`].

use std::collections::BTreeMap;
use std::fmt;

use jiff::tz::TimeZone;
use turnwheel_engine::internal::{spawn, WeakWorld};
use turnwheel_engine::{Time, World};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completion, Group, Mailbox, SpawnError, Task};

use crate::error::JobError;
use crate::graph::Graph;
use crate::launch::{Answer, Launch};
use crate::limits::{READ_AT_START, TIMES_MAX};
use crate::live::LiveOutput;
use crate::node::Node;
use crate::notify::Notify;
use crate::registry::Executors;
use crate::request::{JobAnswer, JobRequest, Outcome, Recent, Reply};
use crate::roster::{
    all_nodes, copy, hear_begins, introduce, keep, look, preview, show_live, take_keyed, Rest,
    Roster, Stopped, Term,
};
use crate::spec::JobSpec;
use crate::store::JobStore;
use crate::view::{JobView, NextLaunch};

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
    read_at_start: usize,
}

impl JobsOptions {
    /// The executors that [`WithJobs::jobs`](crate::WithJobs::jobs) has given to the world.
    pub fn new(executors: &Executors) -> Self {
        let (node, zone) = (Node::new("local"), TimeZone::system());
        let (executors, notify) = (executors.clone(), Vec::new());
        Self { executors, node, zone, notify, is_at_rest: false, read_at_start: READ_AT_START }
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

    /// Number of jobs up to which each is read and its next time found at the start; 20,000 if
    /// nothing is said. Of more jobs the stored next times are used, and checked within minutes: the
    /// rules of a zone may have changed.
    #[must_use]
    pub fn read_at_start(mut self, jobs: usize) -> Self {
        self.read_at_start = jobs;
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
    pub(crate) world: WeakWorld,
    zone: TimeZone,
    node: Node,
    executors: Executors,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("node", &self.node).finish_non_exhaustive()
    }
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
        let store = JobStore::of(world);
        let JobsOptions { executors, node, zone, notify, is_at_rest, read_at_start } = options;
        let checked = crate::notify::check(&notify).and_then(|()| executors.check_notify(&notify));
        checked.map_err(|problem| JobError::setting("*", "notify", problem))?;
        let roster = Roster {
            world: WeakWorld::new(world),
            group: group.clone(),
            store: store.clone(),
            node: node.clone(),
            nodes: vec![node.clone()],
            worlds: BTreeMap::from([(node.name.clone(), world.id())]),
            term: Term::Elsewhere,
            waiting: Vec::new(),
            zone: zone.clone(),
            executors: executors.clone(),
            notify,
            is_at_rest,
            read_at_start,
            entries: BTreeMap::new(),
            rest: Rest::default(),
            graph: Graph::default(),
            paused_by: None,
            paused_version: 0,
            due: Default::default(),
            armed: None,
            seen: Time::from(group.wall()),
            since: Time(0),
        };
        let task = group.task(roster).name("jobs").mailbox(Mailbox::bounded(MAILBOX - 1)).spawn();
        let task = task.map_err(|error: SpawnError<_>| failed(&error.to_string()))?;
        if is_at_rest {
            let (loaded, at_rest) = (store.load_all().await, Term::Here(0));
            let (loaded, own) = (loaded.map_err(|error| failed(&error))?, store.clone());
            let taken = task.call(move |roster, cx| roster.take_over(own, at_rest, loaded, cx));
            taken.await.map_err(|failure| failed(&failure))?;
        } else {
            executors.is_of(&node, world);
            hear_begins(&executors, task.clone());
            take_keyed(world, task.clone());
            show_live(world, &executors);
            introduce(world, &node).await;
            match look(world, &task, &node).await {
                Ok(()) => {}
                Err(Stopped::Store(error)) => return Err(failed(&error)),
                Err(Stopped::Ended) => return Err(failed(&"they have ended")),
            }
            spawn(world, keep(WeakWorld::new(world), task.clone(), node.clone()));
        }
        let world = WeakWorld::new(world);
        Ok(Self { task, store, world, zone, node, executors })
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
        self.view(JobRequest::Put { spec: Box::new(spec), revision, by: by.to_owned() })
    }

    /// Says why jobs would be refused by [`put`](Self::put), one problem for each that would be. Nothing is
    /// stored. Their parents are not looked at: [`in_order`](crate::in_order) does that for several jobs.
    pub fn check(&self, edits: Vec<(JobSpec, Option<u64>)>) -> Asking<Vec<JobError>> {
        self.ask(JobRequest::Check { edits }, |answer| match answer {
            JobAnswer::Problems(problems) => Some(problems),
            _ => None,
        })
    }

    /// A job as it is now.
    pub fn get(&self, name: &str) -> Asking<JobView> {
        self.view(JobRequest::Get { name: name.to_owned() })
    }

    /// All jobs, by name.
    pub fn list(&self) -> Asking<Vec<JobView>> {
        self.page("", usize::MAX)
    }

    /// The jobs after a name, by name, at most so many.
    pub fn page(&self, after: &str, limit: usize) -> Asking<Vec<JobView>> {
        self.ask(JobRequest::List { after: after.to_owned(), limit }, |answer| match answer {
            JobAnswer::Views(views) => Some(views),
            _ => None,
        })
    }

    /// Removes a job with its history; answers the job as it was. What runs is cancelled, and the
    /// job goes when that has ended. A job with dependants is refused.
    pub fn remove(&self, name: &str) -> Asking<JobView> {
        self.remove_revision(name, None)
    }

    /// The same, refused if the job was edited since this revision.
    pub fn remove_revision(&self, name: &str, revision: Option<u64>) -> Asking<JobView> {
        self.view(JobRequest::Remove { name: name.to_owned(), revision })
    }

    /// Switches a job off or on; the opposite of now if nothing is said.
    pub fn toggle(&self, name: &str, disabled: Option<bool>, by: &str) -> Asking<JobView> {
        self.view(JobRequest::Toggle { name: name.to_owned(), disabled, by: by.to_owned() })
    }

    /// Launches a job now, also a disabled one; answers the number of the launch. Its overlap policy is
    /// heeded unless it is forced.
    pub fn run(&self, name: &str, by: &str, is_forced: bool) -> Asking<u64> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.ask(JobRequest::Run { name, by, is_forced, key: None }, |answer| match answer {
            JobAnswer::Launch(launch) => Some(launch),
            _ => None,
        })
    }

    /// The same once for each key of this job: a further request with it is answered with the launch
    /// of the first one, and `true`. A job remembers its newest 128 keys.
    pub fn run_once(
        &self,
        name: &str,
        by: &str,
        is_forced: bool,
        key: &str,
    ) -> Asking<(u64, bool)> {
        let (name, by, key) = (name.to_owned(), by.to_owned(), Some(key.to_owned()));
        self.ask(JobRequest::Run { name, by, is_forced, key }, |answer| match answer {
            JobAnswer::Launch(launch) => Some((launch, false)),
            JobAnswer::Repeated(launch) => Some((launch, true)),
            _ => None,
        })
    }

    /// Ends a launch: what runs is cancelled with its process group, what waits does not begin.
    pub fn cancel(&self, name: &str, launch: u64, by: &str) -> Asking<JobView> {
        self.view(JobRequest::Cancel { name: name.to_owned(), launch, by: by.to_owned() })
    }

    /// Says the outcome of a launch that nobody knows, as the setting `unknown: ask` wants it: it ends
    /// with that, or tries again.
    pub fn answer(&self, name: &str, launch: u64, answer: Answer, by: &str) -> Asking<JobView> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.view(JobRequest::Answer { name, launch, answer, by })
    }

    /// Forgets the history of a job with its counts and last times, in one step.
    pub fn forget(&self, name: &str) -> Asking<JobView> {
        self.view(JobRequest::Forget { name: name.to_owned() })
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
        let asked = self.ask(JobRequest::Recent { name: name.to_owned() }, |answer| match answer {
            JobAnswer::Recent(recent) => Some(*recent),
            _ => None,
        });
        let Recent { mut launches, pages, made, keep, from } =
            asked.await.map_err(|f| lost(&f))??;
        launches.sort_by_key(|launch| std::cmp::Reverse(launch.id));
        let is_kept = |end: Time| from.is_none_or(|from| end >= from);
        let is_wanted = |launch: &Launch| {
            before.is_none_or(|before| launch.id < before) && launch.ended_at.is_none_or(is_kept)
        };
        launches.retain(is_wanted);
        for page in (pages.0..pages.1).rev() {
            if launches.len() >= limit {
                break;
            }
            let older = self.store.page(name, made, page).await;
            let mut older = older.map_err(|error| JobError::Failed(error.to_string()))?;
            older.sort_by_key(|launch| std::cmp::Reverse(launch.id));
            launches.extend(older.into_iter().filter(is_wanted));
        }
        launches.truncate(limit.min(usize::try_from(keep).unwrap_or(usize::MAX)));
        self.note_begins(&mut launches).await;
        Ok(launches)
    }

    /// The launches of which a run is at work, each with its job, by name. Those that wait for a place or their
    /// key are not among them.
    ///
    /// Cost: no plan is asked; the begin of a run whose node did not tell it is known at its end.
    pub fn busy(&self) -> Asking<Vec<(String, Launch)>> {
        self.ask(JobRequest::Busy, |answer| match answer {
            JobAnswer::Busy(launches) => Some(launches),
            _ => None,
        })
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

    /// The output of a run as it is written, on whichever node: the last run of the launch if no number is given,
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
            JobError::NoRun { job, launch, state: state.into() }
        })?;
        let key = found.key(name, made, row);
        let world = self.world.upgrade();
        let Some(world) = world.filter(|_| row.node != self.node.name && !row.state.is_over())
        else {
            return Ok(self.executors.live(&key));
        };
        let (output, mirror) = self.executors.live_elsewhere(&key);
        if let Some(mirror) = mirror {
            let (weak, own, node) = (self.world.clone(), self.node.clone(), row.node.clone());
            spawn(&world, copy(weak, own, node, key, mirror));
        }
        Ok(output)
    }

    /// The nodes that run jobs, by name, and whether each takes new runs: one that ends does not.
    pub fn nodes(&self) -> Vec<(Node, bool)> {
        match self.world.upgrade() {
            Some(world) => all_nodes(&world, &self.node),
            None => vec![(self.node.clone(), false)],
        }
    }

    /// The node that decides what is due.
    pub fn server(&self) -> Asking<Node> {
        self.ask(JobRequest::Server, |answer| match answer {
            JobAnswer::Node(node) => Some(node),
            _ => None,
        })
    }

    /// The next launches of a job by its schedule, at most so many: also one whose time has come and that waits
    /// for its jitter.
    pub fn next(&self, name: &str, limit: usize) -> Asking<Vec<NextLaunch>> {
        self.ask(JobRequest::Times { name: name.to_owned(), limit }, |answer| match answer {
            JobAnswer::Next(launches) => Some(launches),
            _ => None,
        })
    }

    /// The next launches of settings that are not stored: a preview.
    ///
    /// # Errors
    ///
    /// The schedule is wrong.
    pub fn preview(&self, spec: &JobSpec, limit: usize) -> Result<Vec<NextLaunch>, JobError> {
        let now = Time::from(self.task.group().wall());
        preview(spec, &self.zone, now, limit.min(TIMES_MAX))
    }

    /// The user that has paused changes of jobs.
    pub fn paused_by(&self) -> Asking<Option<String>> {
        self.ask(JobRequest::PausedBy, |answer| match answer {
            JobAnswer::PausedBy(by) => Some(by),
            _ => None,
        })
    }

    /// Refuses new and changed jobs until nobody does any more; launches are unaffected.
    pub fn pause_changes(&self, by: Option<&str>) -> Asking<()> {
        let request = JobRequest::Pause { by: by.map(str::to_owned) };
        self.ask(request, |answer| matches!(answer, JobAnswer::Done).then_some(()))
    }

    fn view(&self, request: JobRequest) -> Asking<JobView> {
        self.ask(request, |answer| match answer {
            JobAnswer::View(view) => Some(*view),
            _ => None,
        })
    }

    /// Asks the world that serves the jobs, which may be this one.
    fn ask<T: Send + 'static>(
        &self,
        request: JobRequest,
        read: fn(JobAnswer) -> Option<T>,
    ) -> Asking<T> {
        let (to, asked) = completion();
        let refusal = to.clone();
        let reply = Reply::here(move |outcome: Outcome| {
            let strange = || JobError::Failed("the answer makes no sense".to_owned());
            // The caller may have given up.
            let _gone = to.complete(outcome.and_then(|answer| read(answer).ok_or_else(strange)));
        });
        if let Err(error) = self.task.submit(|roster, cx| roster.take(request, reply, cx)) {
            let problem = format!("the jobs take no requests: {:?}", error.kind);
            let _gone = refusal.complete(Err(JobError::Failed(problem)));
        }
        asked
    }
}

fn lost(failure: &turnwheel_runtime::Failure) -> JobError {
    JobError::Failed(failure.to_string())
}
