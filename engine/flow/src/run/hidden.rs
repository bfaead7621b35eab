//! Texts that must not be seen, and how they are found in what a call has brought.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use base64::Engine;
use serde_json::Value;

use super::uri::encoded;
use super::written::Written;

pub(super) use turnwheel_engine::MASK;

/// Texts of secrets that are shorter are not looked for: they would be found everywhere.
const SECRET_LENGTH_MIN: usize = 4;

/// Shorter texts are not looked for across the ends of lines, nor lines of a secret by themselves.
const LINE_LENGTH_MIN: usize = 16;

/// Secrets of a call, also as they look in base64, in JSON and in parts.
#[derive(Debug, Default)]
pub(super) struct Hidden(Vec<String>);

impl Hidden {
    pub(super) fn add(&mut self, secret: &Value) {
        match secret {
            Value::String(text) if !text.is_empty() => {
                self.0.push(text.clone());
                if text.len() >= SECRET_LENGTH_MIN {
                    self.0.extend(in_base64(text.as_bytes()));
                    // As requests are written here, for those who look for the texts alone.
                    self.0.push(encoded(text));
                    // The marks of a key in PEM are no secrets.
                    let is_own =
                        |line: &&str| line.len() >= LINE_LENGTH_MIN && !line.starts_with("-----");
                    self.0.extend(text.lines().map(str::trim).filter(is_own).map(str::to_owned));
                    // As it looks in the text of JSON.
                    let json = secret.to_string();
                    self.0.push(json[1..json.len() - 1].to_owned());
                }
                // A longer text first: it may have a shorter one in it.
                let longer = |one: &String, other: &String| {
                    other.len().cmp(&one.len()).then_with(|| one.cmp(other))
                };
                self.0.sort_by(longer);
                self.0.dedup();
            }
            Value::Array(elements) => elements.iter().for_each(|element| self.add(element)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
            Value::Number(number) => self.add(&Value::String(number.to_string())),
            _ => {}
        }
    }

    /// The texts that are looked for.
    pub(super) fn texts(&self) -> &[String] {
        &self.0
    }

    pub(super) fn mask(&self, text: &mut String) {
        for secret in &self.0 {
            // A short one is part of other texts by chance.
            if text == secret {
                *text = MASK.to_owned();
            } else if secret.len() >= SECRET_LENGTH_MIN && text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), MASK);
            }
        }
        if text.contains(['\n', '\r']) {
            let unfolded = |secret: &String| Written::unfolded(secret).into_bytes();
            let forms = self.0.iter().map(unfolded).filter(|form| form.len() >= LINE_LENGTH_MIN);
            Written::unfolded(text).mask(forms, text);
        }
        // In an address and in a form a blank is a plus or a code; who writes it chooses.
        for (sign, plus) in [('%', b'+'), ('+', b' ')] {
            if text.contains(sign) {
                let long = self.0.iter().filter(|secret| secret.len() >= SECRET_LENGTH_MIN);
                Written::coded(text, plus).mask(long.map(String::as_bytes), text);
            }
        }
    }

    /// Masks bytes that become base64, where a secret cannot be found any more.
    pub(super) fn mask_bytes(&self, bytes: &mut Vec<u8>) {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let mut text = text.to_owned();
            self.mask(&mut text);
            *bytes = text.into_bytes();
            return;
        }
        // A text with one character for each byte.
        let of = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
        let (mut text, mask) = (of(bytes), of(MASK.as_bytes()));
        for secret in self.0.iter().filter(|secret| secret.len() >= SECRET_LENGTH_MIN) {
            text = text.replace(&of(secret.as_bytes()), &mask);
        }
        *bytes = text.chars().filter_map(|sign| u8::try_from(u32::from(sign)).ok()).collect();
    }

    /// Masks data.
    pub(super) fn mask_in(&self, value: &mut Value) {
        match value {
            _ if self.0.is_empty() => {}
            Value::Number(number) => {
                let text = number.to_string();
                if text.len() >= SECRET_LENGTH_MIN && self.0.contains(&text) {
                    *value = Value::String(MASK.to_owned());
                }
            }
            Value::String(text) => self.mask(text),
            Value::Array(elements) => elements.iter_mut().for_each(|value| self.mask_in(value)),
            Value::Object(fields) => {
                let masked = std::mem::take(fields).into_iter().map(|(mut name, mut value)| {
                    self.mask(&mut name);
                    self.mask_in(&mut value);
                    (name, value)
                });
                *fields = masked.collect();
            }
            _ => {}
        }
    }
}

