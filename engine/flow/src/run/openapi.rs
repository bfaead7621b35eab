//! Calls of services that an OpenAPI document describes: versions 2 (Swagger) and 3.

use serde_json::{Map, Value};

use super::auth;
use super::effect::Effect;
use super::http::{add_headers, send, set_body};
use super::process::source;
use super::uri::{self, encoded, resolved, with_query};
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::HttpRequest;
use crate::model::OpenApi;
use crate::text;

/// The methods that an operation can have.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &OpenApi) -> Result<Value, Fault> {
    let uri = uri::of(effect, &it.document)?;
    let text = source(effect, &it.document)?;
    let document = document(&text, &uri, "OpenAPI")?;
    let (path, method, operation) = find(&document, &it.operation).ok_or_else(|| {
        Fault::configuration(format!("{} has no operation «{}»", uri::shown(&uri), it.operation))
    })?;
    let given = match &it.parameters {
        Some(template) => effect.env.fill_own(template)?,
        None => Value::Object(Map::new()),
    };
    let Value::Object(mut given) = given else {
        return Err(Fault::expression(format!("parameters must be an object, not {given}")));
    };
    let item = document.get("paths").and_then(|paths| paths.get(path));
    let is_old = document.get("swagger").is_some();
    let mut parts = Parts { path: path.to_owned(), ..Parts::default() };
    for parameter in parameters(&document, item, operation) {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
        match given.remove(name).filter(|value| !value.is_null()) {
            Some(value) => parts.put(&parameter, name, value, is_old)?,
            None if parameter.get("required") == Some(&Value::Bool(true)) => {
                let problem = format!("the operation needs the parameter «{name}»");
                return Err(Fault::configuration(problem));
            }
            None => {}
        }
    }
    let described = operation.get("requestBody").and_then(|body| followed(&document, body));
    if let Some(described) = described.filter(|_| !given.is_empty()) {
        let body = given.remove("body");
        parts.body = body.or(Some(Value::Object(std::mem::take(&mut given))));
        parts.body_type = content_type(&described)?;
    }
    if let Some(name) = given.keys().next() {
        return Err(Fault::configuration(format!("the operation has no parameter «{name}»")));
    }
    let path = uri::without_dots(parts.path, path)?;
    let server = server(&document, item, operation, &uri);
    let mut request = HttpRequest {
        method: method.to_ascii_uppercase(),
        uri: with_query(&format!("{server}{path}"), &Value::Object(parts.query))?,
        headers: Vec::new(),
        body: None,
        follows_redirects: it.redirects,
        digest: None,
    };
    if let Some(policy) = it.authentication.as_ref().or(it.document.authentication.as_ref()) {
        auth::authenticate(effect, policy, &mut request)?;
    }
    if !parts.cookies.is_empty() {
        parts.headers.insert("Cookie".to_owned(), Value::String(parts.cookies.join("; ")));
    }
    if !parts.fields.is_empty() {
        parts.body_type = Some("application/x-www-form-urlencoded".to_owned());
        parts.body = Some(Value::Object(parts.fields));
    }
    if let Some(kind) = parts.body_type {
        parts.headers.entry("Content-Type").or_insert(Value::String(kind));
    }
    add_headers(&mut request, &Value::Object(parts.headers))?;
    if let Some(body) = parts.body {
        set_body(&mut request, &body);
    }
    send(effect, request, it.output, it.redirects)
}

/// The parts of a request that parameters make.
#[derive(Default)]
struct Parts {
    path: String,
    query: Map<String, Value>,
    headers: Map<String, Value>,
    cookies: Vec<String>,
    /// The fields of a form.
    fields: Map<String, Value>,
    body: Option<Value>,
    body_type: Option<String>,
}

impl Parts {
    /// Puts a parameter to its place.
    fn put(
        &mut self,
        parameter: &Value,
        name: &str,
        value: Value,
        is_old: bool,
    ) -> Result<(), Fault> {
        match parameter.get("in").and_then(Value::as_str).unwrap_or_default() {
            "path" => {
                let value = joined(&value, ",", encoded);
                self.path = self.path.replace(&format!("{{{name}}}"), &value);
            }
            "query" => {
                let value = match separator(parameter, is_old) {
                    Some(separator) => Value::String(joined(&value, separator, str::to_owned)),
                    None => value,
                };
                self.query.insert(name.to_owned(), value);
            }
            "header" => {
                let value = Value::String(joined(&value, ",", str::to_owned));
                self.headers.insert(name.to_owned(), value);
            }
            "cookie" => self.cookies.push(format!("{name}={}", joined(&value, ",", encoded))),
            "formData" => drop(self.fields.insert(name.to_owned(), value)),
            "body" => self.body = Some(value),
            other => {
                let problem = format!("a parameter is in «{other}», which is not known");
                return Err(Fault::configuration(problem));
            }
        }
        Ok(())
    }
}

