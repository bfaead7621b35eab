//! Actors are made, get one message, and end. Known: as many ended as made, and none is left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use turnwheel_runtime::{Context, Group};

use super::{done, Done, Outcome, Size, PROGRAM_TIME_MAX};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

const CHUNK: u64 = 1_000;

/// Counts what has ended: its tally is kept when it is dropped.
struct Child {
    handled: u64,
    ended: Arc<AtomicU64>,
}

impl Drop for Child {
    fn drop(&mut self) {
        self.ended.fetch_add(self.handled, Ordering::Relaxed);
    }
}

struct Creator {
    group: Group,
    left: u64,
    ended: Arc<AtomicU64>,
    done: Done<()>,
}

impl Creator {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            let child = Child { handled: 0, ended: Arc::clone(&self.ended) };
            // The group runs as long as the program; a child that is missing shows in the count.
            if let Ok(child) = self.group.spawn(child) {
                sent(child.submit(|child, _| child.handled += 1));
            }
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            sent(cx.submit(Self::go_on));
        } else {
            self.done.tell(());
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let actors = size.pick(1_000, 200_000);
    let (done, waiting) = done();
    let ended = Arc::new(AtomicU64::new(0));
    let creator = Creator { group: group.clone(), left: actors, ended: Arc::clone(&ended), done };
    let creator = spawn(group, creator)?;
    submit(&creator, Creator::go_on)?;
    waiting.get("fjcreate")?;
    drop(creator);
    let begin = Instant::now();
    while group.metrics().tasks > 0 && begin.elapsed() < PROGRAM_TIME_MAX {
        std::thread::sleep(Duration::from_micros(100));
    }
    check("fjcreate: live tasks afterwards", group.metrics().tasks, 0)?;
    check("fjcreate: ended", ended.load(Ordering::Relaxed), actors)?;
    Ok(Outcome::new(actors))
}
