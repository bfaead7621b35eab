//! Implementations that this crate and `turnwheel-actors` repeat often. No part of the API.

/// Implements `Debug` with the named values of a type, without bounds on its parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    (
        impl $(<$($param:ident $(: $bound:tt)?),+>)? $name:ident $(<$($arg:tt),+>)?,
        $this:ident => $($field:ident: $value:expr),*
    ) => {
        impl $(<$($param $(: $bound)?),+>)? ::std::fmt::Debug for $name $(<$($arg),+>)? {
            fn fmt(&$this, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut fields = f.debug_struct(stringify!($name));
                $(fields.field(stringify!($field), &$value);)*
                fields.finish_non_exhaustive()
            }
        }
    };
}

/// Implements `Clone` by the fields of a handle, without bounds on its parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! clone_fields {
    (
        impl $(<$($param:ident $(: $bound:tt)?),+>)? $name:ident $(<$($arg:tt),+>)?,
        $($field:ident),+
    ) => {
        impl $(<$($param $(: $bound)?),+>)? Clone for $name $(<$($arg),+>)? {
            #[inline(always)]
            fn clone(&self) -> Self {
                Self { $($field: self.$field.clone()),+ }
            }
        }
    };
}

/// Implements `Default` by the defaults of the fields, without bounds on its parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! default_fields {
    (impl<$($param:ident $(: $bound:tt)?),+> $name:ty, $($field:ident),+) => {
        impl<$($param $(: $bound)?),+> ::std::default::Default for $name {
            fn default() -> Self {
                Self { $($field: ::std::default::Default::default()),+ }
            }
        }
    };
}

/// Methods of a builder that each set something and return the builder.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$param:ident $(: $bound:path)?>)? ($this:ident $(, $value:ident: $type:ty)*)
            => $set:expr;
    )+) => {$(
        $(#[$meta])*
        pub fn $name $(<$param $(: $bound)?>)? (mut $this $(, $value: $type)*) -> Self {
            $set;
            $this
        }
    )+};
}

/// `Default` by an expression.
#[doc(hidden)]
#[macro_export]
macro_rules! default_value {
    ($(#[$meta:meta])* $name:ty => $value:expr) => {
        impl ::std::default::Default for $name {
            $(#[$meta])*
            fn default() -> Self {
                $value
            }
        }
    };
}
