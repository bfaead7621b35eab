//! A world over HTTP: a router that a host application can mount under any path, and the server of
//! `turnwheel serve`.
//!
//! | path | content |
//! | --- | --- |
//! | `console/` | the console: pages for a browser; the root leads there |
//! | `api/v1/…` | the API; `api/v1/openapi.json` describes it (OpenAPI 3.1) |
//! | `health`, `health/live` | whether the server works, whether it answers at all |
//! | `metrics` | figures, as Prometheus reads them |
//!
//! Shapes: [`crate::api`]. Problems: [`Code`], with a page each in `docs/errors.md`.
//!
//! | part | content |
//! | --- | --- |
//! | `router` | all operations, and the description of them |
//! | `route` | the operations, by subject |
//! | `body`, `cursor` | checked bodies and queries; places in lists |
//! | `picture` | pictures and events of plans in the shapes of the API; the others: [`crate::shape`] |
//! | `access`, `site`, `rate` | access control, allowed pages, rates |
//! | `trace`, `figures`, `health` | traces, log and audit; figures; the probe |
//! | `serve` | listening: connections, TLS, an orderly stop |

mod access;
mod body;
mod code;
mod cursor;
mod describe;
mod etag;
mod figures;
mod flow_figures;
mod health;
mod job_figures;
pub mod limits;
mod options;
mod page;
mod picture;
mod problem;
mod rate;
mod route;
mod router;
pub mod serve;
mod session;
mod site;
mod state;
mod told;
mod trace;

use turnwheel_engine::World;

use crate::shape as show;

pub use access::{Access, Principal, Role, Token};
pub use code::Code;
pub use options::Options;
pub use problem::Problem;
pub use router::openapi;

/// The API of a world as a router, for a host application to mount where it wants.
///
/// It needs tokio. The world belongs to the host, which shuts it down after its server.
///
/// ```
/// use turnwheel::engine::{MemoryStore, World};
/// use turnwheel::http::{router, Access, Options};
///
/// let world = World::builder().build(MemoryStore::new())?;
/// let api = router(&world, Options::new(Access::Host));
/// let app: axum::Router = axum::Router::new().nest("/wheel", api);
/// # drop(app);
/// world.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn router(world: &World, options: Options) -> axum::Router {
    router::router(state::Api::new(world.clone(), options))
}
