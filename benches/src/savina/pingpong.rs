//! Two actors alternate. Known: as many replies as rounds, in order.

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

struct Ping {
    pong: Task<Pong>,
    me: Option<Task<Ping>>,
    rounds: u64,
    replies: u64,
    out_of_order: u64,
    done: Done<(u64, u64)>,
}

struct Pong;

impl Ping {
    fn go(&mut self) {
        let Some(me) = self.me.clone() else { return };
        let round = self.replies;
        sent(self.pong.submit(move |_, _| {
            sent(me.submit(move |ping, _| ping.reply(round)));
        }));
    }

    fn reply(&mut self, round: u64) {
        self.out_of_order += u64::from(round != self.replies);
        self.replies += 1;
        if self.replies == self.rounds {
            self.done.tell((self.replies, self.out_of_order));
        } else {
            self.go();
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let rounds = size.pick(1_000, 1_000_000);
    let (done, waiting) = done();
    let pong = spawn(group, Pong)?;
    let ping = Ping { pong, me: None, rounds, replies: 0, out_of_order: 0, done };
    let ping = spawn(group, ping)?;
    let me = ping.clone();
    submit(&ping, move |ping, _| {
        ping.me = Some(me);
        ping.go();
    })?;
    let (replies, out_of_order) = waiting.get("pingpong")?;
    check("pingpong: replies", replies, rounds)?;
    check("pingpong: replies out of order", out_of_order, 0)?;
    Ok(Outcome::new(2 * rounds))
}
