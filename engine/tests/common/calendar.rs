//! Schedules in a theatre: clocks, requests, and what was launched.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use turnwheel_engine::schedule::{Occasion, Outcome, Schedule, ScheduleView, Schedules};
use turnwheel_engine::store::{Filter, PlanRow, Store};
use turnwheel_engine::{ScheduleError, Time, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Completion;

use super::{Piece, Play, Script, Theatre};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn time(text: &str) -> Time {
    let at: Timestamp = text.parse().expect("a time");
    Time(u64::try_from(at.as_microsecond()).expect("after 1970"))
}

pub(crate) fn text(time: Time) -> String {
    let us = i64::try_from(time.0).expect("before the year 9999");
    Timestamp::from_microsecond(us).expect("before the year 9999").to_string()
}

/// A theatre whose clock shows this time.
pub(crate) fn theatre_at(at: &str) -> Theatre {
    let theatre = Theatre::new();
    set_clock(&theatre.sim, at);
    theatre
}

pub(crate) fn set_clock(sim: &Sim, at: &str) {
    sim.set_wall(SystemTime::from(time(at)));
}

pub(crate) fn every(name: &str, period: Duration, piece: &str) -> Schedule {
    Schedule::every(name, period).action::<Piece>(&piece.to_owned()).expect("it is short")
}

/// Asks, and waits for the answer.
pub(crate) fn ask<T>(
    theatre: &Theatre,
    request: impl FnOnce(&Schedules<'_>) -> Completion<Result<T, ScheduleError>>,
) -> Result<T, ScheduleError> {
    let asked = request(&theatre.world.schedules());
    theatre.sim.block_on(asked).expect("it ends").expect("the world is there")
}

pub(crate) fn put(theatre: &Theatre, schedule: Schedule) -> ScheduleView {
    ask(theatre, |schedules| schedules.put(schedule)).expect("the schedule is taken")
}

pub(crate) fn get(theatre: &Theatre, name: &str) -> ScheduleView {
    ask(theatre, |schedules| schedules.get(name)).expect("the schedule is there")
}

pub(crate) fn plans(theatre: &Theatre) -> Vec<PlanRow> {
    let listed = theatre.world.list(Filter { limit: 100_000, ..Filter::default() });
    let mut plans = theatre.sim.block_on(listed).expect("it ends").expect("the store is there");
    plans.reverse();
    plans
}

/// The launches of a schedule: planned time, outcome, and occasion if it is not the time itself.
pub(crate) fn launches(view: &ScheduleView) -> Vec<String> {
    let line = |launch: &turnwheel_engine::schedule::Launch| {
        let outcome = match &launch.outcome {
            Outcome::Launched(_) => "launched",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "failed",
        };
        let planned = text(launch.planned);
        let occasion = match launch.occasion {
            Occasion::OnTime => "",
            Occasion::CaughtUp => " late",
            Occasion::Backfill => " again",
            Occasion::ByHand(_) => " by hand",
        };
        format!("{} {outcome}{occasion}", &planned[11..16])
    };
    view.history.iter().map(line).collect()
}

/// A world over a store that may fail.
pub(crate) fn world_over(store: impl Store, script: &Script, wall: SystemTime) -> (Sim, World) {
    let sim = Sim::builder().seed(9).wall(wall).build();
    let play = Play::new(script);
    let builder = World::builder().action(play).action(Piece).seed(1);
    let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
    let world = sim.block_on(builder.open(store)).expect("it ends").expect("the world begins");
    (sim, world)
}