/// A secret as it looks inside of base64, in both alphabets: at its end, and in the middle for each
/// of the three places that its first byte can have in a group. Characters that also depend on what
/// is around it are left out.
fn in_base64(secret: &[u8]) -> Vec<String> {
    let mut all = vec![STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    for before in 0..3 {
        let mut group = vec![0; before];
        group.extend(secret);
        // A character has six bits.
        let (from, to) = ((before * 8).div_ceil(6), group.len() * 8 / 6);
        all.push(STANDARD_NO_PAD.encode(&group)[from..to].to_owned());
        all.push(URL_SAFE_NO_PAD.encode(&group)[from..to].to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_found_in_base64_wherever_its_group_begins() {
        let secret = "s3cr3t?>~value";
        let mut hidden = Hidden::default();
        hidden.add(&Value::String(secret.to_owned()));
        for (before, after) in (0..7).flat_map(|before| (0..4).map(move |after| (before, after))) {
            let plain = format!(
                "{}{secret}{}",
                "ab:cdef?"[..before].to_owned(),
                "x>?z"[..after].to_owned()
            );
            for mut text in [STANDARD_NO_PAD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)] {
                let whole = text.clone();
                hidden.mask(&mut text);
                assert!(text.contains(MASK), "{before} before and {after} after in {whole}");
                // At most one character of what depends on it remains at each side.
                let left = text.replace(MASK, "").len();
                assert!(left * 6 <= (before + after) * 8 + 24, "{text} of {whole}");
            }
        }
    }

    #[test]
    fn secret_is_found_in_the_text_of_json_and_in_names_of_fields() {
        let secret = "-----BEGIN\n\"key\"\\-----END";
        let mut hidden = Hidden::default();
        hidden.add(&serde_json::json!({ "pem": secret, "pin": 12_345_678 }));
        let mut text = serde_json::json!({ "sent": secret }).to_string();
        hidden.mask(&mut text);
        assert_eq!(text, r#"{"sent":"••••"}"#);
        let mut value = serde_json::json!({ "form": { "12345678": "", "b": 1 } });
        hidden.mask_in(&mut value);
        assert_eq!(value, serde_json::json!({ "form": { MASK: "", "b": 1 } }));
    }

    #[test]
    fn secret_is_found_however_an_address_or_a_form_writes_it() {
        let mut hidden = Hidden::default();
        hidden.add(&serde_json::json!({ "password": "ä b/c+d%41" }));
        for written in [
            "ä b/c+d%41",
            "%C3%A4%20b%2Fc%2Bd%2541",
            "%c3%a4%20b%2fc%2bd%2541",
            "%C3%A4+b%2Fc%2Bd%2541",
            "ä%20b/c+d%2541",
            "%C3%A4%20b/c%2Bd%2541",
        ] {
            let mut text = format!("x?ü=%C3%A4&p={written}&q={written}+%");
            hidden.mask(&mut text);
            assert_eq!(text, "x?ü=%C3%A4&p=••••&q=••••+%", "{written}");
        }
        let mut text = "x?p=%C3%A4%20b&q=+%&c".to_owned();
        hidden.mask(&mut text);
        assert_eq!(text, "x?p=%C3%A4%20b&q=+%&c");
    }

    #[test]
    fn secret_is_found_in_lines() {
        let key = format!(
            "-----BEGIN KEY-----\n{}\n{}\n-----END KEY-----\n",
            "Ab3/".repeat(16),
            "xY9+".repeat(9)
        );
        let mut hidden = Hidden::default();
        hidden.add(&Value::String(key.clone()));
        let masked = |text: &str| {
            let mut text = text.to_owned();
            hidden.mask(&mut text);
            text
        };
        let lines = "-----BEGIN KEY-----\r\n••••\r\n••••\r\n-----END KEY-----\r\n";
        assert_eq!(masked(&key.replace('\n', "\r\n")), lines);
        assert_eq!(masked(&format!("line 3: {}", "xY9+".repeat(9))), "line 3: ••••");
        assert_eq!(masked("-----BEGIN KEY-----\n"), "-----BEGIN KEY-----\n");
        for width in [64, 76] {
            let encoded = base64::engine::general_purpose::STANDARD.encode(&key);
            let lines: Vec<&str> = (0..encoded.len())
                .step_by(width)
                .map(|at| &encoded[at..encoded.len().min(at + width)])
                .collect();
            let text = masked(&format!("it is\n{}\n", lines.join("\n")));
            let left = text.replace("it is", "").replace("••••", "");
            assert!(text.contains("••••") && left.trim().len() <= 4, "{text}");
        }
    }

    #[test]
    fn secrets_of_line_ends_are_looked_for_as_they_are() {
        let mut hidden = Hidden::default();
        hidden.add(&serde_json::json!(["\n".repeat(20), format!("{}a", "\r\n".repeat(9))]));
        let mut text = "a\nb\nbanana\n".to_owned();
        hidden.mask(&mut text);
        assert_eq!(text, "a\nb\nbanana\n");
    }

    #[test]
    fn secret_is_known_as_requests_write_it() {
        let mut hidden = Hidden::default();
        hidden.add(&serde_json::json!({ "password": "pa/ss@w d" }));
        let form = serde_json::json!({ "password": "pa/ss@w d" });
        let form = crate::run::http::form(form.as_object().expect("it is one"));
        let known = |text: &str| hidden.texts().iter().any(|secret| text.contains(secret));
        assert!(known(&form), "a redirection to another origin is refused by it: {form}");
    }

    #[test]
    fn many_forms_of_a_secret_are_looked_for_in_large_texts() {
        let lines: Vec<String> = (0..1_000).map(|line| format!("{line:060}")).collect();
        let mut hidden = Hidden::default();
        hidden.add(&Value::String(lines.join("\n")));
        let plain = "a+b %41\n".repeat(10_000);
        let mut text = format!("{plain}{}", lines[17]);
        hidden.mask(&mut text);
        assert!(text == format!("{plain}{MASK}"), "only the secret is masked");
    }

    #[test]
    fn secret_is_found_as_a_number() {
        let mut hidden = Hidden::default();
        hidden.add(&serde_json::json!({ "pin": "12345678", "short": "12" }));
        let mut value = serde_json::json!([12_345_678, 12, 123_456_789]);
        hidden.mask_in(&mut value);
        assert_eq!(value, serde_json::json!([MASK, 12, 123_456_789]));
    }

    #[test]
    fn secret_is_found_in_addresses_and_in_bytes_that_are_no_text() {
        let mut hidden = Hidden::default();
        hidden.add(&serde_json::json!({ "password": "a b/c", "pin": "12" }));
        let mut text = "https://x.example/?p=a%20b%2Fc&q=12".to_owned();
        hidden.mask(&mut text);
        assert_eq!(text, "https://x.example/?p=••••&q=12");
        let mut bytes = [b"\xff".as_slice(), b"a b/c", b"\x00a b/ca b/c"].concat();
        hidden.mask_bytes(&mut bytes);
        assert_eq!(
            bytes,
            [b"\xff", MASK.as_bytes(), b"\0", MASK.as_bytes(), MASK.as_bytes()].concat()
        );
    }
}
