//! `#[derive(Actor)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Path};

use crate::options;

pub(crate) fn actor(item: TokenStream) -> TokenStream {
    expand(item).unwrap_or_else(syn::Error::into_compile_error)
}

pub(crate) fn expand(item: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(item)?;
    let mut path: Option<Path> = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("actor")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("there is `crate = path::to::turnwheel_actors`"));
            }
            path = Some(meta.value()?.call(Path::parse_mod_style)?);
            Ok(())
        })?;
    }
    if let Some(borrowed) = input.generics.lifetimes().next() {
        let text = "an actor lives on its own and cannot borrow: use owned fields, or an `Arc`";
        return Err(syn::Error::new_spanned(borrowed, text));
    }
    let root = options::root(path.as_ref());
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics #root::Actor for #name #arguments #bounds {
            type Error = ::core::convert::Infallible;
        }
    })
}
