//! Browsers sign in with a token and get a cookie that is worth nothing elsewhere.
#![cfg(feature = "server")]

use serde_json::json;
use turnwheel::engine::MemoryStore;
use turnwheel::http::{Access, Options, Role, Token};

use crate::http_common::{world, Answer, Served};

fn options() -> Options {
    let tokens = vec![
        Token::new("ann", Role::Operate, "s3cret"),
        Token::new("viewer", Role::Read, "only-look"),
    ];
    Options::new(Access::Tokens(tokens))
}

fn guarded() -> Served {
    Served::with(world(MemoryStore::new()), options())
}

fn sign_in(served: &Served, token: &str) -> Answer {
    served.post("/api/v1/session", &json!({ "token": token }))
}

/// The cookie as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().expect("it has a value").to_owned()
}

#[test]
fn a_browser_signs_in_works_by_its_cookie_and_signs_out() {
    let served = guarded();
    let signed = sign_in(&served, "s3cret");
    assert_eq!((signed.status, &signed.json()["name"]), (200, &json!("ann")), "{}", signed.text);
    let set = signed.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("s3cret") && !set.contains("Secure"), "{set}");
    let cookie = cookie(&signed);
    let with = [("cookie", &*cookie), ("sec-fetch-site", "same-origin")];
    assert_eq!(served.send("GET", "/api/v1/plans", &with, None).status, 200);
    assert_eq!(served.send("GET", "/api/v1/session", &with, None).json()["role"], "operate");
    let body = json!({"action": "ask"});
    let started = served.send("POST", "/api/v1/plans", &with, Some(&body));
    assert_eq!(started.status, 201, "{}", started.text);
    let plan = format!("/api/v1/plans/{}", started.json()["id"].as_str().expect("an id"));
    assert_eq!(served.send("GET", &plan, &with, None).json()["by"], "ann");
    // A page of another site may make the browser send it: nothing changes.
    let strange = [("cookie", &*cookie), ("sec-fetch-site", "cross-site")];
    let refused = served.send("POST", "/api/v1/plans", &strange, Some(&body));
    refused.is_problem(403, "origin-refused");
    let refused = served.send("POST", "/api/v1/session", &strange, Some(&json!({"token": "x"})));
    refused.is_problem(403, "origin-refused");
    assert_eq!(served.send("DELETE", "/api/v1/session", &with, None).status, 204);
    served.send("GET", "/api/v1/plans", &with, None).is_problem(401, "unauthorized");
    // Two are two, and each has its own role.
    let viewer = self::cookie(&sign_in(&served, "only-look"));
    let viewer = [("cookie", &*viewer)];
    assert_eq!(served.send("GET", "/api/v1/plans", &viewer, None).status, 200);
    served.send("POST", "/api/v1/plans", &viewer, Some(&body)).is_problem(403, "forbidden");
}

#[test]
fn who_is_not_known_is_told_both_ways_and_guesses_are_slowed_down() {
    let served = guarded();
    let refused = served.get("/api/v1/plans");
    let ways: Vec<&str> = refused
        .headers
        .get_all("www-authenticate")
        .iter()
        .map(|way| way.to_str().expect("text").split(' ').next().expect("a scheme"))
        .collect();
    assert_eq!(ways, ["Bearer", "Basic"]);
    // A browser would ask for a password itself, and the page would wait for that.
    let ways = sign_in(&served, "wrong").header("www-authenticate").to_owned();
    assert!(ways.starts_with("Bearer"), "{ways}");
    for wrong in ["turnwheel-session=", "turnwheel-session=00", "other=1; turnwheel-session=x"] {
        let headers = [("cookie", wrong)];
        served.send("GET", "/api/v1/plans", &headers, None).is_problem(401, "unauthorized");
    }
    served.post("/api/v1/session", &json!({})).is_problem(422, "body-invalid");
    let slowed = (0..100).map(|_| sign_in(&served, "guess")).find(|answer| answer.status != 401);
    let slowed = slowed.expect("not so many");
    slowed.is_problem(429, "too-many-requests");
    assert!(slowed.header("retry-after").parse::<u64>().is_ok_and(|after| after > 0));
    // Programs with a token are not slowed down by that.
    let headers = [("authorization", "Bearer s3cret")];
    assert_eq!(served.send("GET", "/api/v1/plans", &headers, None).status, 200);
}

#[test]
fn behind_a_proxy_that_speaks_tls_the_cookie_is_for_tls_only() {
    let served = guarded();
    let proxied = [("x-forwarded-proto", "https")];
    let body = json!({"token": "s3cret"});
    let signed = served.send("POST", "/api/v1/session", &proxied, Some(&body));
    assert!(signed.header("set-cookie").ends_with("; Secure"), "{signed:?}");
}
