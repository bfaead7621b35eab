//! Texts as in jq 1.7: base 64 is read also without its padding.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::Engine;
use jaq_core::native::{bome, v, Fun};
use jaq_core::{Error, Native};
use jaq_json::Val;

use super::limit::Limited;

/// Base 64 without padding, whose last character may have bits that belong to no byte.
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The natives of this file.
pub(super) fn natives() -> Vec<Fun<Limited>> {
    vec![
        ("decode_base64", v(0), Native::<Limited>::new(|cv| bome(decode(cv.1)))),
        ("#format", v(0), Native::<Limited>::new(|cv| bome(Ok(time_format(cv.1))))),
    ]
}

/// Whether the name is a native of jaq that is replaced here.
pub(super) fn is_replaced(name: &str) -> bool {
    name == "decode_base64"
}

/// A format of times, in which those of the locale are the ones of C.
fn time_format(format: Val) -> Val {
    let (Val::TStr(text) | Val::BStr(text)) = &format else { return format };
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let directive = if byte == b'%' { bytes.next() } else { None };
        match directive {
            Some(b'c') => plain.extend_from_slice(b"%a %b %e %H:%M:%S %Y"),
            Some(b'x') => plain.extend_from_slice(b"%m/%d/%y"),
            Some(b'X') => plain.extend_from_slice(b"%H:%M:%S"),
            Some(b'r') => plain.extend_from_slice(b"%I:%M:%S %p"),
            Some(other) => plain.extend_from_slice(&[b'%', other]),
            None => plain.push(byte),
        }
    }
    Val::utf8_str(plain)
}

/// The text that base 64 stands for: up to the padding, if there is any.
fn decode(value: Val) -> Result<Val, Error<Val>> {
    let refused = || Error::str(format_args!("{value} is not valid base64 data"));
    let (Val::BStr(text) | Val::TStr(text)) = &value else { return Err(refused()) };
    let end = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
    // A last character alone is no byte.
    let is_alone = end > 1 && end % 4 == 1;
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let end = if is_alone && is_digit(&text[end - 1]) { end - 1 } else { end };
    let bytes = UNPADDED.decode(&text[..end]).map_err(|_| refused())?;
    Ok(Val::utf8_str(String::from_utf8_lossy(&bytes).into_owned().into_bytes()))
}
