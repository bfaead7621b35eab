//! Servers of messages: which may be talked to, and for how long a job waits for one.

use std::future::Future;
use std::time::Duration;

use turnwheel_jobs::{Call, Done, Settings, Verdict, Work};

use crate::io::reach::check;
use crate::io::HostIo;

/// Time limit of a message without one.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval of looks at a cancel.
const LOOK: Duration = Duration::from_millis(50);

/// A setting without blanks around it.
pub(super) fn text<'a>(config: &'a Settings, name: &str) -> &'a str {
    config.get(name).map_or("", |text| text.trim())
}

/// A truth value as Dkron writes it.
#[cfg(any(feature = "kafka", feature = "rabbitmq"))]
pub(super) fn is_on(config: &Settings, name: &str) -> Result<bool, String> {
    match text(config, name) {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        other => Err(format!("{name}: «{other}» is neither true nor false")),
    }
}

/// Refuses a server that requests may not reach either.
pub(super) async fn allow(io: &HostIo, host: &str, port: u16) -> Result<(), String> {
    check(&io.inner.options, host, port).await.map_err(|error| error.message)
}

/// Waits for the end of an attempt within its limit, unless it is cancelled.
pub(super) fn within(
    work: &Work,
    call: &Call<'_>,
    sent: impl Future<Output = Result<String, String>>,
) -> Verdict {
    let limit = work.timeout.map_or(LIMIT, |limit| limit.0.min(LIMIT));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Err(error) => Err(format!("no connection could be begun: {error}")),
        Ok(runtime) => runtime.block_on(async {
            let cancelled = async {
                while !call.is_cancelled() {
                    tokio::time::sleep(LOOK).await;
                }
            };
            tokio::select! {
                outcome = sent => outcome,
                () = tokio::time::sleep(limit) => {
                    Err(format!("the server has not taken the message within {limit:?}"))
                }
                () = cancelled => Err("it was cancelled".to_owned()),
            }
        }),
    };
    Verdict::Done(match outcome {
        Ok(said) => Done::success(said),
        Err(problem) => Done::failure(problem, ""),
    })
}
