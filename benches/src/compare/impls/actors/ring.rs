//! One message round a ring of typed actors, or to and fro between two.

use turnwheel::actors::{Actor, Address, Context, Handler};

use super::{sent, takes, Actors, Finish};
use crate::compare::patterns::Load;
use crate::compare::plan::Run;
use crate::compare::trial::{work, Collector, Measured};
use crate::error::BenchError;

/// One station of a ring; two of them play ping-pong.
struct Station {
    next: Option<Address<Station>>,
    /// Of two: it answers to the address in the message, if there is one.
    is_pair: bool,
    count: u64,
    work: u32,
    collector: Collector,
}

struct Join(Address<Station>);
struct Token<K: Load>(u64, K::Of<Address<Station>>);

takes! { Station:
    Join(next: Address<Station>) => |me, _cx| me.next = Some(next);
    Token<K>(left: u64, load: K::Of<Address<Station>>) => |me, cx| me.token::<K>(left, load, cx);
    Finish() => |me, _cx| me.finish();
}

impl Station {
    #[inline]
    fn token<K: Load>(
        &mut self,
        left: u64,
        load: K::Of<Address<Self>>,
        cx: &mut Context<'_, Self>,
    ) {
        work(self.work);
        self.count += 1;
        let sender = K::sender(&load).filter(|_| self.is_pair);
        match sender.or(self.next.as_ref()) {
            Some(next) if left > 0 => {
                sent(next.tell(Token::<K>(left - 1, K::of(0, || cx.myself()))));
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

impl Actors {
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
            sent(station.tell(Join(next)));
        }
        let hops = run.messages - 1;
        let start = |all: &Vec<Address<Station>>| {
            // As from the last: the token comes round to it.
            let last = || all[all.len() - 1].clone();
            sent(all[0].tell(Token::<K>(hops, K::of(0, last))));
        };
        let finish = |all: &Vec<Address<Station>>| {
            all.iter().for_each(|one| sent(one.tell(Finish())));
        };
        self.time(run, collector, stations, start, finish)
    }
}
