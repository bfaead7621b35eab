//! The parameters of a method: fields of the message, and the context passed by the actor.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, FnArg, GenericArgument, Ident, Pat, PatType, PathArguments, Type};

use crate::report::Report;

/// One field of a message.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) docs: Vec<Attribute>,
}

/// Parameters of a method besides `self`.
#[derive(Default)]
pub(crate) struct Parameters {
    pub(crate) fields: Vec<Field>,
    /// `&mut Context<'_, Self>` or `AsyncContext<Self>`.
    pub(crate) context: Option<Given>,
    /// `ReplyTo<R>`.
    pub(crate) reply: Option<Given>,
}

/// A parameter that is no field.
pub(crate) struct Given {
    pub(crate) role: Role,
    pub(crate) ty: Type,
}

/// The role of a parameter.
#[derive(PartialEq)]
pub(crate) enum Role {
    Field,
    Context,
    AsyncContext,
    ReplyTo,
}

impl Parameters {
    /// Reads the parameters after `self`, and takes the documentation off that the compiler would
    /// refuse there.
    pub(crate) fn parse<'a>(
        inputs: impl Iterator<Item = &'a mut FnArg>,
        report: &mut Report,
    ) -> Self {
        let mut parameters = Self::default();
        for input in inputs {
            let FnArg::Typed(input) = input else { continue };
            let role = role(&input.ty);
            if parameters.context.is_some() {
                report.add(&input, "the context is the last parameter: move this one before it");
            }
            match role {
                Role::Field => {
                    if parameters.reply.is_some() {
                        report.add(&input, "the fields of the message come before the `ReplyTo`");
                    }
                    parameters.fields.extend(field(input, report));
                }
                Role::ReplyTo => {
                    parameters.reply = Some(Given { role, ty: (*input.ty).clone() });
                }
                Role::Context | Role::AsyncContext => {
                    parameters.context = Some(Given { role, ty: (*input.ty).clone() });
                }
            }
        }
        parameters
    }
}

fn field(input: &mut PatType, report: &mut Report) -> Option<Field> {
    let (docs, others) = std::mem::take(&mut input.attrs)
        .into_iter()
        .partition(|attribute| attribute.path().is_ident("doc"));
    input.attrs = others;
    require_owned(&input.ty, "a message owns what it carries", report);
    let Pat::Ident(name) = &*input.pat else {
        report.add(&input.pat, "give this parameter a name: it becomes a field of the message");
        return None;
    };
    Some(Field { name: name.ident.clone(), ty: (*input.ty).clone(), docs })
}

/// The role of a parameter of this type, by the last name of its path.
fn role(ty: &Type) -> Role {
    let (inner, is_mutable_reference) = match ty {
        Type::Reference(reference) => (&*reference.elem, reference.mutability.is_some()),
        other => (other, false),
    };
    let Type::Path(path) = inner else { return Role::Field };
    let Some(last) = path.path.segments.last() else { return Role::Field };
    match last.ident.to_string().as_str() {
        "Context" if is_mutable_reference => Role::Context,
        "AsyncContext" => Role::AsyncContext,
        "ReplyTo" => Role::ReplyTo,
        _ => Role::Field,
    }
}

/// The `R` of `ReplyTo<R>`.
pub(crate) fn answered_by(reply_to: &Type) -> Option<&Type> {
    let Type::Path(path) = reply_to else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Reports borrows and unnamed types in a type that is sent between actors.
pub(crate) fn require_owned(ty: &Type, why: &str, report: &mut Report) {
    if let Some(place) = borrow_in(ty.to_token_stream()) {
        let text = format!(
            "{why}: use an owned type in place of this reference, such as `String` for `&str`, or \
             an `Arc`"
        );
        report.add(place, text);
    } else if let Type::ImplTrait(opaque) = ty {
        report.add(opaque, format!("{why}, and its type needs a name in place of `impl ..`"));
    }
}

/// The first reference or lifetime that is not `'static`; those of function types are their own.
fn borrow_in(tokens: TokenStream) -> Option<TokenStream> {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &tokens[before]);
        let rest = &tokens[index + 1..];
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                let name = rest.first();
                if !matches!(name, Some(TokenTree::Ident(name)) if name == "static") {
                    return Some([token.clone()].into_iter().chain(name.cloned()).collect());
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                let is_returned =
                    is_punct(before, '>') && index > 1 && is_punct(tokens.get(index - 2), '-');
                if !is_returned && !is_punct(rest.first(), '\'') {
                    return Some(tokens[index..].iter().cloned().collect());
                }
            }
            TokenTree::Group(group) => {
                let is_call = group.delimiter() == Delimiter::Parenthesis
                    && matches!(before, Some(TokenTree::Ident(_)));
                let found = if is_call { None } else { borrow_in(group.stream()) };
                if found.is_some() {
                    return found;
                }
            }
            _ => {}
        }
    }
    None
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}
