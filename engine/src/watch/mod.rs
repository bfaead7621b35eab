//! Happenings of plans, as they become durable: live, and again from the store.
//!
//! No data is written for it: all happenings follow from the records of the journal. The writer
//! gives each durable entry to the listeners, if there are some. They replay the entries of each
//! plan, so that live and re-read happenings cannot differ.

mod buffer;
mod derive;
mod happening;
mod replay;
mod stream;

pub(crate) use buffer::{Buffer, Listeners};
pub(crate) use derive::apply_and_tell;
pub use happening::{Cursor, CursorError, Happening, What};
pub use stream::{Watch, WatchFilter, Watched};
