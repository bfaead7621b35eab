//! What does a task cost that is spawned in a turn, handles one job and ends?

use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use turnwheel_runtime::{Context, Group};

/// Tasks spawned before the spawner lets others run.
const CHUNK: u64 = 1_000;

/// Spawns; the last one spawned tells.
struct Spawner {
    group: Group,
    left: u64,
    done: mpsc::Sender<()>,
}

impl Spawner {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..CHUNK.min(self.left) {
            let task = self.group.spawn(0_u64).expect("the group runs");
            task.submit(|count, _| *count += 1).expect("the task is open");
        }
        self.left = self.left.saturating_sub(CHUNK);
        if self.left > 0 {
            cx.submit(Self::go_on).expect("the task is open");
        } else {
            self.done.send(()).expect("the bench waits");
        }
    }
}

fn spawn(group: &Group, tasks: u64) -> Duration {
    let (done, waiting) = mpsc::channel();
    let spawner = Spawner { group: group.clone(), left: tasks, done };
    let spawner = group.spawn(spawner).expect("the group runs");
    let begin = Instant::now();
    spawner.submit(Spawner::go_on).expect("the task is open");
    waiting.recv().expect("the spawner tells");
    drop(spawner);
    while group.metrics().tasks > 0 {
        std::hint::spin_loop();
    }
    begin.elapsed()
}

fn bench(criterion: &mut Criterion) {
    let group = Group::builder("spawn").workers(1).build().expect("one worker can be started");
    criterion.bench_function("spawn_one_job_end", |bencher| {
        bencher.iter_custom(|iterations| spawn(&group, iterations));
    });
    let _ = group.shutdown();
}

criterion_group!(benches, bench);
criterion_main!(benches);
