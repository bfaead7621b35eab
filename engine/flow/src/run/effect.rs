//! Tasks with outside calls: the steps before and after the call.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{Map, Value};
use turnwheel_engine::action::{Action, StepContext};
use turnwheel_engine::Time;

use super::env::{Around, Env};
use super::hidden::{Hidden, MASK};
use super::state::{Outcome, TaskInput, TaskOutput};
use super::{a2a, asyncapi, container, grpc, http, mcp, openapi, process};
use crate::bench::Bench;
use crate::fault::Fault;
use crate::io::{Io, IoCall, IoError, IoErrorKind, Receipt};
use crate::model::{Authentication, Kind, Properties, Task};
use crate::scope::Stage;
use crate::Definition;

/// Characters of what a service or a process says that an error shows.
const SAID_CHARS: usize = 500;

/// A task that does something outside, and its world.
pub(super) struct Effect<'a, 'e> {
    pub(super) io: &'a dyn Io,
    pub(super) env: Env<'e>,
    pub(super) call: IoCall<'a>,
    /// Texts that must not be seen.
    pub(super) hidden: Hidden,
    /// Takes a sign of life, with what is to be seen of it.
    pub(super) beat: &'a (dyn Fn(&str) + Sync),
    /// Of messages that the result has.
    pub(super) receipt: Option<Receipt>,
    /// When the task began for which it takes a message.
    pub(super) since: Option<Time>,
}

/// Runs it. Messages that its outcome has are accepted when that is stored.
pub(super) fn run<A: Action<Input = TaskInput, Output = TaskOutput>>(
    bench: &Bench,
    step: &StepContext<A>,
    flow: &Definition,
    task: &Task,
    around: &Around,
) -> (Outcome, Option<Receipt>) {
    let key = step.idempotency_key();
    let is_cancelled = || step.is_cancelled();
    let trace = step.trace();
    let state = trace.as_ref().and_then(|trace| trace.state()).map(str::to_owned);
    let trace = trace.map(|trace| trace.to_string());
    let mut call = IoCall::new(&key, &is_cancelled);
    call.trace = trace.as_deref();
    call.trace_state = state.as_deref();
    let env = Env::of_task(flow, task, around, &step.input);
    // A text can always be written as JSON.
    let beat = |lines: &str| drop(step.heartbeat(lines));
    let (io, hidden, since) = (&*bench.io, Hidden::default(), step.input.since.map(Time));
    let mut effect = Effect { io, env, call, hidden, beat: &beat, receipt: None, since };
    let outcome = match effect.run(task) {
        Ok(mut outcome) => {
            effect.mask_in(&mut outcome.output);
            outcome.context.iter_mut().for_each(|context| effect.mask_in(context));
            outcome
        }
        Err(fault) => {
            let mut fault = fault.from_task(&task.pointer);
            for text in [&mut fault.detail, &mut fault.title].into_iter().flatten() {
                effect.mask(text);
            }
            Outcome::fault(fault)
        }
    };
    (outcome, effect.receipt)
}

impl Effect<'_, '_> {
    fn run(&mut self, task: &Task) -> Result<Outcome, Fault> {
        if uses_secrets(task) {
            self.read_secrets()?;
        }
        if !self.env.begin(Stage::Input { is_effect: true })? {
            let outcome = Outcome { is_skipped: true, ..Outcome::of(self.env.raw.clone()) };
            return Ok(outcome);
        }
        if let Some(timeout) = &task.timeout {
            self.call.limit = Some(self.env.duration(timeout)?);
        }
        let raw = match &task.kind {
            Kind::Http(it) => http::call(self, it)?,
            Kind::OpenApi(it) => openapi::call(self, it)?,
            Kind::AsyncApi(it) => asyncapi::call(self, it)?,
            Kind::Grpc(it) => grpc::call(self, it)?,
            Kind::Process(it) => process::run(self, it)?,
            Kind::Container(it) => container::run(self, &task.name, it)?,
            Kind::A2a(it) => a2a::call(self, it)?,
            Kind::Mcp(it) => mcp::call(self, it)?,
            _ => return Err(Fault::runtime("it does nothing outside")),
        };
        self.env.secrets = None;
        if let Some(parameter) = self.env.authorization.get_mut("parameter") {
            // The following fields are stored.
            *parameter = Value::String(MASK.to_owned());
        }
        self.env.end(raw, None)
    }

    fn read_secrets(&mut self) -> Result<(), Fault> {
        let mut secrets = Map::new();
        for name in self.env.flow.secrets.clone() {
            let secret = self.secret(&name)?;
            secrets.insert(name, secret);
        }
        self.env.secrets = Some(Value::Object(secrets));
        Ok(())
    }

    /// A secret by its name. It is masked in all results of this call.
    pub(super) fn secret(&mut self, name: &str) -> Result<Value, Fault> {
        let secret = self.io.secret(name).map_err(fault_of)?;
        let none = || Fault::authorization(format!("there is no secret «{name}»"));
        let secret = secret.ok_or_else(none)?;
        self.hide(&secret);
        Ok(secret)
    }

    pub(super) fn hide(&mut self, secret: &Value) {
        self.hidden.add(secret);
        self.call.secrets = self.hidden.texts().to_vec();
    }

    /// Masks what must not be seen.
    pub(super) fn mask(&self, text: &mut String) {
        self.hidden.mask(text);
    }

    /// The words of somebody, for an error: masked first, because a part of a secret is not found.
    pub(super) fn said(&self, text: &str) -> String {
        let mut whole = text.to_owned();
        self.mask(&mut whole);
        whole.chars().take(SAID_CHARS).collect()
    }

    /// Masks data: the answer may show the request.
    fn mask_in(&self, value: &mut Value) {
        self.hidden.mask_in(value);
    }
}

/// Whether expressions of a task name secrets: its own, and those of an authentication that it
/// uses by name.
fn uses_secrets(task: &Task) -> bool {
    let named = |policy: &Authentication| match &policy.properties {
        Properties::Written(template) => {
            template.expressions().iter().any(|text| text.contains("$secrets"))
        }
        Properties::Secret(_) => false,
    };
    task.definition.to_string().contains("$secrets")
        || task.kind.authentications().into_iter().any(named)
}

/// A call that came to nothing, as a fault.
pub(super) fn fault_of(error: IoError) -> Fault {
    match error.kind {
        IoErrorKind::TimedOut | IoErrorKind::Cancelled => Fault::timeout(error),
        IoErrorKind::NotFound => Fault::communication(404, error),
        IoErrorKind::Forbidden => Fault::authorization(error),
        IoErrorKind::Unsupported => Fault::configuration(error),
        IoErrorKind::Invalid => Fault::validation(error),
        IoErrorKind::TooLarge => Fault::runtime(error),
        IoErrorKind::Communication => Fault::communication(500, error),
    }
}

/// The answer as data: JSON if its type says so, else a text, else base64.
pub(super) fn content(kind: Option<&str>, body: &[u8]) -> Result<Value, Fault> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json");
    if is_json {
        return serde_json::from_slice(body).map_err(|error| {
            Fault::communication(
                500,
                format!("the answer says that it is JSON and is not: {error}"),
            )
        });
    }
    Ok(match std::str::from_utf8(body) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => Value::String(STANDARD.encode(body)),
    })
}
