//! One HTTP request with its redirections, within its limits.
//!
//! The client blocks its thread, and cannot be interrupted. So it has a thread of its own, and the
//! caller waits for that thread. When the caller stops waiting, the thread runs until its time-out.
//! The number of threads is limited.

use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, RecvTimeoutError};
use turnwheel_flow::{header_problem, HttpRequest, HttpResponse, IoCall, IoError, IoErrorKind};
use ureq::http::{HeaderName, HeaderValue, Request, Response};
use ureq::tls::TlsConfig;
use ureq::unversioned::transport::DefaultConnector;
use ureq::Body;

use super::digest::Challenge;
use super::network::{refuse, Checked, Closed};
use super::options::IoOptions;
use super::redirect::{redirect, IDEMPOTENCY_KEY};
use super::request_span::RequestSpan;
use super::scarce::Patience;
use super::target::Target;

/// Bytes of an answer that are read at once.
const PIECE: usize = 64 * 1_024;

/// Interval of checks whether the caller still waits.
const LOOK: Duration = Duration::from_millis(20);

/// Requests at once, including those without a waiting caller.
const THREADS_MAX: usize = 256;

/// Time of a thread beyond the limit of its request, before its caller stops waiting.
const LATE: Duration = Duration::from_millis(500);

/// Whether so much of an answer is enough; what it takes away of the body is not kept.
pub(super) type Enough = Box<dyn FnMut(&mut HttpResponse) -> bool + Send>;

/// Sends requests.
pub(super) struct Client {
    work: Arc<Work>,
}

struct Work {
    agent: ureq::Agent,
    options: IoOptions,
    threads: AtomicUsize,
}

impl Client {
    pub(super) fn new(options: &IoOptions) -> Self {
        Self::with_tls(options, TlsConfig::default())
    }

