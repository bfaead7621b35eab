//! URIs of calls: templates of RFC 6570, queries.

use serde_json::Value;

use super::effect::Effect;
use crate::expr::{as_text, Piece, Template};
use crate::fault::Fault;
use crate::model::Endpoint;

/// Characters that have a meaning in a URI, and may be a part of one.
const RESERVED: &[u8] = b":/?#[]@!$&'()*+,;=";

/// The URI of an endpoint, its `{names}` replaced by fields of the input. What its expressions give
/// is a part of the URI as it is: a brace in data names no field.
pub(super) fn of(effect: &Effect<'_, '_>, endpoint: &Endpoint) -> Result<String, Fault> {
    let env = &effect.env;
    let uri = match &endpoint.uri {
        Template::Expression(_) => Ok(as_text(&env.fill_own(&endpoint.uri)?)),
        Template::Text(pieces) => {
            let of_piece = |piece: &Piece| match piece {
                Piece::Fixed(text) => expand(text, &env.input),
                Piece::Expression(text) => {
                    env.evaluate(text, &env.input, env.definition_stage()).map(|it| as_text(&it))
                }
            };
            pieces.iter().map(of_piece).collect()
        }
        _ => expand(&as_text(&env.fill_own(&endpoint.uri)?), &env.input),
    };
    let written: String = match &endpoint.uri {
        Template::Expression(_) => String::new(),
        Template::Text(pieces) => {
            let of_piece = |piece: &Piece| match piece {
                Piece::Fixed(text) => text.clone(),
                Piece::Expression(_) => "{}".to_owned(),
            };
            pieces.iter().map(of_piece).collect()
        }
        _ => as_text(&env.fill_own(&endpoint.uri)?),
    };
    without_dots(uri?, &written)
}

/// Refuses a URI whose path has more segments `.` and `..` than its template: data would lead to
/// another place of the service than the one that is written.
pub(super) fn without_dots(uri: String, written: &str) -> Result<String, Fault> {
    if dots(&uri) <= dots(written) {
        return Ok(uri);
    }
    let shown = uri.split(['?', '#']).next().unwrap_or_default();
    Err(Fault::expression(format!(
        "data gives «{shown}» a path segment «.» or «..», which leads elsewhere: check the data first"
    )))
}

/// Segments of a path that stand for a folder, also with dots and slashes as codes.
fn dots(uri: &str) -> usize {
    let path = uri.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    path.split(['/', '\\']).filter(|segment| matches!(*segment, "." | "..")).count()
}

/// How the operator of an expression of RFC 6570 writes its variables.
#[derive(Clone, Copy)]
struct Style {
    begin: &'static str,
    separator: &'static str,
    /// Whether names are written, too; and what follows a name without a value.
    is_named: bool,
    nothing: &'static str,
    /// Whether characters with a meaning in a URI are left as they are.
    is_reserved: bool,
}

fn style(operator: Option<char>) -> Option<Style> {
    let style = |begin, separator, is_named, nothing, is_reserved| {
        Some(Style { begin, separator, is_named, nothing, is_reserved })
    };
    match operator {
        None => style("", ",", false, "", false),
        Some('+') => style("", ",", false, "", true),
        Some('#') => style("#", ",", false, "", true),
        Some('.') => style(".", ".", false, "", false),
        Some('/') => style("/", "/", false, "", false),
        Some(';') => style(";", ";", true, "", false),
        Some('?') => style("?", "&", true, "=", false),
        Some('&') => style("&", "&", true, "=", false),
        Some(_) => None,
    }
}

