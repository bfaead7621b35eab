//! Options in the brackets of the attributes.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser as _;
use syn::{Attribute, Ident, LitStr, Meta, Path};

/// `#[messages(..)]`.
#[derive(Default)]
pub(crate) struct BlockOptions {
    root: Option<Path>,
    /// The name of the extension trait.
    pub(crate) extension: Option<Ident>,
    /// Whether references to entities have the methods too.
    pub(crate) is_entity: bool,
}

impl BlockOptions {
    pub(crate) fn parse(arguments: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        let parser = syn::meta::parser(|meta| options.take(&meta));
        parser.parse2(arguments)?;
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("crate") {
            self.root = Some(meta.value()?.call(Path::parse_mod_style)?);
        } else if meta.path.is_ident("extension") {
            self.extension = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("entity") {
            self.is_entity = true;
        } else {
            return Err(meta.error(
                "there are `extension = Name` (of the trait with the asking methods), `entity` \
                 (entity references have them too) and `crate = path::to::turnwheel_actors`",
            ));
        }
        Ok(())
    }

    /// The path of `turnwheel_actors`.
    pub(crate) fn root(&self) -> TokenStream {
        root(self.root.as_ref())
    }
}

pub(crate) fn root(path: Option<&Path>) -> TokenStream {
    path.map_or_else(|| quote!(::turnwheel_actors), |path| quote!(#path))
}

/// `#[message(..)]`.
#[derive(Default)]
pub(crate) struct MessageOptions {
    /// `interleaved`: other messages may come in between.
    pub(crate) interleaved: Option<Span>,
    /// `admits = ".."`: which others; a variant of `Admits`.
    pub(crate) admits: Option<Ident>,
    /// `always`: runs beside every future.
    pub(crate) always: Option<Span>,
    /// `name = ..`: of the message's type.
    pub(crate) name: Option<Ident>,
    /// `derive(..)`: of the message.
    pub(crate) derives: Vec<Path>,
}

impl MessageOptions {
    /// The options of a method that is marked, and `None` of others.
    pub(crate) fn take(attributes: &mut Vec<Attribute>) -> syn::Result<Option<Self>> {
        let (marks, others): (Vec<_>, Vec<_>) = std::mem::take(attributes)
            .into_iter()
            .partition(|attribute| attribute.path().is_ident("message"));
        *attributes = others;
        if let [_, second, ..] = &marks[..] {
            return Err(syn::Error::new_spanned(second, "the method is marked twice"));
        }
        marks.first().map(Self::parse).transpose()
    }

    fn parse(mark: &Attribute) -> syn::Result<Self> {
        let mut options = Self::default();
        match &mark.meta {
            Meta::Path(_) => {}
            Meta::List(list) => list.parse_nested_meta(|meta| options.option(&meta))?,
            Meta::NameValue(pair) => {
                let text = "write `#[message]` or `#[message(option, ..)]`";
                return Err(syn::Error::new_spanned(pair, text));
            }
        }
        if let (None, Some(admits)) = (&options.interleaved, &options.admits) {
            let text = "only an interleaved message admits others: write \
                        `#[message(interleaved, admits = \"..\")]`";
            return Err(syn::Error::new(admits.span(), text));
        }
        Ok(options)
    }

    fn option(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let span = || meta.path.get_ident().map(Ident::span);
        if meta.path.is_ident("interleaved") {
            self.interleaved = span();
        } else if meta.path.is_ident("always") {
            self.always = span();
        } else if meta.path.is_ident("admits") {
            self.admits = Some(admits(&meta.value()?.parse()?)?);
        } else if meta.path.is_ident("name") {
            self.name = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("derive") {
            meta.parse_nested_meta(|derived| {
                self.derives.push(derived.path);
                Ok(())
            })?;
        } else {
            return Err(meta.error(
                "there are `interleaved`, `admits = \"readers\" | \"chain\" | \"all\"`, `always`, \
                 `name = Name` (of the message) and `derive(..)`",
            ));
        }
        Ok(())
    }
}

fn admits(text: &LitStr) -> syn::Result<Ident> {
    let name = match text.value().as_str() {
        "readers" => "Readers",
        "chain" => "Chain",
        "all" => "All",
        _ => {
            let text_of_error = "an interleaved message admits \"readers\", \"chain\" or \"all\"";
            return Err(syn::Error::new_spanned(text, text_of_error));
        }
    };
    Ok(Ident::new(name, text.span()))
}