/// A document in JSON or YAML.
pub(super) fn document(text_: &str, uri: &str, kind: &str) -> Result<Value, Fault> {
    if let Ok(document) = serde_json::from_str(text_) {
        return Ok(document);
    }
    let mut problems = text::Collector::new(text_, uri);
    let nodes = text::parse(text_, &mut problems);
    match nodes.first() {
        Some(node) if problems.is_empty() => Ok(node.to_value()),
        _ => Err(Fault::communication(500, format!("{} is no {kind} document", uri::shown(uri)))),
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

/// The parameters of an operation and of its path, references followed. A parameter of the
/// operation is in place of that of the path with its name.
fn parameters(document: &Value, path: Option<&Value>, operation: &Value) -> Vec<Value> {
    let lists = [Some(operation), path];
    let lists = lists.into_iter().flatten().filter_map(|item| item.get("parameters"));
    let mut all: Vec<Value> = Vec::new();
    let key = |parameter: &Value| ["name", "in"].map(|field| parameter.get(field).cloned());
    for parameter in lists.filter_map(Value::as_array).flatten() {
        let Some(parameter) = followed(document, parameter) else { continue };
        if all.iter().all(|known| key(known) != key(&parameter)) {
            all.push(parameter);
        }
    }
    all
}

/// An object of the document, or the one that it refers to.
pub(super) fn followed(document: &Value, object: &Value) -> Option<Value> {
    match object.get("$ref").and_then(Value::as_str) {
        Some(target) => document.pointer(target.strip_prefix('#')?).cloned(),
        None => Some(object.clone()),
    }
}

/// A value in a path, a header or a cookie: the elements of a list with a separator between them.
fn joined(value: &Value, separator: &str, written: impl Fn(&str) -> String) -> String {
    match value {
        Value::Array(elements) => {
            let elements = elements.iter().map(|element| written(&as_text(element)));
            elements.collect::<Vec<_>>().join(separator)
        }
        value => written(&as_text(value)),
    }
}

/// The separator of a list in a query; nothing if the parameter is repeated for each element.
fn separator(parameter: &Value, is_old: bool) -> Option<&'static str> {
    let text = |name: &str| parameter.get(name).and_then(Value::as_str);
    if is_old {
        return match text("collectionFormat") {
            Some("multi") => None,
            Some("ssv") => Some(" "),
            Some("tsv") => Some("\t"),
            Some("pipes") => Some("|"),
            _ => Some(","),
        };
    }
    let is_form = text("style").is_none_or(|style| style == "form");
    if parameter.get("explode").and_then(Value::as_bool).unwrap_or(is_form) {
        return None;
    }
    match text("style") {
        Some("spaceDelimited") => Some(" "),
        Some("pipeDelimited") => Some("|"),
        _ => Some(","),
    }
}

/// The content type of a body, unless it is plain JSON: a kind of JSON, or else the first type that
/// the operation takes.
fn content_type(body: &Value) -> Result<Option<String>, Fault> {
    let kinds = body.get("content").and_then(Value::as_object);
    let kinds: Vec<&String> = kinds.into_iter().flat_map(Map::keys).collect();
    let is_any = |kind: &&String| kind.contains('*') || kind.starts_with("application/json");
    if kinds.iter().copied().any(|kind| is_any(&kind)) {
        return Ok(None);
    }
    let json = kinds.iter().find(|kind| kind.contains("json"));
    match json.or(kinds.first()) {
        Some(kind) if kind.starts_with("multipart/") => {
            Err(Fault::configuration(format!("a body of the type «{kind}» is not supported")))
        }
        kind => Ok(kind.map(|kind| (*kind).clone())),
    }
}

/// Address of the service, by the operation, its path or the document.
fn server(document: &Value, path: Option<&Value>, operation: &Value, uri: &str) -> String {
    let places = [Some(operation), path, Some(document)];
    let server = places.into_iter().flatten().find_map(|place| place.pointer("/servers/0"));
    if let Some(url) = server.and_then(|server| server.get("url")).and_then(Value::as_str) {
        let mut url = url.to_owned();
        let variables = server.and_then(|it| it.get("variables")).and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let default = variable.get("default").map(as_text).unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), &default);
        }
        return resolved(&url, uri).trim_end_matches('/').to_owned();
    }
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let scheme = document.pointer("/schemes/0").and_then(Value::as_str);
    let scheme = scheme.or_else(|| uri.split("://").next()).unwrap_or("https");
    let path = text("basePath").unwrap_or_default().trim_end_matches('/');
    match text("host") {
        Some(host) => format!("{scheme}://{host}{path}"),
        None => resolved(&format!("/{}", path.trim_start_matches('/')), uri)
            .trim_end_matches('/')
            .to_owned(),
    }
}
