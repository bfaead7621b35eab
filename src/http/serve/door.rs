//! The thread that accepts connections and answers health checks.
//!
//! Nothing else runs on it, so that neither handlers that take long nor many connections hold up a
//! health check: a new connection stays here until its client has spoken. A health check is answered
//! here; all others are handed to the threads that serve requests once they are admitted
//! (`crowd.rs`). A connection that finds no place until another one needs its own is refused with 503.
//! At a stop it goes on accepting, to refuse (`leaving.rs`).

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{header, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{service_fn, Service as _};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use super::crowd::{Crowd, Place};
use super::idle::Counted;
use super::leaving::Leaving;
use super::patient::Patient;
use super::protocol::{Begun, Protocol};
use super::Limits;
use crate::http::code::Code;
use crate::http::limits::{HEAD_BYTES_MAX, SILENT_WITHIN};
use crate::http::problem::Problem;

/// Pause after the system has refused to accept a connection, for example for lack of file
/// descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// An admitted connection, with the first bytes that were read from it.
pub(super) struct Spoken {
    pub(super) stream: Begun<std::net::TcpStream>,
    pub(super) protocol: Protocol,
    pub(super) place: Place,
}

/// The acceptor of connections. Clones share the crowd.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) crowd: Crowd,
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) is_tls: bool,
    /// Where admitted connections go. It is closed once all connections have left the thread.
    pub(super) admitted: mpsc::UnboundedSender<Spoken>,
}

impl Door {
    /// Accepts until the server stops, on a thread of its own, and then for those who refuse; `quit`
    /// ends the thread when it is dropped.
    pub(super) fn open(
        self,
        listener: TcpListener,
        leaving: Leaving,
        quit: oneshot::Receiver<Infallible>,
    ) {
        let api = self.limits.api.clone();
        let listener = match listener.into_std() {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "the listener cannot be handed over"),
        };
        let door = async move {
            let listener = match TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!(%error, "the listener cannot be handed over"),
            };
            tokio::select! {
                () = self.accept(&listener) => {}
                () = api.stopped() => {}
            }
            // Its connections end by themselves, or by this.
            tokio::select! {
                () = leaving.accept(listener) => {}
                _dropped = quit => {}
            }
        };
        run_on_own_thread(door);
    }

    async fn accept(self, listener: &TcpListener) {
        loop {
            let stream = accepted(listener).await;
            let place = self.crowd.enter().await;
            tokio::spawn(self.clone().greet(stream, place));
        }
    }

    async fn greet(self, stream: TcpStream, place: Place) {
        // A peer that says nothing is let go soon, and at a stop.
        let silent_within = self.limits.head_within.min(SILENT_WITHIN);
        let begun = tokio::select! {
            biased;
            begun = tokio::time::timeout(silent_within, Begun::of(stream)) => begun,
            () = self.limits.api.stopped() => return,
            () = is_needed(&place) => {
                return tracing::debug!("a silent connection was closed for a new one");
            }
        };
        let (stream, protocol) = match begun {
            Ok(Ok(begun)) => begun,
            Ok(Err(error)) => return tracing::debug!(%error, "a connection has ended early"),
            Err(_) => return tracing::debug!("a connection has said nothing"),
        };
        if matches!(protocol, Protocol::Check) && !self.is_tls {
            let router = TowerToHyperService::new(self.router.clone());
            return self.answer(stream, place, |request| router.call(request)).await;
        }
        let is_admitted = tokio::select! {
            biased;
            admitted = tokio::time::timeout(silent_within, place.admitted()) => admitted.is_ok(),
            () = self.limits.api.stopped() => false,
            () = place.is_needed() => false,
        };
        if is_admitted {
            match stream.try_map(TcpStream::into_std) {
                Ok(stream) => drop(self.admitted.send(Spoken { stream, protocol, place })),
                Err(error) => tracing::debug!(%error, "a connection has ended early"),
            }
        } else if !self.is_tls && !matches!(protocol, Protocol::Two) {
            tracing::warn!("a connection was refused: all others have requests under way");
            self.answer(stream, place, |_| std::future::ready(Ok(full()))).await;
        }
    }

    /// Serves one request of a connection in HTTP/1.1.
    async fn answer<F>(
        &self,
        stream: Begun<TcpStream>,
        place: Place,
        answer: impl Fn(Request<Incoming>) -> F,
    ) where
        F: Future<Output = Result<Response, Infallible>>,
    {
        let (limits, under_way) = (&self.limits, place.under_way());
        let stream = Patient::new(stream, limits.write_within, limits.unread.clone());
        let service = service_fn(|request: Request<Incoming>| {
            let (one, answer) = (under_way.begin(), answer(request));
            async move { answer.await.map(|it| it.map(|body: Body| Counted::new(body, one))) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            .max_buf_size(HEAD_BYTES_MAX)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            ended = connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection has ended early");
                }
            }
            () = place.is_needed() => {}
        }
    }
}

/// The next connection.
pub(super) async fn accepted(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "answers may be late");
                }
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Ends when another connection needs this place, after what has come by then was seen.
async fn is_needed(place: &Place) {
    place.is_needed().await;
    tokio::task::yield_now().await;
}

fn full() -> Response {
    let detail = "all connections have requests under way: ask again soon";
    let mut answer = Problem::new(Code::ConnectionsFull, detail).again_after(1).into_response();
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Runs it to its end on a thread and runtime of its own, or else beside everything else.
fn run_on_own_thread(future: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (sender, receiver) = oneshot::channel();
    let started = runtime.and_then(|runtime| {
        std::thread::Builder::new().name("http-accept".to_owned()).spawn(move || {
            if let Ok(future) = receiver.blocking_recv() {
                runtime.block_on(future);
            }
        })
    });
    match started {
        Ok(_detached) => drop(sender.send(future)),
        Err(error) => {
            tracing::warn!(%error, "health checks have no thread of their own");
            tokio::spawn(future);
        }
    }
}
