//! Jobs from many threads and tasks (3.9 and 3.31 of the reference).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Context, Group, SubmitErrorKind, Task};

use crate::on_workers;

// Z-054, Z-055, Z-056, Z-057
#[test]
fn a_job_runs_once_in_its_own_task_wherever_it_comes_from() {
    on_workers(|group| {
        let (one, two) = (group.spawn(0).unwrap(), group.spawn(0).unwrap());
        one.run(|count, _| *count += 1).unwrap();
        one.submit(|count, _| *count += 1).unwrap();
        let (completer, ran) = completion();
        let target = one.clone();
        two.submit(move |_, _| {
            let inner = target.clone();
            target
                .run(move |count, _| {
                    *count += 1;
                    completer.complete(inner.is_current()).expect("the test waits");
                })
                .expect("room");
        })
        .unwrap();
        assert!(ran.wait().unwrap(), "in the context of the target");
        assert_eq!(one.call(|count, _| *count).wait().unwrap(), 3);
        assert_eq!(two.call(|count, _| *count).wait().unwrap(), 0);
    });
}

// Z-X01
#[test]
fn jobs_of_one_producer_run_in_order_and_the_close_is_one_of_them() {
    on_workers(|group| {
        let task = group.spawn(Vec::new()).unwrap();
        let producer = task.clone();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        std::thread::spawn(move || {
            for number in 0..1_000 {
                producer.submit(move |seen: &mut Vec<u32>, _| seen.push(number)).unwrap();
            }
            producer.submit(move |seen, _| *keep.lock().unwrap() = seen.clone()).unwrap();
            drop(producer.close());
            let late = producer.submit(|_, _| unreachable!("after the close"));
            assert_eq!(late.unwrap_err().kind, SubmitErrorKind::Closed);
        })
        .join()
        .unwrap();
        task.closed().wait().unwrap();
        assert!(seen.lock().unwrap().iter().copied().eq(0..1_000));
    });
}

// Z-X02
#[test]
fn a_plain_counter_is_exact_under_stealing_and_no_two_turns_overlap() {
    on_workers(|group| {
        let inside = Arc::new(AtomicBool::new(false));
        let task = group.spawn(0_u64).unwrap();
        let producers: Vec<_> = (0..4)
            .map(|_| {
                let (task, inside) = (task.clone(), Arc::clone(&inside));
                std::thread::spawn(move || {
                    for _ in 0..2_000 {
                        let inside = Arc::clone(&inside);
                        let job = move |count: &mut u64, _: &mut Context<'_, u64>| {
                            assert!(!inside.swap(true, Ordering::SeqCst), "overlap");
                            *count += 1;
                            inside.store(false, Ordering::SeqCst);
                        };
                        task.submit_wait(job, Duration::from_secs(30)).expect("room in time");
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        assert_eq!(task.call(|count, _| *count).wait().unwrap(), 8_000);
    });
}

// Z-X12, O-037, O-039
#[test]
fn two_endless_tasks_share_one_worker() {
    let group = Group::builder("endless").workers(1).build().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let runs = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let runs = Arc::new(runs);
    fn again(task: &Task<usize>, runs: &Arc<[AtomicUsize; 2]>, is_over: &Arc<AtomicBool>) {
        let (runs, is_over) = (Arc::clone(runs), Arc::clone(is_over));
        let job = move |me: &mut usize, cx: &mut Context<'_, usize>| {
            runs[*me].fetch_add(1, Ordering::SeqCst);
            if !is_over.load(Ordering::SeqCst) {
                again(&cx.task(), &runs, &is_over);
            }
        };
        task.submit(job).expect("room");
    }
    let tasks = [group.spawn(0).unwrap(), group.spawn(1).unwrap()];
    tasks.iter().for_each(|task| again(task, &runs, &is_over));
    while runs.iter().any(|runs| runs.load(Ordering::SeqCst) < 10_000) {
        std::thread::yield_now();
    }
    is_over.store(true, Ordering::SeqCst);
    group.shutdown().unwrap();
}
