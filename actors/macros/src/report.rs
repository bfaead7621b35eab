//! Errors in the user's source: all of them at once, each where it is.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// Errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Report(Option<Error>);

impl Report {
    /// Notes an error at the place of these tokens.
    pub(crate) fn add(&mut self, place: impl ToTokens, text: impl std::fmt::Display) {
        self.push(Error::new_spanned(place, text));
    }

    /// Notes an error.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Notes the error of a result, and gives its value.
    pub(crate) fn value<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.push(error);
                None
            }
        }
    }

    /// Whether there are no errors so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The errors as code that does not compile; nothing if there are none.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map(|error| error.into_compile_error()).unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn into_errors(self) -> Vec<Error> {
        self.0.into_iter().flatten().collect()
    }
}
