//! Parameters and result of a function: the input, the step, the polled task.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{FnArg, GenericArgument, Path, PathArguments, PathSegment, ReturnType, Signature, Type};

/// Role of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Input,
    Output,
    /// The external work that is polled.
    Task,
    Step,
}

/// One parameter.
pub(crate) struct Parameter {
    pub(crate) role: Role,
    /// Its type without a reference: `String` for `&str`, `Vec<T>` for `&[T]`.
    pub(crate) owned: Type,
    is_reference: bool,
    span: Span,
}

/// A function's result.
pub(crate) enum Gives {
    /// `Result<Next, _>`: the code says itself how the call ends.
    Next,
    /// A value of this type.
    Value { output: Box<Type>, is_result: bool },
}

/// The parameters behind the receiver; all but the step have the given `roles`, in order.
pub(crate) fn parameters(signature: &Signature, roles: &[Role]) -> syn::Result<Vec<Parameter>> {
    let mut roles = roles.iter();
    let mut found = Vec::new();
    for argument in &signature.inputs {
        let FnArg::Typed(typed) = argument else { continue };
        let (inner, is_reference) = match &*typed.ty {
            Type::Reference(reference) => ((*reference.elem).clone(), true),
            other => (other.clone(), false),
        };
        let span = typed.span();
        if is_named(&inner, "StepContext") {
            found.push(Parameter { role: Role::Step, owned: inner, is_reference, span });
            continue;
        }
        let Some(role) = roles.next() else {
            let text = "an action has one input: put several values into a struct. Further \
                        parameters may be the output of a compensation, and \
                        `step: &mut StepContext<..>`";
            return Err(syn::Error::new(span, text));
        };
        found.push(Parameter { role: *role, owned: owned(inner), is_reference, span });
    }
    Ok(found)
}

/// The type of the parameter in this role.
pub(crate) fn type_of(parameters: &[Parameter], role: Role) -> Option<Type> {
    parameters.iter().find(|one| one.role == role).map(|one| one.owned.clone())
}

/// Statements before a call, and its arguments, where `step` is the context of the step. Where the
/// step is an argument too, input and output are cloned.
pub(crate) fn arguments(parameters: &[Parameter]) -> (TokenStream, Vec<TokenStream>) {
    let has_step = parameters.iter().any(|one| one.role == Role::Step);
    let mut before = TokenStream::new();
    let arguments = parameters.iter().map(|one| {
        let (place, local) = match one.role {
            Role::Step => return quote!(step),
            Role::Task => return quote!(task),
            Role::Input => (quote!(step.input), quote!(input)),
            Role::Output => (quote!(step.output), quote!(output)),
        };
        let clone = quote_spanned!(one.span=> ::core::clone::Clone::clone(&#place));
        match (one.is_reference, has_step) {
            (true, false) => quote!(&#place),
            (true, true) => {
                before.extend(quote!(let #local = #clone;));
                quote!(&#local)
            }
            // Evaluated in order: a step comes after it or is borrowed again.
            (false, _) => {
                before.extend(quote!(let #local = #clone;));
                quote!(#local)
            }
        }
    });
    let arguments = arguments.collect();
    (before, arguments)
}

/// Result of the function.
pub(crate) fn gives(signature: &Signature) -> Gives {
    let ReturnType::Type(_, given) = &signature.output else {
        let output = Box::new(unit());
        return Gives::Value { output, is_result: false };
    };
    let first = last_segment(given).filter(|last| last.ident == "Result").and_then(first_argument);
    match first {
        Some(inner) if is_named(&inner, "Next") => Gives::Next,
        Some(inner) => Gives::Value { output: Box::new(inner), is_result: true },
        None => Gives::Value { output: given.clone(), is_result: false },
    }
}

pub(crate) fn unit() -> Type {
    syn::parse_quote!(())
}

fn owned(inner: Type) -> Type {
    match &inner {
        Type::Slice(slice) => {
            let element = &slice.elem;
            syn::parse_quote!(::std::vec::Vec<#element>)
        }
        Type::Path(path) if path.path.is_ident("str") => syn::parse_quote!(::std::string::String),
        _ => inner,
    }
}

/// The type that a result has in its first place.
fn first_argument(segment: &PathSegment) -> Option<Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inner) => Some(inner.clone()),
        _ => None,
    })
}

fn last_segment(given: &Type) -> Option<&PathSegment> {
    let Type::Path(syn::TypePath { path: Path { segments, .. }, .. }) = given else { return None };
    segments.last()
}

fn is_named(given: &Type, name: &str) -> bool {
    last_segment(given).is_some_and(|last| last.ident == name)
}
