//! Happenings of plans, as they become durable: live, and again from the store.
//!
//! No data is written for it: all happenings follow from the records of the journal. The writer
//! gives each durable entry to the listeners, if there are some. They replay the entries of each
//! plan, so that live and re-read happenings cannot differ.
//!
//! Where several nodes share the store, the writer has the entries of its own node only. Listeners
//! for all nodes get theirs from a feed, which reads them from the store as long as somebody
//! listens: `feed.rs`.

mod buffer;
mod derive;
mod feed;
mod happening;
mod horizon;
mod page;
mod replay;
mod stream;

pub(crate) use buffer::{Bell, Buffer, Listeners};
pub(crate) use derive::apply_and_tell;
pub(crate) use feed::Feed;
pub use happening::{Cursor, CursorError, Happening, What};
pub use stream::{Watch, WatchFilter, Watched};
