//! Each operation of the description of the API, called by somebody who keeps to nothing of it: no answer
//! says that the server has failed, and each problem has its code.
#![cfg(feature = "server")]

use std::io::ErrorKind;

use serde_json::{json, Value};
use turnwheel::http::Code;

use super::openapi::{is_stream, operations, query, segments, served};
use crate::http_common::schema::{sample, Seeded};
use crate::http_common::Served;

/// Calls of each operation.
const CALLS: usize = 40;

/// The first of the seeds; a failure names the one that it was found with.
const SEED: u64 = 1;

/// Nests a value so deep.
const DEEP: usize = 5_000;

/// A value that fits nothing.
fn odd(seeded: &mut Seeded) -> Value {
    match seeded.below(12) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(u64::MAX),
        3 => json!(1e308),
        4 => json!(true),
        5 => json!(""),
        6 => json!("\u{0}\u{7}\u{202e}\u{fffd}🦀"),
        7 => json!("x".repeat(100_000)),
        8 => json!([]),
        9 => json!([[null], {"a": 1}]),
        10 => json!("9999-99-99T99:99:99Z"),
        _ => json!({"unknown": {"$ref": "#", "": 0}}),
    }
}

/// Changes something somewhere in a value: another type, nothing, more than is known.
fn spoil(value: &mut Value, seeded: &mut Seeded) {
    if seeded.below(4) == 0 {
        *value = odd(seeded);
        return;
    }
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = &names[seeded.below(names.len())];
            match seeded.below(4) {
                0 => drop(fields.remove(name)),
                1 => drop(fields.insert(format!("{name}x"), odd(seeded))),
                _ => spoil(fields.get_mut(name).expect("it is there"), seeded),
            }
        }
        Value::Array(values) if !values.is_empty() => {
            let place = seeded.below(values.len());
            spoil(&mut values[place], seeded);
        }
        value => *value = odd(seeded),
    }
}

/// Bytes that are no JSON, or hard to read.
fn raw(seeded: &mut Seeded) -> Vec<u8> {
    match seeded.below(10) {
        0 => Vec::new(),
        1 => b"{".to_vec(),
        2 => vec![0xff, 0xfe, 0x00],
        3 => b"{\"a\":1,\"a\":2}".to_vec(),
        4 => b"1e400".to_vec(),
        5 => "[".repeat(DEEP).into_bytes(),
        6 => ("{\"a\":".repeat(DEEP) + "1" + &"}".repeat(DEEP)).into_bytes(),
        7 => b"\"\\ud800\"".to_vec(),
        8 => b"- a: &x [*x, *x]\n  <<: *x\n".to_vec(),
        _ => vec![b' '; 200_000],
    }
}

fn headers(seeded: &mut Seeded) -> Vec<(&'static str, &'static str)> {
    let mut headers = Vec::new();
    let kinds = [
        "application/json",
        "application/yaml",
        "application/cloudevents+json",
        "text/plain",
        "a/;;",
        "",
    ];
    if seeded.below(3) == 0 {
        headers.push(("content-type", kinds[seeded.below(kinds.len())]));
    }
    let odd = [
        ("accept", "nothing/of/use"),
        ("accept-encoding", "br;q=nan"),
        ("range", "bytes=9-1"),
        ("if-none-match", "\"\", W/"),
        ("idempotency-key", ""),
        ("last-event-id", "99999999999999999999"),
        ("traceparent", "00-zz"),
        ("ce-specversion", "9"),
        ("x-turnwheel-by", "  "),
    ];
    if seeded.below(2) == 0 {
        headers.push(odd[seeded.below(odd.len())]);
    }
    headers
}

fn is_closed(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn call(served: &Served, method: &str, path: &str, seeded: &mut Seeded, body: Option<Value>) {
    let takes_body = matches!(method, "POST" | "PUT" | "PATCH");
    let bytes = match body {
        _ if !takes_body => None,
        Some(body) if seeded.below(3) > 0 => Some(body.to_string().into_bytes()),
        Some(_) => Some(raw(seeded)),
        None => (seeded.below(4) == 0).then(|| raw(seeded)),
    };
    let mut headers = headers(seeded);
    if bytes.is_some() && headers.iter().all(|(name, _)| *name != "content-type") {
        headers.push(("content-type", "application/json"));
    }
    let answer = match served.try_send_bytes(method, path, &headers, bytes.as_deref()) {
        Ok(answer) => answer,
        // The server refuses without reading a body that it does not take, and closes: a client that
        // still sends it may be told by the system before it has read the answer.
        Err(ureq::Error::Io(error)) if is_closed(&error) && bytes.is_some() => return,
        Err(error) => panic!("{method} {path} {headers:?}: {error}"),
    };
    let told =
        bytes.map(|bytes| String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned());
    let said = format!("{method} {path} {headers:?} {told:?}: {} {}", answer.status, answer.text);
    assert!(answer.status < 500 || path.starts_with("/health"), "{said}");
    if answer.status < 400 {
        return;
    }
    let code = answer.json()["code"].as_str().map(str::to_owned);
    let known = Code::ALL.iter().find(|known| Some(known.name()) == code.as_deref());
    let known = known.unwrap_or_else(|| panic!("no known code: {said}"));
    assert_eq!(known.status().as_u16(), answer.status, "{said}");
}

#[test]
fn no_request_however_wrong_makes_the_server_fail_or_answer_a_status_without_a_code() {
    let served = served();
    let api = served.get("/api/v1/openapi.json").json();
    let segments = segments(&served);
    for (number, operation) in operations(&api).iter().enumerate() {
        if is_stream(&operation.method, &operation.path) {
            continue;
        }
        let mut seeded = Seeded::new(SEED + 1_000 + number as u64);
        for _ in 0..CALLS {
            let mut path = operation.path.clone();
            for (name, values) in &segments {
                let value = &values[seeded.below(values.len())];
                path = path.replace(&format!("{{{name}}}"), value);
            }
            path.push_str(&query(operation, &api, &mut seeded));
            let content = &operation.described["requestBody"]["content"];
            let schema = content.as_object().and_then(|kinds| kinds.values().next());
            let body = schema.map(|kind| {
                let mut body = sample(&api, &kind["schema"], &mut seeded, 0);
                (0..=seeded.below(3)).for_each(|_| spoil(&mut body, &mut seeded));
                if let Some(fields) = body.as_object_mut() {
                    fields.retain(|name, _| name != "wait_ms");
                }
                body
            });
            let methods = ["GET", "PUT", "DELETE", "PATCH", "POST"];
            let method = match seeded.below(10) {
                0 => methods[seeded.below(methods.len())],
                _ => &operation.method,
            };
            if !is_stream(method, &path) {
                call(&served, method, &path, &mut seeded, body);
            }
        }
    }
    assert_eq!(served.get("/health").status, 200, "it is well after all that");
}
