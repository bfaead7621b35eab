//! Parts of the API's description that all operations share: who may ask, what may go wrong.

use std::collections::BTreeMap;

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, Object, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder, Server, Type,
};
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
            add_tags(operation, at == 0);
            add_headers(operation);
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
    if has_parameter(operation, "If-Match") {
        statuses.push(412);
    }
    let all: &mut BTreeMap<String, RefOr<Response>> = &mut operation.responses.responses;
    for status in statuses {
        all.entry(status.to_string()).or_insert_with(|| problem(&codes(status)).into());
    }
    let any = "A problem; its code says which";
    all.entry("default".to_owned()).or_insert_with(|| problem(any).into());
}

/// Operations that read something with an entity tag.
const TAGGED: [&str; 3] = ["getJob", "getSchedule", "getFlow"];

/// Adds the tag of what is shown, and what a reader says that has it already.
fn add_tags(operation: &mut Operation, is_read: bool) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let is_tagged = TAGGED.contains(&id);
    // The tags of jobs and schedules are of what is edited, and not of what they have done.
    if is_read && id == "getFlow" {
        let text = "The ETag of the state that the reader has: a current one is not sent again";
        let known = ParameterBuilder::new()
            .name("If-None-Match")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(text))
            .schema(Some(Object::with_type(Type::String)));
        operation.parameters.get_or_insert_default().push(known.build());
        let same = ResponseBuilder::new().description("It is as the reader has it");
        operation.responses.responses.insert("304".to_owned(), same.build().into());
    }
    let edits = has_parameter(operation, "If-Match") && !id.starts_with("remove");
    if is_tagged || edits {
        for status in ["200", "201", "304"] {
            add_header(operation, status, "ETag", "The state: for If-Match and If-None-Match");
        }
    }
}

/// Adds the headers that follow from statuses and parameters.
fn add_headers(operation: &mut Operation) {
    add_header(operation, "201", "Location", "Where it is, relative to the request");
    if has_parameter(operation, "Idempotency-Key") {
        let text = "`true` if a request with this key was answered before";
        add_header(operation, "200", "Idempotency-Replayed", text);
    }
    for status in ["429", "503"] {
        add_header(operation, status, "Retry-After", "Seconds to wait, if that is known");
    }
    if operation.operation_id.as_deref() == Some("allowEvents") {
        add_header(operation, "204", "WebHook-Allowed-Origin", "The sender that may send");
        add_header(operation, "204", "WebHook-Allowed-Rate", "`*`: as fast as the server takes");
    }
}

fn has_parameter(operation: &Operation, name: &str) -> bool {
    operation.parameters.iter().flatten().any(|it| it.name == name)
}

fn add_header(operation: &mut Operation, status: &str, name: &str, text: &str) {
    if let Some(RefOr::T(answer)) = operation.responses.responses.get_mut(status) {
        let header = HeaderBuilder::new().description(Some(text)).build();
        answer.headers.entry(name.to_owned()).or_insert(header);
    }
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
