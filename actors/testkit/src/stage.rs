//! The stage of a test: a simulation with a system of actors.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::{Actor, Address, Ask, DeadLetter, System};
use turnwheel_runtime::sim::{Leak, Sim, Stuck};
use turnwheel_runtime::Group;

/// Virtual time that [`Stage::wait`] lets pass: longer than every default limit of this crate,
/// short enough that a test with a timer of a millisecond ends.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Dead letters that are kept: a test looks at a few, and a flood must not fill the memory.
const DEAD_LETTERS_MAX: usize = 10_000;

/// The least that time moves.
const TICK: Duration = Duration::from_nanos(1);

/// The name of the group that a stage runs its actors in.
const GROUP: &str = "stage";

/// A simulation with a system of actors: one thread, virtual time, every choice made by a seed.
///
/// Actors run only in calls of its methods. Equal seeds give equal runs. It is for tests: errors of
/// the test itself panic, with the caller's line.
///
/// ```
/// use std::time::Duration;
/// use turnwheel_actors_testkit::Stage;
/// use turnwheel_actors::{messages, Actor};
///
/// #[derive(Actor)]
/// struct Counter(u64);
///
/// #[messages]
/// impl Counter {
///     #[message]
///     fn add(&mut self, by: u64) -> u64 {
///         self.0 += by;
///         self.0
///     }
/// }
///
/// let stage = Stage::new(7);
/// let counter = stage.spawn(Counter(0));
/// counter.tell_after(Duration::from_secs(3600), Add { by: 2 }).expect("room for a timer");
/// assert_eq!(stage.answer(counter.add(1)), 1);
/// stage.advance(Duration::from_secs(3600));
/// assert_eq!(stage.answer(counter.add(1)), 4);
/// drop(counter);
/// stage.assert_empty();
/// ```
#[derive(Debug)]
pub struct Stage<'a> {
    sim: Place<'a>,
    system: System,
    letters: Arc<Mutex<Vec<DeadLetter>>>,
    /// The tasks of probes, which do not count as left over.
    probes: Mutex<Vec<u64>>,
}

/// A simulation owned by the stage, or borrowed.
#[derive(Debug)]
enum Place<'a> {
    Own(Sim),
    Others(&'a Sim),
}

impl Stage<'static> {
    /// A stage whose random choices come from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::over(Place::Own(Sim::new(seed)))
    }

    /// A stage without random choices: actors run in the order in which they became ready.
    #[must_use]
    pub fn fifo() -> Self {
        Self::over(Place::Own(Sim::fifo()))
    }
}

impl<'a> Stage<'a> {
    /// A stage in a simulation made elsewhere: with another number of workers, with faults, or one
    /// of [`check`](super::check).
    #[must_use]
    pub fn on(sim: &'a Sim) -> Self {
        Self::over(Place::Others(sim))
    }

    fn over(sim: Place<'a>) -> Self {
        let group = match &sim {
            Place::Own(sim) => sim.group(GROUP),
            Place::Others(sim) => sim.group(GROUP),
        };
        let letters = Arc::<Mutex<Vec<_>>>::default();
        let kept = Arc::clone(&letters);
        let keep = move |letter: &DeadLetter| {
            let mut kept = kept.lock();
            if kept.len() < DEAD_LETTERS_MAX {
                kept.push(letter.clone());
            }
        };
        let system = System::builder(&group).on_dead_letter(keep).build();
        Self { sim, system, letters, probes: Mutex::default() }
    }

    /// The simulation: for faults, recorded events, further groups.
    pub fn sim(&self) -> &Sim {
        match &self.sim {
            Place::Own(sim) => sim,
            Place::Others(sim) => sim,
        }
    }

    /// The system that its actors live in.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The group that its actors run in.
    pub fn group(&self) -> &Group {
        self.system.group()
    }

    /// Virtual time since the simulation was made.
    pub fn now(&self) -> Duration {
        self.sim().now()
    }

    /// Spawns an actor. For an actor with options, or one that may be refused: [`System::actor`].
    ///
    /// # Panics
    ///
    /// If the group shuts down.
    #[track_caller]
    pub fn spawn<A: Actor>(&self, actor: A) -> Address<A> {
        match self.system.spawn(actor) {
            Ok(address) => address,
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs until nothing is left to do at the present time. Returns the number of turns.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn run(&self) -> usize {
        self.sim().run_until_idle()
    }

    /// Lets time pass, and fires due timers. Returns the number of turns.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn advance(&self, time: Duration) -> usize {
        self.sim().advance(time)
    }

    /// Runs until the future is done, and lets up to [`PATIENCE`] pass for it.
    ///
    /// # Errors
    ///
    /// [`Stuck`] if everything is idle for good, or the time is over; it lists the tasks that are
    /// left.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn wait<F: Future>(&self, future: F) -> Result<F::Output, Stuck> {
        self.wait_within(future, PATIENCE)
    }

    /// As [`Stage::wait`] with another limit; with zero, at the present time only.
    ///
    /// # Errors
    ///
    /// As [`Stage::wait`].
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn wait_within<F: Future>(&self, future: F, limit: Duration) -> Result<F::Output, Stuck> {
        let sim = self.sim();
        let end = sim.now().saturating_add(limit);
        let mut future = pin!(future);
        loop {
            let stuck = match sim.block_on(future.as_mut()) {
                Ok(output) => return Ok(output),
                Err(stuck) => stuck,
            };
            match stuck.left.next.filter(|next| *next <= end) {
                // The place of a cancelled timer may lie in the past.
                Some(next) => sim.clock().advance(next.saturating_sub(sim.now()).max(TICK)),
                None => {
                    sim.clock().advance(end.saturating_sub(sim.now()));
                    return Err(stuck);
                }
            }
        }
    }

    /// Waits for the answer of a call that must succeed. For a call that may fail: [`Stage::wait`].
    ///
    /// # Panics
    ///
    /// If there is no answer; the panic has the reason. And as [`Sim::run_until_idle`].
    #[track_caller]
    pub fn answer<M, R>(&self, ask: Ask<M, R>) -> R {
        match self.wait(ask) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => panic!("no answer to a `{}`: {error}", std::any::type_name::<M>()),
            Err(stuck) => panic!("no answer to a `{}`: {stuck}", std::any::type_name::<M>()),
        }
    }

    /// The messages that no actor handled, so far; at most the first ten thousand.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.letters.lock().clone()
    }

    /// Runs until idle; returns the live tasks, without those of probes.
    ///
    /// # Panics
    ///
    /// As [`Sim::run_until_idle`].
    pub fn left(&self) -> Vec<Leak> {
        self.run();
        let probes = self.probes.lock();
        self.sim().leaks().into_iter().filter(|leak| !probes.contains(&leak.id)).collect()
    }

    /// Runs until idle and checks that no actor lives any more, except probes: all addresses are
    /// dropped, children closed, and no future waits for an event that never happens. Entities live
    /// until they are idle, and so does their collector: let their idle time pass before.
    ///
    /// # Panics
    ///
    /// If an actor lives; the panic names all. And as [`Sim::run_until_idle`].
    #[track_caller]
    pub fn assert_empty(&self) {
        let left: Vec<_> = self.left().iter().map(ToString::to_string).collect();
        assert!(left.is_empty(), "actors are left: {}", left.join("; "));
    }

    /// Checks that no handler and no hook has failed.
    ///
    /// # Panics
    ///
    /// If one has; the message names all.
    #[track_caller]
    pub fn assert_no_failures(&self) {
        self.sim().assert_no_failures();
    }

    pub(crate) fn add_probe(&self, task: u64) {
        self.probes.lock().push(task);
    }
}
