//! Output of a run as it is written: a stream of server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::sync::mpsc::{channel, Receiver, Sender};
use tokio::time::{interval, Interval, MissedTickBehavior};
use turnwheel_jobs::{show, JobError, Jobs, LiveOutput};
use utoipa::IntoParams;

use super::jobs::jobs;
use crate::http::body::{Part, Query};
use crate::http::limits::{LIVE_SIGN, OUTPUT_LOOK};
use crate::http::problem::Problem;
use crate::http::state::Api;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct LiveQuery {
    /// Number of the run in its launch, from 1; the last one if nothing is said.
    run: Option<usize>,
    /// Number of the first byte.
    from: Option<u64>,
}

/// Messages about one run.
struct Followed {
    jobs: Jobs,
    name: String,
    launch: u64,
    run: Option<usize>,
    from: u64,
    output: LiveOutput,
}

/// The output of a run as it is written, on whichever node: server-sent events
///
/// The events `output`, with `text`, `from` and `next`, and at last `end`, with the launch.
#[utoipa::path(
    get, path = "/jobs/{name}/launches/{launch}/output/live", tag = "jobs",
    operation_id = "followJobOutput",
    params(
        ("name" = String, Path, description = "The name of the job"),
        ("launch" = u64, Path, description = "The number of the launch"),
        LiveQuery,
    ),
    responses((status = 200, description = "The stream", body = String,
        content_type = "text/event-stream")),
)]
pub(in crate::http) async fn live(
    State(api): State<Api>,
    Part([name, launch]): Part<2>,
    Query(query): Query<LiveQuery>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let jobs = jobs(&api)?.clone();
    let unknown = || JobError::UnknownLaunch { job: name.clone(), launch: launch.clone() };
    let launch = launch.parse().map_err(|_| unknown())?;
    let place = api.wait()?;
    let output = jobs.follow(&name, launch, query.run).await?;
    let (run, from) = (query.run, query.from.unwrap_or(0));
    let followed = Followed { jobs, name, launch, run, from, output };
    // Few: a reader that is slow makes the follower wait, and not the run.
    let (sender, receiver) = channel(4);
    let (open, stopped) = (api.figures().stream(), api.stopped());
    tokio::spawn(async move {
        let _open = (open, place);
        tokio::select! {
            () = followed.send(&sender) => {}
            () = stopped => {}
            () = sender.closed() => {}
        }
    });
    let alive = KeepAlive::new().interval(LIVE_SIGN);
    Ok(Sse::new(Events(receiver)).keep_alive(alive).into_response())
}

impl Followed {
    async fn send(mut self, to: &Sender<Event>) {
        let mut look = interval(OUTPUT_LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began_at = self.from;
        loop {
            let is_over = self.news(&mut look).await;
            let chunk = self.output.read(self.from);
            if chunk.next > chunk.from {
                let data = json!({"text": chunk.text, "from": chunk.from, "next": chunk.next});
                if to.send(event("output", &data)).await.is_err() {
                    return;
                }
                self.from = chunk.next;
            }
            if is_over || chunk.is_over {
                break;
            }
        }
        let launch = self.ended(&mut look).await;
        if self.from == began_at {
            // It ended before anybody followed it.
            let (output, first) = self.kept().await;
            let (text, from) = rest_of(&output, first, began_at);
            let data = json!({"text": text, "from": from, "next": from + text.len() as u64});
            if !text.is_empty() && to.send(event("output", &data)).await.is_err() {
                return;
            }
        }
        let _gone = to.send(event("end", &launch)).await;
    }

    /// Waits for more. Whether the run is over without having said so: nothing may have run it.
    async fn news(&self, look: &mut Interval) -> bool {
        let mut changed = std::pin::pin!(self.output.changed(self.from));
        loop {
            tokio::select! {
                _ = &mut changed => return false,
                _ = look.tick() => if self.over().await.is_some() { return true },
            }
        }
    }

    /// The launch, if the run is over or gone.
    async fn over(&self) -> Option<Value> {
        let Ok(launch) = self.jobs.launch(&self.name, self.launch).await else {
            return Some(Value::Null);
        };
        let place = self.run.unwrap_or(launch.runs.len()).checked_sub(1);
        let run = place.and_then(|place| launch.runs.get(place));
        let is_over = run.is_none_or(|run| run.state.is_over()) || launch.state.is_over();
        is_over.then(|| show::launch(&launch))
    }

    /// Waits until the end of the run is stored.
    async fn ended(&self, look: &mut Interval) -> Value {
        loop {
            match self.over().await {
                Some(launch) => return launch,
                None => drop(look.tick().await),
            }
        }
    }

    /// The output that is kept, and the number of its first byte.
    async fn kept(&self) -> (String, u64) {
        let Ok(launch) = self.jobs.launch(&self.name, self.launch).await else {
            return (String::new(), 0);
        };
        let place = self.run.unwrap_or(launch.runs.len()).saturating_sub(1);
        let Some(run) = launch.runs.get(place) else { return (String::new(), 0) };
        let output = self.jobs.output(run).await.unwrap_or_default();
        let first = run.output_bytes.saturating_sub(output.len() as u64);
        (output, if run.is_cut { first } else { 0 })
    }
}

/// The part of an output from a byte on, and the number of its first byte. The first byte of the
/// output has the number `first`.
fn rest_of(output: &str, first: u64, from: u64) -> (&str, u64) {
    let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
    let begin = (skipped.min(output.len())..=output.len()).find(|at| output.is_char_boundary(*at));
    let begin = begin.unwrap_or(output.len());
    (&output[begin..], first + begin as u64)
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

/// The events of a stream.
struct Events(Receiver<Event>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}
