//! A world over HTTP: a router that a host application can mount under any path, and what
//! `turnwheel serve` listens with.
//!
//! | path | what is there |
//! | --- | --- |
//! | `console/` | the console: pages for a browser; the root leads there |
//! | `api/v1/…` | the API; `api/v1/openapi.json` describes it (OpenAPI 3.1) |
//! | `health`, `health/live` | whether it does its work, whether it answers at all |
//! | `metrics` | figures, as Prometheus reads them |
//!
//! Shapes: [`crate::api`]. Problems: [`Code`], with a page each in `docs/errors.md`.
//!
//! | part | what it is |
//! | --- | --- |
//! | `router` | all operations, and the description of them |
//! | `route` | the operations, by what they are about |
//! | `body`, `cursor` | what requests say, checked; places in lists |
//! | `show`, `picture` | plans and steps of the engine in the shapes of the API |
//! | `access`, `site`, `rate` | who may ask, from which pages, and how often |
//! | `trace`, `figures`, `health` | traces, log and audit; figures; the probe |
//! | `serve` | listening: connections, TLS, an orderly stop |

mod access;
mod body;
mod code;
mod cursor;
mod figures;
mod health;
pub mod limits;
mod options;
mod picture;
mod problem;
mod rate;
mod route;
mod router;
pub mod serve;
mod show;
mod site;
mod state;
mod trace;

use turnwheel_engine::World;

pub use access::{Access, Principal, Role, Token};
pub use code::Code;
pub use options::Options;
pub use problem::Problem;
pub use router::openapi;

/// The API of a world as a router, for a host application to mount where it wants.
///
/// It needs tokio. The world is the host's: it shuts it down after its server.
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
