//! Expansion of the methods: types of messages, handlers, and methods on addresses.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::Type;

use crate::block::Block;
use crate::method::{Kind, Method};
use crate::name::without_self;

/// All that a block makes.
pub(crate) fn block(block: &Block) -> TokenStream {
    let root = block.options.root();
    let actor = &block.actor;
    let mut tokens = TokenStream::new();
    for method in &block.methods {
        tokens.extend(message(method, actor));
        tokens.extend(handler(method, actor, &root));
    }
    tokens.extend(extension(block, &root));
    tokens
}

/// The type of a message.
fn message(method: &Method, actor: &Type) -> TokenStream {
    let Method { name, message, visibility, conditions, docs, derives, .. } = method;
    let text = format!("The message of the method `{name}`.");
    let docs = if docs.is_empty() { quote!(#[doc = #text]) } else { quote!(#(#docs)*) };
    let fields = method.fields.iter().map(|field| {
        let (name, ty) = (&field.name, without_self(&field.ty, actor));
        let text = format!("As the parameter `{name}`.");
        let docs = match &field.docs[..] {
            [] => quote!(#[doc = #text]),
            docs => quote!(#(#docs)*),
        };
        quote!(#docs #visibility #name: #ty)
    });
    let body = match method.fields.is_empty() {
        true => quote!(;),
        false => quote!({ #(#fields),* }),
    };
    let text = message.to_string();
    let has_debug =
        derives.iter().any(|path| path.segments.last().is_some_and(|last| last.ident == "Debug"));
    // The fields need not be `Debug`.
    let debug = (!has_debug).then(|| {
        quote! {
            #(#conditions)*
            #[automatically_derived]
            impl ::core::fmt::Debug for #message {
                fn fmt(&self, formatter: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    formatter.write_str(#text)
                }
            }
        }
    });
    let derives = (!derives.is_empty()).then(|| quote!(#[derive(#(#derives),*)]));
    // At the method, where a name that is taken is to be seen.
    let head = quote_spanned!(message.span()=> #visibility struct);
    quote! {
        #(#conditions)*
        #docs
        #derives
        #head #message #body
        #debug
    }
}

/// The pattern or the value of a message, with its fields by name.
fn with_fields(method: &Method) -> TokenStream {
    let message = &method.message;
    let names = method.fields.iter().map(|field| &field.name);
    match method.fields.is_empty() {
        true => quote!(#message),
        false => quote!(#message { #(#names),* }),
    }
}

/// The handler of a message: it calls the method.
fn handler(method: &Method, actor: &Type, root: &TokenStream) -> TokenStream {
    let Method { name, message, conditions, kind, output_span, .. } = method;
    let answer = without_self(&method.answer, actor);
    // Names that no field can have.
    let local = |name| Ident::new(name, Span::mixed_site());
    let (taken, cx, reply) = (local("message"), local("cx"), local("reply"));
    let cx_given = method.has_context.then_some(&cx);
    let cx_name = if method.has_context { quote!(#cx) } else { quote!(_) };
    let fields = method.fields.iter().map(|field| &field.name);
    let reply_given = matches!(kind, Kind::Replying).then_some(&reply);
    let given = fields.chain(reply_given).chain(cx_given);
    // Here and not at the attribute, so that a future that is not `Send` is shown where it is made.
    let call = quote_spanned!(*output_span=> Self::#name(self #(, #given)*));
    let pattern = with_fields(method);
    let at_actor = at(root, actor.span());
    let context = quote_spanned!(actor.span()=> &mut #at_actor::Context<'_, Self>);
    let (handler, constant, parameters, output) = match kind {
        Kind::Plain(access) => {
            let constant = access
                .as_ref()
                .map(|access| quote!(const ACCESS: #root::Access = #root::Access::#access;));
            (quote!(Handler), constant, quote!(#cx_name: #context), quote!(-> #answer))
        }
        Kind::Replying => {
            let parameters = quote!(#reply: #root::ReplyTo<#answer>, #cx_name: #context);
            (quote!(ReplyHandler), None, parameters, quote!())
        }
        Kind::Exclusive => {
            let context = quote_spanned!(actor.span()=> #at_actor::AsyncContext<Self>);
            let parameters = quote!(#cx_name: #context);
            (quote!(AsyncHandler), None, parameters, future(&answer, *output_span, &quote!()))
        }
        Kind::Interleaved(admits) => {
            let constant = admits
                .as_ref()
                .map(|admits| quote!(const ADMITS: #root::Admits = #root::Admits::#admits;));
            let output = future(&answer, *output_span, &quote!(+ 'static));
            (quote!(InterleavedHandler), constant, quote!(#cx_name: #context), output)
        }
    };
    quote! {
        #(#conditions)*
        #[automatically_derived]
        impl #root::#handler<#message> for #actor {
            type Reply = #answer;
            #constant
            #[inline(always)]
            fn handle(&mut self, #taken: #message, #parameters) #output {
                let #pattern = #taken;
                #call
            }
        }
    }
}

/// A path with another span: at the actor's type, so that an error about a type that is no actor is
/// shown there.
fn at(path: &TokenStream, span: Span) -> TokenStream {
    let respan = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    path.clone().into_iter().map(respan).collect()
}

fn future(answer: &TokenStream, span: Span, bounds: &TokenStream) -> TokenStream {
    let future = quote_spanned! {span=>
        impl ::core::future::Future<Output = #answer> + ::core::marker::Send
    };
    quote!(-> #future #bounds)
}

/// The extension trait for addresses, whose methods ask.
fn extension(block: &Block, root: &TokenStream) -> TokenStream {
    let Block { actor, extension, methods, .. } = block;
    let visibility = &methods[0].visibility;
    let actor_text = quote!(#actor).to_string();
    let text = format!("Methods that ask a `{actor_text}`, one for each of its messages.");
    let heads: Vec<_> = methods.iter().map(|method| head(method, actor, root)).collect();
    let docs = methods.iter().map(|method| {
        let Method { conditions, docs, message, .. } = method;
        let text = format!("Asks with the message [`{message}`].");
        match &docs[..] {
            [] => quote!(#(#conditions)* #[doc = #text]),
            docs => quote!(#(#conditions)* #(#docs)*),
        }
    });
    let address = implementation(block, root, &heads, &quote!(Address));
    let entity =
        block.options.is_entity.then(|| implementation(block, root, &heads, &quote!(EntityRef)));
    quote! {
        #[doc = #text]
        // A program that only tells uses none of it.
        #[allow(dead_code, reason = "a program need not ask for everything")]
        #visibility trait #extension {
            #(#docs #heads;)*
        }
        #address
        #entity
    }
}

/// The head of a method that asks.
fn head(method: &Method, actor: &Type, root: &TokenStream) -> TokenStream {
    let Method { name, message, .. } = method;
    let answer = without_self(&method.answer, actor);
    let parameters = method.fields.iter().map(|field| {
        let (name, ty) = (&field.name, without_self(&field.ty, actor));
        quote!(#name: #ty)
    });
    quote!(fn #name(&self #(, #parameters)*) -> #root::Ask<#message, #answer>)
}

/// The extension trait for one type of address.
fn implementation(
    block: &Block,
    root: &TokenStream,
    heads: &[TokenStream],
    address: &TokenStream,
) -> TokenStream {
    let Block { actor, extension, methods, .. } = block;
    let target = {
        let (root, address) = (at(root, actor.span()), at(address, actor.span()));
        quote_spanned!(actor.span()=> #root::#address<#actor>)
    };
    let methods = methods.iter().zip(heads).map(|(method, head)| {
        let Method { message, conditions, kind, .. } = method;
        let kind = match kind {
            Kind::Plain(_) => quote!(Plain),
            Kind::Replying => quote!(Replying),
            Kind::Exclusive => quote!(Exclusive),
            Kind::Interleaved(_) => quote!(Shared),
        };
        let value = with_fields(method);
        quote! {
            #(#conditions)*
            #[inline]
            #head {
                #root::#address::ask::<#message, #root::handler::kind::#kind>(self, #value)
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #extension for #target {
            #(#methods)*
        }
    }
}
