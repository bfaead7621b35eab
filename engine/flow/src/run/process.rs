//! Shell commands and scripts.

use serde_json::{json, Value};

use super::effect::{fault_of, Effect};
use super::live::Tail;
use super::uri;
use crate::expr::{as_text, Template};
use crate::fault::Fault;
use crate::io::{HttpRequest, Process, ProcessResult, Program};
use crate::model::{Authentication, Code, Command, CommandProgram, Endpoint, Returns};

pub(super) fn run(effect: &mut Effect<'_, '_>, it: &Command) -> Result<Value, Fault> {
    let program = match &it.program {
        CommandProgram::Shell(command) => Program::Shell(as_text(&effect.env.fill_own(command)?)),
        CommandProgram::Script { language, code } => {
            let code = match code {
                Code::Text(text) => text.clone(),
                Code::Source(endpoint) => source(effect, endpoint)?,
            };
            Program::Script { language: *language, code }
        }
    };
    let stdin = stdin(effect, it.stdin.as_ref())?;
    let arguments = arguments(effect, it.arguments.as_ref())?;
    let environment = pairs(effect, it.environment.as_ref(), "an environment")?;
    let process = Process { program, arguments, environment, stdin };
    if !it.is_awaited {
        effect.io.process_detached(&process, &effect.call).map_err(fault_of)?;
        return Ok(effect.env.input.clone());
    }
    let tail = Tail::default();
    let wrote = |bytes: &[u8]| {
        if let Some(mut lines) = tail.push(bytes) {
            effect.mask(&mut lines);
            (effect.beat)(&lines);
        }
    };
    let call = effect.call.told(&wrote);
    let result = effect.io.process(&process, &call).map_err(fault_of)?;
    output(effect, it.returns, result)
}

/// Its standard input, if it has one.
pub(super) fn stdin(
    effect: &Effect<'_, '_>,
    template: Option<&Template>,
) -> Result<Option<String>, Fault> {
    let stdin = filled(effect, template)?;
    Ok((!stdin.is_null()).then(|| as_text(&stdin)))
}

/// Arguments after its name.
pub(super) fn arguments(
    effect: &Effect<'_, '_>,
    template: Option<&Template>,
) -> Result<Vec<String>, Fault> {
    match filled(effect, template)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(arguments) => Ok(arguments.iter().map(as_text).collect()),
        // Names are options: `{"--depth": 3}`.
        Value::Object(fields) => {
            let options = fields.iter();
            Ok(options.flat_map(|(name, value)| [name.clone(), as_text(value)]).collect())
        }
        other => Err(Fault::expression(format!("arguments must be a list, not {other}"))),
    }
}

/// Names with their values as texts; those without a value are left out.
pub(super) fn pairs(
    effect: &Effect<'_, '_>,
    template: Option<&Template>,
    what: &str,
) -> Result<Vec<(String, String)>, Fault> {
    match filled(effect, template)? {
        Value::Null => Ok(Vec::new()),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            Ok(fields.map(|(name, value)| (name.clone(), as_text(value))).collect())
        }
        other => Err(Fault::expression(format!("{what} must be an object, not {other}"))),
    }
}

fn filled(effect: &Effect<'_, '_>, template: Option<&Template>) -> Result<Value, Fault> {
    template.map_or(Ok(Value::Null), |template| effect.env.fill_own(template))
}

/// An exit code that nobody asks for is a fault.
pub(super) fn output(
    effect: &Effect<'_, '_>,
    returns: Returns,
    result: ProcessResult,
) -> Result<Value, Fault> {
    let ProcessResult { code, stdout, stderr } = result;
    if code != 0 && !matches!(returns, Returns::Code | Returns::All) {
        let said = effect.said(&stderr);
        return Err(Fault::runtime(format!("the process ended with code {code}: {}", said.trim())));
    }
    let text = |text: String| Value::String(text);
    Ok(match returns {
        Returns::Stdout => text(stdout),
        Returns::Stderr => text(stderr),
        Returns::Code => json!(code),
        Returns::All => json!({ "code": code, "stdout": stdout, "stderr": stderr }),
        Returns::None => Value::Null,
    })
}

/// The text of a resource.
pub(super) fn source(effect: &mut Effect<'_, '_>, endpoint: &Endpoint) -> Result<String, Fault> {
    let uri = uri::of(effect, endpoint)?;
    source_at(effect, &uri, endpoint.authentication.as_ref())
}

/// The text of a resource at an address.
pub(super) fn source_at(
    effect: &mut Effect<'_, '_>,
    uri: &str,
    authentication: Option<&Authentication>,
) -> Result<String, Fault> {
    let bytes = if uri.starts_with("http://") || uri.starts_with("https://") {
        let mut request = HttpRequest {
            method: "GET".to_owned(),
            uri: uri.to_owned(),
            headers: Vec::new(),
            body: None,
            follows_redirects: true,
            digest: None,
        };
        if let Some(policy) = authentication {
            super::auth::authenticate(effect, policy, &mut request)?;
        }
        let response = effect.io.http(&request, &effect.call).map_err(fault_of)?;
        if !(200..300).contains(&response.status) {
            let detail = format!("{} answered {}", uri::shown(uri), response.status);
            return Err(Fault::communication(response.status, detail));
        }
        response.body
    } else {
        effect.io.resource(uri, &effect.call).map_err(fault_of)?
    };
    String::from_utf8(bytes)
        .map_err(|_| Fault::communication(500, format!("{} is no text", uri::shown(uri))))
}
