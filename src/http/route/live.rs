//! Events of plans, as they become durable: a stream of server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval};
use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched};
use turnwheel_flow::{CloudEvent, FlowError, FlowEvents, Flows};
use utoipa::{IntoParams, ToSchema};

use crate::api::CutOff;
use crate::http::body::{plan_id, Query};
use crate::http::code::Code;
use crate::http::figures::UnderWay;
use crate::http::limits::{LIVE_AGAIN, LIVE_PLANS_MAX, LIVE_SIGN};
use crate::http::picture;
use crate::http::problem::Problem;
use crate::http::state::Api;

/// The requested events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct LiveQuery {
    /// Only these plans, with commas between; 100 at most.
    plan: Option<String>,
    /// Only plans that are called so.
    label: Option<String>,
    /// Only changes of plans, not of their steps.
    #[param(default = false)]
    plans_only: Option<bool>,
    /// Also what flows emit: `emitted`; with `all` life-cycle events of flows, too. Each is an event
    /// called `cloudevent`, without an id, before the event that it belongs to.
    #[param(inline)]
    cloudevents: Option<CloudEvents>,
    /// Everything after this place, from the store; then live. `0` is the begin of the store.
    after: Option<String>,
}

/// Events of flows that a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum CloudEvents {
    Emitted,
    All,
}

