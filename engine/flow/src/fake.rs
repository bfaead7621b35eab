//! An [`Io`] for tests: answers are given beforehand, and what was asked is kept.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::io::{
    Broker, BrokerChannel, BrokerMessage, Container, GrpcRequest, GrpcResponse, HttpRequest,
    HttpResponse, Io, IoCall, IoError, IoErrorKind, Process, ProcessResult, Receipt, Reply,
    ScriptLanguage,
};

/// Bytes of an answer that come at once, if its reader may stop.
const PART: usize = 7;

type OnHttp = dyn Fn(&HttpRequest) -> Result<HttpResponse, IoError> + Send + Sync;
type OnGrpc = dyn Fn(&GrpcRequest) -> Result<GrpcResponse, IoError> + Send + Sync;
type Messages = Result<Vec<BrokerMessage>, IoError>;
type OnBroker = dyn Fn(&BrokerChannel) -> Messages + Send + Sync;
type OnContainer = dyn Fn(&Container) -> Result<ProcessResult, IoError> + Send + Sync;
type OnTalk = dyn Fn(&Process, &str) -> Vec<String> + Send + Sync;
type OnProcess = dyn Fn(&Process) -> Result<ProcessResult, IoError> + Send + Sync;

/// An [`Io`] for tests. Clones share it.
///
/// ```
/// use turnwheel_flow::{FakeIo, HttpResponse};
///
/// let io = FakeIo::new()
///     .secret("token", serde_json::json!("t-1"))
///     .on_http(|request| {
///         assert_eq!(request.method, "GET");
///         Ok(HttpResponse { status: 204, ..HttpResponse::default() })
///     });
/// # let _ = io;
/// ```
#[derive(Clone, Default)]
pub struct FakeIo {
    http: Option<Arc<OnHttp>>,
    grpc: Option<Arc<OnGrpc>>,
    broker: Option<Arc<OnBroker>>,
    /// How many messages of each channel were acknowledged, and are gone.
    gone: Arc<Mutex<HashMap<String, usize>>>,
    process: Option<Arc<OnProcess>>,
    container: Option<Arc<OnContainer>>,
    talk: Option<Arc<OnTalk>>,
    resources: HashMap<String, Vec<u8>>,
    secrets: HashMap<String, Value>,
    sinks: Vec<String>,
    are_ordered: bool,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A recorded call of a [`FakeIo`], with its key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Asked {
    /// A request.
    Http(HttpRequest, String),
    /// A call of gRPC.
    Grpc(GrpcRequest, String),
    /// A message that was sent to a broker.
    Published(BrokerChannel, BrokerMessage, String),
    /// Messages that were received at a broker.
    Received(BrokerChannel, String),
    /// Messages of this call that were acknowledged.
    Acknowledged(String),
    /// A process.
    Process(Process, String),
    /// A container.
    Container(Container, String),
}

impl fmt::Debug for FakeIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeIo").field("asked", &self.asked.lock().len()).finish_non_exhaustive()
    }
}

impl FakeIo {
    /// A fake without answers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the answers to HTTP requests.
    #[must_use]
    pub fn on_http(
        mut self,
        answer: impl Fn(&HttpRequest) -> Result<HttpResponse, IoError> + Send + Sync + 'static,
    ) -> Self {
        self.http = Some(Arc::new(answer));
        self
    }

    /// Sets the answers to calls of gRPC; without it there is no gRPC.
    #[must_use]
    pub fn on_grpc(
        mut self,
        answer: impl Fn(&GrpcRequest) -> Result<GrpcResponse, IoError> + Send + Sync + 'static,
    ) -> Self {
        self.grpc = Some(Arc::new(answer));
        self
    }

    /// Sets the messages that channels of brokers have, until they are acknowledged, and what
    /// becomes of those that are sent; without it there are no brokers.
    #[must_use]
    pub fn on_broker(
        mut self,
        answer: impl Fn(&BrokerChannel) -> Messages + Send + Sync + 'static,
    ) -> Self {
        self.broker = Some(Arc::new(answer));
        self
    }

