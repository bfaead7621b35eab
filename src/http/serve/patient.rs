//! A stream whose peer must read the data sent to it within a limit.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Ends a connection whose peer reads nothing for too long. Reads have limits elsewhere: heads and
/// bodies have theirs, and a caller that waits for an answer may be silent.
pub(super) struct Patient<IO> {
    stream: IO,
    within: Duration,
    limit: Pin<Box<Sleep>>,
    /// Whether a write waits for its peer, so that the limit counts.
    is_waiting: bool,
    /// Number of such peers.
    unread: Counter,
}

impl<IO> Patient<IO> {
    pub(super) fn new(stream: IO, within: Duration, unread: Counter) -> Self {
        let limit = Box::pin(tokio::time::sleep(within));
        Self { stream, within, limit, is_waiting: false, unread }
    }

    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.limit.as_mut().reset(Instant::now() + self.within);
        }
        ready!(self.limit.as_mut().poll(cx));
        self.unread.inc();
        let problem = format!("the peer took nothing for {:?}", self.within);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Patient<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Patient<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.judge(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.judge(ended, cx)
    }
}
