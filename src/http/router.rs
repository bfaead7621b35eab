//! The router: all operations, and the description of them.

use std::sync::OnceLock;

use axum::http::{header, Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::code::Code;
use super::problem::Problem;
use super::route::{
    actions, again, bulk, callbacks, cloudevents, dkron, events, flows, history, job_check,
    job_history, job_live, jobs, journeys, letters, live, orders, pictures, plans, runtime,
    schedules, session, start, steps, system, work, world,
};
use super::state::Api;
use super::{access, describe, etag, trace};
use crate::console;

/// Header of the API's description.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Turnwheel",
        description = "Durable workflows: begin plans, look at them, give them orders, send them events.\n\n\
            Every error is a problem (RFC 9457, application/problem+json) with a code that never \
            changes; docs/errors.md has a page for each. Times are RFC 3339 in UTC. Fields may be added \
            within a version: readers ignore what they do not know.",
    ),
    components(schemas(crate::api::Problem, crate::api::HappeningInfo, crate::api::CutOff)),
    tags(
        (name = "plans", description = "Plans and orders for them"),
        (name = "steps", description = "The steps of a plan, and events for them"),
        (name = "work", description = "Work for programs in other languages"),
        (name = "flows", description = "Flows of the Serverless Workflow DSL, and events for them"),
        (name = "jobs", description = "Jobs, their launches and outputs; docs/jobs.md has their fields"),
        (name = "schedules", description = "What is launched at its times"),
        (name = "world", description = "What the server knows, and how it is"),
        (name = "system", description = "Health, figures, this description"),
    ),
)]
struct Description;

/// Operations that need no token: load balancers ask them, the path itself is a secret, or they look
/// at it themselves.
fn open() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(system::health)).routes(routes!(system::live)).nest(
        "/api/v1",
        OpenApiRouter::new().routes(routes!(callbacks::tell)).routes(routes!(
            session::get,
            session::sign_in,
            session::sign_out
        )),
    )
}

fn figures() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(system::metrics))
}

fn version_one() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(plans::list, start::start))
        .routes(routes!(plans::get, plans::remove))
        .routes(routes!(orders::order))
        .routes(routes!(again::retry))
        .routes(routes!(again::again))
        .routes(routes!(bulk::order))
        .routes(routes!(steps::list))
        .routes(routes!(steps::get))
        .routes(routes!(pictures::graph))
        .routes(routes!(pictures::tree))
        .routes(routes!(pictures::timeline))
        .routes(routes!(history::history))
        .routes(routes!(history::calls))
        .routes(routes!(events::send))
        .routes(routes!(events::heartbeat))
        .routes(routes!(callbacks::make))
        .routes(routes!(work::lease))
        .routes(routes!(work::topic))
        .routes(routes!(work::heartbeat))
        .routes(routes!(work::release))
        .routes(routes!(work::complete))
        .routes(routes!(work::fail))
        .routes(routes!(live::live, cloudevents::publish, cloudevents::allow))
        .routes(routes!(cloudevents::recent))
        .routes(routes!(flows::list, flows::add))
        .routes(routes!(flows::check))
        .routes(routes!(flows::get, flows::remove))
        .routes(routes!(flows::start))
        .merge(journeys_of_one())
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::one, jobs::put, jobs::remove))
        .routes(routes!(jobs::executors))
        .routes(routes!(job_check::check))
        .routes(routes!(jobs::run))
        .routes(routes!(jobs::toggle))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::answer))
        .routes(routes!(job_history::history, jobs::forget))
        .routes(routes!(jobs::times))
        .routes(routes!(jobs::output))
        .routes(routes!(job_live::live))
        .routes(routes!(letters::list))
        .routes(routes!(letters::redeliver))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::remove))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::unpause))
        .routes(routes!(schedules::trigger))
        .routes(routes!(schedules::backfill))
        .routes(routes!(schedules::times))
        .routes(routes!(actions::actions))
        .routes(routes!(actions::queues))
        .routes(routes!(actions::locks))
        .routes(routes!(actions::ended))
        .routes(routes!(actions::stats))
        .routes(routes!(runtime::runtime))
        .routes(routes!(runtime::types))
        .routes(routes!(runtime::entity))
        .routes(routes!(world::get))
        .routes(routes!(world::nodes))
        .routes(routes!(world::node))
        .routes(routes!(world::drain))
        .routes(routes!(world::slots))
}

/// Journeys and the users who take them.
fn journeys_of_one() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(journeys::list, journeys::add))
        .routes(routes!(journeys::dry_run))
        .routes(routes!(journeys::one, journeys::remove))
        .routes(routes!(journeys::elements))
        .routes(routes!(journeys::counts))
        .routes(routes!(journeys::user, journeys::set, journeys::forget))
        .routes(routes!(journeys::opt_out))
        .routes(routes!(journeys::resend))
        .routes(routes!(journeys::events))
}

fn all() -> (OpenApiRouter<Api>, OpenApiRouter<Api>) {
    let open = OpenApiRouter::with_openapi(Description::openapi()).merge(open());
    let guarded = OpenApiRouter::new().nest("/api/v1", version_one()).merge(figures());
    (open, guarded)
}

/// The description of the API: OpenAPI 3.1.
///
/// Cost: it is made once, and shared.
pub fn openapi() -> &'static OpenApi {
    static MADE: OnceLock<OpenApi> = OnceLock::new();
    MADE.get_or_init(|| {
        let (open, guarded) = all();
        let (_, mut description) = open.merge(guarded).split_for_parts();
        description.info.version = env!("CARGO_PKG_VERSION").to_owned();
        describe::complete(&mut description);
        description
    })
}

/// All operations on a world.
pub(super) fn router(api: Api) -> Router {
    let (open, guarded) = all();
    let (open, _) = open.split_for_parts();
    let (guarded, _) = guarded.split_for_parts();
    let guarded = guarded
        .route("/api/v1/openapi.json", get(description))
        .merge(dkron::routes())
        .fallback(nothing)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(api.clone(), access::guard));
    let open = open.method_not_allowed_fallback(wrong_method);
    open.merge(guarded)
        .merge(console::pages())
        .layer(from_fn(private))
        .layer(from_fn_with_state(api.clone(), trace::follow))
        .with_state(api)
}

async fn description() -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| serde_json::to_string(openapi()).unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], text.as_str())
}

async fn nothing(uri: Uri) -> Problem {
    let detail =
        format!("there is nothing at «{}»: api/v1/openapi.json lists what there is", uri.path());
    Problem::new(Code::PathUnknown, detail)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{method} is not allowed at «{}»", uri.path());
    Problem::new(Code::MethodWrong, detail)
}

/// Answers are private: no cache may keep them, and no page may show them as its own. What a reader
/// has already is not sent again.
async fn private(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = request.headers().get(header::IF_NONE_MATCH).filter(|_| reads);
    let known = known.and_then(|known| known.to_str().ok()).map(str::to_owned);
    let mut answer = etag::unless_known(known.as_deref(), next.run(request).await);
    let headers = answer.headers_mut();
    let value = axum::http::HeaderValue::from_static;
    headers.entry(header::CACHE_CONTROL).or_insert(value("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, value("nosniff"));
    answer
}
