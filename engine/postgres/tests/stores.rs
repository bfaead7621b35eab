//! What every store promises, tried on PostgreSQL. The server is one of this program, on a temporary
//! folder.

#[path = "../../tests/stores/suite.rs"]
#[macro_use]
mod suite;

mod server;

promises!(postgres, crate::server::place());
