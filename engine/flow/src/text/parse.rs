//! From YAML or JSON to trees. JSON is read as the YAML that it is.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use serde_json::Number;

use super::node::{Content, Node, Place};
use super::problem::Collector;

/// Bytes of a text with definitions.
const TEXT_MAX: usize = 4 << 20;

/// Parts of a definition, also those that aliases repeat.
const NODES_MAX: usize = 200_000;

/// Bytes of texts that anchors and aliases repeat.
const REPEATED_MAX: usize = 2 * TEXT_MAX;

/// Maximum depth of a definition.
const DEPTH_MAX: usize = 100;

/// A list or an object that is not complete.
struct Open {
    at: Place,
    anchor: usize,
    content: OpenContent,
}

enum OpenContent {
    List(Vec<Node>),
    Map { fields: Vec<(String, Place, Node)>, keys: HashSet<String>, key: Option<(String, Place)> },
}

/// The documents of a text. Problems are collected, and end it.
pub(crate) fn parse(text: &str, problems: &mut Collector<'_>) -> Vec<Node> {
    let start = Place { line: 1, column: 1 };
    if text.len() > TEXT_MAX {
        problems.add(start, format!("the text has more than {TEXT_MAX} bytes"), None);
        return Vec::new();
    }
    let mut builder = Builder {
        problems,
        open: Vec::new(),
        done: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        repeated: 0,
    };
    let text = &*with_pairs_joined(text);
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => {
                if builder.event(event, span).is_none() {
                    return Vec::new();
                }
            }
            Err(error) => {
                let at = place(error.marker());
                builder.problems.add(
                    at,
                    format!("this is no YAML: {}", error.info()),
                    Some(hint(text, at).to_owned()),
                );
                return Vec::new();
            }
        }
    }
    builder.done
}

/// Hint for a text that is no YAML: the cause may be an expression without quotes nearby.
fn hint(text: &str, at: Place) -> &'static str {
    let near = text.lines().skip(at.line.saturating_sub(2)).take(2);
    let is_bare = |line: &str| {
        let before = line.find("${").map(|begin| line[..begin].trim_end());
        before.is_some_and(|before| !before.contains(['\'', '"']))
    };
    match near.into_iter().any(is_bare) {
        true => "put the expression in quotes: '${ … }'",
        false => "check the indentation, and that brackets and quotes are closed; put a text with «: », «{» or «#» in quotes",
    }
}

struct Builder<'a, 'b> {
    problems: &'a mut Collector<'b>,
    open: Vec<Open>,
    done: Vec<Node>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    repeated: usize,
}

