//! Several runtimes at once, their tasks, timers and messages chosen by seed: every message arrives
//! on the right thread, every timer fires as often as it should and never early, and the runtimes end
//! in any order.

use std::error::Error;
use std::sync::{mpsc, Arc};
use std::time::Duration;

use turnwheel_extras::Runtime;
use turnwheel_runtime::time::{Clock, ManualClock};
use turnwheel_runtime::{Cancelled, Late, Pinning, Task, Timer, TimerError, TimersFull};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);
const SEEDS: u64 = 20;
/// Firings of a recurring timer before it cancels itself.
const RECURRENCES: usize = 3;

/// A random number generator: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    /// From `least` to `most`.
    fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }
}

/// An event: the message or timer, and the thread on which it ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Message(usize),
    Timer(usize),
}

/// One task and the threads that may run it.
struct Actor {
    task: Task<Vec<Timer>>,
    threads: String,
}

struct World {
    random: Random,
    clock: ManualClock,
    runtimes: Vec<Runtime>,
    actors: Vec<Actor>,
    told: mpsc::Sender<Event>,
    expected: Vec<Event>,
    timers: usize,
}

/// Fails unless this runs on one of these threads, not before this time.
fn check(threads: &str, due_ns: u64, now_ns: u64) {
    let thread = std::thread::current().name().unwrap_or_default().to_owned();
    assert!(thread.starts_with(threads), "{thread} is none of {threads}");
    assert!(now_ns >= due_ns, "early by {} ns", due_ns - now_ns);
}

impl World {
    fn new(seed: u64, told: mpsc::Sender<Event>) -> Result<Self, Box<dyn Error>> {
        let mut random = Random(seed);
        let clock = ManualClock::new();
        let workers = random.between(1, 2);
        let first = Runtime::builder()
            .prefix("r0-")
            .cpu(move |group| group.workers(workers).pinning(Pinning::None))
            .io(|group| group.workers(1))
            .clock(Arc::new(clock.clone()))
            .build()?;
        let mut runtimes = vec![first];
        for number in 1..random.between(2, 4) {
            runtimes.push(runtimes[0].derive(&format!("r{number}-")).build()?);
        }
        let mut actors = Vec::new();
        for _ in 0..random.between(3, 8) {
            let runtime = &runtimes[random.below(runtimes.len())];
            let group = if random.below(2) == 0 { runtime.cpu() } else { runtime.io() };
            let task = group.spawn(Vec::new())?;
            actors.push(Actor { task, threads: format!("{}-", group.name()) });
        }
        let (expected, timers) = (Vec::new(), 0);
        Ok(Self { random, clock, runtimes, actors, told, expected, timers })
    }

    fn actor(&mut self) -> (Task<Vec<Timer>>, String) {
        let actor = &self.actors[self.random.below(self.actors.len())];
        (actor.task.clone(), actor.threads.clone())
    }

    /// From one task to another.
    fn message(&mut self, number: usize) -> Outcome {
        let ((from, _), (to, threads)) = (self.actor(), self.actor());
        let told = self.told.clone();
        self.expected.push(Event::Message(number));
        from.submit(move |_, _| {
            let sent = to.submit(move |_, _| {
                check(&threads, 0, 0);
                told.send(Event::Message(number)).expect("the test listens");
            });
            sent.expect("there is room");
        })?;
        Ok(())
    }

    fn one_shot(&mut self) -> Outcome {
        let (owner, threads) = self.actor();
        let delay = Duration::from_millis(self.random.between(1, 100) as u64);
        let due_ns = self.clock.now_ns() + delay.as_nanos() as u64;
        let number = self.timers;
        self.timers += 1;
        let told = self.told.clone();
        let armed = owner.call(move |timers, cx| {
            timers.push(cx.after(delay, move |_, cx| {
                check(&threads, due_ns, cx.now_ns());
                told.send(Event::Timer(number)).expect("the test listens");
            })?);
            Ok::<_, TimersFull>(timers.len() - 1)
        });
        let index = armed.wait()??;
        if self.random.below(3) > 0 {
            self.expected.push(Event::Timer(number));
            return Ok(());
        }
        // Cancelled at the request of a task that may live elsewhere, while the clock stands still.
        let (other, _) = self.actor();
        let asked = other.call(move |timers, cx| {
            if cx.task() == owner {
                return Err(timers[index].cancel());
            }
            Ok(owner.call(move |timers, _| timers[index].cancel()))
        });
        let met = match asked.wait()? {
            Ok(answer) => answer.wait()?,
            Err(met) => met,
        };
        assert_eq!(met, Cancelled::BeforeFiring);
        Ok(())
    }

    fn recurring(&mut self) -> Outcome {
        let (owner, threads) = self.actor();
        let period = Duration::from_millis(self.random.between(1, 30) as u64);
        let number = self.timers;
        self.timers += 1;
        self.expected.extend((0..RECURRENCES).map(|_| Event::Timer(number)));
        let start_ns = self.clock.now_ns();
        let told = self.told.clone();
        let armed = owner.call(move |timers, cx| {
            let index = timers.len();
            let mut fired = 0;
            let job = move |timers: &mut Vec<Timer>, cx: &mut turnwheel_runtime::Context<'_, _>| {
                fired += 1;
                check(&threads, start_ns + fired * period.as_nanos() as u64, cx.now_ns());
                told.send(Event::Timer(number)).expect("the test listens");
                if fired == RECURRENCES as u64 {
                    assert_eq!(timers[index].cancel(), Cancelled::WhileRunning);
                }
            };
            timers.push(cx.every(period, Late::Burst, job)?);
            Ok::<_, TimerError>(())
        });
        armed.wait()??;
        Ok(())
    }

    /// Ends tasks and runtimes in any order.
    fn end(mut self) -> Outcome {
        while !self.actors.is_empty() {
            let index = self.random.below(self.actors.len());
            self.actors.swap_remove(index).task.close().wait()?;
        }
        while !self.runtimes.is_empty() {
            let index = self.random.below(self.runtimes.len());
            assert!(self.runtimes.swap_remove(index).shutdown()?.is_clean());
        }
        Ok(())
    }
}

fn try_seed(seed: u64) -> Outcome {
    let (told, events) = mpsc::channel();
    let mut world = World::new(seed, told)?;
    let messages = world.random.between(50, 150);
    for number in 0..messages {
        world.message(number)?;
        if number % 10 == 0 {
            world.one_shot()?;
        }
        if number % 25 == 0 {
            world.recurring()?;
        }
    }
    let mut seen = Vec::new();
    // The latest is due 100 ms after it was armed.
    for _ in 0..20 {
        seen.extend(events.try_iter());
        let step = world.random.between(1, 10) as u64;
        world.clock.advance(Duration::from_millis(step));
    }
    world.clock.advance(Duration::from_millis(100));
    while seen.len() < world.expected.len() {
        seen.push(events.recv_timeout(PATIENCE)?);
    }
    world.clock.advance(Duration::from_secs(1));
    let mut expected = std::mem::take(&mut world.expected);
    world.end()?;
    seen.extend(events.try_iter());
    seen.sort();
    expected.sort();
    assert_eq!(seen, expected);
    Ok(())
}

#[test]
fn timers_and_messages_are_honoured_across_runtimes_at_random() -> Outcome {
    for seed in 0..SEEDS {
        try_seed(seed).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}
