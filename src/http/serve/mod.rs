//! Listening: connections with limits, HTTP/1.1 and HTTP/2, TLS by option, an orderly stop.
//!
//! 1. A connection is accepted on a thread that does nothing else but answer health checks
//!    (`door.rs`), and stays there until its client has spoken. At the limit, the connection that has
//!    been silent or idle longest, or whose requests wait for their bodies, is closed for it
//!    (`crowd.rs`); if all have requests under way, the new one is refused, but for a health check.
//! 2. Each is served in a task of its own, in the protocol of its first bytes (`protocol.rs`), or
//!    of the TLS negotiation. Heads, bodies and writes have time limits, so a slow peer does not
//!    hold a connection for ever.
//! 3. At a stop new work is refused, live streams end, running requests are answered. Open
//!    connections are served for a moment longer, and each answer closes its own. Connections open
//!    at the limit are cut. New ones are told of the stop meanwhile (`leaving.rs`). The world belongs
//!    to the caller, who shuts it down afterwards.

mod crowd;
mod door;
mod idle;
mod leaving;
mod log;
mod patient;
mod protocol;
mod reload;
#[cfg(feature = "tls")]
mod tls;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{header, HeaderValue};
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{service_fn, Service as _};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use turnwheel_engine::World;

use crowd::Crowd;
use door::{Door, Spoken};
use idle::{Counted, Expected, UnderWay};
use leaving::Leaving;
#[cfg(feature = "otlp")]
pub use log::start_log_and_traces;
pub use log::{start_log, LogError, LogFormat};
use patient::Patient;
use protocol::{Begun, Protocol};
pub use reload::Reloader;

use super::access::Access;
use super::limits::{
    ALIVE_WITHIN, CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_WITHIN, STOP_WITHIN, STREAMS_MAX,
    WRITE_WITHIN,
};
use super::options::{waits_of, Options};
use super::router::router;
use super::state::Api;

/// Connections that the system keeps until they are accepted, as far as it allows. It answers none
/// beyond that, and their clients try again after a second.
const BACKLOG: u32 = 4_096;

/// Time for which open connections are served at a stop before idle ones are closed.
const LINGER: Duration = Duration::from_millis(300);

/// Address and options of a listener.
#[derive(Clone, Debug)]
#[must_use]
pub struct Listen {
    address: SocketAddr,
    tls: Option<(PathBuf, PathBuf)>,
    connections_max: usize,
    stop_within: Duration,
    write_within: Duration,
    head_within: Duration,
}

impl Listen {
    /// At this address; port 0 takes a free one.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            connections_max: CONNECTIONS_MAX,
            stop_within: STOP_WITHIN,
            write_within: WRITE_WITHIN,
            head_within: HEAD_WITHIN,
        }
    }

    /// With TLS: a file with the chain of certificates and one with the key, both PEM.
    pub fn tls(mut self, certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls = Some((certificates.into(), key.into()));
        self
    }

    /// Maximum number of connections, instead of [`CONNECTIONS_MAX`].
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.connections_max = connections.max(1);
        self
    }

    /// Time for running requests to end at a stop, instead of [`STOP_WITHIN`].
    pub fn stop_within(mut self, limit: Duration) -> Self {
        self.stop_within = limit;
        self
    }

    /// Time limit of the head of a request, including the time between two requests of a
    /// connection, instead of [`HEAD_WITHIN`]. A slower connection is cut.
    pub fn head_within(mut self, limit: Duration) -> Self {
        self.head_within = limit;
        self
    }

    /// Time in which a peer must read some of the data sent to it, instead of [`WRITE_WITHIN`].
    pub fn write_within(mut self, limit: Duration) -> Self {
        self.write_within = limit;
        self
    }
}

/// A server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Others than this machine could reach it, and anybody may ask.
    #[error(
        "{address} can be reached from other machines, and nobody needs a token: give tokens, or \
         listen on 127.0.0.1"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be taken.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("TLS with {file}: {problem}")]
    Tls {
        /// The file.
        file: String,
        /// The problem.
        problem: String,
    },
}

