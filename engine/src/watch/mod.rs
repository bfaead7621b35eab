//! What happens to plans, as it becomes durable: live, and again from the store.
//!
//! Nothing is written for it: all of it follows from the records of the journal. The writer gives each
//! entry that has become durable to those who listen, if somebody does; they replay the entries of each
//! plan, so that what is told live and what is read later cannot differ.

mod buffer;
mod derive;
mod happening;
mod replay;
mod stream;

pub(crate) use buffer::{Buffer, Listeners};
pub(crate) use derive::apply_and_tell;
pub use happening::{Cursor, CursorError, Happening, What};
pub use stream::{Watch, WatchFilter, Watched};
