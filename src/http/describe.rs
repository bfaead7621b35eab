//! Parts of the API's description that all operations share: who may ask, what may go wrong.

use std::collections::BTreeMap;

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder, Server};
use utoipa::ToSchema as _;

use super::code::Code;

/// Paths that need no token.
const OPEN: [&str; 4] = ["/health", "/health/live", "/api/v1/session", "/api/v1/callbacks/"];

/// Statuses of problems that any operation with a token may answer.
const ANY: [u16; 6] = [400, 401, 403, 421, 429, 500];

/// Of operations that name something in their path.
const NAMED: [u16; 1] = [404];

/// Of operations with a body.
const BODY: [u16; 4] = [408, 413, 415, 422];

/// Of operations that change something.
const CHANGE: [u16; 4] = [409, 503, 504, 507];

/// Adds servers, ways to sign in, and the problems of each operation.
pub(super) fn complete(description: &mut OpenApi) {
    description.servers = Some(vec![Server::new("/")]);
    let components = description.components.get_or_insert_default();
    let scheme = |kind| SecurityScheme::Http(Http::new(kind));
    let schemes = &mut components.security_schemes;
    schemes.insert("token".to_owned(), scheme(HttpAuthScheme::Bearer));
    schemes.insert("password".to_owned(), scheme(HttpAuthScheme::Basic));
    for (path, item) in &mut description.paths.paths {
        let operations =
            [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch];
        for (at, operation) in operations.into_iter().enumerate() {
            let Some(operation) = operation else { continue };
            let is_open = OPEN.iter().any(|open| path.starts_with(open));
            secure(operation, is_open);
            add_problems(operation, path, at > 0);
        }
    }
}

/// A server without tokens asks for none: so the empty requirement is one of them.
fn secure(operation: &mut Operation, is_open: bool) {
    let named = |name: &str| SecurityRequirement::new(name, Vec::<String>::new());
    let mut ways = vec![SecurityRequirement::default()];
    if !is_open {
        ways.extend([named("token"), named("password")]);
    }
    operation.security = Some(ways);
}

fn add_problems(operation: &mut Operation, path: &str, is_change: bool) {
    let mut statuses: Vec<u16> = ANY.to_vec();
    if path.contains('{') {
        statuses.extend(NAMED);
    }
    if operation.request_body.is_some() {
        statuses.extend(BODY);
    }
    if is_change {
        statuses.extend(CHANGE);
    } else {
        statuses.extend([503, 504]);
    }
    let has_tag = operation.parameters.iter().flatten().any(|it| it.name == "If-Match");
    if has_tag {
        statuses.push(412);
    }
    let all: &mut BTreeMap<String, RefOr<Response>> = &mut operation.responses.responses;
    for status in statuses {
        all.entry(status.to_string()).or_insert_with(|| problem(&codes(status)).into());
    }
    let any = "A problem; its code says which";
    all.entry("default".to_owned()).or_insert_with(|| problem(any).into());
}

/// The codes of a status, as the description of its answer.
fn codes(status: u16) -> String {
    let of = Code::ALL.iter().filter(|code| code.status().as_u16() == status);
    let names: Vec<&str> = of.map(|code| code.name()).collect();
    format!("A problem: {}", names.join(", "))
}

fn problem(text: &str) -> Response {
    let name = crate::api::Problem::name();
    let content = Content::new(Some(RefOr::Ref(Ref::from_schema_name(name))));
    ResponseBuilder::new().description(text).content("application/problem+json", content).build()
}