    /// Sets the results of processes.
    #[must_use]
    pub fn on_process(
        mut self,
        answer: impl Fn(&Process) -> Result<ProcessResult, IoError> + Send + Sync + 'static,
    ) -> Self {
        self.process = Some(Arc::new(answer));
        self
    }

    /// Sets the results of containers; without it there is no container engine.
    #[must_use]
    pub fn on_container(
        mut self,
        answer: impl Fn(&Container) -> Result<ProcessResult, IoError> + Send + Sync + 'static,
    ) -> Self {
        self.container = Some(Arc::new(answer));
        self
    }

    /// Sets the lines that programs say to each line that they are told.
    #[must_use]
    pub fn on_talk(
        mut self,
        answer: impl Fn(&Process, &str) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.talk = Some(Arc::new(answer));
        self
    }

    /// A resource by its URI.
    #[must_use]
    pub fn resource(mut self, uri: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.resources.insert(uri.to_owned(), bytes.into());
        self
    }

    /// A secret.
    #[must_use]
    pub fn secret(mut self, name: &str, value: Value) -> Self {
        self.secrets.insert(name.to_owned(), value);
        self
    }

    /// A sink that gets all events; its deliveries are HTTP requests to its name.
    #[must_use]
    pub fn sink(mut self, name: &str) -> Self {
        self.sinks.push(name.to_owned());
        self
    }

    /// Its sinks get their events one after the other.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.are_ordered = true;
        self
    }

    /// The calls so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

fn nobody(what: &str) -> IoError {
    IoError::new(IoErrorKind::Communication, format!("nobody answers {what} in this test"))
}

impl Io for FakeIo {
    fn sinks(&self, _: &str) -> Vec<String> {
        self.sinks.clone()
    }

    fn is_ordered(&self, _: &str) -> bool {
        self.are_ordered
    }

    fn deliver(&self, sink: &str, event: &Value, call: &IoCall<'_>) -> Result<(), IoError> {
        let request = HttpRequest {
            method: "POST".to_owned(),
            uri: sink.to_owned(),
            headers: Vec::new(),
            body: Some(event.to_string().into_bytes()),
            follows_redirects: false,
            digest: None,
        };
        match self.http(&request, call)?.status {
            200..=299 => Ok(()),
            410 => Err(IoError::new(IoErrorKind::Forbidden, "the sink does not want it")),
            status => Err(nobody(&format!("the sink ({status})"))),
        }
    }

    fn http(&self, request: &HttpRequest, call: &IoCall<'_>) -> Result<HttpResponse, IoError> {
        self.asked.lock().push(Asked::Http(request.clone(), call.key.to_owned()));
        self.http.as_ref().map_or_else(|| Err(nobody(&request.uri)), |answer| answer(request))
    }

    /// In parts of a few bytes; the last one comes with the end.
    fn http_until(
        &self,
        request: &HttpRequest,
        mut is_enough: Box<dyn FnMut(&mut HttpResponse) -> bool + Send>,
        call: &IoCall<'_>,
    ) -> Result<HttpResponse, IoError> {
        let whole = self.http(request, call)?;
        let mut read = HttpResponse { body: Vec::new(), ..whole.clone() };
        let asked = (whole.body.len() / PART).saturating_sub(1);
        for (at, part) in whole.body.chunks(PART).enumerate() {
            read.body.extend_from_slice(part);
            if at < asked && is_enough(&mut read) {
                break;
            }
        }
        Ok(read)
    }

    fn grpc(&self, request: &GrpcRequest, call: &IoCall<'_>) -> Result<GrpcResponse, IoError> {
        self.asked.lock().push(Asked::Grpc(request.clone(), call.key.to_owned()));
        self.grpc.as_ref().map_or_else(|| Err(nobody(&request.shown())), |answer| answer(request))
    }

    fn grpc_problem(&self) -> Option<String> {
        let is_there = self.grpc.is_some();
        (!is_there).then(|| "gRPC cannot be called here: this test has none".to_owned())
    }