impl Builder<'_, '_> {
    /// Takes an event; nothing if the rest cannot be understood.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let at = place(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = Node { at, content: self.scalar(&text, style, tag.as_deref(), at)? };
                self.complete(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), &["seq"], at)?;
                self.begin(at, anchor, OpenContent::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), &["map"], at)?;
                let (fields, keys) = (Vec::new(), HashSet::new());
                self.begin(at, anchor, OpenContent::Map { fields, keys, key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open { at, anchor, content } = self.open.pop()?;
                let content = match content {
                    OpenContent::List(elements) => Content::List(elements),
                    OpenContent::Map { fields, .. } => Content::Map(fields),
                };
                self.complete(Node { at, content }, anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return self.refuse(at, "this alias is a part of what it repeats", None);
                };
                let (parts, bytes) = node.size();
                self.count_repeated(at, parts, bytes)?;
                let node = self.anchors.get(&anchor).cloned()?;
                self.complete(Node { at, ..node }, 0)
            }
            _ => Some(()),
        }
    }

    /// Counts what is about to be repeated, before it takes memory.
    fn count_repeated(&mut self, at: Place, parts: usize, bytes: usize) -> Option<()> {
        self.nodes += parts;
        self.repeated += bytes;
        if self.nodes > NODES_MAX || self.repeated > REPEATED_MAX {
            return self.refuse(at, "aliases repeat too much", None);
        }
        Some(())
    }

    fn refuse(
        &mut self,
        at: Place,
        message: impl std::fmt::Display,
        hint: Option<&str>,
    ) -> Option<()> {
        self.problems.add(at, message, hint.map(str::to_owned));
        None
    }

    fn begin(&mut self, at: Place, anchor: usize, content: OpenContent) -> Option<()> {
        if self.open.len() >= DEPTH_MAX {
            return self.refuse(at, format!("this is nested deeper than {DEPTH_MAX}"), None);
        }
        if let Some(Open { content: OpenContent::Map { key: None, .. }, .. }) = self.open.last() {
            return self.refuse(at, "a key must be a text", None);
        }
        self.open.push(Open { at, anchor, content });
        Some(())
    }

    fn complete(&mut self, node: Node, anchor: usize) -> Option<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return self.refuse(node.at, format!("the text has more than {NODES_MAX} parts"), None);
        }
        if anchor > 0 {
            let (parts, bytes) = node.size();
            self.count_repeated(node.at, parts, bytes)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.done.push(node);
            return Some(());
        };
        match &mut open.content {
            OpenContent::List(elements) => elements.push(node),
            OpenContent::Map { fields, key: key @ Some(_), .. } => {
                let (name, at) = key.take()?;
                fields.push((name, at, node));
            }
            OpenContent::Map { key, keys, .. } => {
                let at = node.at;
                let name = match node.content {
                    Content::Text(text) => text,
                    Content::Number(number) => number.to_string(),
                    Content::Bool(value) => value.to_string(),
                    Content::Null => "null".to_owned(),
                    _ => return self.refuse(at, "a key must be a text", None),
                };
                if name == "<<" {
                    return self.refuse(
                        at,
                        "merge keys are not supported",
                        Some("write the fields out"),
                    );
                }
                if !keys.insert(name.clone()) {
                    // The tree stays readable: the second one is a further problem's place.
                    *key = Some((name.clone(), at));
                    self.problems.add(at, format!("«{name}» is there already"), None);
                    return Some(());
                }
                *key = Some((name, at));
            }
        }
        Some(())
    }

    /// Refuses a tag that says something else than what it stands before is.
    fn check_tag(&mut self, tag: Option<&Tag>, known: &[&str], at: Place) -> Option<()> {
        match tag {
            None => Some(()),
            Some(tag) if tag.is_yaml_core_schema() && known.contains(&&*tag.suffix) => Some(()),
            Some(tag) => {
                let message = format!("the tag {}{} is not known", tag.handle, tag.suffix);
                self.refuse(at, message, None)
            }
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Place,
    ) -> Option<Content> {
        self.check_tag(tag, &["str", "int", "float", "bool", "null"], at)?;
        let kind = tag.map(|tag| &*tag.suffix);
        if kind == Some("str") || (kind.is_none() && style != ScalarStyle::Plain) {
            return Some(Content::Text(text.to_owned()));
        }
        let content = plain(text);
        if matches!(content, Content::Text(_)) && is_no_json(text) {
            let message = format!("«{text}» is a number that JSON does not have");
            self.refuse(at, message, Some("put it in quotes if it is a text"))?;
        }
        let is_so = match (kind, &content) {
            (None, _) | (Some("bool"), Content::Bool(_)) | (Some("null"), Content::Null) => true,
            (Some("int"), Content::Number(number)) => !number.is_f64(),
            (Some("float"), Content::Number(_)) => true,
            _ => false,
        };
        if !is_so {
            let kind = kind.unwrap_or_default();
            self.refuse(at, format!("«{text}» is not what its tag !!{kind} says"), None)?;
        }
        Some(content)
    }
}

