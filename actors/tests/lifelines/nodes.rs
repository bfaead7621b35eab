//! Actors that log their events, and fail on request.

use std::error::Error;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::{
    Actor, Address, AsyncContext, AsyncHandler, Context, Directive, Exit, Handler, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Failure;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

pub(crate) const SEEDS: u64 = 20;
pub(crate) const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    pub(crate) fn add(&self, entry: String) {
        self.0.lock().push(entry);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[derive(Debug)]
pub(crate) struct OnPurpose;

impl fmt::Display for OnPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on purpose")
    }
}

impl Error for OnPurpose {}

/// The fault of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    StartError,
    StartPanic,
    CloseError,
    ClosePanic,
    EndPanic,
    PolicyPanic,
    /// The closing hook waits for a completion that never comes.
    CloseHang,
}

pub(crate) struct Node {
    name: String,
    journal: Journal,
    fault: Fault,
    directive: Directive,
    /// The children that it makes in its starting hook.
    brood: Vec<&'static str>,
}

impl Node {
    pub(crate) fn new(name: &str, journal: &Journal) -> Self {
        Self {
            name: name.to_owned(),
            journal: journal.clone(),
            fault: Fault::None,
            directive: Directive::Restart,
            brood: Vec::new(),
        }
    }

    pub(crate) fn fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    pub(crate) fn brood(self, brood: &[&'static str]) -> Self {
        Self { brood: brood.to_vec(), ..self }
    }

    fn note(&self, what: &str) {
        self.journal.add(format!("{what} {}", self.name));
    }
}

impl Actor for Node {
    type Error = OnPurpose;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        assert!(self.fault != Fault::StartPanic, "start");
        for name in &self.brood {
            let child = Node::new(name, &self.journal);
            cx.spawn_child(child).map_err(|_| OnPurpose)?;
        }
        self.note("start");
        if self.fault == Fault::StartError {
            return Err(OnPurpose);
        }
        Ok(())
    }

    fn closing(&mut self, cx: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        assert!(self.fault != Fault::ClosePanic, "close");
        self.note("closing");
        if self.fault == Fault::CloseHang {
            cx.pipe(pending::<()>(), |()| Note(0));
        }
        if self.fault == Fault::CloseError {
            return Err(OnPurpose);
        }
        Ok(())
    }

    fn ended(&mut self, exit: &Exit) {
        assert!(self.fault != Fault::EndPanic, "end");
        self.note(if exit.is_failure() { "failed" } else { "closed" });
    }

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        assert!(self.fault != Fault::PolicyPanic, "policy");
        self.directive
    }
}

pub(crate) struct Note(pub(crate) u32);
pub(crate) struct Panic;
pub(crate) struct Hang;
pub(crate) struct Told(pub(crate) &'static str, pub(crate) Exit);
/// Watches an actor and says so under a name.
pub(crate) struct WatchIt(pub(crate) &'static str, pub(crate) Address<Node>);

impl Handler<Note> for Node {
    type Reply = ();

    fn handle(&mut self, Note(number): Note, _: &mut Context<'_, Self>) {
        self.note(&number.to_string());
    }
}

impl Handler<Panic> for Node {
    type Reply = ();

    fn handle(&mut self, _: Panic, _: &mut Context<'_, Self>) {
        panic!("on purpose");
    }
}

impl AsyncHandler<Hang> for Node {
    type Reply = ();

    async fn handle(&mut self, _: Hang, _: AsyncContext<Self>) {
        pending::<()>().await;
    }
}

impl Handler<Told> for Node {
    type Reply = ();

    fn handle(&mut self, Told(name, exit): Told, _: &mut Context<'_, Self>) {
        self.note(&format!("{name} {}:", if exit.is_failure() { "failed" } else { "closed" }));
    }
}

impl Handler<WatchIt> for Node {
    type Reply = ();

    fn handle(&mut self, WatchIt(name, other): WatchIt, cx: &mut Context<'_, Self>) {
        cx.watch(&other, move |exit| Told(name, exit));
    }
}

pub(crate) struct Scene {
    pub(crate) sim: Sim,
    pub(crate) system: System,
    pub(crate) journal: Journal,
}

impl Scene {
    pub(crate) fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let system = System::new(&sim.group("cpu"));
        Self { sim, system, journal: Journal::default() }
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        Node::new(name, &self.journal)
    }

    pub(crate) fn spawn(&self, node: Node) -> Address<Node> {
        let spawned = self.system.spawn(node);
        let node = spawned.expect("the group is open");
        self.sim.run_until_idle();
        node
    }
}
