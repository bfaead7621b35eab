//! The macros of `turnwheel-actors`, which re-exports and documents them.
#![forbid(unsafe_code)]

mod block;
mod derive;
mod expand;
mod method;
mod name;
mod options;
mod parameter;
mod report;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Turns methods into messages; documented where it is re-exported, in `turnwheel_actors`.
#[proc_macro_attribute]
pub fn messages(arguments: TokenStream, item: TokenStream) -> TokenStream {
    block::messages(arguments.into(), item.into()).into()
}

/// An actor without hooks; documented where it is re-exported, in `turnwheel_actors`.
#[proc_macro_derive(Actor, attributes(actor))]
pub fn derive_actor(item: TokenStream) -> TokenStream {
    derive::actor(item.into()).into()
}
