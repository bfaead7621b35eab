//! One marked method: which kind of message it is, and whether it can be one.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, ToTokens as _};
use syn::spanned::Spanned as _;
use syn::{
    Attribute, FnArg, ImplItemFn, Path, Receiver, ReturnType, Signature, Type, TypeParamBound,
    Visibility,
};

use crate::name::camel_case;
use crate::options::MessageOptions;
use crate::parameter::{answered_by, require_owned, Field, Parameters, Role};
use crate::report::Report;

/// A method that is a message.
pub(crate) struct Method {
    pub(crate) name: Ident,
    /// The name of the message's type.
    pub(crate) message: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) docs: Vec<Attribute>,
    /// `#[cfg(..)]`: it holds for all that is generated.
    pub(crate) conditions: Vec<Attribute>,
    pub(crate) derives: Vec<Path>,
    pub(crate) fields: Vec<Field>,
    pub(crate) has_context: bool,
    pub(crate) kind: Kind,
    /// The type of the answer.
    pub(crate) answer: TokenStream,
    /// The return type, or the name of the method: span for errors about the future.
    pub(crate) output_span: Span,
}

/// Handler trait of a method.
pub(crate) enum Kind {
    /// `Handler`; the access if it is not to write.
    Plain(Option<Ident>),
    /// `ReplyHandler`.
    Replying,
    /// `AsyncHandler`.
    Exclusive,
    /// `InterleavedHandler`; the admitted messages unless all.
    Interleaved(Option<Ident>),
}

impl Method {
    /// Reads a method; `None` if it is not marked, or not usable, which the report says.
    pub(crate) fn parse(method: &mut ImplItemFn, report: &mut Report) -> Option<Self> {
        let errors = report.count();
        let options = report.value(MessageOptions::take(&mut method.attrs))??;
        refuse_forms(&method.sig, report);
        let is_shared = receiver(&method.sig, report)?.mutability.is_none();
        let parameters = Parameters::parse(method.sig.inputs.iter_mut().skip(1), report);
        let of_path = |path| {
            let is_it = |attribute: &&Attribute| attribute.path().is_ident(path);
            method.attrs.iter().filter(is_it).cloned().collect()
        };
        let output = &method.sig.output;
        let output_span = match output {
            ReturnType::Default => method.sig.ident.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        let (docs, conditions) = (of_path("doc"), of_path("cfg"));
        let (kind, answer) = kind(&method.sig, &options, &parameters, is_shared, report)?;
        if options.interleaved.is_some() {
            bound_future(&mut method.sig.output);
        }
        // The expansion of a refused method would only fail again, elsewhere and less clearly.
        (report.count() == errors).then(|| Self {
            name: method.sig.ident.clone(),
            message: options.name.unwrap_or_else(|| camel_case(&method.sig.ident)),
            visibility: method.vis.clone(),
            docs,
            conditions,
            derives: options.derives,
            fields: parameters.fields,
            has_context: parameters.context.is_some(),
            kind,
            answer,
            output_span,
        })
    }
}

/// Reports forms of a method that cannot be a message.
fn refuse_forms(signature: &Signature, report: &mut Report) {
    let generics = &signature.generics;
    if !generics.params.is_empty() || generics.where_clause.is_some() {
        let place = match generics.params.is_empty() {
            false => generics.params.to_token_stream(),
            true => generics.where_clause.to_token_stream(),
        };
        let text =
            "a message is one type and cannot be generic: name the types here, or implement \
                    `Handler` by hand for messages that are generic";
        report.add(place, text);
    }
    if let Some(token) = &signature.unsafety {
        report.add(token, "a message can be sent by anybody, so its method cannot be unsafe");
    }
    if let Some(abi) = &signature.abi {
        report.add(abi, "the actor calls its methods itself: remove this");
    }
    if let Some(variadic) = &signature.variadic {
        report.add(variadic, "a message has a fixed number of fields");
    }
}

/// The `&self` or `&mut self` of a method.
fn receiver<'a>(signature: &'a Signature, report: &mut Report) -> Option<&'a Receiver> {
    let text = "a message is handled by its actor: the first parameter is `&mut self`, or `&self` \
                if it only reads";
    match signature.inputs.first() {
        Some(FnArg::Receiver(receiver)) if receiver.reference.is_some() => Some(receiver),
        Some(other) => {
            report.add(other, text);
            None
        }
        None => {
            report.add(&signature.ident, text);
            None
        }
    }
}

