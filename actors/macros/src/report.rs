//! Errors in the user's source: all of them at once, each where it is.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// Errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Error>);

impl Report {
    /// Notes an error at the place of these tokens.
    pub(crate) fn add(&mut self, place: impl ToTokens, text: impl std::fmt::Display) {
        self.push(Error::new_spanned(place, text));
    }

    /// Notes an error.
    pub(crate) fn push(&mut self, error: Error) {
        self.0.push(error);
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

    /// Number of errors so far.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The errors as code that does not compile; nothing if there are none.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.iter().map(Error::to_compile_error).collect()
    }

    #[cfg(test)]
    pub(crate) fn into_errors(self) -> Vec<Error> {
        self.0
    }
}
