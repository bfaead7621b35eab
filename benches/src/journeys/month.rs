//! Do users of a month walk only as the definition says, and has each message its key once? In
//! simulation: the clock is the only thing that is not real.

use std::collections::HashSet;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use turnwheel::journeys::{
    Channels, Definition, Event, Journeys, JourneysOptions, Message, UserView,
};
use turnwheel_engine::{MemoryStore, World};
use turnwheel_runtime::sim::Sim;

use super::stage::PLATFORM;
use super::Options;
use crate::compare::trial::Random;
use crate::engine::{failed, row, SceneRow};
use crate::error::BenchError;

const DAYS: u64 = 30;
const HOUR: Duration = Duration::from_secs(3_600);
/// Events of a user in the month, on average.
const EVENTS: u64 = 5;
/// Hours after which the journeys are opened anew over the same store.
const OUTAGE: u64 = 241;

const TEXT: &str = "
journey: month
platform: shop
every: P8D
elements:
  joined: { start: { on: joined }, then: hello }
  hello: { send: { channel: note }, then: first }
  first:
    wait: { on: bought, for: P3D }
    lines:
      - { if: .event.data > 60, then: thanks }
      - { if: .event.data > 20, then: second }
    otherwise: remind
  remind: { send: { channel: note }, then: second }
  thanks: { send: { channel: note }, then: fork }
  fork: { choose: first, lines: [{ if: .event.data > 80, then: second }], otherwise: end }
  second: { wait: { on: bought, for: P7D }, lines: [{ if: .event.data > 10, then: end }], otherwise: bye }
  bye: { send: { channel: note }, then: end }
";

/// Keys without an order need no hash of their own.
#[derive(Clone, Default)]
struct Plain;

impl BuildHasher for Plain {
    type Hasher = Number;

    fn build_hasher(&self) -> Number {
        Number(0)
    }
}

#[derive(Default)]
struct Number(u64);

