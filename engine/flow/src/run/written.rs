//! Texts that are written in another way than what they mean: in lines, and with codes.

use memchr::memmem;

use super::hidden::MASK;

/// Meaning of a text, and the place of each of its bytes in the text.
#[derive(Debug)]
pub(super) struct Written {
    bytes: Vec<u8>,
    /// Places of the bytes, and of what comes after each: a byte may be written by several.
    places: Vec<(u32, u8)>,
}

impl Written {
    fn of(text: &str) -> Self {
        let (bytes, places) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        Self { bytes, places }
    }

    fn push(&mut self, byte: u8, from: usize, length: u8) {
        self.bytes.push(byte);
        // Texts have 4 GiB at most by far.
        self.places.push((u32::try_from(from).unwrap_or(u32::MAX), length));
    }

    /// A text without the ends of its lines.
    pub(super) fn unfolded(text: &str) -> Self {
        let mut written = Self::of(text);
        let bytes = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r'));
        bytes.for_each(|(at, byte)| written.push(byte, at, 1));
        written
    }

    /// A text whose codes, such as `%2F`, are what they stand for, and a plus this.
    pub(super) fn coded(text: &str, plus: u8) -> Self {
        let (bytes, mut written, mut from) = (text.as_bytes(), Self::of(text), 0);
        let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        while let Some(byte) = bytes.get(from) {
            let (byte, length) = match (byte, digit(from + 1), digit(from + 2)) {
                // Two digits of 16 are a byte.
                (b'%', Some(high), Some(low)) => ((high * 16 + low) as u8, 3),
                (b'+', ..) => (plus, 1),
                (byte, ..) => (*byte, 1),
            };
            written.push(byte, from, length);
            from += usize::from(length);
        }
        written
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Masks the text that this was read from wherever it means one of the secrets, which are texts
    /// that are not empty.
    pub(super) fn mask(&self, secrets: impl Iterator<Item: AsRef<[u8]>>, text: &mut String) {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for secret in secrets {
            let secret = secret.as_ref();
            for first in memmem::find_iter(&self.bytes, secret) {
                let (last, length) = self.places[first + secret.len() - 1];
                found.push((self.places[first].0 as usize, last as usize + usize::from(length)));
            }
        }
        if found.is_empty() {
            return;
        }
        found.sort_unstable();
        let (mut masked, mut kept) = (String::with_capacity(text.len()), 0);
        for (from, to) in found {
            // A secret begins and ends with whole characters, also where they are codes.
            if from >= kept {
                masked.push_str(&text[kept..from]);
                masked.push_str(MASK);
            }
            kept = kept.max(to);
        }
        masked.push_str(&text[kept..]);
        *text = masked;
    }
}
