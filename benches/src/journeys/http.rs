//! Moves over HTTP: one request after the other on each of many connections, none in a batch.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use indicatif::ProgressBar;

use super::stage::{definition, failed, rows, user, PLATFORM, TOLD};
use super::Options;
use crate::engine::SceneRow;
use crate::error::{check, BenchError};
use crate::serve_common::Place;

/// Threads of the client: more would take processors from the server.
const THREADS: usize = 2;

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

    fn ask(&mut self, number: u64) -> Result<(), BenchError> {
        let body = format!(
            r#"{{"specversion":"1.0","id":"{number}","source":"bench","type":"{TOLD}","subject":"{}"}}"#,
            user(number)
        );
        let request = format!(
            "POST /api/v1/platforms/{PLATFORM}/events HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/cloudevents+json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.sent = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes()).map_err(|error| failed(&error))
    }

    /// Microseconds until the answer has come.
    fn answer(&mut self) -> Result<f64, BenchError> {
        let (mut line, mut length, mut is_first) = (String::new(), 0, true);
        loop {
            line.clear();
            self.stream.read_line(&mut line).map_err(|error| failed(&error))?;
            if std::mem::take(&mut is_first) {
                check("status", line.split(' ').nth(1).unwrap_or_default(), "200")?;
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
        check("an event that moves a user", text.contains("\"path\":["), true)?;
        Ok(us)
    }
}

/// Events of new users on some connections, each as soon as the one before is answered.
fn send(
    addresses: &[String],
    connections: usize,
    numbers: std::ops::Range<u64>,
) -> Result<Vec<f64>, BenchError> {
    let addresses = addresses.iter().cycle().take(connections);
    let opened = addresses.map(|address| Connection::open(address));
    let mut all = opened.collect::<Result<Vec<Connection>, BenchError>>()?;
    let mut us = Vec::new();
    for (turn, number) in numbers.enumerate() {
        let connection = &mut all[turn % connections];
        if turn >= connections {
            us.push(connection.answer()?);
        }
        connection.ask(number)?;
    }
    for connection in &mut all {
        us.push(connection.answer()?);
    }
    Ok(us)
}

/// Microseconds of each of the events of new users, and the seconds that all took.
pub(super) fn load(
    options: &Options,
    addresses: &[String],
    first: u64,
) -> Result<(Vec<f64>, f64), BenchError> {
    let (events, connections) = (options.events / THREADS as u64, options.connections / THREADS);
    let begin = Instant::now();
    let parts = std::thread::scope(|scope| {
        let part = |thread: u64| {
            let begin = first + thread * events;
            scope.spawn(move || send(addresses, connections, begin..begin + events))
        };
        let threads: Vec<_> = (0..THREADS as u64).map(part).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let parts = ended.map(|part| part.map_err(|_| failed(&"a client has panicked"))?);
        parts.collect::<Result<Vec<_>, BenchError>>()
    })?;
    Ok((parts.concat(), begin.elapsed().as_secs_f64()))
}

pub(super) fn moves(options: &Options, _bar: &ProgressBar) -> Result<Vec<SceneRow>, BenchError> {
    let place = Place::new();
    let server = place.serve(&[]);
    let text = definition("P30D").replace("channel: none", "channel: log");
    let file = place.write("first.yaml", &text);
    place.ok(&["journey", "add", &file]);
    let sent = load(options, &[server.address().to_owned()], 0)?;
    server.stopped();
    let workload = format!("moves_http_{}_connections", options.connections);
    Ok(rows(&workload, "moves_per_s", sent))
}
