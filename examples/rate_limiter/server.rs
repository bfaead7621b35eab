//! The HTTP server: its handlers run in tokio and await answers of entities.

use std::error::Error;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use tokio::net::TcpListener;
use turnwheel_actors::Entities;
use turnwheel_runtime::Completion;

use crate::bucket::{Bucket, BucketMessages, Limit};

/// The header that names the client.
pub(crate) const CLIENT: &str = "x-client";
/// As `Retry-After`, which knows whole seconds alone.
pub(crate) const RETRY_AFTER_MS: &str = "retry-after-ms";
/// Bytes of a client's name, at most.
const CLIENT_BYTES_MAX: usize = 64;
/// How long requests under way may take once the server is told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// What the server's handlers share.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) entities: Entities,
    pub(crate) limit: Limit,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Default)]
pub(crate) struct Counts {
    admitted: AtomicU64,
    refused: AtomicU64,
}

impl Service {
    /// What the server says about itself.
    pub(crate) fn stats(&self) -> String {
        let (admitted, refused) = self.counts.both();
        let live = self.entities.active::<Bucket>();
        format!("{live} live buckets, {admitted} requests admitted, {refused} refused")
    }
}

impl Counts {
    pub(crate) fn both(&self) -> (u64, u64) {
        (self.admitted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

/// The name of the client, if it has a good one.
fn client_of(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(CLIENT)?.to_str().ok()?;
    (1..=CLIENT_BYTES_MAX).contains(&name.len()).then_some(name)
}

/// `GET /`: the work that is limited.
async fn work(State(service): State<Service>, headers: HeaderMap) -> Response {
    let Some(client) = client_of(&headers) else {
        let advice = format!(
            "say who you are: a header {CLIENT} with 1 to {CLIENT_BYTES_MAX} ASCII characters\n"
        );
        return (StatusCode::BAD_REQUEST, advice).into_response();
    };
    match service.entities.get::<Bucket>(client).take(service.limit).await {
        Ok(Ok(left)) => {
            service.counts.admitted.fetch_add(1, Ordering::Relaxed);
            format!("done; {left} left at once\n").into_response()
        }
        Ok(Err(wait)) => {
            service.counts.refused.fetch_add(1, Ordering::Relaxed);
            // Rounded up: whoever waits so long must be admitted.
            let millis = wait.as_nanos().div_ceil(1_000_000);
            let headers = [
                ("retry-after", millis.div_ceil(1_000).to_string()),
                (RETRY_AFTER_MS, millis.to_string()),
            ];
            let text = format!("too many requests; wait {millis} ms\n");
            (StatusCode::TOO_MANY_REQUESTS, headers, text).into_response()
        }
        Err(error) => {
            let status = match &error {
                error if error.is_timed_out() => StatusCode::GATEWAY_TIMEOUT,
                error if error.is_full() || error.is_closed() => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, format!("{error}\n")).into_response()
        }
    }
}

/// `GET /stats`.
async fn stats(State(service): State<Service>) -> String {
    format!("{}\n", service.stats())
}

/// A server that runs until its `stop` is done.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    running: tokio::task::JoinHandle<std::io::Result<()>>,
    tokio: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start(
        service: Service,
        port: u16,
        stop: Completion<()>,
    ) -> Result<Self, Box<dyn Error>> {
        let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = tokio
            .block_on(TcpListener::bind(("127.0.0.1", port)))
            .map_err(|error| format!("port {port} on 127.0.0.1: {error}; choose another one"))?;
        let address = listener.local_addr()?;
        let router = Router::new().route("/", get(work)).route("/stats", get(stats));
        let router = router.with_state(service);
        let serve = axum::serve(listener, router).with_graceful_shutdown(async {
            // Nobody is left who could tell it to stop: that is the word, too.
            let _ = stop.await;
        });
        let running = tokio.spawn(serve.into_future());
        Ok(Self { address, running, tokio })
    }

    /// Waits for the requests under way, after `stop`.
    pub(crate) fn join(self) -> Result<(), Box<dyn Error>> {
        let running = self.running;
        let ended = self.tokio.block_on(async { tokio::time::timeout(GRACE, running).await });
        let ended = ended.map_err(|_| format!("connections were open {GRACE:?} after the stop"))?;
        Ok(ended??)
    }
}
