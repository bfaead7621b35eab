//! Targets of requests: origins, and targets of redirections.

/// The parts of an absolute HTTP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: String,
    /// Host and port as they were given, without user and password.
    pub(super) authority: String,
    /// From the first slash on, without a fragment.
    pub(super) path: String,
}

impl Target {
    /// Takes an address apart; nothing if it is no address of HTTP.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        let (scheme, rest) = uri.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return None;
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or_default();
        if authority.is_empty()
            || authority.chars().any(|sign| sign.is_whitespace() || sign.is_control())
        {
            return None;
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(Self {
            scheme,
            authority: authority.to_ascii_lowercase(),
            path: format!("{slash}{path}"),
        })
    }

    /// The host alone, an address of IPv6 without its brackets.
    pub(super) fn host(&self) -> &str {
        if let Some(rest) = self.authority.strip_prefix('[') {
            return rest.split(']').next().unwrap_or_default();
        }
        self.authority.split(':').next().unwrap_or_default()
    }

    pub(super) fn port(&self) -> &str {
        let after = self.authority.rsplit(']').next().unwrap_or_default();
        let given = after.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.is_empty());
        given.unwrap_or(if self.scheme == "https" { "443" } else { "80" })
    }

    /// Whether credentials for one are meant for the other.
    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        let parts = |target: &Self| {
            (target.scheme.clone(), target.host().to_owned(), target.port().to_owned())
        };
        parts(self) == parts(other)
    }

    /// As an address.
    pub(super) fn uri(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// The address for messages: without the query, which may have secrets.
    pub(super) fn shown(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{}://{}{path}", self.scheme, self.authority)
    }

    /// The target of a `Location` from here.
    pub(super) fn join(&self, location: &str) -> Option<Self> {
        let location = location.trim();
        if location.contains("://") {
            return Self::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme));
        }
        let location = location.split('#').next().unwrap_or_default();
        let is_scheme =
            |text: &str| text.find(':').is_some_and(|colon| !text[..colon].contains(['/', '?']));
        if is_scheme(location) {
            return None;
        }
        let own = self.path.split('?').next().unwrap_or("/");
        let path = if location.is_empty() {
            self.path.clone()
        } else if location.starts_with('/') {
            location.to_owned()
        } else if location.starts_with('?') {
            format!("{own}{location}")
        } else {
            let folder = own.rfind('/').map_or("/", |end| &own[..=end]);
            format!("{folder}{location}")
        };
        Some(Self { path: without_dots(&path), ..self.clone() })
    }
}

/// A path in which `.` and `..` are resolved.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (path, String::new()),
    };
    let mut parts: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.split('/').skip(1).collect();
    for (place, part) in all.iter().enumerate() {
        let is_last = place + 1 == all.len();
        match *part {
            "." if is_last => parts.push(""),
            "." => {}
            ".." => {
                parts.pop();
                if is_last {
                    parts.push("");
                }
            }
            part => parts.push(part),
        }
    }
    format!("/{}{query}", parts.join("/"))
}

/// A path without percent signs for bytes.
pub(super) fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut text = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while place < bytes.len() {
        let byte = path.get(place + 1..place + 3).filter(|_| bytes[place] == b'%');
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                text.push(byte);
                place += 3;
            }
            None => {
                text.push(bytes[place]);
                place += 1;
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_leads_where_browsers_go() {
        let from = Target::parse("http://a.example:8080/b/c?d=1#e").expect("an address");
        for (location, to) in [
            ("x", "http://a.example:8080/b/x"),
            ("/x?y=/z", "http://a.example:8080/x?y=/z"),
            ("../../x/./y/..", "http://a.example:8080/x/"),
            ("?q", "http://a.example:8080/b/c?q"),
            ("", "http://a.example:8080/b/c?d=1"),
            ("//b.example/x", "http://b.example/x"),
            ("HTTPS://B.example", "https://b.example/"),
            ("x#part", "http://a.example:8080/b/x"),
        ] {
            assert_eq!(from.join(location).expect(location).uri(), to, "{location}");
        }
        for location in ["ftp://x/y", "javascript:alert(1)", "file:///etc/passwd", "http://"] {
            assert_eq!(from.join(location), None, "{location}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme_a_host_and_a_port() {
        let target = |uri: &str| Target::parse(uri).expect(uri);
        assert!(target("http://a/x").is_same_origin(&target("HTTP://A:80/y")));
        assert!(!target("http://a/").is_same_origin(&target("https://a/")));
        assert!(!target("http://a/").is_same_origin(&target("http://a:81/")));
        assert!(!target("http://a/").is_same_origin(&target("http://b/")));
        assert_eq!(target("http://[::1]:80/").host(), "::1");
        assert_eq!(target("http://me:secret@a/x?token=1").shown(), "http://a/x");
        assert_eq!(Target::parse("http://a b/"), None);
    }

    #[test]
    fn percent_signs_are_bytes() {
        assert_eq!(decoded("/a%20b%zz%C3%A4"), "/a b%zzä");
    }
}
