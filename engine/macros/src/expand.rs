//! The impl blocks of an action.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Generics, ImplItemFn, Type};

use crate::options::Options;
use crate::signature::{self, Gives, Parameter};

/// One phase: the trait and its items.
pub(crate) struct Trait {
    pub(crate) name: &'static str,
    pub(crate) items: TokenStream,
}

/// Parts of an action.
pub(crate) struct Parts<'a> {
    pub(crate) options: &'a Options,
    /// Its name, unless the options say another; `None` if the items have one.
    pub(crate) name: Option<String>,
    pub(crate) generics: &'a Generics,
    pub(crate) type_name: TokenStream,
    pub(crate) input: Option<Type>,
    pub(crate) output: Option<Type>,
    pub(crate) phases: Vec<&'static str>,
    pub(crate) items: TokenStream,
    pub(crate) traits: Vec<Trait>,
}

/// The blocks of an action.
pub(crate) fn action_of(parts: Parts<'_>) -> TokenStream {
    let Parts { options, name, generics, type_name, input, output, phases, items, traits } = parts;
    let root = options.root();
    let (generics, _, bounds) = generics.split_for_impl();
    let name = name.map(|name| match &options.name {
        Some(name) => quote!(const NAME: &'static str = #name;),
        None => quote!(const NAME: &'static str = #name;),
    });
    let input = options.input.clone().or(input).unwrap_or_else(signature::unit);
    let output = options.output.clone().or(output).unwrap_or_else(signature::unit);
    let named = phases.iter().map(|phase| format_ident!("{phase}"));
    let phases: Vec<_> = named.map(|phase| quote!(#root::#phase)).collect();
    let phases = match &phases[..] {
        [one] => one.clone(),
        _ => quote!((#(#phases),*)),
    };
    let of_options = options.items();
    let traits = traits.iter().map(|Trait { name, items }| {
        let name = format_ident!("{name}");
        quote! {
            #[automatically_derived]
            impl #generics #root::#name for #type_name #bounds { #items }
        }
    });
    quote! {
        #[automatically_derived]
        impl #generics #root::Action for #type_name #bounds {
            #name
            type Input = #input;
            type Output = #output;
            type Phases = #phases;
            #of_options
            #items
        }
        #(#traits)*
    }
}

/// The run phase: calls `code` with what comes first and the parameters.
pub(crate) fn run(
    options: &Options,
    code: &TokenStream,
    first: &[TokenStream],
    parameters: &[Parameter],
    gives: &Gives,
    is_async: bool,
) -> Trait {
    let root = options.root();
    let (before, arguments) = signature::arguments(parameters);
    let arguments = first.iter().chain(&arguments);
    let wait = is_async.then(|| quote!(.await));
    let given = given(gives, &quote!(#code(#(#arguments),*)#wait));
    let body = match gives {
        Gives::Next => quote!(#before let given = #given; ::core::result::Result::Ok(given)),
        Gives::Value { .. } => quote! {
            #before
            let given = #given;
            step.output = given;
            ::core::result::Result::Ok(#root::Next::Done)
        },
    };
    let (name, asyncness) = match is_async {
        true => ("RunAsync", quote!(async)),
        false => ("Run", TokenStream::new()),
    };
    let items = quote! {
        #asyncness fn run(
            &self,
            step: &mut #root::StepContext<Self>,
        ) -> ::core::result::Result<#root::Next, #root::ActionError> {
            #body
        }
    };
    Trait { name, items }
}

/// A phase without a result: finalize and revert.
pub(crate) fn plain(
    options: &Options,
    name: &'static str,
    target: &Type,
    method: &ImplItemFn,
    parameters: &[Parameter],
) -> Trait {
    let root = options.root();
    let (before, arguments) = signature::arguments(parameters);
    let called = &method.sig.ident;
    let (asyncness, wait) = (&method.sig.asyncness, wait(method));
    let call = quote!(<#target>::#called(self, #(#arguments),*)#wait);
    let given = given(&signature::gives(&method.sig), &call);
    let items = quote! {
        #asyncness fn #called(
            &self,
            step: &mut #root::StepContext<Self>,
        ) -> ::core::result::Result<(), #root::ActionError> {
            #before
            let () = #given;
            ::core::result::Result::Ok(())
        }
    };
    Trait { name, items }
}

/// The value of a call; its error goes to the caller.
pub(crate) fn given(gives: &Gives, call: &TokenStream) -> TokenStream {
    match gives {
        Gives::Next | Gives::Value { is_result: true, .. } => quote!(#call?),
        Gives::Value { is_result: false, .. } => quote!(#call),
    }
}

pub(crate) fn output(gives: &Gives) -> Option<Type> {
    match gives {
        Gives::Next => None,
        Gives::Value { output, .. } => Some((**output).clone()),
    }
}

/// The suffix of a call of a method that waits.
pub(crate) fn wait(method: &ImplItemFn) -> Option<TokenStream> {
    method.sig.asyncness.map(|_| quote!(.await))
}

/// The last name of a type's path.
pub(crate) fn name_of(target: &Type) -> String {
    match target {
        Type::Path(path) => {
            let last = path.path.segments.last();
            last.map(|segment| segment.ident.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}