/// Expansion of the expressions of RFC 6570 in a text, by fields of an object.
pub(super) fn expand(template: &str, fields: &Value) -> Result<String, Fault> {
    let mut expanded = String::new();
    let mut rest = template;
    while let Some(begin) = rest.find('{') {
        let Some(end) = rest[begin..].find('}') else { break };
        expanded.push_str(&rest[..begin]);
        expanded.push_str(&expression(&rest[begin + 1..begin + end], fields)?);
        rest = &rest[begin + end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// One expression, without its braces: `id`, `?page,size`, `/path*`, `name:3`.
fn expression(text: &str, fields: &Value) -> Result<String, Fault> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '.');
    let operator = text.chars().next().filter(|first| !is_name(*first) || *first == '.');
    let names = &text[operator.map_or(0, char::len_utf8)..];
    let unknown =
        || Fault::configuration(format!("«{{{text}}}» of a URI is no expression of RFC 6570"));
    let style = style(operator).ok_or_else(unknown)?;
    let mut written = Vec::new();
    for part in names.split(',') {
        let (name, is_exploded) = match part.strip_suffix('*') {
            Some(name) => (name, true),
            None => (part, false),
        };
        let (name, most) = match name.split_once(':') {
            Some((name, most)) => (name, Some(most.parse::<usize>().map_err(|_| unknown())?)),
            None => (name, None),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(unknown());
        }
        let value = fields.get(name).unwrap_or(&Value::Null);
        written.extend(variable(style, name, value, is_exploded, most)?);
    }
    if written.is_empty() {
        return Ok(String::new());
    }
    Ok(format!("{}{}", style.begin, written.join(style.separator)))
}

/// A variable as its style writes it; nothing for one without a value.
fn variable(
    style: Style,
    name: &str,
    value: &Value,
    is_exploded: bool,
    most: Option<usize>,
) -> Result<Option<String>, Fault> {
    let simple = |value: &Value| match value {
        Value::Array(_) | Value::Object(_) => {
            Err(Fault::expression(format!("«{name}» of a URI is no simple value")))
        }
        value => {
            let text = as_text(value);
            let text: String = text.chars().take(most.unwrap_or(usize::MAX)).collect();
            Ok(if style.is_reserved { kept(&text) } else { encoded(&text) })
        }
    };
    let named = |name: &str, value: String| match value.is_empty() {
        true => format!("{name}{}", style.nothing),
        false => format!("{name}={value}"),
    };
    let own = |value: String| if style.is_named { named(name, value) } else { value };
    let separator = if is_exploded { style.separator } else { "," };
    let texts: Vec<String> = match value {
        Value::Null => return Ok(None),
        Value::Array(elements) => {
            let texts = elements.iter().filter(|it| !it.is_null()).map(simple);
            let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
            if is_exploded {
                texts.into_iter().map(own).collect()
            } else {
                texts
            }
        }
        Value::Object(fields) => {
            let mut texts = Vec::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let (key, value) = (encoded(key), simple(value)?);
                match is_exploded {
                    true => texts.push(format!("{key}={value}")),
                    false => texts.extend([key, value]),
                }
            }
            texts
        }
        value => return simple(value).map(|text| Some(own(text))),
    };
    if texts.is_empty() {
        return Ok(None);
    }
    let joined = texts.join(separator);
    Ok(Some(if is_exploded { joined } else { own(joined) }))
}

/// An address for messages: without user, password and query, which may be secret.
pub(super) fn shown(uri: &str) -> String {
    let uri = &uri[..uri.find(['?', '#']).unwrap_or(uri.len())];
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    let host = rest.find('/').unwrap_or(rest.len());
    match rest[..host].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => uri.to_owned(),
    }
}

/// A text in a URI: everything but unreserved characters is encoded.
pub(super) fn encoded(text: &str) -> String {
    written(text.bytes(), |_| false)
}

