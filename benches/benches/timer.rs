//! What do arming and cancelling a timer cost, with few and with many pending?

use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion};
use turnwheel_runtime::{Group, Task};

/// Never due in a run.
const FAR: Duration = Duration::from_secs(3_600);
/// Timers armed before they are cancelled.
const BATCH: u64 = 1_000;

fn arm_and_cancel(task: &Task<()>, timers: u64) -> Duration {
    let (done, waiting) = mpsc::channel();
    let job = move |(): &mut (), cx: &mut turnwheel_runtime::Context<'_, ()>| {
        let begin = Instant::now();
        let mut left = timers;
        while left > 0 {
            let batch = left.min(BATCH);
            let armed: Vec<_> = (0..batch)
                .map(|at| {
                    let delay = FAR + Duration::from_millis(at);
                    cx.after(delay, |(), _| {}).expect("far from the limit")
                })
                .collect();
            for timer in armed {
                let _ = timer.cancel();
            }
            left -= batch;
        }
        done.send(begin.elapsed()).expect("the bench waits");
    };
    task.submit(job).expect("the task is open");
    waiting.recv().expect("the job tells")
}

fn bench(criterion: &mut Criterion) {
    let mut cases = criterion.benchmark_group("timer_arm_and_cancel");
    for pending in [0_u64, 100_000] {
        let group = Group::builder("timer").workers(1).build().expect("one worker can be started");
        let holder = group.spawn(()).expect("the group runs");
        let arm = move |(): &mut (), cx: &mut turnwheel_runtime::Context<'_, ()>| {
            for at in 0..pending {
                let _ = cx.after(FAR + Duration::from_millis(at), |(), _| {});
            }
        };
        holder.call(arm).wait().expect("the task is open");
        let task = group.spawn(()).expect("the group runs");
        cases.bench_function(BenchmarkId::from_parameter(pending), |bencher| {
            bencher.iter_custom(|iterations| arm_and_cancel(&task, iterations));
        });
        drop((holder.stop(), task.stop()));
        let _ = group.shutdown();
    }
    cases.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