    /// With certificates of its own.
    pub(super) fn with_tls(options: &IoOptions, tls: TlsConfig) -> Self {
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .allow_non_standard_methods(true)
            .user_agent(concat!("turnwheel/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector = DefaultConnector::new();
        let agent = ureq::Agent::with_parts(config, connector, Checked::new(options));
        let options = options.clone();
        Self { work: Arc::new(Work { agent, options, threads: AtomicUsize::new(0) }) }
    }

    /// Sends a request, and reads the answer until it is enough.
    pub(super) fn send(
        &self,
        request: &HttpRequest,
        is_enough: Option<Enough>,
        call: &IoCall<'_>,
    ) -> Result<HttpResponse, IoError> {
        let deadline = call.until(Instant::now(), self.work.options.http_timeout);
        let Some(target) = Target::parse(&request.uri) else {
            let message = format!("«{}» is no address of HTTP", without_query(&request.uri));
            return Err(IoError::new(IoErrorKind::Unsupported, message));
        };
        let span = RequestSpan::begin(&request.method, &target, call.trace);
        let parent = span.parent.as_deref();
        let outcome = self.answer(request, is_enough, call, target, deadline, parent);
        span.end(&outcome);
        outcome
    }

    /// Sends it from a thread of its own, and waits for that.
    fn answer(
        &self,
        request: &HttpRequest,
        is_enough: Option<Enough>,
        call: &IoCall<'_>,
        target: Target,
        deadline: Instant,
        parent: Option<&str>,
    ) -> Result<HttpResponse, IoError> {
        let mut names = request.headers.iter().map(|(name, _)| name);
        if let Some(problem) = names.find_map(|name| header_problem(name)) {
            return Err(IoError::new(IoErrorKind::Unsupported, problem));
        }
        let limit = deadline.saturating_duration_since(Instant::now());
        let shown = target.shown();
        let ticket = Ticket::take(&self.work)?;
        let mut request = request.clone();
        add_headers(&mut request, call, parent);
        let (answer, answered) = bounded(1);
        let (work, secrets) = (Arc::clone(&self.work), call.secrets.clone());
        let begun = thread::Builder::new().name("flow-http".to_owned()).spawn(move || {
            let outcome = work.follow(request, target, is_enough, &secrets, deadline);
            drop(ticket);
            // The caller may have stopped waiting.
            let _gone = answer.send(outcome);
        });
        begun.map_err(|error| {
            let message = format!("no thread for the request to {shown}: {error}");
            IoError::new(IoErrorKind::Communication, message)
        })?;
        loop {
            match answered.recv_timeout(LOOK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => {
                    let message = format!("the request to {shown} ended without an answer");
                    return Err(IoError::new(IoErrorKind::Communication, message));
                }
                Err(RecvTimeoutError::Timeout) if call.is_cancelled() => {
                    let message = format!("nobody waits for the answer of {shown} any longer");
                    return Err(IoError::new(IoErrorKind::Cancelled, message));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline + LATE => {
                    return Err(late(&shown, limit));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// A thread that may be begun.
struct Ticket(Arc<Work>);

impl Ticket {
    fn take(work: &Arc<Work>) -> Result<Self, IoError> {
        let before = work.threads.fetch_add(1, Ordering::Relaxed);
        let ticket = Self(Arc::clone(work));
        if before < THREADS_MAX {
            return Ok(ticket);
        }
        let message = format!("{THREADS_MAX} requests are under way, which is the limit");
        Err(IoError::new(IoErrorKind::Communication, message))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add_headers(request: &mut HttpRequest, call: &IoCall<'_>, parent: Option<&str>) {
    let has = |request: &HttpRequest, name: &str| {
        request.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let changes = !matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    if changes && !has(request, IDEMPOTENCY_KEY) {
        request.headers.push((IDEMPOTENCY_KEY.to_owned(), call.key.to_owned()));
    }
    if let Some(parent) = parent.filter(|_| !has(request, "traceparent")) {
        request.headers.push(("traceparent".to_owned(), parent.to_owned()));
        if let Some(state) = call.trace_state.filter(|_| !has(request, "tracestate")) {
            request.headers.push(("tracestate".to_owned(), state.to_owned()));
        }
    }
}

fn late(shown: &str, limit: Duration) -> IoError {
    let message = format!("{shown} has not answered within {limit:?}");
    IoError::new(IoErrorKind::TimedOut, message)
}

/// An address without its query, which may be secret.
fn without_query(uri: &str) -> String {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let uri = &uri[..end];
    match (uri.find("://"), uri.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://{}", &uri[..scheme], &uri[at + 1..])
        }
        _ => uri.to_owned(),
    }
}

impl Work {
    /// Sends it, and follows redirections.
    fn follow(
        &self,
        mut request: HttpRequest,
        mut target: Target,
        is_enough: Option<Enough>,
        secrets: &[String],
        deadline: Instant,
    ) -> Result<HttpResponse, IoError> {
        let (begun, mut hops, mut has_answered) = (Instant::now(), 0, false);
        loop {
            self.allow(&target)?;
            let response = self.once(&request, &target, begun, deadline)?;
            let status = response.status().as_u16();
            let header = |name: &str| {
                let value = response.headers().get(name)?.to_str().ok()?;
                Some(value.to_owned())
            };
            if status == 401 && !has_answered {
                if let Some(answer) = answer(&request, &target, &response) {
                    request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
                    request.headers.push(("authorization".to_owned(), answer));
                    has_answered = true;
                    continue;
                }
            }
            let location = header("location").filter(|_| matches!(status, 301..=303 | 307 | 308));
            let Some(location) = location.filter(|_| request.follows_redirects) else {
                return self.read(response, is_enough, &target, begun, deadline);
            };
            hops += 1;
            if hops > self.options.http_redirects {
                let (limit, shown) = (self.options.http_redirects, target.shown());
                let message = format!("{shown} is redirected more than {limit} times");
                return Err(IoError::new(IoErrorKind::Communication, message));
            }
            let Some(next) = target.join(&location) else {
                let (shown, location) = (target.shown(), without_query(&location));
                let message =
                    format!("{shown} redirects to «{location}», which is no address of HTTP");
                return Err(IoError::new(IoErrorKind::Communication, message));
            };
            redirect(&mut request, status, (&target, &next), secrets)?;
            target = next;
        }
    }

    fn allow(&self, target: &Target) -> Result<(), IoError> {
        let (host, port) = (target.host(), target.port());
        let forbidden = |message| Err(IoError::new(IoErrorKind::Forbidden, message));
        if !self.options.allows(host) {
            return forbidden(format!(
                "the host «{host}» may not be talked to: io.http-hosts does not name it"
            ));
        }
        if !port.parse().is_ok_and(|port| self.options.allows_port(port)) {
            return forbidden(format!(
                "the port {port} of «{host}» may not be talked to: io.http-ports does not name it"
            ));
        }
        // Names are checked where they are resolved; a proxy is never asked for a closed address.
        match host.parse().map(|address| refuse(&self.options, host, address)) {
            Ok(Err(closed)) => forbidden(closed.to_string()),
            _ => Ok(()),
        }
    }

    fn once(
        &self,
        request: &HttpRequest,
        target: &Target,
        begun: Instant,
        deadline: Instant,
    ) -> Result<Response<Body>, IoError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(&target.shown(), deadline.duration_since(begun)));
        }
        let wrong = |what: &str| {
            let message = format!("the request to {} cannot be sent: {what}", target.shown());
            IoError::new(IoErrorKind::Unsupported, message)
        };
        let mut parts = Request::builder().method(request.method.as_str()).uri(target.uri());
        for (name, value) in &request.headers {
            let known = HeaderName::from_bytes(name.as_bytes());
            let name = known.map_err(|_| wrong(&format!("«{name}» is no name of a header")))?;
            let value = HeaderValue::from_str(value)
                .map_err(|_| wrong(&format!("the value of the header «{name}» is not allowed")))?;
            parts = parts.header(name, value);
        }
        let failed = |error: ureq::Error| told(&error, target, deadline.duration_since(begun));
        let body = request.body.as_deref().filter(|body| !body.is_empty());
        let whole = parts.body(body).map_err(|error| wrong(&error.to_string()))?;
        let mut patience = Patience::new(left);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.send_once(whole.clone(), left) {
                // Without a descriptor there is no connection: nothing was sent.
                Err(ureq::Error::Io(error)) if patience.waits_after(&error) => {}
                sent => return sent.map_err(failed),
            }
        }
    }

    fn send_once(
        &self,
        whole: Request<Option<&[u8]>>,
        left: Duration,
    ) -> Result<Response<Body>, ureq::Error> {
        let (head, body) = whole.into_parts();
        match body {
            None => {
                let whole = Request::from_parts(head, ());
                let whole = self.agent.configure_request(whole).timeout_global(Some(left)).build();
                self.agent.run(whole)
            }
            Some(body) => {
                let whole = Request::from_parts(head, body);
                let whole = self.agent.configure_request(whole).timeout_global(Some(left)).build();
                self.agent.run(whole)
            }
        }
    }

    fn read(
        &self,
        response: Response<Body>,
        mut is_enough: Option<Enough>,
        target: &Target,
        begun: Instant,
        deadline: Instant,
    ) -> Result<HttpResponse, IoError> {
        let (head, body) = response.into_parts();
        let limit = self.options.body_max;
        let headers = head.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let (status, headers) = (head.status.as_u16(), headers.collect());
        let mut answer = HttpResponse { status, headers, body: Vec::new() };
        // Of an answer that is looked at meanwhile, as much as is kept counts.
        let most = if is_enough.is_some() { u64::MAX } else { limit as u64 + 1 };
        let mut reader = body.into_with_config().limit(most).reader();
        let mut piece = vec![0; PIECE];
        loop {
            let read = match reader.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read,
            };
            let count =
                read.map_err(|error| told(&error.into(), target, deadline.duration_since(begun)))?;
            answer.body.extend_from_slice(&piece[..count]);
            let is_last = is_enough.as_mut().is_some_and(|is_enough| is_enough(&mut answer));
            if answer.body.len() > limit {
                let shown = target.shown();
                let message = format!("the answer of {shown} has more than {limit} bytes");
                return Err(IoError::new(IoErrorKind::TooLarge, message));
            }
            // The rest ends with its connection.
            if count == 0 || is_last {
                return Ok(answer);
            }
        }
    }
}

/// The answer to a challenge of digest authentication, if there is one and it can be answered.
fn answer(request: &HttpRequest, target: &Target, response: &Response<Body>) -> Option<String> {
    let (user, password) = request.digest.as_ref()?;
    let challenges = response.headers().get_all("www-authenticate");
    let mut challenges =
        challenges.iter().filter_map(|value| Challenge::parse(value.to_str().ok()?));
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    Some(challenges.next()?.answer((user, password), &request.method, &target.path, &nonce))
}

/// The error, without secrets: addresses are shown without their queries.
fn told(error: &ureq::Error, target: &Target, limit: Duration) -> IoError {
    let shown = target.shown();
    let kind = match error {
        ureq::Error::Timeout(_) => return late(&shown, limit),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            return late(&shown, limit);
        }
        ureq::Error::Io(error) if is_closed(error) => {
            return IoError::new(IoErrorKind::Forbidden, error.to_string());
        }
        ureq::Error::BodyExceedsLimit(_) => IoErrorKind::TooLarge,
        ureq::Error::HostNotFound => IoErrorKind::NotFound,
        _ => IoErrorKind::Communication,
    };
    IoError::new(kind, format!("{shown}: {error}"))
}

/// Whether it was not sent because of where it would have gone.
fn is_closed(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Closed>())
}
