//! Protocol of a connection by its first bytes: HTTP/1.1, or HTTP/2 by its preface; and whether it
//! begins with a health check.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// First bytes of an HTTP/2 client, which no HTTP/1.1 client sends.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// First bytes of a health check.
const CHECKS: [&[u8]; 2] = [b"GET /health", b"HEAD /health"];

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    One,
    /// HTTP/1.1 whose first request is for a path that begins with `/health`.
    Check,
    Two,
}

/// A stream whose first bytes were read to detect its protocol; they are read again.
#[derive(Debug)]
pub(super) struct Begun<IO> {
    read: [u8; PREFACE.len()],
    /// Part of the bytes that is left to read again.
    left: std::ops::Range<usize>,
    stream: IO,
}

impl<IO: AsyncRead + Unpin> Begun<IO> {
    /// Reads until the protocol is known. The caller limits the time.
    pub(super) async fn of(mut stream: IO) -> io::Result<(Self, Protocol)> {
        let (mut read, mut count) = ([0; PREFACE.len()], 0);
        let protocol = loop {
            let mut buffer = ReadBuf::new(&mut read[count..]);
            poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buffer)).await?;
            let more = buffer.filled().len();
            count += more;
            let read = &read[..count];
            if read == PREFACE {
                break Protocol::Two;
            }
            if CHECKS.iter().any(|check| read.starts_with(check)) {
                break Protocol::Check;
            }
            let may_become = |start: &[u8]| start.starts_with(read);
            if more == 0 || !(may_become(PREFACE) || CHECKS.iter().any(|it| may_become(it))) {
                break Protocol::One;
            }
        };
        Ok((Self { read, left: 0..count, stream }, protocol))
    }
}

impl<IO> Begun<IO> {
    /// With the stream in another form.
    pub(super) fn try_map<T>(self, map: impl FnOnce(IO) -> io::Result<T>) -> io::Result<Begun<T>> {
        Ok(Begun { read: self.read, left: self.left, stream: map(self.stream)? })
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Begun<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let myself = &mut *self;
        if myself.left.is_empty() {
            return Pin::new(&mut myself.stream).poll_read(cx, buffer);
        }
        let count = myself.left.len().min(buffer.remaining());
        let from = myself.left.start;
        buffer.put_slice(&myself.read[from..from + count]);
        myself.left.start += count;
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Begun<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use super::*;

    /// Parts that arrive one after the other, then the end.
    struct Parts(VecDeque<Vec<u8>>);

    impl AsyncRead for Parts {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut part) = self.0.pop_front() {
                let rest = part.split_off(part.len().min(buffer.remaining()));
                buffer.put_slice(&part);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn now<F: std::future::Future>(future: F) -> F::Output {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("nothing is waited for"),
        }
    }

    /// The protocol of a stream with these parts, and the bytes read from it.
    fn known(parts: &[&[u8]]) -> (Protocol, Vec<u8>) {
        let parts = Parts(parts.iter().map(|part| part.to_vec()).collect());
        let (mut begun, protocol) = now(Begun::of(parts)).expect("it can be read");
        let mut all = Vec::new();
        loop {
            let mut some = [0; 7];
            let mut buffer = ReadBuf::new(&mut some);
            now(poll_fn(|cx| Pin::new(&mut begun).poll_read(cx, &mut buffer))).expect("read");
            if buffer.filled().is_empty() {
                return (protocol, all);
            }
            all.extend_from_slice(buffer.filled());
        }
    }

    #[test]
    fn the_preface_tells_the_protocol_and_nothing_is_lost() {
        let get: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        assert_eq!(known(&[get]), (Protocol::One, get.to_vec()));
        let put: [&[u8]; 3] = [b"P", b"RI", b"NT / HTTP/1.1"];
        assert_eq!(known(&put), (Protocol::One, put.concat()));
        let check: &[u8] = b"HEAD /health HTTP/1.1\r\n\r\n";
        assert_eq!(known(&[check]), (Protocol::Check, check.to_vec()));
        let check: [&[u8]; 3] = [b"GET", b" /hea", b"lth/live HTTP/1.1"];
        assert_eq!(known(&check), (Protocol::Check, check.concat()));
        assert_eq!(known(&[b"GET /he HTTP/1.1"]).0, Protocol::One);
        assert_eq!(known(&[]), (Protocol::One, Vec::new()));
        assert_eq!(known(&[b"PRI * HTTP/2.0"]).0, Protocol::One);
        let (protocol, all) = known(&[&PREFACE[..5], &PREFACE[5..], b"frames"]);
        assert_eq!(protocol, Protocol::Two);
        assert_eq!(all, [&PREFACE[..], b"frames"].concat());
    }
}