impl Hasher for Number {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Messages as their receiver has them.
#[derive(Default)]
struct Received {
    keys: HashSet<u64, Plain>,
    repeated: u64,
    /// By user.
    count: Vec<u16>,
}

impl Received {
    fn take(&mut self, message: &Message) {
        let mut hasher = DefaultHasher::new();
        message.key.hash(&mut hasher);
        self.repeated += u64::from(!self.keys.insert(hasher.finish()));
        let user = message.user.parse::<usize>().unwrap_or(usize::MAX);
        if let Some(count) = self.count.get_mut(user) {
            *count += 1;
        }
    }
}

/// Numbers of a month.
#[derive(Debug, Default)]
struct Month {
    events: u64,
    passes: u64,
    moves: u64,
    messages: u64,
    violations: u64,
}

/// Messages that the paths of a user have made; nothing if a path is none of the definition.
fn checked(definition: &Definition, user: &UserView) -> Option<(u64, u64, u16)> {
    let element = |id: &str| definition.elements.iter().find(|it| it.id.to_string() == id);
    let (mut passes, mut moves, mut messages) = (0, 0, 0);
    for pass in user.passes.iter().chain(&user.ended) {
        let (mut waits, mut place) = (HashSet::new(), None::<String>);
        for moved in &pass.moves {
            moves += 1;
            let first = moved.path.first()?;
            if moved.cause == "unmatched" {
                continue;
            }
            let begins = match &place {
                None => element(first)?.kind.name() == "Start" && moved.wait.is_none(),
                Some(place) => place == first && waits.insert(moved.wait?),
            };
            let is_line = |pair: &[String]| {
                let next = element(&pair[0]).map(|it| it.outgoings.as_slice()).unwrap_or_default();
                next.iter().any(|id| id.to_string() == pair[1])
            };
            if !begins || !moved.path.windows(2).all(is_line) {
                return None;
            }
            let sends = |id: &&String| element(id).is_some_and(|it| it.channel().is_some());
            messages += moved.path.iter().filter(sends).count() as u16;
            place = moved.path.last().cloned();
        }
        let last = element(&place?)?.kind.name();
        let is_over = pass.ended.is_some();
        if last != if is_over { "End" } else { "Trigger" }
            || pass.waits.len() != usize::from(!is_over)
        {
            return None;
        }
        passes += 1;
    }
    Some((passes, moves, messages))
}

fn open(sim: &Sim, world: &World, received: &Arc<Mutex<Received>>) -> Result<Journeys, BenchError> {
    let received = Arc::clone(received);
    let note = move |message: &Message| {
        received.lock().expect("no panic before").take(message);
        Ok(())
    };
    let options = JourneysOptions::new(Channels::new().with_direct("note", note));
    let opened = sim.block_on(Journeys::open(world, &sim.group("journeys"), options));
    opened.map_err(|stuck| failed(&stuck))?.map_err(|error| failed(&error))
}

fn walk(users: u64, bar: &ProgressBar) -> Result<Month, BenchError> {
    let sim = Sim::builder().seed(users).build();
    let builder = World::builder().group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(MemoryStore::new()));
    let world = world.map_err(|stuck| failed(&stuck))?.map_err(|error| failed(&error))?;
    let count = vec![0; users as usize];
    let received = Arc::new(Mutex::new(Received { count, ..Received::default() }));
    let mut journeys = open(&sim, &world, &received)?;
    let put = sim.block_on(journeys.put(TEXT, "bench")).map_err(|stuck| failed(&stuck))?;
    put.map_err(|error| failed(&error))?;
    let (mut month, mut random) = (Month::default(), Random::new(11));
    let hours = DAYS * 24;
    for hour in 0..hours {
        bar.tick();
        if hour % OUTAGE == OUTAGE - 1 {
            journeys.end();
            sim.run_until_idle();
            journeys = open(&sim, &world, &received)?;
        }
        let events = users * EVENTS * (hour + 1) / hours - users * EVENTS * hour / hours;
        let asked: Vec<_> = (0..events)
            .map(|_| {
                month.events += 1;
                let kind = if random.below(3) == 0 { "joined" } else { "bought" };
                let (user, id) = (random.below(users), month.events);
                let event = Event::new(PLATFORM, user.to_string(), id.to_string(), kind);
                journeys.event(event.data(random.below(100).into()))
            })
            .collect();
        sim.run_until_idle();
        for asked in asked {
            let taken = sim.block_on(asked).map_err(|stuck| failed(&stuck))?;
            let taken = taken.map_err(|error| failed(&error))?;
            taken.map_err(|error| failed(&error))?;
        }
        sim.advance(HOUR);
        sim.run_until_idle();
    }
    let definition = Definition::read(TEXT, "month").map_err(|error| failed(&error))?;
    for number in 0..users {
        let asked = journeys.user(PLATFORM, &number.to_string());
        let user = sim.block_on(asked).map_err(|stuck| failed(&stuck))?;
        let user = user.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        let got = received.lock().expect("no panic before").count[number as usize];
        match checked(&definition, &user).filter(|(_, _, made)| *made == got) {
            Some((passes, moves, made)) => {
                month.passes += passes;
                month.moves += moves;
                month.messages += u64::from(made);
            }
            None => {
                month.violations += 1;
                bar.println(format!("{got} messages of {user:?}"));
            }
        }
    }
    month.violations += received.lock().expect("no panic before").repeated;
    Ok(month)
}

pub(super) fn month(options: &Options, bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let begin = Instant::now();
    let month = walk(options.users, bar)?;
    let workload = format!("month_{}_users", options.users);
    let row = |metric, value: u64| row(&workload, metric, value as f64);
    let seconds = begin.elapsed().as_secs();
    crate::error::check("users who walked as no definition says", month.violations, 0)?;
    Ok(vec![
        row("events", month.events),
        row("passes", month.passes),
        row("moves", month.moves),
        row("messages", month.messages),
        row("violations", month.violations),
        row("seconds", seconds),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_month_walk_as_the_definition_says() {
        let month = walk(300, &ProgressBar::hidden()).expect("it runs");
        assert_eq!((month.events, month.violations), (300 * EVENTS, 0), "{month:?}");
        assert!(month.passes > 100 && month.messages > month.passes, "{month:?}");
    }
}
