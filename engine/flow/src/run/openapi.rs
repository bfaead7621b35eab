//! Calls of services that an OpenAPI document describes: versions 2 (Swagger) and 3.

use serde_json::{Map, Value};

use super::auth;
use super::effect::Effect;
use super::http::{add_headers, encoded, send, set_body, with_query};
use super::process::source;
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::HttpRequest;
use crate::model::OpenApi;
use crate::text;

/// The methods that an operation can have.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &OpenApi) -> Result<Value, Fault> {
    let uri = super::http::uri(effect, &it.document)?;
    let text = source(effect, &it.document)?;
    let document = document(&text, &uri)?;
    let (path, method, operation) = find(&document, &it.operation).ok_or_else(|| {
        Fault::configuration(format!("{uri} has no operation «{}»", it.operation))
    })?;
    let given = match &it.parameters {
        Some(template) => effect.env.fill_own(template)?,
        None => Value::Object(Map::new()),
    };
    let Value::Object(mut given) = given else {
        return Err(Fault::expression(format!("parameters must be an object, not {given}")));
    };
    let mut request = HttpRequest {
        method: method.to_ascii_uppercase(),
        uri: String::new(),
        headers: Vec::new(),
        body: None,
        follows_redirects: it.redirects,
        digest: None,
    };
    let mut path = path.to_owned();
    let (mut query, mut headers, mut fields) = (Map::new(), Map::new(), Map::new());
    let mut body = None;
    for parameter in parameters(&document, &path, operation) {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
        let Some(value) = given.remove(name).filter(|value| !value.is_null()) else {
            if parameter.get("required") == Some(&Value::Bool(true)) {
                let problem = format!("the operation needs the parameter «{name}»");
                return Err(Fault::configuration(problem));
            }
            continue;
        };
        match place {
            "path" => path = path.replace(&format!("{{{name}}}"), &encoded(&as_text(&value))),
            "query" => drop(query.insert(name.to_owned(), value)),
            "header" => drop(headers.insert(name.to_owned(), value)),
            "cookie" => drop(headers.insert(
                "Cookie".to_owned(),
                Value::String(format!("{name}={}", encoded(&as_text(&value)))),
            )),
            "formData" => drop(fields.insert(name.to_owned(), value)),
            "body" => body = Some(value),
            other => {
                let problem = format!("a parameter is in «{other}», which is not known");
                return Err(Fault::configuration(problem));
            }
        }
    }
    if !given.is_empty() && operation.get("requestBody").is_some() {
        body = given.remove("body").or(Some(Value::Object(std::mem::take(&mut given))));
    }
    if let Some(name) = given.keys().next() {
        return Err(Fault::configuration(format!("the operation has no parameter «{name}»")));
    }
    request.uri = with_query(&format!("{}{path}", server(&document, &uri)), &Value::Object(query))?;
    if let Some(policy) = it.authentication.as_ref().or(it.document.authentication.as_ref()) {
        auth::authenticate(effect, policy, &mut request)?;
    }
    add_headers(&mut request, &Value::Object(headers))?;
    if !fields.is_empty() {
        let kind = ("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned());
        request.headers.push(kind);
        body = Some(Value::Object(fields));
    }
    if let Some(body) = body {
        set_body(&mut request, &body);
    }
    send(effect, request, it.output, it.redirects)
}

/// A document in JSON or YAML.
fn document(text_: &str, uri: &str) -> Result<Value, Fault> {
    if let Ok(document) = serde_json::from_str(text_) {
        return Ok(document);
    }
    let mut problems = text::Collector::new(text_, uri);
    let nodes = text::parse(text_, &mut problems);
    match nodes.first() {
        Some(node) if problems.is_empty() => Ok(node.to_value()),
        _ => Err(Fault::communication(500, format!("{uri} is no OpenAPI document"))),
    }
}

fn find<'a>(document: &'a Value, wanted: &str) -> Option<(&'a str, &'static str, &'a Value)> {
    for (path, item) in document.get("paths")?.as_object()? {
        for method in METHODS {
            let operation = item.get(method);
            let id = operation.and_then(|operation| operation.get("operationId"));
            if id.and_then(Value::as_str) == Some(wanted) {
                return Some((path, method, operation?));
            }
        }
    }
    None
}

/// The parameters of an operation and of its path, references followed.
fn parameters(document: &Value, path: &str, operation: &Value) -> Vec<Value> {
    let of_path = document.get("paths").and_then(|paths| paths.get(path));
    let lists = [Some(operation), of_path];
    let lists = lists.into_iter().flatten().filter_map(|item| item.get("parameters"));
    let all = lists.filter_map(Value::as_array).flatten();
    all.filter_map(|parameter| match parameter.get("$ref").and_then(Value::as_str) {
        Some(target) => document.pointer(target.strip_prefix('#')?).cloned(),
        None => Some(parameter.clone()),
    })
    .collect()
}

/// Address of the service.
fn server(document: &Value, uri: &str) -> String {
    let origin = || {
        let end = uri.find("://").and_then(|at| uri[at + 3..].find('/').map(|end| at + 3 + end));
        end.map_or(uri, |end| &uri[..end])
    };
    let server = document.pointer("/servers/0/url").and_then(Value::as_str);
    if let Some(server) = server {
        let mut server = server.trim_end_matches('/').to_owned();
        let variables = document.pointer("/servers/0/variables").and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let default = variable.get("default").map(as_text).unwrap_or_default();
            server = server.replace(&format!("{{{name}}}"), &default);
        }
        return if server.contains("://") { server } else { format!("{}{server}", origin()) };
    }
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let scheme = document.pointer("/schemes/0").and_then(Value::as_str);
    let scheme = scheme.or_else(|| uri.split("://").next()).unwrap_or("https");
    let path = text("basePath").unwrap_or_default().trim_end_matches('/');
    match text("host") {
        Some(host) => format!("{scheme}://{host}{path}"),
        None => format!("{}{path}", origin()),
    }
}
