//! The console in a browser without a window.
//!
//! A test begins a server over a world of its own, opens the console in Chromium and does what a person
//! does: it clicks, types and looks. It waits for what is to be seen, never for a time.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Chromium`] | one browser with a folder of its own, ended when it is dropped |
//! | [`Page`] | its one page: opens an address, clicks, types, looks, takes a picture |
//! | [`Served`] | a server over a world in memory, with actions that fail, wait and go on |
#![forbid(unsafe_code)]

mod chromium;
mod page;
mod served;
mod wire;

pub use chromium::{Chromium, NoBrowser};
pub use page::Page;
pub use served::{Builder, Served};
