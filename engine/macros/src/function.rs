//! An action that is a function.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{FnArg, ItemFn};

use crate::expand::{self, Parts};
use crate::options::Options;
use crate::signature::{self, Role};

/// The function as it is, a type of its name, and the action that this type is.
pub(crate) fn expand(options: &Options, function: &ItemFn) -> syn::Result<TokenStream> {
    let signature = &function.sig;
    if let Some(receiver) = signature.inputs.iter().find(|one| matches!(one, FnArg::Receiver(_))) {
        let text =
            "an action with `self` is an impl block: write `#[action] impl Name { fn run(&self, \
                    ..) }`";
        return Err(syn::Error::new_spanned(receiver, text));
    }
    if !signature.generics.params.is_empty() {
        let text = "an action is stored under one name and has one input: no type parameters";
        return Err(syn::Error::new_spanned(&signature.generics, text));
    }
    let name = &signature.ident;
    let type_name = options.type_name.clone().unwrap_or_else(|| camel_case(name));
    let parameters = signature::parameters(signature, &[Role::Input])?;
    let gives = signature::gives(signature);
    let is_async = signature.asyncness.is_some();
    let run = expand::run(options, &quote!(#name), &[], &parameters, &gives, is_async);
    let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let visibility = &function.vis;
    let action = expand::action_of(Parts {
        options,
        name: Some(name.to_string()),
        generics: &syn::Generics::default(),
        type_name: quote!(#type_name),
        input: signature::type_of(&parameters, Role::Input),
        output: expand::output(&gives),
        phases: vec![if is_async { "RunsAsync" } else { "Runs" }],
        items: TokenStream::new(),
        traits: vec![run],
    });
    Ok(quote! {
        #function
        #(#docs)*
        #[derive(Clone, Copy, Debug, Default)]
        #visibility struct #type_name;
        #action
    })
}

/// `charge_card` as the name of a type: `ChargeCard`.
fn camel_case(name: &Ident) -> Ident {
    let text = name.to_string();
    let words = text.trim_start_matches("r#").split('_');
    let upper = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        first.chain(letters).collect::<String>()
    };
    format_ident!("{}", words.map(upper).collect::<String>(), span = name.span())
}
