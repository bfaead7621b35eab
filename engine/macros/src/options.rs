//! Options in the brackets of the attribute.

use proc_macro2::TokenStream;
use proc_macro_crate::{crate_name, FoundCrate};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser as _;
use syn::{Expr, Ident, LitInt, LitStr, Path, Type};

/// The names of all options, for errors.
const KNOWN: &str = "there are `name = \"..\"`, `version = 2`, `input = Type`, `output = Type`, \
                     `queue = \"..\"`, `priority = 1`, `retry = policy`, `limit = duration`, \
                     `heartbeat = duration`, `rescue = Rescue::..`, `on_interrupt = \
                     OnInterrupt::..`, `cancellable`, `type_name = Name` (of a function's action) \
                     and `crate = path::to::turnwheel_engine`";

/// `#[action(..)]`.
#[derive(Default)]
pub(crate) struct Options {
    root: Option<Path>,
    pub(crate) name: Option<LitStr>,
    version: Option<LitInt>,
    pub(crate) input: Option<Type>,
    pub(crate) output: Option<Type>,
    pub(crate) type_name: Option<Ident>,
    queue: Option<LitStr>,
    is_cancellable: bool,
    /// Method of `Action` and its value.
    values: Vec<(String, Expr)>,
}

impl Options {
    pub(crate) fn parse(arguments: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.take(&meta)).parse2(arguments)?;
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match name.as_str() {
            "crate" => self.root = Some(meta.value()?.call(Path::parse_mod_style)?),
            "name" => self.name = Some(meta.value()?.parse()?),
            "version" => self.version = Some(meta.value()?.parse()?),
            "input" => self.input = Some(meta.value()?.parse()?),
            "output" => self.output = Some(meta.value()?.parse()?),
            "type_name" => self.type_name = Some(meta.value()?.parse()?),
            "queue" => self.queue = Some(meta.value()?.parse()?),
            "cancellable" => self.is_cancellable = true,
            "priority" | "retry" | "limit" | "heartbeat" | "rescue" | "on_interrupt" => {
                self.values.push((name, meta.value()?.parse()?));
            }
            _ => return Err(meta.error(KNOWN)),
        }
        Ok(())
    }

    /// The path of `turnwheel_engine`.
    pub(crate) fn root(&self) -> TokenStream {
        self.root.as_ref().map_or_else(found_root, |path| quote!(#path))
    }

    /// Items of `impl Action` that the options name.
    pub(crate) fn items(&self) -> TokenStream {
        let root = self.root();
        let version = self.version.iter().map(|version| quote!(const VERSION: u32 = #version;));
        let queue = self.queue.iter().map(|queue| {
            quote! {
                fn queue(&self) -> ::core::option::Option<&str> {
                    ::core::option::Option::Some(#queue)
                }
            }
        });
        let duration = quote!(::core::option::Option<::core::time::Duration>);
        let values = self.values.iter().map(|(name, value)| match name.as_str() {
            "priority" => quote! {
                fn priority(&self) -> ::core::option::Option<i32> {
                    ::core::option::Option::Some(#value)
                }
            },
            "limit" => quote! {
                fn limit(&self) -> #duration { ::core::option::Option::Some(#value) }
            },
            "heartbeat" => quote! {
                fn heartbeat(&self) -> #duration { ::core::option::Option::Some(#value) }
            },
            "retry" => quote!(fn retry(&self) -> #root::RetryPolicy { #value }),
            "rescue" => quote! {
                fn rescue(&self, _: &#root::ActionError) -> #root::Rescue { #value }
            },
            _ => quote!(fn on_interrupt(&self) -> #root::OnInterrupt { #value }),
        });
        let cancellable = self.is_cancellable.then(|| {
            quote!(
                fn is_cancellable(&self) -> bool {
                    true
                }
            )
        });
        quote!(#(#version)* #(#queue)* #(#values)* #cancellable)
    }
}

/// The engine among the dependencies of the crate that is compiled: itself, or in `turnwheel`.
fn found_root() -> TokenStream {
    let named = |name: &str| match crate_name(name) {
        Ok(FoundCrate::Itself) => Some(format_ident!("{}", name.replace('-', "_"))),
        Ok(FoundCrate::Name(name)) => Some(format_ident!("{name}")),
        Err(_) => None,
    };
    match (named("turnwheel-engine"), named("turnwheel")) {
        (Some(engine), _) => quote!(::#engine),
        (None, Some(all)) => quote!(::#all::engine),
        (None, None) => quote!(::turnwheel_engine),
    }
}
