//! Trouble: each kind has a typed error or a defined outcome, and leaves nothing stuck.

mod callbacks;
mod destructors;
mod floods;
mod input;
mod lost;
mod memory;
mod misuse;
mod stuck;
mod wakers;