/// The same, without the characters that have a meaning in a URI and what is encoded already.
fn kept(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_code = |at: usize| {
        let digits = bytes.get(at + 1..at + 3);
        bytes[at] == b'%' && digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let mut at = 0;
    written(text.bytes(), |byte| {
        at += 1;
        RESERVED.contains(&byte) || is_code(at - 1)
    })
}

fn written(bytes: impl Iterator<Item = u8>, mut is_kept: impl FnMut(u8) -> bool) -> String {
    let mut written = String::new();
    for byte in bytes {
        // It counts the bytes, so it sees all of them.
        let is_kept = is_kept(byte);
        if is_kept || byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

/// A URI with the parameters of a query, which is before the fragment.
pub(super) fn with_query(uri: &str, query: &Value) -> Result<String, Fault> {
    let Value::Object(fields) = query else {
        return Err(Fault::expression(format!("a query must be an object, not {query}")));
    };
    let (uri, fragment) = uri.split_at(uri.find('#').unwrap_or(uri.len()));
    let mut with = uri.to_owned();
    for (name, value) in fields {
        let values = match value {
            Value::Null => continue,
            Value::Array(values) => values.clone(),
            value => vec![value.clone()],
        };
        for value in values {
            with.push(if with.contains('?') { '&' } else { '?' });
            with.push_str(&format!("{}={}", encoded(name), encoded(&as_text(&value))));
        }
    }
    with.push_str(fragment);
    Ok(with)
}

/// A reference that a document has, in full: relative to the URI of the document.
pub(super) fn resolved(reference: &str, document: &str) -> String {
    if reference.contains("://") {
        return reference.to_owned();
    }
    let document = &document[..document.find(['?', '#']).unwrap_or(document.len())];
    let scheme = document.find("://").unwrap_or(0);
    let path = document.get(scheme + 3..).and_then(|rest| rest.find('/'));
    let path = path.map_or(document.len(), |path| scheme + 3 + path);
    let (origin, folder) = document.split_at(path);
    if reference.starts_with("//") {
        return format!("{}:{reference}", &document[..scheme]);
    }
    let mut parts: Vec<&str> = match reference.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').skip(1).collect(),
    };
    parts.pop();
    for part in reference.trim_start_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{origin}/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_expanded_as_rfc_6570_says() {
        let fields = json!({
            "var": "value", "hello": "Hello World!", "path": "/foo/bar", "empty": "", "x": 1024,
            "list": ["red", "green"], "keys": { "dot": ".", "semi": ";" }, "none": null, "no": [],
        });
        let cases = [
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{+hello}", "Hello%20World!"),
            ("{+path}/here", "/foo/bar/here"),
            ("X{#hello}", "X#Hello%20World!"),
            ("map?{x,empty}", "map?1024,"),
            ("X{.x,var}", "X.1024.value"),
            ("{/var,x}/here", "/value/1024/here"),
            ("{;x,empty}", ";x=1024;empty"),
            ("{?x,empty}", "?x=1024&empty="),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
            ("{var:3}", "val"),
            ("{list}", "red,green"),
            ("{list*}", "red,green"),
            ("{/list*}", "/red/green"),
            ("{?list}", "?list=red,green"),
            ("{?list*}", "?list=red&list=green"),
            ("{keys}", "dot,.,semi,%3B"),
            ("{+keys*}", "dot=.,semi=;"),
            ("{?keys*}", "?dot=.&semi=%3B"),
            ("{?keys}", "?keys=dot,.,semi,%3B"),
            ("a{none}b{?none,missing,no}", "ab"),
            ("a{open", "a{open"),
        ];
        for (template, expanded) in cases {
            assert_eq!(expand(template, &fields).unwrap(), expanded, "{template}");
        }
        for wrong in ["{}", "{a b}", "{=x}", "{x:y}", "{|x}"] {
            assert_eq!(expand(wrong, &fields).unwrap_err().status, 400, "{wrong}");
        }
        assert_eq!(expand("{list}", &json!({ "list": [[1]] })).unwrap_err().status, 400);
    }

    #[test]
    fn segments_that_lead_elsewhere_are_refused_if_they_are_data() {
        let checked = |uri: &str, written: &str| without_dots(uri.to_owned(), written);
        for (uri, written) in [
            ("https://a/b/../c", "https://a/{id}/c"),
            ("https://a/b/.", "https://a/b/{id}"),
            ("https://a/b/%2E%2e/c", "https://a/b/{+id}"),
            ("https://a/b/..%2Fadmin", "https://a/b/{id}"),
            ("https://a/x\\..\\y?q", "https://a/{+id}"),
            ("https://a/./../c", "https://a/./{id}/c"),
            ("https://a/../b", ""),
        ] {
            assert_eq!(checked(uri, written).unwrap_err().status, 400, "{uri}");
        }
        for (uri, written) in [
            ("https://a/./c", "https://a/./{id}"),
            ("https://a/..b/c..?../..", "https://a/{id}/{other}"),
        ] {
            assert_eq!(checked(uri, written).unwrap(), uri);
        }
    }

    #[test]
    fn references_are_relative_to_their_document() {
        let resolved = |reference: &str| resolved(reference, "https://a.b:81/docs/v1/api.json?x#y");
        assert_eq!(resolved("https://c.d/e"), "https://c.d/e");
        assert_eq!(resolved("/e"), "https://a.b:81/e");
        assert_eq!(resolved("e/f"), "https://a.b:81/docs/v1/e/f");
        assert_eq!(resolved("./e"), "https://a.b:81/docs/v1/e");
        assert_eq!(resolved("../e"), "https://a.b:81/docs/e");
        assert_eq!(resolved("//c.d/e"), "https://c.d/e");
        assert_eq!(super::resolved("e", "https://a.b"), "https://a.b/e");
        let with = |uri: &str| with_query(uri, &json!({ "q": "a b" })).unwrap();
        assert_eq!(with("https://a.b/c?d=1#e"), "https://a.b/c?d=1&q=a%20b#e");
    }
}
