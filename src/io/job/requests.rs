//! The executor `http`: one request, whose status and body are compared with what is expected.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use regex_lite::Regex;
use turnwheel_flow::{header_problem, HttpRequest, IoCall};
use turnwheel_jobs::{Call, Done, Executor, Settings, Span, Verdict, Work};

use super::only;
use super::tls::{self, Tls};
use crate::io::http::Enough;
use crate::io::HostIo;

/// Settings that the executor knows.
const KNOWN: [&str; 8] =
    ["method", "url", "headers", "body", "timeout", "expectCode", "expectBody", "debug"];

/// Seconds that a request may take if nothing is said, as of Dkron.
const TIMEOUT: u64 = 30;

/// Sends requests.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) io: HostIo,
    /// Clients with certificates.
    pub(super) clients: tls::Clients,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

/// Settings, understood.
struct Parsed {
    request: HttpRequest,
    limit: Span,
    codes: Vec<u16>,
    body: Option<Regex>,
    tls: Option<Tls>,
}

fn parse(config: &Settings) -> Result<Parsed, String> {
    let text = |name: &str| config.get(name).map_or("", |text| text.trim());
    only("http", config, &[&KNOWN[..], &tls::KNOWN[..]].concat())?;
    if text("url").is_empty() {
        return Err("url: it is empty".to_owned());
    }
    if text("method").is_empty() {
        return Err("method: it is empty: give GET or another one".to_owned());
    }
    let lines: Vec<String> = match text("headers") {
        "" => Vec::new(),
        list => serde_json::from_str(list)
            .map_err(|error| format!("headers: a JSON list of «Name: value» is wanted: {error}"))?,
    };
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| format!("headers: «{line}» has no colon after its name"))?;
        if let Some(problem) = header_problem(name) {
            return Err(format!("headers: {problem}"));
        }
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let mut codes = Vec::new();
    for code in text("expectCode").split(',').map(str::trim).filter(|code| !code.is_empty()) {
        let number = code.parse().ok().filter(|code| (100..600).contains(code));
        codes.push(number.ok_or_else(|| format!("expectCode: «{code}» is no status"))?);
    }
    let body = match text("expectBody") {
        "" => None,
        pattern => Some(Regex::new(pattern).map_err(|error| format!("expectBody: {error}"))?),
    };
    let limit = match text("timeout") {
        "" => Span::seconds(TIMEOUT),
        seconds => match seconds.parse::<u64>() {
            Ok(seconds) => Span::seconds(seconds),
            Err(_) => seconds.parse().map_err(|problem| format!("timeout: {problem}"))?,
        },
    };
    let request = HttpRequest {
        method: text("method").to_uppercase(),
        uri: text("url").to_owned(),
        headers,
        body: config.get("body").filter(|body| !body.is_empty()).map(|b| b.clone().into_bytes()),
        follows_redirects: true,
        digest: None,
    };
    Ok(Parsed { request, limit, codes, body, tls: Tls::of(config)? })
}

impl Executor for Requests {
    fn check(&self, config: &Settings) -> Result<(), String> {
        parse(config).map(drop)
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        Verdict::Done(self.send(work, call).unwrap_or_else(|problem| Done::failure(problem, "")))
    }
}

/// Keeps the end of an answer, twice as much as is wanted at most and within the client's limit, and
/// counts its bytes.
fn keep_end(max: usize, limit: usize, bytes: Arc<AtomicU64>) -> Enough {
    let most = max.saturating_mul(2).min(limit);
    let max = max.min(most / 2);
    let mut kept = 0;
    Box::new(move |answer| {
        bytes.fetch_add((answer.body.len() - kept) as u64, Ordering::Relaxed);
        if answer.body.len() > most {
            answer.body.drain(..answer.body.len() - max);
        }
        kept = answer.body.len();
        false
    })
}

impl Requests {
    fn send(&self, work: &Work, call: &Call<'_>) -> Result<Done, String> {
        let Parsed { request, limit, codes, body, tls } = parse(&work.config)?;
        let limit = work.timeout.map_or(limit, |other| other.min(limit));
        let call = IoCall::new(&work.key, call.cancelled()).limit(Some(limit.0));
        let bytes = Arc::new(AtomicU64::new(0));
        let max = usize::try_from(work.output_max).unwrap_or(usize::MAX);
        let limit = self.io.inner.options.body_max;
        let end = Some(keep_end(max, limit, Arc::clone(&bytes)));
        let answer = match tls {
            None => self.io.client().send(&request, end, &call),
            Some(tls) => tls.client(&self.io, &self.clients)?.send(&request, end, &call),
        };
        let mut answer = answer.map_err(|error| error.message)?;
        answer.body.drain(..answer.body.len().saturating_sub(max));
        let output = String::from_utf8_lossy(&answer.body).into_owned();
        let is_expected = match codes.is_empty() {
            true => answer.status == 200,
            false => codes.contains(&answer.status),
        };
        let done = if !is_expected {
            Done::failure(format!("the status {} is not expected", answer.status), output)
        } else if body.is_some_and(|body| !body.is_match(&output)) {
            Done::failure("the body does not match expectBody", output)
        } else {
            Done::success(output)
        };
        Ok(Done { output_bytes: bytes.load(Ordering::Relaxed), ..done })
    }
}

#[cfg(test)]
mod tests {
    use turnwheel_flow::HttpResponse;

    use super::*;

    #[test]
    fn the_end_of_an_answer_stays_within_what_is_wanted_and_the_limit() {
        for (max, limit, piece) in [(1_000, 4_000_000, 700), (900, 1_000, 300), (10, 1_000, 300)] {
            let bytes = Arc::new(AtomicU64::new(0));
            let mut keep = keep_end(max, limit, Arc::clone(&bytes));
            let mut answer = HttpResponse { status: 200, headers: Vec::new(), body: Vec::new() };
            for number in 0..100_u8 {
                answer.body.extend(vec![number; piece]);
                assert!(!keep(&mut answer));
                assert!(answer.body.len() <= limit, "{max} of {limit}");
            }
            assert_eq!(bytes.load(Ordering::Relaxed), 100 * piece as u64);
            assert!(answer.body.len() >= max.min(limit / 2) && answer.body.last() == Some(&99));
        }
    }
}
