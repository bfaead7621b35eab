//! Actors ping each other at random and wait for the answer. Known: the answers, and from whom.

use std::sync::Arc;

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

struct Actor {
    me: usize,
    peers: Arc<[Task<Actor>]>,
    random: Random,
    pinged: usize,
    pings_left: u64,
    pongs: u64,
    wrong: u64,
    done: Done<(u64, u64)>,
}

impl Actor {
    fn ping(&mut self) {
        if self.pings_left == 0 {
            self.done.tell((self.pongs, self.wrong));
            return;
        }
        self.pings_left -= 1;
        self.pinged = self.random.below(self.peers.len() as u64) as usize;
        let me = self.me;
        sent(self.peers[self.pinged].submit(move |peer, _| peer.answer(me)));
    }

    fn answer(&mut self, from: usize) {
        let me = self.me;
        sent(self.peers[from].submit(move |peer, _| peer.pong(me)));
    }

    fn pong(&mut self, from: usize) {
        self.pongs += 1;
        self.wrong += u64::from(from != self.pinged);
        self.ping();
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (actors, pings) = size.pick((20, 100), (120, 5_000));
    let (done, waiting) = done();
    let actor = |me| Actor {
        me,
        peers: Arc::new([]),
        random: Random::new(me as u64 + 1),
        pinged: 0,
        pings_left: pings,
        pongs: 0,
        wrong: 0,
        done: done.clone(),
    };
    let all = (0..actors).map(|me| spawn(group, actor(me))).collect::<Result<Arc<[_]>, _>>()?;
    for one in all.iter() {
        let peers = Arc::clone(&all);
        submit(one, move |one, _| one.peers = peers)?;
    }
    for one in all.iter() {
        submit(one, |one, _| one.ping())?;
    }
    let told = waiting.get_all("big", actors as u64)?;
    let pongs: u64 = told.iter().map(|(pongs, _)| pongs).sum();
    let wrong: u64 = told.iter().map(|(_, wrong)| wrong).sum();
    check("big: pongs", pongs, actors as u64 * pings)?;
    check("big: pongs from somebody else", wrong, 0)?;
    Ok(Outcome::new(2 * pongs))
}
