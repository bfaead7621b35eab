//! Shell commands and scripts.

use serde_json::{json, Value};

use super::effect::{fault_of, Effect};
use super::http;
use crate::flow::expr::{as_text, Template};
use crate::flow::fault::Fault;
use crate::flow::io::{HttpRequest, Process, ProcessResult, Program};
use crate::flow::model::{Code, Command, CommandProgram, Endpoint, Returns};

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
    let stdin = it.stdin.as_ref().map(|stdin| effect.env.fill_own(stdin)).transpose()?;
    let stdin = stdin.filter(|stdin| !stdin.is_null()).map(|stdin| as_text(&stdin));
    let arguments = match filled(effect, it.arguments.as_ref())? {
        Value::Null => Vec::new(),
        Value::Array(arguments) => arguments.iter().map(as_text).collect(),
        // Names are options: `{"--depth": 3}`.
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| [name.clone(), as_text(value)]).collect()
        }
        other => return Err(Fault::expression(format!("arguments must be a list, not {other}"))),
    };
    let environment = match filled(effect, it.environment.as_ref())? {
        Value::Null => Vec::new(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), as_text(value))).collect()
        }
        other => {
            return Err(Fault::expression(format!(
                "an environment must be an object, not {other}"
            )));
        }
    };
    let process = Process { program, arguments, environment, stdin };
    if !it.is_awaited {
        effect.io.process_detached(&process, &effect.call).map_err(fault_of)?;
        return Ok(effect.env.input.clone());
    }
    let result = effect.io.process(&process, &effect.call).map_err(fault_of)?;
    output(effect, it.returns, result)
}

fn filled(effect: &Effect<'_, '_>, template: Option<&Template>) -> Result<Value, Fault> {
    template.map_or(Ok(Value::Null), |template| effect.env.fill_own(template))
}

/// An exit code that nobody asks for is a fault.
fn output(
    effect: &Effect<'_, '_>,
    returns: Returns,
    result: ProcessResult,
) -> Result<Value, Fault> {
    let ProcessResult { code, stdout, stderr } = result;
    if code != 0 && !matches!(returns, Returns::Code | Returns::All) {
        let mut said: String = stderr.chars().take(500).collect();
        effect.mask(&mut said);
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
    let uri = http::uri(effect, endpoint)?;
    let bytes = if uri.starts_with("http://") || uri.starts_with("https://") {
        let mut request = HttpRequest {
            method: "GET".to_owned(),
            uri: uri.clone(),
            headers: Vec::new(),
            body: None,
            follows_redirects: true,
            digest: None,
        };
        if let Some(policy) = &endpoint.authentication {
            super::auth::authenticate(effect, policy, &mut request)?;
        }
        let response = effect.io.http(&request, &effect.call).map_err(fault_of)?;
        if !(200..300).contains(&response.status) {
            let detail = format!("{uri} answered {}", response.status);
            return Err(Fault::communication(response.status, detail));
        }
        response.body
    } else {
        effect.io.resource(&uri, &effect.call).map_err(fault_of)?
    };
    String::from_utf8(bytes).map_err(|_| Fault::communication(500, format!("{uri} is no text")))
}
