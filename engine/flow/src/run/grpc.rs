//! Calls of gRPC: the files of the service are read here, with what they import, and the host calls
//! it.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::effect::{fault_of, Effect};
use super::process::source_at;
use super::{auth, uri};
use crate::expr::as_text;
use crate::fault::Fault;
use crate::io::{GrpcRequest, HttpRequest, ProtoFile};
use crate::model::{Endpoint, Grpc};

/// The port of a service without one, and the one that has TLS unless the flow says otherwise.
const TLS_PORT: u16 = 443;

/// The files of one service, with all that they import.
const FILES_MAX: usize = 64;

/// Folders above a file in which an import is looked for.
const FOLDERS_MAX: usize = 8;

/// Imports that are built in.
const BUILT_IN: &str = "google/protobuf/";

pub(super) fn call(effect: &mut Effect<'_, '_>, it: &Grpc) -> Result<Value, Fault> {
    let host = as_text(&effect.env.fill_own(&it.host)?);
    if host.is_empty() || host.contains(|c: char| "/@?#[]".contains(c) || c.is_whitespace()) {
        return Err(Fault::configuration(format!("«{host}» is no name of a host")));
    }
    let port = match &it.port {
        None => TLS_PORT,
        Some(template) => {
            let port = as_text(&effect.env.fill_own(template)?);
            let wrong = || Fault::configuration(format!("«{port}» is no port"));
            port.parse().map_err(|_| wrong())?
        }
    };
    let arguments = it.arguments.as_ref().map(|template| effect.env.fill_own(template));
    let arguments = match arguments.transpose()?.unwrap_or(Value::Null) {
        Value::Null => Value::Object(Map::new()),
        arguments @ Value::Object(_) => arguments,
        Value::Array(all) if all.iter().all(Value::is_object) => Value::Array(all),
        other => {
            let problem = "arguments must be an object, or a list of objects for a stream, not";
            return Err(Fault::validation(format!("{problem} {other}")));
        }
    };
    let protos = it.proto.as_ref().map(|proto| files(effect, proto)).transpose()?;
    let mut request = GrpcRequest {
        host,
        port,
        is_tls: it.tls.unwrap_or(port == TLS_PORT),
        protos: protos.unwrap_or_default(),
        service: it.service.clone(),
        method: it.method.clone(),
        arguments,
        metadata: Vec::new(),
    };
    if let Some(policy) = &it.authentication {
        let mut carrier = HttpRequest {
            method: "POST".to_owned(),
            uri: request.shown(),
            headers: Vec::new(),
            body: None,
            follows_redirects: false,
            digest: None,
        };
        auth::authenticate(effect, policy, &mut carrier)?;
        request.metadata = carrier.headers;
    }
    let response = effect.io.grpc(&request, &effect.call).map_err(fault_of)?;
    if response.status != 0 {
        let detail = format!("{} answered {}", request.shown(), effect.said(&response.error()));
        return Err(Fault::communication(response.http_status(), detail));
    }
    Ok(response.output)
}

/// The file of a service, and all that it imports.
fn files(effect: &mut Effect<'_, '_>, proto: &Endpoint) -> Result<Vec<ProtoFile>, Fault> {
    let base = uri::of(effect, proto)?;
    let policy = proto.authentication.as_ref();
    let name = base.split(['?', '#']).next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default().to_owned();
    let text = source_at(effect, &base, policy)?;
    let mut wanted: VecDeque<String> = imports(&text).into();
    let mut files = vec![ProtoFile { name, text }];
    while let Some(import) = wanted.pop_front() {
        if import.starts_with(BUILT_IN) || files.iter().any(|file| file.name == import) {
            continue;
        }
        if files.len() >= FILES_MAX {
            let problem = format!("{base} imports more than {FILES_MAX} files");
            return Err(Fault::configuration(problem));
        }
        let text = imported(effect, &base, policy, &import)?;
        wanted.extend(imports(&text));
        files.push(ProtoFile { name: import, text });
    }
    Ok(files)
}

/// The text of an import: of the folder of the service's file, or of a folder above it, because a
/// file does not say which folder the names of its imports begin at.
fn imported(
    effect: &mut Effect<'_, '_>,
    base: &str,
    policy: Option<&crate::model::Authentication>,
    import: &str,
) -> Result<String, Fault> {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    if !import.split('/').all(is_plain) || import.contains(['\\', '?', '#', '%', ':']) {
        return Err(Fault::configuration(format!("{base} imports «{import}», which is no path")));
    }
    for folder in folders(base) {
        match source_at(effect, &format!("{folder}/{import}"), policy) {
            Err(fault) if fault.status == 404 => {}
            outcome => return outcome,
        }
    }
    let problem = format!("{base} imports «{import}», which is neither in its folder nor above it");
    Err(Fault::configuration(problem))
}

/// The folders of an address, from the innermost to the root.
fn folders(uri: &str) -> impl Iterator<Item = &str> {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let root = path.find("://").map_or(0, |at| at + 3);
    let root = path[root..].find('/').map_or(path.len(), |at| root + at);
    let folder = move |inner: &&'_ str| inner.rfind('/').filter(|at| *at >= root);
    let first = folder(&path).map(|at| &path[..at]);
    std::iter::successors(first, move |inner| folder(inner).map(|at| &inner[..at]))
        .take(FOLDERS_MAX)
}

/// The names that the `import` statements of a file give.
fn imports(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    let (mut is_begin, mut is_import) = (true, false);
    while let Some(first) = rest.chars().next() {
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |at| at + 4)
        } else if matches!(first, '"' | '\'') {
            let (name, end) = quoted(rest, first);
            if is_import {
                found.push(name.to_owned());
            }
            (is_begin, is_import) = (false, false);
            end
        } else if first.is_alphanumeric() || first == '_' {
            let is_other = |c: char| !c.is_alphanumeric() && c != '_';
            let end = rest.find(is_other).unwrap_or(rest.len());
            is_import |= is_begin && &rest[..end] == "import";
            is_begin = false;
            end
        } else {
            if matches!(first, ';' | '{' | '}') {
                (is_begin, is_import) = (true, false);
            }
            first.len_utf8()
        };
        rest = &rest[end..];
    }
    found
}

/// The text in quotes at the begin, and where what follows begins.
fn quoted(text: &str, quote: char) -> (&str, usize) {
    let mut is_escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        if sign == quote && !is_escaped {
            return (&text[1..at], at + 1);
        }
        is_escaped = sign == '\\' && !is_escaped;
    }
    (&text[1..], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_where_they_are_statements() {
        let text = r#"syntax = "proto3"; // import "no/1.proto";
            /* import "no/2.proto"; */ import "a/b.proto";
            import public 'c.proto';import weak "d.proto"; option x = "import \"no/3.proto\"";
            message M { string import = 1; } "#;
        assert_eq!(imports(text), ["a/b.proto", "c.proto", "d.proto"]);
        assert!(imports("import \"").len() <= 1);
    }

    #[test]
    fn folders_end_at_the_host() {
        let of = |uri| folders(uri).collect::<Vec<_>>();
        assert_eq!(of("https://a/b/c/d.proto?x=/1"), ["https://a/b/c", "https://a/b", "https://a"]);
        assert_eq!(of("file:///x/d.proto"), ["file:///x", "file://"]);
        assert_eq!(of("https://a"), Vec::<&str>::new());
    }
}
