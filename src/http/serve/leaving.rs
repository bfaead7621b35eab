//! Connections that come while the server stops: health checks are told that it takes no work, and
//! all else is refused with 503, so that a load balancer hears of the stop before its clients do.
//!
//! They do not hold up the stop: none counts as a request under way, each has [`LEAVE_WITHIN`], and
//! what is left is cut with the listener.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{from_fn, Next};
use axum::response::{IntoResponse as _, Response};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};

use super::crowd::{Crowd, Place};
use super::door::accepted;
use super::protocol::Begun;
use super::Host;
use crate::http::state::stopping;

/// Time of a connection from its begin to its end: there is one answer to wait for.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Connections at once. For a further one the one that has been silent longest is closed.
const LEAVING_MAX: usize = 240;

/// The acceptor of connections that come while the server stops.
pub(super) struct Leaving {
    host: Host,
    crowd: Crowd,
    watchers: Arc<GracefulShutdown>,
}

impl Leaving {
    pub(super) fn new(host: Host) -> Self {
        let host = Host { router: host.router.layer(from_fn(refuse)), ..host };
        let (crowd, watchers) = (Crowd::new(LEAVING_MAX), Arc::new(GracefulShutdown::new()));
        Self { host, crowd, watchers }
    }

    /// Accepts until it is dropped.
    pub(super) async fn accept(self, listener: TcpListener) {
        loop {
            let stream = accepted(&listener).await;
            let place = self.crowd.enter().await;
            let (host, watchers) = (self.host.clone(), Arc::clone(&self.watchers));
            tokio::spawn(async move {
                let served = serve(host, stream, &place, &watchers);
                tokio::select! {
                    served = tokio::time::timeout(LEAVE_WITHIN, served) => {
                        if served.is_err() {
                            tracing::debug!("a connection was cut at a stop");
                        }
                    }
                    () = place.is_needed() => {}
                }
            });
        }
    }
}

async fn serve(host: Host, stream: TcpStream, place: &Place, watchers: &GracefulShutdown) {
    match Begun::of(stream).await {
        Ok((stream, protocol)) => {
            host.connection(stream, protocol, place.under_way(), watchers.watcher()).await;
        }
        Err(error) => tracing::debug!(%error, "a connection has ended early"),
    }
}

/// Refuses all but health checks.
async fn refuse(request: Request, next: Next) -> Response {
    match request.uri().path() {
        "/health" | "/health/live" => next.run(request).await,
        _ => stopping().into_response(),
    }
}
