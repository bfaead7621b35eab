//! Characters that are written as two `\u` escapes, the halves of a surrogate pair.
//!
//! jaq refuses each half. So a pair is replaced by its character before a text is read, and a second
//! half alone by U+FFFD, as jq does. A first half alone stays, and is an error in both.

use std::borrow::Cow;

/// Bytes of an escape: `\u` and four digits.
const ESCAPE: usize = 6;

/// A text whose surrogate pairs are characters.
pub(super) struct Joined<'t> {
    pub(super) text: Cow<'t, str>,
    /// Where characters that replace pairs end, and how many bytes shorter than the pair each is.
    ends: Vec<(usize, usize)>,
}

impl Joined<'_> {
    /// The place in the text as it was written.
    pub(super) fn place(&self, at: usize) -> usize {
        let before = self.ends.iter().take_while(|(end, _)| *end <= at);
        at + before.map(|(_, shorter)| shorter).sum::<usize>()
    }
}

/// Joins the surrogate pairs of a text.
pub(super) fn joined(text: &str) -> Joined<'_> {
    let (mut ends, mut joined) = (Vec::new(), String::new());
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        let Some(half) = escape(&text[at..]) else {
            // Another escape, whose character may be a backslash.
            at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        let (character, length) = match (half, escape(&text[at + ESCAPE..])) {
            (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
                (char::from_u32(0x10000 + ((half - 0xD800) << 10) + (second - 0xDC00)), 2 * ESCAPE)
            }
            (0xDC00..=0xDFFF, _) => (Some(char::REPLACEMENT_CHARACTER), ESCAPE),
            _ => (None, ESCAPE),
        };
        if let Some(character) = character {
            joined.push_str(&text[copied..at]);
            joined.push(character);
            ends.push((joined.len(), length - character.len_utf8()));
            copied = at + length;
        }
        at += length;
    }
    if ends.is_empty() {
        return Joined { text: Cow::Borrowed(text), ends };
    }
    joined.push_str(&text[copied..]);
    Joined { text: Cow::Owned(joined), ends }
}

/// The code of an escape at the begin of a text.
fn escape(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_code = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_code {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogate_pairs_are_joined_and_places_stay_those_of_the_text() {
        let all = [
            (r#""\ud83d\ude00""#, "\"\u{1F600}\""),
            (r#""a\uD83D\uDE00b\ud83d\ude01""#, "\"a\u{1F600}b\u{1F601}\""),
            (r#""\ude00x""#, "\"\u{FFFD}x\""),
            (r#""\ude00\ud83d""#, "\"\u{FFFD}\\ud83d\""),
            (r#""\ud83d\ud83d\ude00""#, "\"\\ud83d\u{1F600}\""),
            (r#""\\ud83d\\ude00 \u00e4""#, r#""\\ud83d\\ude00 \u00e4""#),
            (r#""\\\ud83d\ude00""#, "\"\\\\\u{1F600}\""),
            (r#""\ud83d" + "\u12""#, r#""\ud83d" + "\u12""#),
            ("\"\\", "\"\\"),
            ("\"\\ü", "\"\\ü"),
        ];
        for (text, expected) in all {
            assert_eq!(joined(text).text, expected, "{text}");
        }
        let text = r#""\ud83d\ude00" + x + "\udc00" + y"#;
        let joined = joined(text);
        for name in ["\"", " + x", "x", "y"] {
            let (at, own) = (joined.text.find(name), text.find(name));
            assert_eq!(at.map(|at| joined.place(at)), own, "{name}");
        }
    }
}
