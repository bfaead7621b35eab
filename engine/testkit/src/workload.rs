//! What a crash interrupts: a world with its actions, and a client that uses it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_engine::action::Action;
use turnwheel_engine::plan::{Plan, PlanResult, PlanState, StepState};
use turnwheel_engine::store::Store;
use turnwheel_engine::{
    Delay, PlanError, PlanId, PlanView, StepId, TriggerError, TriggerOptions, Triggering, World,
    WorldBuilder,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Group;

/// How long a client waits before it asks again whether a step waits.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// After how long a client tries again what the store has refused, and how often in all: longer than
/// a store fails that does so for two minutes, one after the other.
const TRY_AGAIN: Duration = Duration::from_secs(1);
const TRIES: u32 = 200;

/// How long the answer to an order may take, also while the store fails: shorter than a store does
/// that fails for a minute.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// A world and a client that uses it, to be interrupted by crashes.
///
/// After a crash the world is opened again over what the store has kept, and the client is run again from
/// its beginning, as a real one would try again: so it must use idempotency keys for plans and ids for
/// events. Everything goes on in virtual time, and in one thread.
pub trait Workload {
    /// What it is called in reports.
    fn name(&self) -> &str;

    /// Adds the actions to a world.
    fn world(&self, builder: WorldBuilder) -> WorldBuilder;

    /// What the client does.
    fn client(&self, client: Client) -> impl Future<Output = Result<(), String>>;

    /// The store of the worlds, over the one that holds what is written. What fails is over both.
    fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store
    }

    /// How many worlds are over the store, each with the same actions.
    fn worlds(&self) -> usize {
        1
    }

    /// Whether a plan is where it has to come to at last.
    fn is_end(&self, plan: &Plan) -> bool {
        plan.state == PlanState::Stopped
    }

    /// Whether plans that are over may be removed while it runs.
    fn may_forget(&self) -> bool {
        false
    }

    /// Problems of the plans at the end of a run, beyond the checks of all workloads.
    ///
    /// # Errors
    ///
    /// The plans are not as they have to be.
    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        let _any = plans;
        Ok(())
    }

    /// How much virtual time a life of the world may take.
    fn patience(&self) -> Duration {
        Duration::from_secs(3_600)
    }
}

impl<W: Workload> Workload for &W {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn world(&self, builder: WorldBuilder) -> WorldBuilder {
        (**self).world(builder)
    }

    fn client(&self, client: Client) -> impl Future<Output = Result<(), String>> {
        (**self).client(client)
    }

    fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        (**self).store(store)
    }

    fn worlds(&self) -> usize {
        (**self).worlds()
    }

    fn is_end(&self, plan: &Plan) -> bool {
        (**self).is_end(plan)
    }

    fn may_forget(&self) -> bool {
        (**self).may_forget()
    }

    fn verdict(&self, plans: &[&Plan]) -> Result<(), String> {
        (**self).verdict(plans)
    }

    fn patience(&self) -> Duration {
        (**self).patience()
    }
}

/// The client of a workload: it remembers what was acknowledged to it.
#[derive(Clone)]
pub struct Client {
    world: World,
    worlds: Vec<World>,
    group: Group,
    acks: Arc<Mutex<Vec<Ack>>>,
    was_in_doubt: bool,
}

/// Something that the world has said to its client, and has to stand by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    /// A plan was taken.
    Triggered { key: String, plan: PlanId },
    /// An event was taken.
    Event { plan: PlanId, step: StepId, id: String },
    /// A plan was over.
    Finished { plan: PlanId, state: PlanState, result: PlanResult },
}

