//! Executors and processors of a node, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use turnwheel_engine::internal::WeakWorld;
use turnwheel_engine::{Time, World};

use crate::executor::{Done, Executor, Work};
use crate::limits::RUNS_DEFAULT;
use crate::live::{LiveOutput, Lives, Mirror};
use crate::node::Node;
use crate::notify::{Notifier, Notify};
use crate::processor::{self, Processor, Processors};
use crate::spec::Settings;

/// The executors of a node, and the processors of their outputs, by name.
#[derive(Clone, Debug)]
pub struct Executors {
    executors: Arc<BTreeMap<String, Arc<dyn Executor>>>,
    processors: Arc<Processors>,
    notifier: Option<Arc<dyn Notifier>>,
    /// Executors that are known and not here, each with the reason.
    absent: Arc<BTreeMap<String, String>>,
    live: Lives,
    here: Arc<OnceLock<Node>>,
    world: Arc<OnceLock<WeakWorld>>,
    begins: Begins,
    /// Answers of the last looks at executors.
    looked: Arc<Mutex<BTreeMap<String, Result<String, String>>>>,
    runs_max: u32,
}

/// A function that hears of the begins of runs.
type Tell = Arc<dyn Fn(&Work, Time) + Send + Sync>;

/// The receiver of the begins of runs, once jobs were opened.
#[derive(Clone, Default)]
struct Begins(Arc<Mutex<Option<Tell>>>);

impl fmt::Debug for Begins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begins").field("is_told", &self.0.lock().is_some()).finish()
    }
}

impl Default for Executors {
    fn default() -> Self {
        Self {
            executors: Arc::default(),
            processors: Arc::default(),
            notifier: None,
            absent: Arc::default(),
            live: Lives::default(),
            here: Arc::default(),
            world: Arc::default(),
            begins: Begins::default(),
            looked: Arc::default(),
            runs_max: RUNS_DEFAULT,
        }
    }
}

impl Executors {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, executor: impl Executor) -> Self {
        Arc::make_mut(&mut self.executors).insert(name.into(), Arc::new(executor));
        self
    }

    /// Says why an executor that users know from elsewhere is not here, and what to do.
    #[must_use]
    pub fn without(mut self, name: impl Into<String>, why: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.absent).insert(name.into(), why.into());
        self
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.executors.contains_key(name)
    }

    /// Whether there is a processor of this name.
    pub fn has_processor(&self, name: &str) -> bool {
        self.processors.contains_key(name)
    }

    /// Adds a processor.
    #[must_use]
    pub fn with_processor(mut self, name: impl Into<String>, processor: impl Processor) -> Self {
        Arc::make_mut(&mut self.processors).insert(name.into(), Arc::new(processor));
        self
    }

    /// Sends notifications by this one.
    #[must_use]
    pub fn with_notifier(mut self, notifier: impl Notifier) -> Self {
        self.notifier = Some(Arc::new(notifier));
        self
    }

    /// The node that these are of, once its jobs were opened.
    pub(crate) fn here(&self) -> Option<&Node> {
        self.here.get()
    }

    /// Says which node and world these are of; the first ones count.
    pub(crate) fn is_of(&self, node: &Node, world: &World) {
        let _known = self.here.set(node.clone());
        let _known = self.world.set(WeakWorld::new(world));
    }

    /// Has the jobs that were opened last hear of the begins of runs.
    pub(crate) fn tell_begins(&self, tell: impl Fn(&Work, Time) + Send + Sync + 'static) {
        self.begins.0.lock().replace(Arc::new(tell));
    }

    /// Tells the jobs that a run has begun.
    pub(crate) fn began(&self, work: &Work, at: Time) {
        let tell = self.begins.0.lock().clone();
        tell.into_iter().for_each(|tell| tell(work, at));
    }

    /// The world that runs them, once its jobs were opened.
    pub(crate) fn world(&self) -> Option<World> {
        self.world.get().and_then(WeakWorld::upgrade)
    }

    /// The sender of notifications.
    pub(crate) fn notifier(&self) -> Result<&Arc<dyn Notifier>, String> {
        self.notifier.as_ref().ok_or_else(|| "nothing sends notifications here".to_owned())
    }

    /// The output of an attempt that is under way.
    pub(crate) fn live(&self, key: &str) -> LiveOutput {
        self.live.of(key)
    }

    /// The output of an attempt that is under way on another node.
    pub(crate) fn live_elsewhere(&self, key: &str) -> (LiveOutput, Option<Mirror>) {
        self.live.copy_of(key)
    }

    /// Checks notifications of a job, or of all.
    pub(crate) fn check_notify(&self, list: &[Notify]) -> Result<(), String> {
        for notify in list {
            self.notifier()?.check(notify)?;
        }
        Ok(())
    }

    /// Runs that are under way at once, at most; further ones wait for a place. At least 1.
    #[must_use]
    pub fn runs_max(mut self, runs: u32) -> Self {
        self.runs_max = runs.max(1);
        self
    }

    /// Looks whether each executor can work, all at once: its name, and what it says. Blocks for
    /// seconds at most. Without `outside` those that would start a process are as the last look at
    /// them has found; nothing if there was none.
    pub fn health(&self, outside: bool) -> Vec<(String, Option<Result<String, String>>)> {
        std::thread::scope(|scope| {
            let look = |(name, executor): (&String, &Arc<dyn Executor>)| {
                let executor = Arc::clone(executor);
                let is_looked_at = outside || !executor.looks_outside();
                (name.clone(), is_looked_at.then(|| scope.spawn(move || executor.health())))
            };
            let looks: Vec<_> = self.executors.iter().map(look).collect();
            let ended = looks.into_iter().map(|(name, look)| {
                let Some(look) = look else {
                    let known = self.looked.lock().get(&name).cloned();
                    return (name, known);
                };
                let said = look.join().unwrap_or_else(|_| Err("its code has panicked".to_owned()));
                self.looked.lock().insert(name.clone(), said.clone());
                (name, Some(said))
            });
            ended.collect()
        })
    }

    pub(crate) fn places(&self) -> u32 {
        self.runs_max
    }

    /// One by its name; the error names those that there are.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<dyn Executor>, String> {
        self.executors.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.executors.keys().map(String::as_str).collect();
            let known = known.join(", ");
            match self.absent.get(name) {
                Some(why) => {
                    format!("the executor «{name}» is not here: {why}; there are: {known}")
                }
                None => format!("there is no executor «{name}» here; there are: {known}"),
            }
        })
    }

    pub(crate) fn check_processors(
        &self,
        wanted: &BTreeMap<String, Settings>,
    ) -> Result<(), String> {
        processor::check(&self.processors, wanted)
    }

    pub(crate) fn process(
        &self,
        work: &Work,
        done: &mut Done,
        started_at: Time,
        ended_at: Time,
    ) -> Vec<String> {
        processor::process(&self.processors, work, done, started_at, ended_at)
    }
}