    fn publish(
        &self,
        channel: &BrokerChannel,
        message: &BrokerMessage,
        call: &IoCall<'_>,
    ) -> Result<(), IoError> {
        let key = call.key.to_owned();
        self.asked.lock().push(Asked::Published(channel.clone(), message.clone(), key));
        self.broker
            .as_ref()
            .map_or_else(|| Err(nobody(&channel.shown())), |answer| answer(channel).map(drop))
    }

    /// When its messages are over, so is the time of the call.
    fn receive(
        &self,
        channel: &BrokerChannel,
        is_enough: &mut dyn FnMut(Option<&BrokerMessage>) -> bool,
        call: &IoCall<'_>,
    ) -> Result<Receipt, IoError> {
        let key = call.key.to_owned();
        self.asked.lock().push(Asked::Received(channel.clone(), key.clone()));
        let Some(answer) = &self.broker else { return Err(nobody(&channel.shown())) };
        let (shown, gone) = (channel.shown(), Arc::clone(&self.gone));
        let (before, mut taken) = (gone.lock().get(&shown).copied().unwrap_or_default(), 0);
        let has_enough = answer(channel)?.iter().skip(before).any(|message| {
            taken += 1;
            is_enough(Some(message))
        });
        if !has_enough && !is_enough(None) {
            return Err(IoError::new(IoErrorKind::TimedOut, "the messages of this test are over"));
        }
        let asked = Arc::clone(&self.asked);
        Ok(Receipt::new(move || {
            *gone.lock().entry(shown).or_default() += taken;
            asked.lock().push(Asked::Acknowledged(key));
        }))
    }

    fn broker_problem(&self, protocol: Broker) -> Option<String> {
        self.broker.is_none().then(|| protocol.missing())
    }

    fn process(&self, process: &Process, call: &IoCall<'_>) -> Result<ProcessResult, IoError> {
        self.asked.lock().push(Asked::Process(process.clone(), call.key.to_owned()));
        self.process.as_ref().map_or_else(|| Err(nobody("processes")), |answer| answer(process))
    }

    fn process_detached(&self, process: &Process, call: &IoCall<'_>) -> Result<(), IoError> {
        self.process(process, call).map(|_| ())
    }

    fn talk(
        &self,
        process: &Process,
        talk: &mut dyn FnMut(Option<&str>) -> Reply,
        call: &IoCall<'_>,
    ) -> Result<(), IoError> {
        self.asked.lock().push(Asked::Process(process.clone(), call.key.to_owned()));
        let Some(answer) = &self.talk else { return Err(nobody("programs")) };
        let mut next = talk(None);
        let mut said = std::collections::VecDeque::new();
        loop {
            let Reply::Say(lines) = next else { return Ok(()) };
            said.extend(lines.iter().flat_map(|line| answer(process, line)));
            let line: Option<String> = said.pop_front();
            next = talk(Some(&line.ok_or_else(|| nobody("the program"))?));
        }
    }

    fn container(
        &self,
        container: &Container,
        call: &IoCall<'_>,
    ) -> Result<ProcessResult, IoError> {
        self.asked.lock().push(Asked::Container(container.clone(), call.key.to_owned()));
        self.container
            .as_ref()
            .map_or_else(|| Err(nobody("containers")), |answer| answer(container))
    }

    fn container_detached(&self, container: &Container, call: &IoCall<'_>) -> Result<(), IoError> {
        self.container(container, call).map(|_| ())
    }

    fn container_problem(&self) -> Option<String> {
        let is_there = self.container.is_some();
        (!is_there).then(|| "containers cannot be run here: no engine is in this test".to_owned())
    }

    fn script_problem(&self, _: ScriptLanguage) -> Option<String> {
        None
    }

    fn resource(&self, uri: &str, _: &IoCall<'_>) -> Result<Vec<u8>, IoError> {
        let found = self.resources.get(uri).cloned();
        found.ok_or_else(|| IoError::new(IoErrorKind::NotFound, format!("there is no {uri}")))
    }

    fn secret(&self, name: &str) -> Result<Option<Value>, IoError> {
        Ok(self.secrets.get(name).cloned())
    }
}