/// Kind of the message, and its answer type.
fn kind(
    signature: &Signature,
    options: &MessageOptions,
    parameters: &Parameters,
    is_shared: bool,
    report: &mut Report,
) -> Option<(Kind, TokenStream)> {
    let is_async = signature.asyncness.is_some();
    check_context(parameters, is_async, options.interleaved.is_some(), report);
    if let (Some(always), true) = (options.always, is_async || options.interleaved.is_some()) {
        let text = "`always` is for plain methods, which end at once";
        report.push(syn::Error::new(always, text));
    }
    if let Some(span) = options.interleaved {
        return interleaved(signature, options, span, report);
    }
    if let Some(reply) = &parameters.reply {
        return replying(signature, &reply.ty, report);
    }
    let answer = match &signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => {
            check_answer(ty, report);
            ty.to_token_stream()
        }
    };
    if is_async {
        if is_shared {
            let text =
                "an async method holds its actor while it waits, and needs `&mut self`. For a \
                        message that waits beside others: \
                        `#[message(interleaved, admits = \"readers\")]`";
            report.add(signature.inputs.first(), text);
        }
        return Some((Kind::Exclusive, answer));
    }
    let access = match (options.always, is_shared) {
        (Some(span), _) => Some(Ident::new("Always", span)),
        (None, true) => Some(Ident::new("Read", signature.ident.span())),
        (None, false) => None,
    };
    Some((Kind::Plain(access), answer))
}

/// A method that answers by hand.
fn replying(
    signature: &Signature,
    reply_to: &Type,
    report: &mut Report,
) -> Option<(Kind, TokenStream)> {
    if let Some(token) = &signature.asyncness {
        let text = "a method that answers by hand ends at once: remove `async`, and pass the \
                    `ReplyTo` on to whoever answers";
        report.add(token, text);
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        report.add(ty, "the answer goes through the `ReplyTo`: return nothing");
    }
    let Some(answer) = answered_by(reply_to) else {
        report.add(reply_to, "say what is answered: `ReplyTo<u64>`, for example");
        return None;
    };
    Some((Kind::Replying, answer.to_token_stream()))
}

/// A method that returns an interleaved future.
fn interleaved(
    signature: &Signature,
    options: &MessageOptions,
    span: Span,
    report: &mut Report,
) -> Option<(Kind, TokenStream)> {
    if let Some(token) = &signature.asyncness {
        let text = "the future of an `async fn` borrows the actor, so nothing could come in between: \
                    write `fn .. -> impl Future<Output = ..> + Send` with an `async move` block, or \
                    remove `interleaved`";
        report.add(token, text);
        return None;
    }
    let ReturnType::Type(_, ty) = &signature.output else {
        let text = "an interleaved message returns `impl Future<Output = ..> + Send`";
        report.push(syn::Error::new(span, text));
        return None;
    };
    let answer = match &**ty {
        Type::ImplTrait(opaque) => {
            let Some(answer) = opaque.bounds.iter().find_map(output_of) else {
                let text = "an interleaved message returns `impl Future<Output = ..> + Send`";
                report.add(opaque, text);
                return None;
            };
            check_answer(answer, report);
            answer.to_token_stream()
        }
        named => quote!(<#named as ::core::future::Future>::Output),
    };
    Some((Kind::Interleaved(options.admits.clone()), answer))
}

/// Adds bounds of the future that the user need not write: then a borrow in it is reported at its
/// place, and in newer editions it captures no lifetime.
fn bound_future(output: &mut ReturnType) {
    let ReturnType::Type(_, ty) = output else { return };
    let Type::ImplTrait(opaque) = &mut **ty else { return };
    let span = opaque.impl_token.span;
    let is_static = |bound: &TypeParamBound| matches!(bound, TypeParamBound::Lifetime(_));
    if !opaque.bounds.iter().any(is_static) {
        let lifetime = syn::Lifetime::new("'static", span);
        opaque.bounds.push(TypeParamBound::Lifetime(lifetime));
    }
}

/// The `T` of a bound `Future<Output = T>`.
fn output_of(bound: &TypeParamBound) -> Option<&Type> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    let last = bound.path.segments.last().filter(|last| last.ident == "Future")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        syn::GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
        _ => None,
    })
}

fn check_answer(ty: &Type, report: &mut Report) {
    require_owned(ty, "an answer leaves the actor", report);
}

fn check_context(
    parameters: &Parameters,
    is_async: bool,
    is_interleaved: bool,
    report: &mut Report,
) {
    let Some(context) = &parameters.context else { return };
    let is_future = is_async && !is_interleaved;
    if is_future && context.role == Role::Context {
        let text = "an async method takes `AsyncContext<Self>`";
        report.add(&context.ty, text);
    } else if !is_future && context.role == Role::AsyncContext {
        let text = "only an async method takes an `AsyncContext`: take `&mut Context<'_, Self>`";
        report.add(&context.ty, text);
    }
}