/// Leftovers when the server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Whether all requests under way were answered within the limit.
    pub is_drained: bool,
}

/// A server that listens.
pub struct Server {
    api: Api,
    router: Router,
    listener: TcpListener,
    address: SocketAddr,
    #[cfg(feature = "tls")]
    tls: Option<reload::Tls>,
    listen: Listen,
    closing: Closing,
    closed: oneshot::Receiver<Infallible>,
}

/// Keeps the address of a server after its stop. Until all clones are dropped, the server tells new
/// connections that it stops: health checks and other requests are answered with 503.
#[derive(Clone, Debug)]
#[must_use]
pub struct Closing(
    #[expect(dead_code, reason = "its end is what counts")] Arc<oneshot::Sender<Infallible>>,
);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    ///
    /// It cannot be taken; a file of TLS cannot be used; or others than this machine could reach it
    /// without a token.
    pub async fn bind(world: &World, options: Options, listen: Listen) -> Result<Self, ServeError> {
        let address = listen.address;
        check_access(address, &options.access)?;
        #[cfg(feature = "tls")]
        let tls = listen.tls.as_ref().map(reload::Tls::read).transpose()?;
        #[cfg(not(feature = "tls"))]
        if let Some((file, _)) = &listen.tls {
            let problem = "this program was built without the feature `tls`".to_owned();
            return Err(ServeError::Tls { file: file.display().to_string(), problem });
        }
        let failed = |error| ServeError::Bind { address, error };
        let listener = listen_at(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let options = Options {
            is_tls: listen.tls.is_some(),
            waits_max: waits_of(listen.connections_max),
            ..options
        };
        let api = Api::new(world.clone(), options);
        let router = router(api.clone());
        let (until_dropped, closed) = oneshot::channel();
        Ok(Self {
            closing: Closing(Arc::new(until_dropped)),
            closed,
            api,
            router,
            listener,
            address,
            #[cfg(feature = "tls")]
            tls,
            listen,
        })
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For a caller that ends more than requests after [`run`](Self::run): as long as this is there, new
    /// connections hear of the stop. Without it they do until the end of `run`.
    pub fn closing(&self) -> Closing {
        self.closing.clone()
    }

    /// As an address that a browser on this machine understands.
    pub fn url(&self) -> String {
        let scheme = if self.listen.tls.is_some() { "https" } else { "http" };
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let here: IpAddr = match address {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            address.set_ip(here);
        }
        format!("{scheme}://{address}")
    }

    /// Serves until `stop` has ended, then stops in order. Connections are accepted, and health
    /// checks answered, on a thread of its own; all else runs where this is called. Connections that
    /// come after `stop` are answered with 503.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Stopped {
        let crowd = Crowd::new(self.listen.connections_max);
        let graceful = GracefulShutdown::new();
        let limits = Limits {
            write_within: self.listen.write_within,
            head_within: self.listen.head_within,
            unread: self.api.figures().unread(),
            api: self.api.clone(),
        };
        let (admitted, mut spoken) = mpsc::unbounded_channel();
        let _until_the_end = self.closing;
        let door = Door {
            crowd: crowd.clone(),
            router: self.router.clone(),
            limits: limits.clone(),
            is_tls: self.listen.tls.is_some(),
            admitted,
        };
        let host = Host {
            router: self.router,
            limits,
            #[cfg(feature = "tls")]
            tls: self.tls,
        };
        door.open(self.listener, Leaving::new(host.clone()), self.closed);
        let mut serve = async || {
            while let Some(spoken) = spoken.recv().await {
                tokio::spawn(host.clone().serve(spoken, graceful.watcher()));
            }
        };
        tokio::select! {
            () = serve() => {}
            () = stop => {}
        }
        self.api.stop();
        // A request that is on its way on an open connection gets its answer, which closes it.
        let left = async { tokio::join!(serve(), crowd.is_empty()) };
        let _all_closed = tokio::time::timeout(LINGER.min(self.listen.stop_within), left).await;
        let mut late = async || while spoken.recv().await.is_some() {};
        let left = async { tokio::join!(late(), graceful.shutdown()) };
        let drained = tokio::time::timeout(self.listen.stop_within, left).await;
        Stopped { is_drained: drained.is_ok() }
    }
}

