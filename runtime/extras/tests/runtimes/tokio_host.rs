//! Promises: a `Runtime` inside a tokio program ends without blocking the thread of its host.

use std::error::Error;
use std::time::Duration;

use turnwheel_extras::Runtime;
use turnwheel_runtime::{Failure, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; the test waits for it only when it fails.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "current_thread")]
async fn completions_are_awaited_and_a_runtime_ends_inside_a_tokio_host() -> Outcome {
    let runtime = Runtime::builder()
        .cpu(|group| group.workers(1).pinning(Pinning::None))
        .io(|group| group.workers(1))
        .build()?;
    let counter = runtime.spawn(0_u32)?;
    for _ in 0..100 {
        counter.submit(|count, _| *count += 1)?;
    }
    assert_eq!(counter.call(|count, _| *count).await?, 100);
    assert_eq!(runtime.run_blocking(|| 7, None).await?, 7);
    // The host has this one thread: if the shutdown blocked it, the beat would not be heard.
    let beat = tokio::spawn(async { tokio::task::yield_now().await });
    let report = runtime.shutdown_later(PATIENCE).await?;
    assert!(report.is_clean());
    beat.await?;
    assert!(matches!(counter.call(|count, _| *count).await, Err(Failure::Closed)));
    Ok(())
}
