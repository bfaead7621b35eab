//! `turnwheel serve` under a supervisor: messages to systemd, and SIGHUP.

use serde_json::json;

use crate::serve_common::{agent, eventually, Place, Serve};

/// Status of a request with a token.
fn status(server: &Serve, secret: &str) -> u16 {
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str())];
    let answer = server.try_send(&agent(), "GET", "/api/v1/plans", &headers, None);
    answer.expect("an answer").status
}

/// Waits until the log says something so many times; nothing else tells it.
fn logged(place: &Place, text: &str, times: usize) {
    eventually(text, || (place.log().matches(text).count() >= times).then_some(()));
}

#[test]
fn hangup_reads_tokens_again_and_a_wrong_file_changes_nothing() {
    let place = Place::new();
    let tokens = place.write("tokens.txt", "operate ann the-first-secret-1\n");
    let server = place.serve(&["--tokens", &tokens]);
    let body = json!({"token": "the-first-secret-1"}).to_string();
    let signed = server.send("POST", "/api/v1/session", &[], Some(&body));
    let cookie = signed.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    let session = |server: &Serve| {
        let headers = [("cookie", cookie.as_str())];
        let answer = server.try_send(&agent(), "GET", "/api/v1/plans", &headers, None);
        answer.expect("an answer").status
    };
    assert_eq!((status(&server, "the-first-secret-1"), session(&server)), (200, 200));

    place.write("tokens.txt", "nobody knows this role\n");
    server.signal("-HUP");
    logged(&place, "stay as they were", 1);
    assert_eq!((status(&server, "the-first-secret-1"), session(&server)), (200, 200));

    place.write("tokens.txt", "read ann the-second-secret\n");
    server.signal("-HUP");
    logged(&place, "were read again", 1);
    assert_eq!(status(&server, "the-second-secret"), 200);
    assert_eq!((status(&server, "the-first-secret-1"), session(&server)), (401, 401));
    server.stopped();
}

#[cfg(target_os = "linux")]
#[test]
fn systemd_is_told_of_readiness_life_reload_and_stop() {
    let place = Place::new();
    let path = place.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket can be made");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a limit");
    let path = path.display().to_string();
    // Signs of life are told twice in their time; those between other messages are left out here.
    let variables = [("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "200000")];
    let server = place.serve_with(&[], &variables);
    let next = || {
        let mut bytes = [0; 256];
        let count = socket.recv(&mut bytes).expect("a message comes");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let until = |wanted: &str| while !next().split('\n').any(|line| line == wanted) {};
    assert_eq!(next(), "READY=1\nSTATUS=serving");
    until("WATCHDOG=1");
    until("WATCHDOG=1");
    server.signal("-HUP");
    until("STATUS=reading tokens and certificates again");
    until("READY=1");
    server.stopped();
    until("STOPPING=1");
    // Of another process nothing is wanted, and a socket that is not there does no harm.
    let variables = [("NOTIFY_SOCKET", "/nowhere/notify"), ("WATCHDOG_PID", "1")];
    place.serve_with(&[], &variables).stopped();
}