/// Events of plans, as they become durable: server-sent events
///
/// Of several nodes that share a store, any node has the events of all of them, and a place means
/// the same at each node. Each event has its place as id, its kind as name, and a `HappeningInfo`
/// as data. An id alone gives the place at the begin of the stream, and after a while without
/// events. A reader that is too slow gets the event `cut_off` and the end of the stream. A reader
/// that reconnects with the last id as `Last-Event-ID`, as browsers do by themselves, or as
/// `after`, misses nothing; a place that the store has not come to is refused. With `cloudevents`
/// each event of CloudEvents 1.0 is the data of an event `cloudevent`; a reader that reconnects may
/// get one again, with the same `id` and `source`.
#[utoipa::path(
    get, path = "/events", tag = "world", operation_id = "watchEvents",
    params(LiveQuery, ("Last-Event-ID" = Option<String>, Header, description = "As `after`")),
    responses((status = 200, description = "The stream", body = String,
        content_type = "text/event-stream")),
)]
pub(in crate::http) async fn live(
    State(api): State<Api>,
    headers: HeaderMap,
    Query(query): Query<LiveQuery>,
) -> Result<Response, Problem> {
    api.takes_work()?;
    let wrong = |detail: String| Problem::new(Code::QueryInvalid, detail);
    let mut filter = WatchFilter::new().all_nodes();
    let plans = query.plan.as_deref().unwrap_or_default();
    let plans: Vec<&str> = plans.split(',').filter(|plan| !plan.is_empty()).collect();
    if plans.len() > LIVE_PLANS_MAX {
        return Err(wrong(format!("the query names more than {LIVE_PLANS_MAX} plans: name none")));
    }
    for plan in plans {
        filter = filter.plan(plan_id(plan)?);
    }
    if let Some(label) = query.label {
        filter = filter.label(label);
    }
    if query.plans_only == Some(true) {
        filter = filter.plans_only();
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let after: Option<Cursor> =
        last.or(query.after).map(|after| after.parse()).transpose().map_err(
            |error: turnwheel_engine::watch::CursorError| {
                Problem::new(Code::CursorInvalid, error.to_string())
            },
        )?;
    if let Some(after) = after {
        if after.seq > api.world().newest_cursor().await?.seq {
            return Err(Problem::new(
                Code::CursorInvalid,
                format!(
                    "the journal has not come to place {after}: it is of another store, or of \
                     entries that a restore or a fail-over has lost. Open the stream without a \
                     place"
                ),
            ));
        }
        filter = filter.after(after);
    }
    let flows = query.cloudevents.map(|wanted| {
        let events = Flows::new(api.world())?.events();
        Ok::<_, FlowError>(if wanted == CloudEvents::All {
            events.with_life_cycle()
        } else {
            events
        })
    });
    let place = api.wait()?;
    let live = Live {
        flows: flows.transpose()?,
        reading: None,
        ready: VecDeque::new(),
        watch: api.world().watch(filter),
        stopped: Box::pin(api.stopped()),
        _open: api.figures().stream(),
        _place: place,
        api,
        told: after.unwrap_or_default(),
        sign: tokio::time::interval_at(Instant::now() + LIVE_SIGN, LIVE_SIGN),
        has_begun: false,
        is_over: false,
    };
    Ok(Sse::new(live).into_response())
}

/// A happening, with the events of flows that it gives.
type Reading = Pin<Box<dyn Future<Output = (FlowEvents, Vec<CloudEvent>, Box<Happening>)> + Send>>;

/// One open stream.
struct Live {
    /// Reader of events of flows, if they are wanted and it is not at work.
    flows: Option<FlowEvents>,
    reading: Option<Reading>,
    /// Events that are sent next.
    ready: VecDeque<Event>,
    watch: Watch,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    api: Api,
    _open: UnderWay,
    _place: OwnedSemaphorePermit,
    /// The last place that was sent.
    told: Cursor,
    /// When the next sign of life is due.
    sign: Interval,
    has_begun: bool,
    is_over: bool,
}

impl Live {
    /// The place up to which all matching events were sent.
    fn place(&mut self) -> String {
        self.told = self.told.max(self.watch.cursor());
        self.told.to_string()
    }

    /// The event of a happening, which has its place.
    fn told(&mut self, happening: Happening) -> Event {
        self.told = self.told.max(happening.cursor);
        self.sign.reset();
        let info = picture::happening(happening);
        event(&info.what, Some(&info.cursor), &info)
    }
}

impl Stream for Live {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over || self.stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        if !self.has_begun {
            if self.watch.poll_listening(cx).is_pending() {
                // A commit that lasts holds up the begin. The reader has no place yet.
                let sign = self.sign.poll_tick(cx);
                return sign.map(|_| Some(Ok(Event::default().comment("waiting"))));
            }
            // Sent at once, so that the reader knows the place from which on it misses nothing.
            self.has_begun = true;
            let place = self.place();
            let begin = Event::default().retry(LIVE_AGAIN).comment("listening").id(place);
            return Poll::Ready(Some(Ok(begin)));
        }
        if let Some(event) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(event)));
        }
        if let Some(reading) = &mut self.reading {
            let Poll::Ready((flows, events, happening)) = reading.as_mut().poll(cx) else {
                return Poll::Pending;
            };
            self.reading = None;
            self.flows = Some(flows);
            let events = events.iter().map(|it| event("cloudevent", None, &it.to_value()));
            self.ready = events.collect();
            let last = self.told(*happening);
            self.ready.push_back(last);
            return Poll::Ready(self.ready.pop_front().map(Ok));
        }
        match Pin::new(&mut self.watch).poll_next(cx) {
            Poll::Pending if self.sign.poll_tick(cx).is_ready() => {
                let place = self.place();
                Poll::Ready(Some(Ok(Event::default().comment("alive").id(place))))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Ok(Watched::Happened(happening)))) => match self.flows.take() {
                Some(mut flows) => {
                    self.reading = Some(Box::pin(async move {
                        let events = flows.of(&happening).await;
                        (flows, events, happening)
                    }));
                    self.poll_next(cx)
                }
                None => Poll::Ready(Some(Ok(self.told(*happening)))),
            },
            Poll::Ready(Some(Ok(Watched::Missed { entries, after, .. }))) => {
                self.is_over = true;
                self.api.figures().cut_off();
                let cut = CutOff { missed: entries, after: after.to_string() };
                Poll::Ready(Some(Ok(event("cut_off", None, &cut))))
            }
            Poll::Ready(Some(Ok(_))) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(Some(Err(error))) if error.is_unreadable() => {
                // Another stream of this node would not understand it either.
                tracing::error!(%error, "a stream of live events lacks an entry");
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(Some(Err(error))) => {
                // The reader reconnects and continues at its place.
                tracing::warn!(%error, "a stream of live events ends");
                Poll::Ready(None)
            }
        }
    }
}

fn event(name: &str, id: Option<&str>, data: &impl serde::Serialize) -> Event {
    let text = serde_json::to_string(data).unwrap_or_default();
    let event = Event::default().event(name).data(text);
    id.map_or(event.clone(), |id| event.id(id))
}
