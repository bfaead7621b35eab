//! Credentials in settings of jobs, left out for those who may look and not edit.
//!
//! Masked are settings whose name says a credential, the values of `env`, headers such as
//! `Authorization` or `X-Api-Key`, and the user, password and query values of addresses. Of the
//! address of a webhook the scheme and the host are left: its path is the credential of some services.

use serde_json::Value;
use turnwheel_engine::{ActionError, Payload, MASK};

use crate::notify::Notify;
use crate::spec::Settings;

/// Parts of names of credentials, in lower case and without hyphens.
const WORDS: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "auth",
    "cookie",
    "credential",
    "signature",
];

fn is_secret(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|sign| sign.is_alphanumeric()).collect::<String>().to_lowercase();
    WORDS.iter().any(|word| plain.contains(word))
}

/// Masks the settings of an executor or a processor.
pub(crate) fn settings(settings: &mut Settings) {
    for (name, text) in settings.iter_mut() {
        *text = setting(name, text);
    }
}

/// Masks where a notification goes to, and its headers.
pub(crate) fn notify(notify: &mut Notify) {
    notify.webhook = webhook(&notify.webhook);
    notify.headers.iter_mut().for_each(|header| *header = line(header));
}

/// Masks the input of a run or of a notification that is shown.
pub(crate) fn shown(input: &mut Value) {
    let Some(fields) = input.as_object_mut() else { return };
    for (name, field) in fields.iter_mut() {
        match (name.as_str(), field) {
            ("config", Value::Object(config)) => values(config),
            ("processors", Value::Object(all)) => {
                all.values_mut().filter_map(Value::as_object_mut).for_each(values);
            }
            ("headers", list) => walk(list),
            ("webhook", Value::String(address)) => *address = webhook(address),
            _ => {}
        }
    }
}

/// The input that a person has edited as it is shown: masked parts that are as they were shown keep
/// what is stored.
///
/// # Errors
///
/// Another part has the mask.
pub(crate) fn edited(stored: &Payload, input: Payload) -> Result<Payload, ActionError> {
    let wrong = |problem: &dyn std::fmt::Display| ActionError::new("edited", problem);
    let stored: Value = stored.read().map_err(|error| wrong(&error))?;
    let mut input: Value = input.read().map_err(|error| wrong(&error))?;
    let mut seen = stored.clone();
    shown(&mut seen);
    restore(&mut input, &seen, &stored);
    if input.to_string().contains(MASK) && !stored.to_string().contains(MASK) {
        return Err(wrong(&"a setting is masked in part: write it whole"));
    }
    Payload::of(&input).map_err(|error| wrong(&error))
}

/// Masks the addresses in an error of a webhook as its own address is masked.
pub(crate) fn error(text: &str) -> String {
    let (mut told, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find("://") {
        let (before, after) = rest.split_at(begin + 3);
        let address = &after[..after.find(is_behind).unwrap_or(after.len())];
        // Signs of a sentence may follow an address.
        let address = address.trim_end_matches([':', ',', '.', ')']);
        told.extend([before, &host_only(address)]);
        rest = &after[address.len()..];
    }
    told.push_str(rest);
    told
}

fn restore(input: &mut Value, seen: &Value, stored: &Value) {
    if input == seen {
        *input = stored.clone();
        return;
    }
    if let (Value::Object(fields), Some(seen), Some(stored)) =
        (input, seen.as_object(), stored.as_object())
    {
        for (name, field) in fields {
            if let Some((seen, stored)) = seen.get(name).zip(stored.get(name)) {
                restore(field, seen, stored);
            }
        }
    }
}

fn values(settings: &mut serde_json::Map<String, Value>) {
    for (name, value) in settings {
        if let Value::String(text) = value {
            *text = setting(name, text);
        }
    }
}

fn setting(name: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    if is_secret(name) {
        return MASK.to_owned();
    }
    if name == "env" {
        let pairs = text.split(',').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={MASK}"),
            // A part of a value with a comma.
            None => MASK.to_owned(),
        });
        return pairs.collect::<Vec<_>>().join(",");
    }
    match serde_json::from_str::<Value>(text) {
        Ok(before @ (Value::Array(_) | Value::Object(_))) => {
            let mut after = before.clone();
            walk(&mut after);
            // Without a secret it keeps its own form.
            if after == before {
                text.to_owned()
            } else {
                after.to_string()
            }
        }
        _ => addresses(text),
    }
}

