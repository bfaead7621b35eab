//! The executor `http` of jobs, against a server that answers as its path says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{json, Value};

use super::jobs::over;
use crate::serve_common::{Place, Serve};

/// Answers `/404` with 404 and the body that was sent, whatever its method.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || listener.incoming().flatten().for_each(answer));
    format!("http://{address}")
}

fn answer(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let status = line.split(['/', ' ']).find_map(|part| part.parse::<u16>().ok()).unwrap_or(200);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).is_err() || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    let _read = reader.read_exact(&mut body);
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let mut stream = reader.into_inner();
    let _written = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

fn request(server: &Serve, job: &str, config: &Value) -> (Value, String) {
    let body = json!({"schedule": "@manually", "executor": "http", "config": config});
    let path = format!("/api/v1/jobs/{job}");
    server.send("PUT", &path, &[], Some(&body.to_string())).ok();
    server.post(&format!("{path}/run"), &json!({})).ok();
    let launch = over(server, job);
    let output = server.get(&format!("{path}/launches/1/output")).ok();
    (launch, output["output"].as_str().expect("a text").to_owned())
}

#[test]
fn answers_are_compared_with_what_is_expected() {
    let (place, url) = (Place::new(), echo());
    let server = place.serve(&[]);
    let config = |status: u16, codes: &str, expected: &str| {
        json!({"method": "POST", "url": format!("{url}/{status}"), "body": "hello",
            "expectCode": codes, "expectBody": expected})
    };
    for (job, status, codes, expected, is_success) in [
        ("usual", 200, "", "", true),
        ("listed_200", 200, "200,404", "", true),
        ("listed_400", 400, "400", "", true),
        ("listed_404", 404, "200, 404", "", true),
        ("unlisted", 404, "200", "", false),
        ("unlisted_usual", 404, "", "", false),
        // Whole numbers: not the end of another one.
        ("suffix", 404, "1404,4040", "", false),
        ("matches", 200, "", "^h.l+o$", true),
        ("does_not_match", 200, "", "bye", false),
    ] {
        // A list with wrong numbers is refused before.
        if job == "suffix" {
            let body = json!({"schedule": "@manually", "executor": "http",
                "config": config(status, codes, expected)});
            let answer = server.send("PUT", "/api/v1/jobs/suffix", &[], Some(&body.to_string()));
            answer.is_problem(400, "job-invalid");
            continue;
        }
        let (launch, output) = request(&server, job, &config(status, codes, expected));
        let state = if is_success { "succeeded" } else { "failed" };
        assert_eq!((&launch["state"], output.as_str()), (&json!(state), "hello"), "{job}");
    }
    for (config, problem) in [
        (json!({"method": "GET", "url": ""}), "url: it is empty"),
        (json!({"method": "", "url": url}), "method: it is empty"),
        (json!({"method": "GET", "url": url, "tlsNoVerifyPeer": "yes"}), "tlsNoVerifyPeer"),
        (json!({"method": "GET", "url": url, "headers": "[\"Host: y\"]"}), "«Host» cannot be set"),
    ] {
        let body = json!({"schedule": "@manually", "executor": "http", "config": config});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&body.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(problem), "{problem}: {}", answer.text);
    }
    server.stopped();
}
