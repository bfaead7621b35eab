//! Names of generated items.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{format_ident, quote, ToTokens};
use syn::ext::IdentExt as _;

/// The name of a method as the name of a type: `add_all` is `AddAll`. At the place of the method.
pub(crate) fn camel_case(method: &Ident) -> Ident {
    let text = method.unraw().to_string();
    let words = text.split('_').filter(|word| !word.is_empty());
    let mut name = String::with_capacity(text.len());
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    // `self_` and the like: invalid names of types stay recognizable.
    if name.is_empty() || name == "Self" || name.starts_with(|first: char| first.is_ascii_digit()) {
        name.push('_');
        name = format!("Message{name}");
    }
    format_ident!("{name}", span = method.span())
}

/// A type with `Self` written out, for use outside of the impl block.
pub(crate) fn without_self(ty: &impl ToTokens, own: &syn::Type) -> TokenStream {
    replace(ty.to_token_stream(), &own.to_token_stream())
}

fn replace(tokens: TokenStream, own: &TokenStream) -> TokenStream {
    let mut before_colons = tokens.clone().into_iter().skip(1);
    tokens
        .into_iter()
        .flat_map(|token| {
            let next = before_colons.next();
            match token {
                TokenTree::Ident(ident) if ident == "Self" => {
                    let is_path =
                        matches!(&next, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
                    // `Self::Error` needs brackets if the type is not a plain name.
                    if is_path {
                        quote!(<#own>)
                    } else {
                        own.clone()
                    }
                }
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), replace(group.stream(), own));
                    inner.set_span(group.span());
                    TokenTree::Group(inner).into()
                }
                other => other.into(),
            }
        })
        .collect()
}