/// A text without quotes, by YAML's core schema.
fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Content::Null,
        "true" | "True" | "TRUE" => return Content::Bool(true),
        "false" | "False" | "FALSE" => return Content::Bool(false),
        _ => {}
    }
    let looks_like_number =
        text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    if looks_like_number {
        let digits = text.strip_prefix('+').unwrap_or(text);
        let radix = |prefix: &str, radix: u32| {
            let digits = digits.strip_prefix(prefix)?;
            let is_digits = digits.chars().all(|c| c.is_digit(radix));
            u64::from_str_radix(digits, radix).ok().filter(|_| is_digits)
        };
        // Numbers above the range of signed ones stay exact, too.
        let above = digits.parse::<u64>().ok().or_else(|| radix("0x", 16));
        let above = above.or_else(|| radix("0o", 8)).map(Number::from);
        if let Some(number) = digits.parse::<i64>().ok().map(Number::from).or(above) {
            return Content::Number(number);
        }
        let is_float =
            digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
                && digits.chars().any(|c| c.is_ascii_digit());
        if let Some(number) = digits.parse().ok().filter(|_| is_float).and_then(Number::from_f64) {
            return Content::Number(number);
        }
    }
    Content::Text(text.to_owned())
}

/// Whether a text without quotes is a number of YAML that no number of JSON is: infinite, or none.
fn is_no_json(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let named = [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"].contains(&digits);
    let is_large = || {
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
            && digits.parse::<f64>().is_ok_and(f64::is_infinite)
    };
    named || is_large()
}

/// JSON writes a character beyond 16 bits as two escapes, which YAML does not know: a text that is
/// JSON has one escape of the same length in their place.
fn with_pairs_joined(text: &str) -> Cow<'_, str> {
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let has_pair = text.contains("\\ud") || text.contains("\\uD");
    if !has_pair || !text.trim_start().starts_with(['{', '[']) || !is_json() {
        return Cow::Borrowed(text);
    }
    let half = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let (mut joined, mut kept, mut at) = (String::with_capacity(text.len()), 0, 0);
    while let Some(next) = text[at..].find('\\') {
        let begin = at + next;
        at = begin + 2;
        let (Some(high @ 0xd800..=0xdbff), Some(low @ 0xdc00..=0xdfff)) =
            (half(begin), half(begin + 6))
        else {
            continue;
        };
        at = begin + 12;
        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        joined.push_str(&text[kept..begin]);
        // Places after it stay what they are, but for two columns on its line.
        joined.push_str(&format!("\\U{code:08x}"));
        kept = at;
    }
    joined.push_str(&text[kept..]);
    Cow::Owned(joined)
}

fn place(marker: &Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn characters_beyond_sixteen_bits_are_read_as_json_writes_them() {
        let joined = |text: &str| with_pairs_joined(text).into_owned();
        assert_eq!(joined(r#"{"a":"\ud83d\ude00!"}"#), r#"{"a":"\U0001f600!"}"#);
        assert_eq!(joined(r#"["\\ud83d\\ude00"]"#), r#"["\\ud83d\\ude00"]"#, "no escapes");
        assert_eq!(joined(r#"["\ud83d"]"#), r#"["\ud83d"]"#, "half of one is no JSON");
        assert_eq!(joined(r"a: '\ud83d\ude00'"), r"a: '\ud83d\ude00'", "YAML has no such escapes");
        let text = r#"{ "x\uD83D\uDE00": ["\ud83d\ude00\ud83d\ude01", "\\\ud83d\ude00"] }"#;
        let mut problems = Collector::new(text, "a.json");
        let nodes = parse(text, &mut problems);
        let value = nodes.first().map(Node::to_value);
        assert_eq!(value, Some(json!({ "x😀": ["😀😁", "\\😀"] })));
    }

    #[test]
    fn whole_numbers_are_exact() {
        let cases = [
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("+7", json!(7)),
            ("0xFFFFFFFFFFFFFFFF", json!(u64::MAX)),
            ("0o17", json!(15)),
            ("0x-1", json!("0x-1")),
            ("0x", json!("0x")),
            ("1e3", json!(1000.0)),
            (".5", json!(0.5)),
            ("1.2.3", json!("1.2.3")),
        ];
        for (text, value) in cases {
            let node = Node { at: Place { line: 1, column: 1 }, content: plain(text) };
            assert_eq!(node.to_value(), value, "{text}");
        }
    }
}