/// The server of admitted connections.
#[derive(Clone)]
struct Host {
    router: Router,
    limits: Limits,
    #[cfg(feature = "tls")]
    tls: Option<reload::Tls>,
}

impl Host {
    async fn serve(self, spoken: Spoken, watcher: Watcher) {
        let Spoken { stream, protocol, place } = spoken;
        let stream = match stream.try_map(TcpStream::from_std) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "a connection has ended early"),
        };
        tokio::select! {
            () = self.connection(stream, protocol, place.under_way(), watcher) => {}
            () = place.is_needed() => {
                tracing::debug!("an idle connection was closed for a new one");
            }
        }
    }

    async fn connection(
        self,
        stream: Begun<TcpStream>,
        protocol: Protocol,
        under_way: UnderWay,
        watcher: Watcher,
    ) {
        let Self { router, limits, .. } = self;
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            let limit = super::limits::HANDSHAKE_WITHIN;
            match tokio::time::timeout(limit, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => {
                    let agreed = stream.get_ref().1.alpn_protocol();
                    let is_two = agreed == Some(tls::HTTP_TWO);
                    let protocol = if is_two { Protocol::Two } else { Protocol::One };
                    serve(stream, protocol, limits, router, under_way, watcher).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "a handshake has failed"),
                Err(_) => tracing::debug!("a handshake took too long"),
            }
            return;
        }
        serve(stream, protocol, limits, router, under_way, watcher).await;
    }
}

/// That only this machine can reach a server without tokens.
fn check_access(address: SocketAddr, access: &Access) -> Result<(), ServeError> {
    let needs_token = matches!(access, Access::Tokens(tokens) if !tokens.is_empty());
    match address.ip().is_loopback() || needs_token {
        true => Ok(()),
        false => Err(ServeError::Open { address }),
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // As the standard library does: a restart takes the address again at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Time limits of a connection, and the counter of peers that exceed them.
#[derive(Clone)]
struct Limits {
    write_within: Duration,
    head_within: Duration,
    unread: Counter,
    api: Api,
}

async fn serve<IO>(
    stream: IO,
    protocol: Protocol,
    limits: Limits,
    router: Router,
    under_way: UnderWay,
    watcher: Watcher,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(Patient::new(stream, limits.write_within, limits.unread));
    let all = under_way.clone();
    let router = TowerToHyperService::new(router);
    let (api, is_one) = (limits.api, !matches!(protocol, Protocol::Two));
    let service = service_fn(move |request: Request<Incoming>| {
        let one = all.begin();
        let request = request.map(|body| Expected::new(body, all.clone()));
        let answer = router.call(request);
        let api = api.clone();
        async move {
            let mut answer = answer.await?;
            if is_one && api.is_stopping() {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, std::convert::Infallible>(answer.map(|body: Body| Counted::new(body, one)))
        }
    });
    let ended = match protocol {
        Protocol::One | Protocol::Check => {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_within)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(stream, service);
            watcher.watch(connection).await
        }
        Protocol::Two => {
            // HTTP/2 has no limit for the time between two requests, and many may be under way.
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(ALIVE_WITHIN)
                .keep_alive_timeout(ALIVE_WITHIN)
                .max_header_list_size(HEAD_BYTES_MAX as u32)
                .max_concurrent_streams(STREAMS_MAX)
                .serve_connection(stream, service);
            tokio::select! {
                ended = watcher.watch(connection) => ended,
                () = under_way.idle(limits.head_within) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        // Peers go away when they like.
        tracing::debug!(%error, "a connection has ended early");
    }
}