impl Ack {
    /// The plan that it is about.
    pub(super) fn plan(&self) -> PlanId {
        match self {
            Self::Triggered { plan, .. }
            | Self::Event { plan, .. }
            | Self::Finished { plan, .. } => *plan,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("acks", &self.acks.lock().len()).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(worlds: Vec<World>, group: Group, acks: Arc<Mutex<Vec<Ack>>>) -> Self {
        let world = worlds.first().expect("a run has a world").clone();
        Self { world, worlds, group, acks, was_in_doubt: false }
    }

    /// The same, after lives of which one may have ended with a wrong clock.
    pub(super) fn after_doubt(self, was_in_doubt: bool) -> Self {
        Self { was_in_doubt, ..self }
    }

    /// Whether an earlier life has ended while its clock was wrong, or within the two minutes after
    /// that: due times that it has stored may be wrong by as much.
    pub fn was_left_in_doubt(&self) -> bool {
        self.was_in_doubt
    }

    /// The world. What it acknowledges without the client is not checked by itself.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The same client, with another one of the [worlds](Workload::worlds), counted from 0.
    ///
    /// # Panics
    ///
    /// There is no such world.
    #[must_use]
    pub fn of_world(&self, number: usize) -> Self {
        let world = self.worlds.get(number).expect("the workload has so many worlds").clone();
        Self { world, ..self.clone() }
    }

    /// The virtual time since the begin of this life. Clocks that are set do not change it.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.group.now_ns())
    }

    /// The answer to something that is asked of a world: also a store that fails for long must not
    /// hold it up.
    async fn answer<T>(&self, asked: impl Future<Output = T>) -> Result<T, String> {
        let begun = self.now();
        let answer = asked.await;
        let took = self.now() - begun;
        match took > ANSWER_MAX {
            true => Err(format!("an answer has taken {took:?}")),
            false => Ok(answer),
        }
    }

    /// Triggers a plan, or finds the one that was triggered with this key.
    ///
    /// # Errors
    ///
    /// The plan was refused.
    pub async fn trigger<A: Action>(&self, key: &str, input: A::Input) -> Result<PlanId, String>
    where
        A::Input: Clone,
    {
        self.begin(key, || self.world.trigger_once::<A>(key, input.clone())).await
    }

    /// Waits until the plan is stopped or paused.
    ///
    /// # Errors
    ///
    /// There is no such plan, or it cannot be read.
    pub async fn finished(&self, plan: PlanId) -> Result<PlanView, String> {
        let mut tries = 0;
        let view = loop {
            tries += 1;
            match self.world.plan(plan).finished().await {
                Ok(view) => break view,
                Err(PlanError::Store(_)) if tries < TRIES => self.pause(TRY_AGAIN).await,
                Err(error) => return Err(error.to_string()),
            }
        };
        let (state, result) = (view.state, view.result());
        if state == PlanState::Stopped {
            self.acks.lock().push(Ack::Finished { plan, state, result });
        }
        Ok(view)
    }

    /// Sends an event, once, to the run step of the first action of this type, as soon as that is
    /// suspended; does nothing if it has ended.
    ///
    /// # Errors
    ///
    /// There is no such step, or the world refuses the event.
    pub async fn event<A: Action>(
        &self,
        plan: PlanId,
        id: &str,
        event: &impl serde::Serialize,
    ) -> Result<(), String> {
        let mut tries = 0;
        let step = loop {
            let view = match self.answer(self.world.plan(plan).view()).await? {
                Ok(view) => view,
                Err(PlanError::Store(_)) if tries < TRIES => {
                    tries += 1;
                    self.pause(TRY_AGAIN).await;
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            let step = view.run_step::<A>().ok_or("the plan has no such step")?;
            let step = match step.state {
                StepState::Suspended => step.id,
                StepState::Pending | StepState::Running | StepState::Retrying => {
                    self.pause(ASK_AGAIN).await;
                    continue;
                }
                _ => return Ok(()),
            };
            tries += 1;
            let taken = self.answer(self.world.event(plan, step, Some(id), event)).await?;
            match taken.map_err(|failure| failure.to_string())? {
                Ok(()) => break step,
                Err(PlanError::Store(_)) if tries < TRIES => self.pause(TRY_AGAIN).await,
                Err(error) => return Err(error.to_string()),
            }
        };
        self.acks.lock().push(Ack::Event { plan, step, id: id.to_owned() });
        Ok(())
    }

    /// Begins a plan with this key, however it is begun: by a trigger, with a delay, as a flow.
    ///
    /// # Errors
    ///
    /// The plan was refused.
    pub async fn begin(
        &self,
        key: &str,
        mut begin: impl FnMut() -> Triggering,
    ) -> Result<PlanId, String> {
        let mut tries = 0;
        let plan = loop {
            tries += 1;
            match self.answer(begin()).await? {
                Ok(plan) => break plan.id(),
                Err(TriggerError::Store(_)) if tries < TRIES => self.pause(TRY_AGAIN).await,
                Err(error) => return Err(error.to_string()),
            }
        };
        self.acks.lock().push(Ack::Triggered { key: key.to_owned(), plan });
        Ok(plan)
    }

    /// Delays a plan, or finds the one that was delayed with this key.
    ///
    /// # Errors
    ///
    /// The plan was refused.
    pub async fn delay<A: Action>(
        &self,
        key: &str,
        delay: Delay,
        input: A::Input,
    ) -> Result<PlanId, String>
    where
        A::Input: Clone,
    {
        let options = TriggerOptions::new().key(key);
        let begin = || self.world.delay_with::<A>(options.clone(), delay.clone(), input.clone());
        self.begin(key, begin).await
    }

    /// Cancels a plan, unless it is over or being cancelled.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub async fn cancel(&self, plan: PlanId) -> Result<(), String> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.answer(self.world.plan(plan).cancel("the client")).await? {
                Ok(Ok(()) | Err(PlanError::State { .. })) => return Ok(()),
                Ok(Err(PlanError::Store(_))) if tries < TRIES => self.pause(TRY_AGAIN).await,
                Ok(Err(error)) => return Err(error.to_string()),
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }

    /// Asks for something again and again until it is done: it must do no harm twice.
    ///
    /// # Errors
    ///
    /// It is refused for too long.
    pub async fn insist<T, E: fmt::Display, F>(
        &self,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, String>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            match ask().await {
                Ok(done) => return Ok(done),
                Err(_) if tries < TRIES => self.pause(TRY_AGAIN).await,
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Lets virtual time pass.
    ///
    /// # Panics
    ///
    /// The simulation takes no more timers.
    pub async fn pause(&self, time: Duration) {
        let (passed, pause) = completion();
        let task = self.group.spawn(()).expect("a simulation takes tasks");
        let armed = task.submit(move |(), cx| {
            let timer = cx.after(time, move |(), cx| {
                let _nobody_waits = passed.complete(());
                cx.close();
            });
            timer.expect("a simulation has room for a timer");
        });
        armed.expect("a new task takes a job");
        pause.await.expect("the timer fires before its task ends");
    }
}
