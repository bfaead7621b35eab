//! Notifications of jobs: a webhook and a mail, to servers of this test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{channel, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::jobs::over;
use crate::serve_common::Place;

const PATIENCE: Duration = Duration::from_secs(60);

/// A port on which each connection is handled by this; what it returns arrives.
fn listen(handle: fn(TcpStream) -> String) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if sender.send(handle(stream)).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

/// The head and the body of a request, which is taken.
fn request(stream: TcpStream) -> String {
    answered(stream, "204 No Content")
}

/// The head and the body of a request, which gets this answer.
pub(crate) fn answered(stream: TcpStream, status: &str) -> String {
    let mut reader = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        let _read = reader.read_line(&mut line);
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
        text.push_str(&lower);
    }
    let mut body = vec![0; length];
    let _read = reader.read_exact(&mut body);
    text.push_str(&String::from_utf8_lossy(&body));
    let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
    let _written = reader.into_inner().write_all(answer.as_bytes());
    text
}

/// A mail with its envelope, as a server of mail gets it.
fn letter(stream: TcpStream) -> String {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut stream = stream;
    let mut say = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes());
    let (mut text, mut is_data) = (String::new(), false);
    let _said = say("220 post");
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).map_or(true, |length| length == 0) {
            return text;
        }
        text.push_str(&line);
        let answer = match line.trim_end() {
            "." => {
                is_data = false;
                "250 taken"
            }
            _ if is_data => continue,
            "DATA" => {
                is_data = true;
                "354 go on"
            }
            "QUIT" => {
                let _said = say("221 bye");
                return text;
            }
            _ => "250 post",
        };
        let _said = say(answer);
    }
}

#[test]
fn failures_are_told_by_webhook_and_mail() {
    let place = Place::new();
    let ((hook, hooks), (post, letters)) = (listen(request), listen(letter));
    let all = json!([{"on": ["failure"], "mail": ["owner"]}]).to_string();
    let (file, port) = (place.write("notify.json", &all), post.to_string());
    let variables = [
        ("TURNWHEEL_JOBS_NOTIFY", file.as_str()),
        ("TURNWHEEL_JOBS_MAIL_HOST", "127.0.0.1"),
        ("TURNWHEEL_JOBS_MAIL_PORT", port.as_str()),
        ("TURNWHEEL_JOBS_MAIL_TLS", "none"),
        ("TURNWHEEL_JOBS_MAIL_FROM", "turnwheel <cron@example.org>"),
        ("TURNWHEEL_JOBS_MAIL_SUBJECT_PREFIX", "[cron] "),
    ];
    let server = place.serve_with(&["--allow-shell"], &variables);
    let job = json!({
        "schedule": "@manually", "config": {"command": "sh -c 'echo broken; exit 3'"},
        "owner_email": "ann@example.org",
        "notify": [{
            "on": ["failure"], "webhook": format!("http://127.0.0.1:{hook}/hook"),
            "headers": ["X-Team: ops"],
            "body": "{\"job\": {{.JobName | json}}, \"output\": {{.Output | json}}}",
        }],
    });
    server.send("PUT", "/api/v1/jobs/nightly", &[], Some(&job.to_string())).ok();
    server.post("/api/v1/jobs/nightly/run", &json!({})).ok();
    assert_eq!(over(&server, "nightly")["state"], "failed");
    let told = hooks.recv_timeout(PATIENCE).expect("the webhook is called");
    for part in [
        "post /hook http/1.1",
        "\nx-team: ops",
        "\ncontent-type: application/json",
        r#"{"job": "nightly", "output": "broken\n"}"#,
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = letters.recv_timeout(PATIENCE).expect("a mail");
    for part in [
        "MAIL FROM:<cron@example.org>",
        "RCPT TO:<ann@example.org>",
        "Subject: [cron] failure: job nightly",
        "Reason: its exit code is 3",
        "Output: broken",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for (notify, problem) in [
        (json!({"on": ["failure"], "webhook": "ftp://x"}), "no address of HTTP"),
        (json!({"on": ["failure"], "mail": ["ann"]}), "«ann»"),
        (
            json!({"on": ["failure"], "webhook": "http://x", "headers": ["Host: y"]}),
            "«Host» cannot be set",
        ),
    ] {
        let job = json!({"schedule": "@manually", "config": {"command": "true"},
            "notify": [notify]});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&job.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(problem), "{}", answer.text);
    }
    server.stopped();
}
