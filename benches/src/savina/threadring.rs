//! One token round a ring. Known: the hops, and who holds it at the end.

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

const ACTORS: u64 = 100;

struct Station {
    index: u64,
    hops: u64,
    next: Option<Task<Station>>,
    done: Done<u64>,
}

impl Station {
    fn token(&mut self, left: u64) {
        if left == 0 {
            self.done.tell(self.index);
            return;
        }
        self.hops += 1;
        if let Some(next) = &self.next {
            sent(next.submit(move |next, _| next.token(left - 1)));
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let hops = size.pick(1_000, 2_000_000);
    let (done, waiting) = done();
    let station = |index| spawn(group, Station { index, hops: 0, next: None, done: done.clone() });
    let stations = (0..ACTORS).map(station).collect::<Result<Vec<_>, _>>()?;
    for (at, station) in stations.iter().enumerate() {
        let next = stations[(at + 1) % stations.len()].clone();
        submit(station, move |station, _| station.next = Some(next))?;
    }
    submit(&stations[0], move |station, _| station.token(hops))?;
    check("threadring: last holder", waiting.get("threadring")?, hops % ACTORS)?;
    let mut made = 0;
    for station in &stations {
        made += crate::load::fetch(station, |station| {
            station.next = None;
            station.hops
        })?;
    }
    check("threadring: hops", made, hops)?;
    Ok(Outcome::new(hops))
}
