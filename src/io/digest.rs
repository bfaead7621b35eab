//! HTTP digest authentication (RFC 7616): MD5 and SHA-256, with and without `-sess`.

use md5::Md5;
use sha2::{Digest, Sha256};

/// A server's challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    algorithm: Algorithm,
    is_session: bool,
    /// Whether `qop=auth` is offered; the oldest servers have none.
    has_auth: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    fn hash(self, text: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Self::Md5 => hex(&Md5::digest(text)),
            Self::Sha256 => hex(&Sha256::digest(text)),
        }
    }
}

impl Challenge {
    /// Reads a `WWW-Authenticate` header; nothing if it is no digest that can be answered.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let fields = fields(rest);
        let get = |name: &str| {
            let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        let algorithm = get("algorithm").unwrap_or_else(|| "MD5".to_owned()).to_ascii_lowercase();
        let (name, is_session) = match algorithm.strip_suffix("-sess") {
            Some(name) => (name, true),
            None => (algorithm.as_str(), false),
        };
        let algorithm = match name {
            "md5" => Algorithm::Md5,
            "sha-256" => Algorithm::Sha256,
            _ => return None,
        };
        let qop = get("qop");
        let has_auth =
            qop.as_ref().is_some_and(|qop| qop.split(',').any(|one| one.trim() == "auth"));
        if qop.is_some() && !has_auth {
            return None;
        }
        Some(Self {
            realm: get("realm")?,
            nonce: get("nonce")?,
            opaque: get("opaque"),
            algorithm,
            is_session,
            has_auth,
        })
    }

    /// The `Authorization` header that answers it. `nonce` is the client's own, made for this request.
    pub(super) fn answer(
        &self,
        (user, password): (&str, &str),
        method: &str,
        path: &str,
        nonce: &str,
    ) -> String {
        let hash = |text: String| self.algorithm.hash(&text);
        let mut secret = hash(format!("{user}:{}:{password}", self.realm));
        if self.is_session {
            secret = hash(format!("{secret}:{}:{nonce}", self.nonce));
        }
        let what = hash(format!("{method}:{path}"));
        let response = if self.has_auth {
            hash(format!("{secret}:{}:00000001:{nonce}:auth:{what}", self.nonce))
        } else {
            hash(format!("{secret}:{}:{what}", self.nonce))
        };
        let name = match (self.algorithm, self.is_session) {
            (Algorithm::Md5, false) => "MD5",
            (Algorithm::Md5, true) => "MD5-sess",
            (Algorithm::Sha256, false) => "SHA-256",
            (Algorithm::Sha256, true) => "SHA-256-sess",
        };
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut header = format!(
            "Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{path}\", algorithm={name}, \
             response=\"{response}\"",
            quoted(user),
            quoted(&self.realm),
            quoted(&self.nonce)
        );
        if self.has_auth {
            header.push_str(&format!(", qop=auth, nc=00000001, cnonce=\"{nonce}\""));
        }
        if let Some(opaque) = &self.opaque {
            header.push_str(&format!(", opaque=\"{}\"", quoted(opaque)));
        }
        header
    }
}

/// The fields of a challenge: `name=value` or `name="value"`, with commas between.
fn fields(text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (mut value, mut is_escaped, mut end) = (String::new(), false, quoted.len());
                for (place, sign) in quoted.char_indices() {
                    match sign {
                        '\\' if !is_escaped => is_escaped = true,
                        '"' if !is_escaped => {
                            end = place + 1;
                            break;
                        }
                        sign => {
                            value.push(sign);
                            is_escaped = false;
                        }
                    }
                }
                (value, &quoted[end.min(quoted.len())..])
            }
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        fields.push((name.trim().trim_start_matches(',').trim().to_owned(), value));
        rest = next.trim_start().trim_start_matches(',');
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7616, section 3.9.1.
    #[test]
    fn the_example_of_the_standard_is_answered() {
        let header =
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=ALGO, \
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let user = ("Mufasa", "Circle of Life");
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let challenge = Challenge::parse(&header.replace("ALGO", algorithm)).expect("a digest");
            let answer = challenge.answer(user, "GET", "/dir/index.html", nonce);
            assert!(answer.contains(&format!("response=\"{response}\"")), "{answer}");
        }
    }

    #[test]
    fn what_cannot_be_answered_is_left_alone() {
        for header in [
            "Basic realm=\"x\"",
            "Digest",
            "Digest realm=\"x\"",
            "Digest nonce=\"x\", realm=\"y\", algorithm=SHA-512-256",
            "Digest nonce=\"x\", realm=\"y\", qop=\"auth-int\"",
            "Digest realm=\"\\",
        ] {
            assert_eq!(Challenge::parse(header), None, "{header}");
        }
        let old = Challenge::parse("digest realm=\"a\\\"b\", nonce=n").expect("an old one");
        assert!(!old.answer(("u", "p"), "GET", "/", "c").contains("qop"));
    }
}
