//! Loom models of the runtime protocols; see `tests/`.
