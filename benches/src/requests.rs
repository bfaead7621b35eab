//! Requests to servers over HTTP, one after the other on each of many connections. The client does little
//! for each: it shares the processors with the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Instant;

use crate::engine::failed;
use crate::error::{check, BenchError};

/// Threads of the client: more would take processors from the server.
const THREADS: usize = 2;

/// Requests of one kind, and the answer that each of them must have.
pub(crate) struct Requests<F> {
    /// Path and body of the request with a number.
    pub(crate) each: F,
    pub(crate) content_type: &'static str,
    pub(crate) status: &'static str,
    /// Text in the body of the answer.
    pub(crate) part: &'static str,
}

impl<F: Fn(u64) -> (String, String) + Sync> Requests<F> {
    /// Sends the requests with these numbers, in order, as long as `go_on` holds. Returns the microseconds until
    /// each answer was read, and the seconds of all.
    ///
    /// # Errors
    ///
    /// A connection fails, or an answer is not the expected one.
    pub(crate) fn send(
        &self,
        addresses: &[String],
        connections: usize,
        numbers: Range<u64>,
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<(Vec<f64>, f64), BenchError> {
        let threads = THREADS.min(connections);
        if threads == 0 {
            return Err(BenchError::BadValue("--connections is at least 1".to_owned()));
        }
        let share = (numbers.end - numbers.start) / threads as u64;
        let begin = Instant::now();
        let parts = std::thread::scope(|scope| {
            let part = |thread: usize| {
                let first = numbers.start + thread as u64 * share;
                let is_last = thread + 1 == threads;
                let numbers = first..if is_last { numbers.end } else { first + share };
                let count = connections / threads + usize::from(thread < connections % threads);
                let addresses = addresses.iter().cycle().skip(thread).take(count);
                let go_on = &go_on;
                scope.spawn(move || self.part(addresses, numbers, go_on))
            };
            let running: Vec<_> = (0..threads).map(part).collect();
            let ended = running.into_iter().map(|thread| thread.join());
            let parts = ended.map(|part| part.map_err(|_| failed(&"a client has panicked"))?);
            parts.collect::<Result<Vec<_>, BenchError>>()
        })?;
        Ok((parts.concat(), begin.elapsed().as_secs_f64()))
    }

    fn part<'a>(
        &self,
        addresses: impl Iterator<Item = &'a String>,
        numbers: Range<u64>,
        go_on: &(impl Fn() -> bool + Sync),
    ) -> Result<Vec<f64>, BenchError> {
        let opened = addresses.map(|address| Connection::open(address));
        let mut all = opened.collect::<Result<Vec<Connection>, BenchError>>()?;
        let (width, mut asked, mut us) = (all.len(), 0, Vec::new());
        for number in numbers {
            if !go_on() {
                break;
            }
            let connection = &mut all[asked % width];
            if asked >= width {
                us.push(connection.answer(self.status, self.part)?);
            }
            let (path, body) = (self.each)(number);
            connection.ask(&path, self.content_type, &body)?;
            asked += 1;
        }
        for turn in asked.saturating_sub(width)..asked {
            us.push(all[turn % width].answer(self.status, self.part)?);
        }
        Ok(us)
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    sent: Instant,
}

impl Connection {
    fn open(address: &str) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(address).map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        Ok(Self { stream: BufReader::new(stream), sent: Instant::now() })
    }

    fn ask(&mut self, path: &str, content_type: &str, body: &str) -> Result<(), BenchError> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.sent = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes()).map_err(|error| failed(&error))
    }

    /// Microseconds until the answer was read.
    fn answer(&mut self, status: &str, part: &str) -> Result<f64, BenchError> {
        let (mut line, mut length, mut is_first) = (String::new(), 0, true);
        loop {
            line.clear();
            self.stream.read_line(&mut line).map_err(|error| failed(&error))?;
            if std::mem::take(&mut is_first) {
                check("status", line.split(' ').nth(1).unwrap_or_default(), status)?;
            }
            let text = line.trim_end().to_ascii_lowercase();
            if text.is_empty() {
                break;
            }
            if let Some(value) = text.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|error| failed(&error))?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).map_err(|error| failed(&error))?;
        let us = self.sent.elapsed().as_secs_f64() * 1e6;
        let text = String::from_utf8_lossy(&body);
        check(format!("an answer with {part}"), text.contains(part), true)?;
        Ok(us)
    }
}
