//! `#[messages]` on an impl block.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, ToTokens as _};
use syn::{ImplItem, ItemImpl, Type};

use crate::expand;
use crate::method::Method;
use crate::options::BlockOptions;
use crate::report::Report;

/// Methods of [`Address`], which hide those of an extension trait. A test compares them.
///
/// [`Address`]: https://docs.rs/turnwheel-actors
pub(crate) const ADDRESS_METHODS: &[&str] = &[
    "ask",
    "ask_within",
    "attach",
    "attach_channel",
    "callee",
    "clone",
    "close",
    "close_within",
    "closed",
    "downgrade",
    "drain",
    "eq",
    "forward",
    "id",
    "kill",
    "link",
    "name",
    "ne",
    "phase",
    "queue_len",
    "recipient",
    "reserve",
    "started",
    "stop",
    "system",
    "tell",
    "tell_after",
    "tell_urgent",
    "tell_wait",
    "with",
];

/// Methods of `EntityRef` that `Address` has not.
pub(crate) const ENTITY_METHODS: &[&str] =
    &["is_active", "key", "not_owner", "passivate", "reminders"];

/// A block whose marked methods become messages.
pub(crate) struct Block {
    pub(crate) options: BlockOptions,
    /// The type of the actor.
    pub(crate) actor: Type,
    pub(crate) methods: Vec<Method>,
    /// The name of the trait with the methods that ask.
    pub(crate) extension: Ident,
}

/// The expansion of the block: itself without the marks, and the items made of them.
pub(crate) fn messages(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let (tokens, report) = read(arguments, item);
    let errors = report.into_tokens();
    quote!(#tokens #errors)
}

/// As [`messages`], with the errors separately.
pub(crate) fn read(arguments: TokenStream, item: TokenStream) -> (TokenStream, Report) {
    let mut report = Report::default();
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(_) => {
            let first = item.clone().into_iter().next();
            report.add(first, "`#[messages]` goes on an impl block: `impl Counter { .. }`");
            return (item, report);
        }
    };
    let options = report.value(BlockOptions::parse(arguments)).unwrap_or_default();
    let extension = check_block(&block, &mut report);
    let mut methods = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        methods.extend(Method::parse(method, &mut report));
    }
    let Some(extension) = options.extension.clone().or(extension) else {
        return (block.into_token_stream(), report);
    };
    let is_sound = check_methods(&block, &methods, &options, &mut report);
    let mut tokens = block.to_token_stream();
    if is_sound {
        let block = Block { options, actor: (*block.self_ty).clone(), methods, extension };
        tokens.extend(expand::block(&block));
    }
    (tokens, report)
}

/// Reports errors of the entire block; returns the usual name of its extension trait.
fn check_block(block: &ItemImpl, report: &mut Report) -> Option<Ident> {
    if let Some((_, path, _)) = &block.trait_ {
        let text = "`#[messages]` goes on the actor's own impl block, without a trait";
        report.add(path, text);
        return None;
    }
    if !block.generics.params.is_empty() {
        let text = "`#[messages]` makes one type of each message, which cannot be generic: write the \
                    type of the actor out (`impl Store<u64> { .. }`), or implement `Handler` by hand";
        report.add(&block.generics.params, text);
        return None;
    }
    let Type::Path(path) = &*block.self_ty else {
        report.add(&block.self_ty, "an actor is a struct or an enum of this crate");
        return None;
    };
    let name = &path.path.segments.last()?.ident;
    Some(format_ident!("{name}Messages"))
}

/// Reports combinations of methods that are refused. Returns whether there is code to generate.
fn check_methods(
    block: &ItemImpl,
    methods: &[Method],
    options: &BlockOptions,
    report: &mut Report,
) -> bool {
    for method in methods {
        let name = method.name.to_string();
        let of_entity = options.is_entity && ENTITY_METHODS.contains(&&*name);
        if of_entity || ADDRESS_METHODS.contains(&&*name) {
            let text = format!(
                "an address has a method `{name}` of its own, which would hide this one: choose \
                 another name, or implement `Handler` by hand"
            );
            report.add(&method.name, text);
        }
        let visibility = |method: &Method| method.visibility.to_token_stream().to_string();
        if visibility(method) != visibility(&methods[0]) {
            let text =
                "the messages of one block are as visible as their methods, all equally: give \
                        them the same visibility, or make two blocks and name the trait of one, \
                        `#[messages(extension = ..)]`";
            report.add(&method.name, text);
        }
    }
    if methods.is_empty() && report.count() == 0 {
        let text = "there is no message here: mark a method `#[message]`";
        report.add(&block.self_ty, text);
    }
    !methods.is_empty()
}
