//! One message round a ring of tasks, or to and fro between two.

use turnwheel_runtime::{Context, Task};

use super::Turnwheel;
use crate::compare::patterns::Load;
use crate::compare::plan::Run;
use crate::compare::trial::{work, Collector, Measured};
use crate::error::BenchError;
use crate::load::sent;

/// One station of a ring; two of them play ping-pong.
struct Station {
    next: Option<Task<Station>>,
    /// Of two: it answers to the task in the message, if there is one.
    is_pair: bool,
    count: u64,
    work: u32,
    collector: Collector,
}

impl Station {
    #[inline]
    fn token<K: Load>(&mut self, left: u64, load: K::Of<Task<Self>>, cx: &Context<'_, Self>) {
        work(self.work);
        self.count += 1;
        let sender = K::sender(&load).filter(|_| self.is_pair);
        match sender.or(self.next.as_ref()) {
            Some(next) if left > 0 => {
                let load = K::of(0, || cx.task());
                sent(next.submit(move |next, cx| next.token::<K>(left - 1, load, cx)));
            }
            _ => self.collector.report(0),
        }
    }

    /// Tells its share and lets go of its neighbour: a ring of handles would keep itself alive.
    fn finish(&mut self) {
        self.collector.add(self.count);
        self.next = None;
    }
}

impl Turnwheel {
    pub(super) fn ring<K: Load>(&self, run: &Run, actors: u64) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let station = || Station {
            next: None,
            is_pair: actors == 2,
            count: 0,
            work: run.work,
            collector: collector.clone(),
        };
        let stations: Vec<_> = (0..actors).map(|_| self.spawn(station())).collect();
        for (at, station) in stations.iter().enumerate() {
            let next = stations[(at + 1) % stations.len()].clone();
            sent(station.submit(move |station, _| station.next = Some(next)));
        }
        let hops = run.messages - 1;
        let start = |all: &Vec<Task<Station>>| {
            // As from the last: the token comes round to it.
            let load = K::of(0, || all[all.len() - 1].clone());
            sent(all[0].submit(move |one, cx| one.token::<K>(hops, load, cx)));
        };
        let finish = |all: &Vec<Task<Station>>| {
            all.iter().for_each(|one| sent(one.submit(|one, _| one.finish())));
        };
        self.time(run, collector, stations, start, finish)
    }
}
