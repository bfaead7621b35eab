//! The worker of the Rust client: threads that lease and beat, around the operations of `Client`.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use turnwheel::api::{Lease, Task, TaskFail};
use turnwheel::client::{Client, ClientError};

const TOPICS: [&str; 7] = ["echo", "flaky", "final", "unfit", "pair", "hold", "errors"];
const TRIES: usize = 6;
const PAUSE: Duration = Duration::from_millis(10);
const WAIT_MS: u64 = 200;

/// A worker of two threads.
pub(super) struct Handle {
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

struct Shared {
    client: Client,
    lease: Duration,
    grace: Duration,
    pair: Barrier,
    is_stopping: Mutex<bool>,
    stopped: Condvar,
    said: Sender<Value>,
}

pub(super) fn start(url: &str, lease: Duration, grace_secs: f64, said: Sender<Value>) -> Handle {
    let shared = Arc::new(Shared {
        client: Client::new(url),
        lease,
        grace: Duration::from_secs_f64(grace_secs),
        pair: Barrier::new(2),
        is_stopping: Mutex::new(false),
        stopped: Condvar::new(),
        said,
    });
    let work = || {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || shared.work())
    };
    let threads = vec![work(), work()];
    Handle { shared, threads }
}

impl Handle {
    pub(super) fn stop(&mut self) {
        *self.shared.is_stopping.lock().expect("no thread panics") = true;
        self.shared.stopped.notify_all();
        self.threads.drain(..).for_each(|thread| thread.join().expect("a worker does not panic"));
    }
}

/// Outcome of a handler.
enum Done {
    Output(Value),
    Failed { kind: &'static str, message: &'static str, is_final: bool },
    Cancelled,
}

impl Shared {
    fn is_stopping(&self) -> bool {
        *self.is_stopping.lock().expect("no thread panics")
    }

    /// Waits so long; a stop meanwhile ends the wait.
    fn rest(&self, length: Duration) {
        let stopping = self.is_stopping.lock().expect("no thread panics");
        let before = *stopping;
        let waited = self.stopped.wait_timeout_while(stopping, length, |now| *now == before);
        drop(waited.expect("no thread panics"));
    }

    fn work(&self) {
        let topics: Vec<String> = TOPICS.iter().map(|topic| (*topic).to_owned()).collect();
        let lease_ms = u64::try_from(self.lease.as_millis()).ok();
        let worker = Some("conformance-1".to_owned());
        let lease = Lease { topics, lease_ms, limit: None, wait_ms: Some(WAIT_MS), worker };
        while !self.is_stopping() {
            match self.client.lease(&lease) {
                Ok(tasks) => tasks.iter().for_each(|task| self.take(task)),
                Err(_) => self.rest(PAUSE),
            }
        }
    }

    fn take(&self, task: &Task) {
        if self.is_stopping() {
            let _lost = self.client.release(task);
            return;
        }
        let answered = match self.handle(task) {
            Done::Output(output) => self.again(|| self.client.complete(task, &output).map(drop)),
            Done::Failed { kind, message, is_final } => {
                let (kind, message) = (kind.to_owned(), message.to_owned());
                let failed = TaskFail { kind, message, is_final };
                self.again(|| self.client.fail(task, &failed).map(drop))
            }
            Done::Cancelled => Ok(()),
        };
        answered.expect("the answer reaches the server");
    }

    fn handle(&self, task: &Task) -> Done {
        let again = Done::Failed { kind: "failed", message: "not yet", is_final: false };
        match task.topic.as_str() {
            "echo" => Done::Output(json!(task)),
            "flaky" if task.attempt < 3 => again,
            "flaky" => Done::Output(json!({"attempt": task.attempt})),
            "final" => Done::Failed { kind: "refused", message: "never", is_final: true },
            // Keys of maps are texts in JSON.
            "unfit" => {
                let unfit = std::collections::BTreeMap::from([(vec![1], 1)]);
                let refused = self.client.complete(task, &unfit);
                assert!(matches!(refused, Err(ClientError::Unwritable(_))), "{refused:?}");
                Done::Failed { kind: "output", message: "no JSON", is_final: true }
            }
            "pair" => {
                self.pair.wait();
                Done::Output(json!("together"))
            }
            "hold" => self.hold(task),
            _ => Done::Output(self.errors(task)),
        }
    }

    /// Beats until the lease is lost, or its time after a stop is over.
    fn hold(&self, task: &Task) -> Done {
        let say = |event: &str| {
            let _over = self.said.send(json!({"event": event, "plan": task.plan}));
        };
        say("begun");
        let mut until: Option<Instant> = None;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            self.rest(left.map_or(self.lease / 3, |left| left.min(self.lease / 3)));
            if self.is_stopping() {
                let until = *until.get_or_insert_with(|| Instant::now() + self.grace);
                if Instant::now() >= until {
                    let _lost = self.client.release(task);
                    return Done::Cancelled;
                }
            }
            let beat = self.client.beat(task, &json!({"held": task.delivery}));
            if beat.is_err_and(|error| error.code() == Some("lease-lost")) {
                say("cancelled");
                return Done::Cancelled;
            }
        }
    }

    fn errors(&self, task: &Task) -> Value {
        let nonsense = Task { id: "nonsense".to_owned(), ..task.clone() };
        let refused = self.client.complete(&nonsense, &json!(1)).expect_err("it names no task");
        let away = Client::new("http://127.0.0.1:9").complete(task, &json!(1));
        let away = away.expect_err("nobody listens there");
        json!({
            "refused": [refused.code(), refused.is_retryable()],
            "unreachable": [away.is_retryable()],
        })
    }

    fn again(&self, ask: impl Fn() -> Result<(), ClientError>) -> Result<(), ClientError> {
        for _ in 1..TRIES {
            match ask() {
                Err(error) if error.is_retryable() => self.rest(PAUSE),
                outcome => return outcome,
            }
        }
        ask()
    }
}
