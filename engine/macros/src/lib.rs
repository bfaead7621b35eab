//! The macro of `turnwheel-engine`, which re-exports and documents it.
#![forbid(unsafe_code)]

mod block;
mod expand;
mod function;
mod options;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use syn::Item;

use crate::options::Options;

/// Makes an action of a function or an impl block; documented where it is re-exported, in
/// `turnwheel_engine`.
#[proc_macro_attribute]
pub fn action(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let item = proc_macro2::TokenStream::from(item);
    match expanded(arguments.into(), item.clone()) {
        Ok(tokens) => tokens.into(),
        Err(error) => {
            // The item stays, so that its users do not fail as well.
            let error = error.into_compile_error();
            quote::quote!(#item #error).into()
        }
    }
}

/// The item and the action made of it.
fn expanded(
    arguments: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> syn::Result<proc_macro2::TokenStream> {
    let options = Options::parse(arguments)?;
    let other = "`#[action]` goes on a function, `fn charge(cents: u64) -> Result<Receipt, \
                 ActionError>`, or on an impl block, `impl Charge { fn run(&self, ..) }`";
    match syn::parse2(item.clone()) {
        Ok(Item::Fn(function)) => function::expand(&options, &function),
        Ok(Item::Impl(block)) => block::expand(&options, block),
        Ok(_) => Err(syn::Error::new_spanned(item, other)),
        Err(error) => Err(error),
    }
}
