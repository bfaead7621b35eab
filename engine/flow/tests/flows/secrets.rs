//! Flows: secrets are seen nowhere, however they come back.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::json;
use turnwheel_flow::{FakeIo, HttpResponse, IoError, ProcessResult};

use crate::flow_common::run_with;

const SECRET: &str = "0123456789abcdef";

fn io() -> FakeIo {
    FakeIo::new().secret("token", json!(SECRET))
}

fn answer(status: u16, body: Vec<u8>) -> impl Fn() -> Result<HttpResponse, IoError> {
    move || Ok(HttpResponse { status, body: body.clone(), ..HttpResponse::default() })
}

fn call(output: &str) -> String {
    format!(
        "
use: {{ secrets: [token] }}
do:
  - ask:
      call: http
      with:
        method: get
        endpoint: {{ uri: 'https://shop.example/' }}
        headers: {{ X-Api-Key: '${{ $secrets.token }}' }}
        output: {output}
"
    )
}

#[test]
fn raw_answer_and_answer_that_is_no_text_are_masked_before_they_become_base64() {
    let text = format!("you sent {SECRET}, did you").into_bytes();
    let bytes = [b"\xff\xfe".as_slice(), SECRET.as_bytes(), b"\x80"].concat();
    for (output, body) in [("raw", &text), ("raw", &bytes), ("content", &bytes)] {
        let respond = answer(200, body.clone());
        let io = io().on_http(move |_| respond());
        let (ended, view) = run_with(io, &call(output), json!({}));
        let shown = ended.expect("it ends well");
        let shown = STANDARD.decode(shown.as_str().expect("a text")).expect("base64");
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("••••") && !shown.contains("0123"), "{output}: {shown}");
        assert!(!format!("{view:?}").contains(SECRET));
    }
}

#[test]
fn errors_are_masked_before_they_are_cut() {
    // The cut of 500 characters is within the secret, wherever in it.
    for before in 485..500 {
        let said = format!("{}{SECRET}", "x".repeat(before));
        let respond = answer(500, said.clone().into_bytes());
        let io = io().on_http(move |_| respond()).on_process(move |_| {
            Ok(ProcessResult { code: 1, stderr: said.clone(), ..Default::default() })
        });
        let shell = "
use: { secrets: [token] }
do: [ { s: { run: { shell: { command: x, environment: { T: '${ $secrets.token }' } } } } } ]
";
        for flow in [call("content"), shell.to_owned()] {
            let fault = run_with(io.clone(), &flow, json!({})).0.expect_err("it fails").to_string();
            assert!(fault.contains("xxx") && !fault.contains("0123"), "{before}: {fault}");
        }
    }
}

#[test]
fn base_64_of_a_text_with_a_secret_is_masked_wherever_it_is_in_it() {
    let flow = "
use: { secrets: [token] }
do: [ { s: { run: { shell: { command: x, environment: { T: '${ $secrets.token }' } } } } } ]
";
    for before in ["", "a", "ab", "abc", "user:"] {
        let stdout = STANDARD.encode(format!("{before}{SECRET}:and more"));
        let io = io().on_process(move |_| {
            Ok(ProcessResult { stdout: stdout.clone(), ..Default::default() })
        });
        let output = run_with(io, flow, json!({})).0.expect("it ends well");
        let shown = output.as_str().expect("a text");
        assert!(shown.contains("••••"), "{before}: {shown}");
        // Of sixteen characters one may be left at each side.
        let left = shown.replace("••••", "").len();
        assert!(left <= before.len() * 4 / 3 + 18, "{before}: {shown}");
    }
}
