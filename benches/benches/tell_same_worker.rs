//! What does a message to another task on the same worker cost, taken and handled?

use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use turnwheel_runtime::{Group, Task};

/// One of two tasks that pass a message to and fro.
struct Player {
    other: Option<Task<Player>>,
    done: mpsc::Sender<()>,
}

impl Player {
    fn ball(&mut self, left: u64) {
        match &self.other {
            Some(other) if left > 0 => {
                other.submit(move |other, _| other.ball(left - 1)).expect("the task is open");
            }
            _ => self.done.send(()).expect("the bench waits"),
        }
    }
}

fn hops(group: &Group, hops: u64) -> Duration {
    let (done, waiting) = mpsc::channel();
    let player = || Player { other: None, done: done.clone() };
    let one = group.spawn(player()).expect("the group runs");
    let two = group.spawn(player()).expect("the group runs");
    for (from, to) in [(&one, &two), (&two, &one)] {
        let to = to.clone();
        from.submit(move |player, _| player.other = Some(to)).expect("the task is open");
    }
    let begin = Instant::now();
    one.submit(move |player, _| player.ball(hops)).expect("the task is open");
    waiting.recv().expect("the last hop tells");
    let elapsed = begin.elapsed();
    drop((one.stop(), two.stop()));
    elapsed
}

fn bench(criterion: &mut Criterion) {
    let group = Group::builder("tell").workers(1).build().expect("one worker can be started");
    criterion.bench_function("tell_same_worker", |bencher| {
        bencher.iter_custom(|iterations| hops(&group, iterations));
    });
    let _ = group.shutdown();
}

criterion_group!(benches, bench);
criterion_main!(benches);
