//! A world of this process, spoken to as a server is.

use std::fmt;
use std::future::{poll_fn, Future};
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{BodyDataStream, Bytes};
use futures_core::Stream as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use turnwheel_engine::World;

use super::carry::{lost, Carrier, Request};
use super::{Client, ClientError};
use crate::http::{router, Options, Principal, Role};

/// The router of a world, and the runtime of its requests.
struct Here {
    router: TowerToHyperService<axum::Router>,
    runtime: Arc<Running>,
}

impl fmt::Debug for Here {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Here")
    }
}

/// The runtime of requests, shut down by its last user.
struct Running(Option<tokio::runtime::Runtime>);

impl Running {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("it is there until it is dropped").block_on(future)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be dropped on a thread that must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// A world of this process: the same operations, shapes and errors as a server's, without a
    /// connection. So code with a client works with both.
    ///
    /// Cost: a thread. Do not use it inside a task of tokio, which must not be blocked.
    ///
    /// ```
    /// use turnwheel::client::{Client, Plans};
    /// use turnwheel::engine::{MemoryStore, World};
    /// use turnwheel::http::{Access, Options};
    ///
    /// fn is_quiet(plans: &dyn Plans) -> Result<bool, turnwheel::client::ClientError> {
    ///     Ok(plans.list(&[("state", "running")])?.plans.is_empty())
    /// }
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// let client = Client::here(&world, Options::new(Access::Host))?.by("ann");
    /// assert!(is_quiet(&client)?);
    /// drop(client);
    /// world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn here(world: &World, options: Options) -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .thread_name("client")
            .build()
            .map_err(|error| lost("this process", &error))?;
        let router = TowerToHyperService::new(router(world, options));
        let carrier: Arc<dyn Carrier> =
            Arc::new(Here { router, runtime: Arc::new(Running(Some(runtime))) });
        Ok(Self::over(carrier, "http://localhost"))
    }
}

impl Here {
    /// The request as a host application passes it to the router: with its principal.
    fn asked(request: Request) -> axum::http::Request<axum::body::Body> {
        let by = request.headers().get("x-turnwheel-by").and_then(|by| by.to_str().ok());
        let who = Principal::new(by.unwrap_or("local"), Role::Operate);
        let mut request = request.map(axum::body::Body::from);
        request.headers_mut().entry("host").or_insert_with(|| "localhost".parse().expect("a name"));
        request.extensions_mut().insert(who);
        request
    }
}

impl Carrier for Here {
    fn carry(&self, request: Request, within: Duration) -> Result<(u16, String), ClientError> {
        let url = request.uri().to_string();
        let request = Self::asked(request);
        let asked = async {
            let answer = self.router.call(request).await;
            // A router always answers.
            let answer = answer.unwrap_or_else(|never| match never {});
            let (head, body) = answer.into_parts();
            let bytes = axum::body::to_bytes(body, usize::MAX).await;
            bytes.map(|bytes| (head.status.as_u16(), bytes))
        };
        let answered = self.runtime.block_on(async { tokio::time::timeout(within, asked).await });
        let (status, bytes) = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(lost(&url, &error)),
            Err(_) => return Err(lost(&url, &format!("no answer within {within:?}"))),
        };
        let text = String::from_utf8(bytes.into()).map_err(|error| lost(&url, &error))?;
        Ok((status, text))
    }

    fn open(
        &self,
        request: Request,
        within: Duration,
    ) -> Result<(u16, Box<dyn Read + Send>), ClientError> {
        let url = request.uri().to_string();
        let runtime = Arc::clone(&self.runtime);
        let asked = self.router.call(Self::asked(request));
        let answered = runtime.block_on(async { tokio::time::timeout(within, asked).await });
        let answer = answered.map_err(|_| lost(&url, &format!("no answer within {within:?}")))?;
        let (head, body) = answer.unwrap_or_else(|never| match never {}).into_parts();
        let frames = body.into_data_stream();
        Ok((head.status.as_u16(), Box::new(Stream { runtime, frames, frame: Bytes::new() })))
    }
}

/// The body of an answer as a stream.
struct Stream {
    runtime: Arc<Running>,
    frames: BodyDataStream,
    /// The unread rest of the last part.
    frame: Bytes,
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.frame.is_empty() {
            let frames = &mut self.frames;
            let next = poll_fn(|cx| Pin::new(&mut *frames).poll_next(cx));
            match self.runtime.block_on(next) {
                Some(Ok(frame)) => self.frame = frame,
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(0),
            }
        }
        let count = into.len().min(self.frame.len());
        into[..count].copy_from_slice(&self.frame.split_to(count));
        Ok(count)
    }
}
