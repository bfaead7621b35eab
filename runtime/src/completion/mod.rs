//! Completions.
