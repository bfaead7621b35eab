//! What does a round trip cost: a task calls another and goes on with the answer?

use std::sync::mpsc;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use turnwheel_runtime::{Context, Group, Task};

/// Calls again with each answer.
struct Caller {
    server: Task<u64>,
    left: u64,
    done: mpsc::Sender<()>,
}

impl Caller {
    fn call(&mut self, cx: &mut Context<'_, Self>) {
        if self.left == 0 {
            self.done.send(()).expect("the bench waits");
            return;
        }
        self.left -= 1;
        let answer = self.server.call(|count, _| {
            *count += 1;
            *count
        });
        cx.on_completion(answer, |caller, cx, _| caller.call(cx));
    }
}

fn calls(group: &Group, calls: u64) -> Duration {
    let (done, waiting) = mpsc::channel();
    let server = group.spawn(0_u64).expect("the group runs");
    let caller = group.spawn(Caller { server, left: calls, done }).expect("the group runs");
    let begin = Instant::now();
    caller.submit(Caller::call).expect("the task is open");
    waiting.recv().expect("the last answer tells");
    begin.elapsed()
}

fn bench(criterion: &mut Criterion) {
    let group = Group::builder("completion").workers(1).build().expect("a worker can be started");
    criterion.bench_function("completion_round_trip", |bencher| {
        bencher.iter_custom(|iterations| calls(&group, iterations));
    });
    let _ = group.shutdown();
}

criterion_group!(benches, bench);
criterion_main!(benches);
