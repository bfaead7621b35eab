//! A store with journeys, and events that are sent to them.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use indicatif::ProgressBar;
use turnwheel::journeys::{Asking, Channels, Event, Journeys, JourneysOptions, Message, Taken};
use turnwheel_engine::World;
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::Group;
use turnwheel_sqlite::SqliteStore;

use super::Options;
use crate::engine::failed;
use crate::error::BenchError;
use crate::load;

/// The platform of all users.
pub(super) const PLATFORM: &str = "shop";

/// A user waits without a message.
pub(super) const SILENT: &str = "silent";

/// A user gets a message and waits.
pub(super) const TOLD: &str = "told";

/// Two ways into a wait for the event «answer».
pub(super) fn definition(wait: &str) -> String {
    format!(
        "journey: first\nplatform: {PLATFORM}\nelements:\n  silent: {{ start: {{ on: {SILENT} }}, \
         then: wait }}\n  told: {{ start: {{ on: {TOLD} }}, then: send }}\n  send: {{ send: {{ \
         channel: none, with: {{ template: hello }} }}, then: wait }}\n  wait: {{ wait: {{ on: \
         answer, for: {wait} }}, then: end, otherwise: end }}\n"
    )
}

/// Another journey on the same platform.
pub(super) fn other(number: usize) -> String {
    definition("P1D")
        .replace("journey: first", &format!("journey: other-{number}"))
        .replace(SILENT, &format!("{SILENT}-{number}"))
        .replace(TOLD, &format!("{TOLD}-{number}"))
}

/// Id of a user, of 36 bytes and without an order, as the ids of most systems.
pub(super) fn user(number: u64) -> String {
    let mix = |seed: u64| {
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ number
    };
    let (high, low) = (mix(number + 1), mix(!number));
    let high = format!("{high:016x}");
    let low = format!("{low:016x}");
    format!("{}-{}-{}-{}-{}", &high[..8], &high[8..12], &high[12..], &low[..4], &low[4..])
}

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) journeys: Journeys,
    group: Group,
    at_once: usize,
}

impl Stage {
    /// Opens the store; at rest, nothing that is due is done.
    pub(super) fn open(
        path: &Path,
        options: &Options,
        is_at_rest: bool,
    ) -> Result<Self, BenchError> {
        let store = SqliteStore::new(path).sync(options.sync);
        let world = World::builder().build(store).map_err(|error| failed(&error))?;
        let group = load::group("journeys", options.desks)?;
        let nothing = |_: &Message| Ok(());
        let channels = Channels::new().with_direct("none", nothing).with_direct("log", nothing);
        let settings = JourneysOptions::new(channels).desks(options.desks);
        let settings = if is_at_rest { settings.at_rest() } else { settings };
        let opened = block_on(Journeys::open(&world, &group, settings));
        let journeys = opened.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        Ok(Self { world, journeys, group, at_once: options.at_once })
    }

    pub(super) fn put(&self, text: &str) -> Result<(), BenchError> {
        let put = block_on(self.journeys.put(text, "bench")).map_err(|error| failed(&error))?;
        put.map(drop).map_err(|error| failed(&error))
    }

    /// Sends an event of each of these users, many at once; returns how long each took to be
    /// durable, in microseconds, and how long all took, in seconds.
    pub(super) fn send(
        &self,
        users: impl Iterator<Item = u64>,
        (kind, id): (&str, &str),
        is_move: bool,
        bar: &ProgressBar,
    ) -> Result<(Vec<f64>, f64), BenchError> {
        let mut us = Vec::new();
        let mut under_way: VecDeque<(Instant, Asking<Taken>)> = VecDeque::new();
        let mut take = |(begin, asked): (Instant, Asking<Taken>)| {
            let taken = asked.wait().map_err(|error| failed(&error))?;
            let taken = taken.map_err(|error| failed(&error))?;
            us.push(begin.elapsed().as_secs_f64() * 1e6);
            crate::error::check("events that move a user", !taken.moved.is_empty(), is_move)
        };
        let begin = Instant::now();
        for number in users {
            if under_way.len() >= self.at_once {
                under_way.pop_front().map_or(Ok(()), &mut take)?;
            }
            let event = Event::new(PLATFORM, user(number), id, kind);
            under_way.push_back((Instant::now(), self.journeys.event(event)));
            if number % 1_024 == 0 {
                bar.tick();
            }
        }
        under_way.into_iter().try_for_each(take)?;
        Ok((us, begin.elapsed().as_secs_f64()))
    }

    pub(super) fn close(self) -> Result<(), BenchError> {
        self.journeys.end();
        self.world.shutdown().map_err(|error| failed(&error))?;
        self.group.shutdown().map_err(|error| failed(&error))?;
        Ok(())
    }
}
