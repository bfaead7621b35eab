//! A server in trouble: the first lease and the first answers come to nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{channel, Receiver};

use serde_json::{json, Value};

use super::PATIENCE;

pub(super) struct Stub {
    pub(super) url: String,
    answered: Receiver<Value>,
}

/// Outcome of a request.
enum Reply {
    Close,
    Problem,
    Good(Value),
}

impl Stub {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it has one"));
        let (told, answered) = channel();
        std::thread::spawn(move || {
            let (mut leases, mut answers) = (0, 0);
            for stream in listener.incoming().map_while(Result::ok) {
                let Some((path, body)) = request(&stream) else { continue };
                let is_lease = path.ends_with("/lease");
                let number = if is_lease { &mut leases } else { &mut answers };
                *number += 1;
                let reply = match (is_lease, *number) {
                    (_, 1) => Reply::Problem,
                    (_, 2) => Reply::Close,
                    (true, 3) => Reply::Good(json!({ "tasks": [task()] })),
                    (true, _) => Reply::Good(json!({"tasks": []})),
                    (false, _) => {
                        let _ended = told.send(body);
                        Reply::Good(json!({"plan": "p", "step": 2}))
                    }
                };
                answer(stream, &reply);
            }
        });
        Self { url, answered }
    }

    /// The answer of the worker, when it has come through.
    pub(super) fn answered(&self) -> Value {
        self.answered.recv_timeout(PATIENCE).expect("an answer comes")
    }
}

fn task() -> Value {
    json!({
        "id": "t", "topic": "flaky", "plan": "p", "step": 2, "attempt": 7, "delivery": 1,
        "idempotency_key": "k", "until": "", "last_heartbeat": null, "input": null,
    })
}

fn request(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        }
        if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, serde_json::from_slice(&body).ok()?))
}

fn answer(mut stream: TcpStream, reply: &Reply) {
    let (status, kind, body) = match reply {
        Reply::Close => return,
        Reply::Problem => {
            let problem = json!({"status": 503, "code": "store-failed", "title": "", "detail": ""});
            ("503 Service Unavailable", "application/problem+json", problem)
        }
        Reply::Good(body) => ("200 OK", "application/json", body.clone()),
    };
    let body = body.to_string();
    let length = body.len();
    // The worker may have gone.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
}
