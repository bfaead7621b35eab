//! Connections that each send the same request again and again, as cheaply as possible: client and
//! server share the processors, so the client's time is lost to the server.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::Patience;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Interval of checks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// Result of the load.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Answers with the wanted status.
    pub(super) good: u64,
    /// Such answers before it was measured.
    pub(super) before: u64,
    /// Others, and connections that failed.
    pub(super) bad: u64,
    /// Of the good ones, in microseconds.
    pub(super) us: Vec<u32>,
    /// Duration of the measurement.
    pub(super) took: Duration,
    /// The first thing that went wrong.
    pub(super) problem: Option<String>,
}

impl Outcome {
    /// A share of the answers took no longer than this, in milliseconds; they are sorted by it.
    pub(super) fn percentile_ms(&mut self, percent: usize) -> f64 {
        self.us.sort_unstable();
        let rank = (self.us.len() * percent).div_ceil(100).saturating_sub(1);
        self.us.get(rank).map_or(f64::NAN, |us| f64::from(*us) / 1_000.0)
    }
}

/// The request, the number of connections, and the duration.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) to: SocketAddr,
    pub(super) request: Vec<u8>,
    pub(super) status: u16,
    pub(super) connections: usize,
    /// Answers in this time are not counted.
    pub(super) warm_up: Duration,
    pub(super) time: Duration,
}

struct Shared {
    outcome: Outcome,
    is_taking: bool,
    is_over: bool,
}

impl Load {
    /// Sends, in this thread.
    pub(super) fn run(self, patience: &Patience) -> io::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, self.send(patience))
    }

    async fn send(self, patience: &Patience) -> io::Result<Outcome> {
        let shared = Shared { outcome: Outcome::default(), is_taking: false, is_over: false };
        let shared = Rc::new(RefCell::new(shared));
        let load = Rc::new(self);
        let mut streams = Vec::with_capacity(load.connections);
        for _ in 0..load.connections {
            let stream = TcpStream::connect(load.to).await?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let clients: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                let (load, shared) = (Rc::clone(&load), Rc::clone(&shared));
                tokio::task::spawn_local(async move {
                    if let Err(error) = load.client(stream, &shared).await {
                        let mut shared = shared.borrow_mut();
                        shared.outcome.bad += 1;
                        shared.outcome.problem.get_or_insert_with(|| error.to_string());
                    }
                })
            })
            .collect();
        pass(load.warm_up, patience).await;
        shared.borrow_mut().is_taking = true;
        let begin = Instant::now();
        pass(load.time, patience).await;
        let took = begin.elapsed();
        shared.borrow_mut().is_taking = false;
        shared.borrow_mut().is_over = true;
        for client in clients {
            // Each ends with its answer; one without an answer is dropped.
            let _ = tokio::time::timeout(Duration::from_secs(10), client).await;
        }
        let outcome = std::mem::take(&mut shared.borrow_mut().outcome);
        Ok(Outcome { took, ..outcome })
    }

    /// One connection: a request when the answer before is complete.
    async fn client(&self, stream: TcpStream, shared: &RefCell<Shared>) -> io::Result<()> {
        let mut answer = Vec::with_capacity(4_096);
        while !shared.borrow().is_over {
            let begin = Instant::now();
            write(&stream, &self.request).await?;
            let status = read(&stream, &mut answer).await?;
            let us = u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX);
            let mut shared = shared.borrow_mut();
            if status == self.status {
                if shared.is_taking {
                    shared.outcome.good += 1;
                    shared.outcome.us.push(us);
                } else {
                    shared.outcome.before += 1;
                }
            } else {
                shared.outcome.bad += 1;
                shared.outcome.problem.get_or_insert_with(|| {
                    let text = String::from_utf8_lossy(&answer);
                    format!("status {status}: {}", text.lines().last().unwrap_or_default())
                });
            }
        }
        Ok(())
    }
}

/// Lets time pass, unless the user interrupts.
async fn pass(time: Duration, patience: &Patience) {
    let until = Instant::now() + time;
    while !patience.is_over() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads an entire answer of HTTP/1.1 and returns its status.
async fn read(stream: &TcpStream, answer: &mut Vec<u8>) -> io::Result<u16> {
    answer.clear();
    let mut part = [0; 4_096];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut part) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
            }
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(wrong("the answer is too long"));
        }
        if let Some((status, length)) = head(answer)? {
            if answer.len() >= length {
                return Ok(status);
            }
        }
    }
}

/// Status and total length of an answer, once its head is there.
fn head(answer: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&answer[..end]).map_err(|_| wrong("the head is no text"))?;
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let (Some(status), Some(length)) = (status, length.or(Some(0))) else {
        return Err(wrong("the head is not understood"));
    };
    let length: usize = length;
    Ok(Some((status, end + 4 + length)))
}

fn wrong(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_how_long_an_answer_is() {
        let found = |text: &str| head(text.as_bytes()).expect("it is understood");
        assert_eq!(found("HTTP/1.1 201 Created\r\nContent-Length: 5\r\n"), None);
        let text = "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nab";
        assert_eq!(found(text), Some((201, text.len() + 3)));
        assert_eq!(found("HTTP/1.1 204 No Content\r\n\r\n"), Some((204, 27)));
        assert!(head(b"nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn percentiles_are_by_rank() {
        let mut outcome = Outcome { us: (1..=100).rev().collect(), ..Outcome::default() };
        assert_eq!(outcome.percentile_ms(50), 0.05);
        assert_eq!(outcome.percentile_ms(99), 0.099);
        assert!(Outcome::default().percentile_ms(50).is_nan());
    }
}
