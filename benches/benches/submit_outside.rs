//! What does a job from outside the group cost its sender, while the worker is awake and while it
//! has to be woken?

use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use turnwheel_runtime::{Group, IdlePolicy, Task};

/// Jobs sent before the sender waits for them: below the mailbox's default bound.
const BATCH: u64 = 1_000;
/// Wake-ups measured for each sample: each takes as long as a worker needs to park.
const REST: Duration = Duration::from_micros(300);

fn submit(task: &Task<u64>, jobs: u64) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = jobs;
    while left > 0 {
        let batch = left.min(BATCH);
        let begin = Instant::now();
        for _ in 0..batch {
            task.submit(|count, _| *count += 1).expect("the mailbox has room");
        }
        spent += begin.elapsed();
        task.call(|count, _| *count).wait().expect("the task is open");
        left -= batch;
    }
    spent
}

fn submit_to_parked(task: &Task<u64>, jobs: u64) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..jobs {
        let rest_from = Instant::now();
        while rest_from.elapsed() < REST {
            std::hint::spin_loop();
        }
        let begin = Instant::now();
        task.submit(|count, _| *count += 1).expect("the mailbox has room");
        spent += begin.elapsed();
    }
    spent
}

fn bench(criterion: &mut Criterion) {
    let idle = IdlePolicy::Spin(Duration::from_millis(10));
    let awake = Group::builder("awake").workers(1).idle(idle).build().expect("can be started");
    let task = awake.spawn(0_u64).expect("the group runs");
    criterion.bench_function("submit_outside_awake", |bencher| {
        bencher.iter_custom(|iterations| submit(&task, iterations));
    });
    let _ = awake.shutdown();
    let parked = Group::builder("parked").workers(1).build().expect("can be started");
    let task = parked.spawn(0_u64).expect("the group runs");
    criterion.bench_function("submit_outside_parked", |bencher| {
        bencher.iter_custom(|iterations| submit_to_parked(&task, iterations));
    });
    let _ = parked.shutdown();
}

criterion_group!(benches, bench);
criterion_main!(benches);