fn walk(value: &mut Value) {
    match value {
        Value::String(text) => *text = line(text),
        Value::Array(all) => all.iter_mut().for_each(walk),
        Value::Object(fields) => {
            for (name, field) in fields {
                if is_secret(name) && (field.is_string() || field.is_number()) {
                    *field = MASK.into();
                } else {
                    walk(field);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks the value of a `Name: value` or `name=value` whose name says a credential.
fn line(text: &str) -> String {
    let Some(end) = text.find([':', '=']).filter(|end| is_secret(&text[..*end])) else {
        return addresses(text);
    };
    let gap = if text[end + 1..].starts_with(' ') { " " } else { "" };
    format!("{}{gap}{MASK}", &text[..=end])
}

/// Masks all of the address of a webhook but its scheme and host.
fn webhook(address: &str) -> String {
    match address.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", host_only(rest)),
        None if address.is_empty() => String::new(),
        None => MASK.to_owned(),
    }
}

/// Masks an address without its scheme up to its host.
fn host_only(address: &str) -> String {
    let (host, path) = address.split_at(address.find(['/', '?', '#']).unwrap_or(address.len()));
    let (user, host) = host.split_at(host.rfind('@').unwrap_or(0));
    let user = if user.is_empty() { "" } else { MASK };
    match path {
        "" | "/" => format!("{user}{host}{path}"),
        _ => format!("{user}{host}/{MASK}"),
    }
}

/// Whether a character in a text is behind an address.
fn is_behind(sign: char) -> bool {
    sign.is_whitespace() || "\"'<>`|;»".contains(sign)
}

/// Masks user, password and values of the query of each address in a text.
fn addresses(text: &str) -> String {
    let (mut told, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find("://") {
        let (before, after) = rest.split_at(begin + 3);
        told.push_str(before);
        let address = &after[..after.find(is_behind).unwrap_or(after.len())];
        // The next address of a list has its own turn.
        let address = &address[..address.find("://").map_or(address.len(), |next| {
            let comma = address[..next].rfind(',').unwrap_or(next);
            let scheme = address[..next].get(comma + 1..).unwrap_or_default();
            if scheme.chars().all(|sign| sign.is_ascii_alphanumeric()) {
                comma
            } else {
                next
            }
        })];
        let host = &address[..address.find(['/', '?', '#']).unwrap_or(address.len())];
        let path = &address[host.len()..];
        match host.rfind('@') {
            Some(at) => told.extend([MASK, &host[at..]]),
            None => told.push_str(host),
        }
        match path.split_once('?') {
            None => rest = &after[host.len()..],
            Some((path, query)) => {
                told.extend([path, "?"]);
                let pairs = query.split('&').map(|pair| match pair.split_once('=') {
                    Some((name, _)) => format!("{name}={MASK}"),
                    None => MASK.to_owned(),
                });
                told.push_str(&pairs.collect::<Vec<_>>().join("&"));
                rest = &after[address.len()..];
            }
        }
    }
    told.push_str(rest);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_and_the_rest_stays() {
        for (name, text, masked) in [
            ("url", "http://u:pw@h:1/q?api_key=k&page", "http://••••@h:1/q?api_key=••••&••••"),
            ("url", "nats://u:p@a:1,nats://v:q@b", "nats://••••@a:1,nats://••••@b"),
            ("url", "https://h/path", "https://h/path"),
            ("env", "FOO=top,PASSWORD=a,b", "FOO=••••,PASSWORD=••••,••••"),
            ("saslPassword", "x", "••••"),
            (
                "headers",
                r#"["Authorization: Bearer x","Accept: a"]"#,
                r#"["Authorization: ••••","Accept: a"]"#,
            ),
            ("headers", r#"[ "Accept: a" ]"#, r#"[ "Accept: a" ]"#),
            ("arguments", r#"["--token=x","--all"]"#, r#"["--token=••••","--all"]"#),
            ("body", r#"{"secret":"x","n":1}"#, r#"{"n":1,"secret":"••••"}"#),
            (
                "command",
                "curl 'https://u:p@h/x?k=v' | jq .a",
                "curl 'https://••••@h/x?k=••••' | jq .a",
            ),
            ("command", "echo hi", "echo hi"),
            ("timeout", "30s", "30s"),
        ] {
            let told = setting(name, text);
            let is_same = serde_json::from_str::<Value>(masked).is_ok_and(|masked| {
                serde_json::from_str::<Value>(&told).is_ok_and(|told| told == masked)
            });
            assert!(told == masked || is_same, "{name}: {told}");
        }
        let stored = serde_json::json!({ "config": { "url": "http://u:p@h", "env": "A=b" } });
        let mut seen = stored.clone();
        shown(&mut seen);
        assert_eq!(seen["config"]["env"], "A=••••");
        seen["config"]["url"] = "http://h".into();
        let [was, now] = [&stored, &seen].map(|value| Payload::of(value).unwrap());
        let kept: Value = edited(&was, now).unwrap().read().unwrap();
        assert_eq!(kept["config"], serde_json::json!({ "url": "http://h", "env": "A=b" }));
        seen["config"]["env"] = "B=••••".into();
        assert!(edited(&was, Payload::of(&seen).unwrap()).is_err(), "it is no value");
        assert_eq!(line("X-Api-Key: abc"), "X-Api-Key: ••••");
        assert_eq!(line("Cookie:abc"), "Cookie:••••");
    }

    #[test]
    fn only_scheme_and_host_of_a_webhook_are_shown() {
        for (address, masked) in [
            ("https://hooks.example/services/T0/k3y", "https://hooks.example/••••"),
            ("https://hooks.example?k3y", "https://hooks.example/••••"),
            ("https://hooks.example/#k3y", "https://hooks.example/••••"),
            ("http://ann:k3y@10.0.0.7:8080/", "http://••••@10.0.0.7:8080/"),
            ("https://hooks.example/a b k3y", "https://hooks.example/••••"),
            ("https://hooks.example", "https://hooks.example"),
            ("k3y", "••••"),
            ("", ""),
        ] {
            assert_eq!(webhook(address), masked);
        }
        let stored = serde_json::json!({ "webhook": "https://h/k3y", "body": "b" });
        let mut seen = stored.clone();
        shown(&mut seen);
        assert_eq!(seen["webhook"], "https://h/••••");
        seen["body"] = "c".into();
        let [was, now] = [&stored, &seen].map(|value| Payload::of(value).unwrap());
        let kept: Value = edited(&was, now).unwrap().read().unwrap();
        assert_eq!(kept, serde_json::json!({ "webhook": "https://h/k3y", "body": "c" }));
        seen["webhook"] = "https://other/••••".into();
        assert!(edited(&was, Payload::of(&seen).unwrap()).is_err(), "it is no value");
        for (text, masked) in [
            ("http://h:1/a/k3y: refused", "http://h:1/••••: refused"),
            (
                "«http://h/k3y» is odd, http://h/k3y, too",
                "«http://h/••••» is odd, http://h/••••, too",
            ),
            ("nobody is there", "nobody is there"),
        ] {
            assert_eq!(error(text), masked);
        }
    }
}
