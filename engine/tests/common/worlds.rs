//! Several worlds over one store, in a simulation, with a net between them that can be cut.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use turnwheel_engine::connect::{Answer, ConnectError, Connector, Desk, Envelope, Local};
use turnwheel_engine::{PlanHandle, PlanView, SharedStore, Store, World, WorldBuilder};
use turnwheel_runtime::completion::{completion, InlineExecutor};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completer, Completion};

use super::{Piece, Play, Script};

/// Carries requests, unless one of the two worlds is cut off: then nothing comes of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Net {
    local: Arc<Local>,
    cut: Arc<Mutex<HashSet<u64>>>,
    lost: Arc<Mutex<Vec<Lost>>>,
    log: Arc<Mutex<Vec<String>>>,
    held: Arc<Mutex<Held>>,
}

/// A request that comes late.
#[derive(Debug, Default)]
struct Held {
    /// The next one to this world, with this name.
    next: Option<(u64, &'static str)>,
    late: Option<(Envelope, Lost)>,
}

/// The completer of a request that nobody answers.
type Lost = Completer<Result<Answer, ConnectError>>;

impl Connector for Net {
    fn attach(&self, desk: Desk) {
        self.local.attach(desk);
    }

    fn detach(&self, world: u64) {
        self.local.detach(world);
    }

    fn send(&self, envelope: Envelope) -> Completion<Result<Answer, ConnectError>> {
        let Envelope { from, to, request } = envelope;
        self.log.lock().expect("no panic here").push(format!("{from} {to} {}", request.name()));
        let cut = self.cut.lock().expect("no panic here");
        if cut.contains(&from) || cut.contains(&to) {
            let (completer, never) = completion();
            self.lost.lock().expect("no panic here").push(completer);
            return never;
        }
        drop(cut);
        let mut held = self.held.lock().expect("no panic here");
        if held.next == Some((to, request.name())) {
            let (completer, answer) = completion();
            (held.next, held.late) = (None, Some((Envelope { from, to, request }, completer)));
            return answer;
        }
        drop(held);
        self.carry(Envelope { from, to, request })
    }
}

impl Net {
    fn carry(&self, envelope: Envelope) -> Completion<Result<Answer, ConnectError>> {
        let Envelope { from, to, request } = envelope;
        // What goes over the net are bytes.
        let bytes = request.to_bytes();
        let request =
            turnwheel_engine::connect::Request::from_bytes(&bytes).expect("its own bytes");
        let answer = self.local.send(Envelope { from, to, request });
        answer.map(|answer| {
            answer.map(|answer| Answer::from_bytes(&answer.to_bytes()).expect("its own bytes"))
        })
    }

    /// From now on nothing comes to this world, nor from it.
    pub(crate) fn cut(&self, world: &World) {
        self.cut.lock().expect("no panic here").insert(world.id());
    }

    /// This world is not cut off any more.
    pub(crate) fn join(&self, world: &World) {
        self.cut.lock().expect("no panic here").remove(&world.id());
    }

    pub(crate) fn heal(&self) {
        self.cut.lock().expect("no panic here").clear();
    }

    /// Holds the next request of this name to a world back until it is let go: later ones come
    /// before it.
    pub(crate) fn hold_next(&self, world: &World, name: &'static str) {
        self.held.lock().expect("no panic here").next = Some((world.id(), name));
    }

    /// Lets the request that is held back go on.
    pub(crate) fn let_go(&self) {
        let late = self.held.lock().expect("no panic here").late.take();
        let (envelope, completer) = late.expect("one is held back");
        let told = self.carry(envelope).then_on(InlineExecutor, move |outcome| {
            // The caller may have given up.
            let _gone = outcome.map(|answer| completer.complete(answer));
            Ok(())
        });
        told.detach();
    }

    /// The requests since the last call: from, to, what.
    pub(crate) fn carried(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().expect("no panic here"))
    }
}

/// Worlds over one store.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) net: Net,
    pub(crate) store: SharedStore,
}

impl Stage {
    pub(crate) fn over(store: impl Store) -> Self {
        Self::with_seed(store, 7)
    }

    pub(crate) fn with_seed(store: impl Store, seed: u64) -> Self {
        let (sim, net) = (Sim::new(seed), Net::default());
        let store = SharedStore::open_in(store, &sim.group("journal"), net.clone());
        Self { store: store.expect("it opens"), sim, net }
    }

    /// A world that runs plans, with a script of its own.
    pub(crate) fn executor(&self, name: &str) -> (World, Script) {
        self.executor_with(name, |_| {}, |builder| builder)
    }

    pub(crate) fn executor_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut Play),
        build: impl FnOnce(WorldBuilder) -> WorldBuilder,
    ) -> (World, Script) {
        let script = Script::default();
        let mut play = Play::new(&script);
        change(&mut play);
        let builder = World::builder().name(name).action(play).action(Piece);
        (self.join(name, build(builder)), script)
    }

    pub(crate) fn client(&self, name: &str) -> World {
        self.join(name, World::builder().name(name).client())
    }

    pub(crate) fn join(&self, name: &str, builder: WorldBuilder) -> World {
        let seed = name.bytes().map(u64::from).sum();
        let builder = builder.group(&self.sim.group(name)).seed(seed);
        self.passing(builder.join_later(&self.store)).expect("the world begins")
    }

    /// Waits, and lets time pass if that is needed.
    pub(crate) fn passing<F: std::future::Future>(&self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        loop {
            match self.sim.block_on(future.as_mut()) {
                Ok(output) => return output,
                Err(stuck) => {
                    assert!(self.sim.advance_to_next_timer(), "nothing will happen: {stuck}");
                }
            }
        }
    }

    pub(crate) fn perform(&self, world: &World, text: &str) -> PlanHandle {
        let triggering = world.trigger::<Piece>(text.to_owned());
        self.passing(triggering).expect("the plan is taken")
    }

    pub(crate) fn view(&self, plan: &PlanHandle) -> PlanView {
        self.sim.run_until_idle();
        self.passing(plan.view()).expect("the plan is there")
    }

    pub(crate) fn finished(&self, plan: &PlanHandle) -> PlanView {
        self.passing(plan.finished()).expect("the plan is there")
    }

    /// Says that a world is dead.
    pub(crate) fn invalidate(&self, by: &World, world: &World) -> bool {
        self.passing(by.invalidate(world.id())).expect("the store is there")
    }
}
