//! A server on a free port of this machine, with actions that tests need, and a client of few words.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod certificates;
pub(crate) mod schema;

use std::io::Read as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use tokio::sync::oneshot;
use turnwheel::engine::{
    Action, ActionError, MemoryStore, Next, Run, Runs, StepContext, Store, World, WorldBuilder,
};
use turnwheel::http::serve::{Listen, Server, Stopped};
use turnwheel::http::{Access, Options};

/// Answers its input.
pub(crate) struct Echo;

#[derive(Serialize, Deserialize)]
pub(crate) struct Text {
    pub(crate) text: String,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) said: String,
}

impl Action for Echo {
    const NAME: &'static str = "echo";
    type Input = Text;
    type Output = Said;
    type Phases = Runs;
}

impl Run for Echo {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output.said.clone_from(&step.input.text);
        Ok(Next::Done)
    }
}

/// Waits for an event, and answers that.
pub(crate) struct Ask;

impl Action for Ask {
    const NAME: &'static str = "ask";
    type Input = Value;
    type Output = Value;
    type Phases = Runs;
}

impl Run for Ask {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.event::<Value>()? {
            Some(event) => {
                step.output = event;
                Ok(Next::Done)
            }
            None => Ok(Next::suspend("an answer")),
        }
    }
}

/// Fails unless its input says that it is mended.
pub(crate) struct Fail;

#[derive(Serialize, Deserialize)]
pub(crate) struct Mended {
    pub(crate) is_mended: bool,
}

impl Action for Fail {
    const NAME: &'static str = "fail";
    type Input = Mended;
    type Output = ();
    type Phases = Runs;
}

impl Run for Fail {
    fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        if step.input.is_mended {
            return Ok(Next::Done);
        }
        Err(ActionError::new("broken", "it is broken"))
    }
}

/// A world with these actions.
pub(crate) fn world(store: impl Store) -> World {
    with(World::builder()).build(store).expect("a world")
}

/// The same on its way, with others.
pub(crate) fn with(builder: WorldBuilder) -> WorldBuilder {
    builder.action(Echo).action(Ask).action(Fail)
}

/// A server over a world of its own.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) world: World,
    runtime: tokio::runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Stopped>>,
}

impl Served {
    /// In memory, for everybody on this machine.
    pub(crate) fn new() -> Self {
        Self::with(world(MemoryStore::new()), Options::new(Access::Loopback))
    }

    /// Over this world, with these options.
    pub(crate) fn with(world: World, options: Options) -> Self {
        Self::listening(world, options, |listen| listen)
    }

    /// Listening in this way.
    pub(crate) fn listening(
        world: World,
        options: Options,
        how: impl FnOnce(Listen) -> Listen + Send + 'static,
    ) -> Self {
        let (told, url) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = world.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            let listen = how(Listen::at("127.0.0.1:0".parse().expect("an address")));
            runtime.block_on(async {
                let server = Server::bind(&served, options, listen).await.expect("a free port");
                let runtime = tokio::runtime::Handle::current();
                told.send((server.url(), runtime)).expect("somebody waits");
                server.run(async { drop(stopped.await) }).await
            })
        });
        let (url, runtime) = url.recv().expect("the server listens");
        Self { url, world, runtime, stop: Some(stop), thread: Some(thread) }
    }

    /// Where it listens, without the scheme.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").expect("it is plain")
    }

    /// Runs it on the threads of the server.
    pub(crate) fn spawn(&self, task: impl std::future::Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Tells it to stop; it may take a while.
    pub(crate) fn tell_to_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub(crate) fn stopped(mut self) -> Stopped {
        self.tell_to_stop();
        self.thread.take().expect("it is stopped once").join().expect("it does not panic")
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], Some(body))
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let bytes = body.map(|body| serde_json::to_vec(body).expect("it is JSON"));
        let mut headers = headers.to_vec();
        if bytes.is_some() && !headers.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", "application/json"));
        }
        self.send_bytes(method, path, &headers, bytes.as_deref())
    }

    pub(crate) fn send_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        self.try_send_bytes(method, path, headers, body).expect("an answer")
    }

    pub(crate) fn try_send_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Answer, ureq::Error> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let mut request = ureq::http::Request::builder();
        request = request.method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = match body {
            Some(body) => agent.run(request.body(body.to_vec()).expect("a request")),
            None => agent.run(request.body(()).expect("a request")),
        };
        let answer = answer?;
        let status = answer.status().as_u16();
        let headers = answer.headers().clone();
        let mut text = String::new();
        answer.into_body().into_reader().read_to_string(&mut text)?;
        Ok(Answer { status, headers, text })
    }

    /// Begins a plan, and answers its id.
    pub(crate) fn start(&self, action: &str, input: &Value) -> String {
        let answer = self.post("/api/v1/plans", &json!({ "action": action, "input": input }));
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until a plan has ended or is paused.
    pub(crate) fn ended(&self, plan: &str) -> Value {
        self.get(&format!("/api/v1/plans/{plan}?wait_ms=60000")).json()
    }

    /// Waits until a step of a plan is suspended: there is nothing else that ends such a wait.
    pub(crate) fn suspended(&self, plan: &str) -> u32 {
        loop {
            let page = self.get(&format!("/api/v1/plans/{plan}/steps?state=suspended")).json();
            if let Some(step) = page["steps"][0]["id"].as_u64() {
                return step as u32;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.world.shutdown();
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// It is a problem with this code.
    pub(crate) fn is_problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        assert!(problem["type"].as_str().is_some_and(|page| page.ends_with(&format!("#{code}"))));
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
        problem
    }
}
