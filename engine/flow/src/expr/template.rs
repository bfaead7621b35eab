//! Data with expressions in it: texts of the form `${ … }`.

use serde_json::{Map, Value};

/// Data, some of whose texts are expressions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Template {
    /// As it is.
    Fixed(Value),
    /// An expression, without what marks it.
    Expression(String),
    /// A text with expressions in it.
    Text(Vec<Piece>),
    /// A list.
    List(Vec<Template>),
    /// An object.
    Object(Vec<(String, Template)>),
    /// In loose mode: an expression if it is one and can be evaluated, else the text.
    Loose(String),
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// As it is.
    Fixed(String),
    /// The value of an expression, as text.
    Expression(String),
}

impl Template {
    /// Reads data.
    pub(crate) fn of(value: &Value, is_loose: bool) -> Self {
        match value {
            Value::String(text) => Self::of_text(text, is_loose),
            Value::Array(elements) => {
                let elements: Vec<_> = elements.iter().map(|e| Self::of(e, is_loose)).collect();
                if elements.iter().all(|element| matches!(element, Self::Fixed(_))) {
                    return Self::Fixed(value.clone());
                }
                Self::List(elements)
            }
            Value::Object(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(key, v)| (key.clone(), Self::of(v, is_loose))).collect();
                if fields.iter().all(|(_, value)| matches!(value, Self::Fixed(_))) {
                    return Self::Fixed(value.clone());
                }
                Self::Object(fields)
            }
            other => Self::Fixed(other.clone()),
        }
    }

    fn of_text(text: &str, is_loose: bool) -> Self {
        if let Some(expression) = strip(text) {
            return Self::Expression(expression.to_owned());
        }
        if is_loose && !text.trim().is_empty() {
            return Self::Loose(text.to_owned());
        }
        let pieces = pieces(text);
        match pieces.as_slice() {
            [] | [Piece::Fixed(_)] => Self::Fixed(Value::String(text.to_owned())),
            _ => Self::Text(pieces),
        }
    }

    /// All expressions in it.
    pub(crate) fn expressions(&self) -> Vec<&str> {
        match self {
            Self::Fixed(_) | Self::Loose(_) => Vec::new(),
            Self::Expression(text) => vec![text],
            Self::Text(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Expression(text) => Some(text.as_str()),
                    Piece::Fixed(_) => None,
                })
                .collect(),
            Self::List(elements) => elements.iter().flat_map(Self::expressions).collect(),
            Self::Object(fields) => {
                fields.iter().flat_map(|(_, value)| value.expressions()).collect()
            }
        }
    }

    /// The value, with what `evaluate` makes of expressions in it.
    pub(crate) fn fill<E>(
        &self,
        evaluate: &mut dyn FnMut(&str) -> Result<Value, E>,
    ) -> Result<Value, E> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Expression(text) => evaluate(text)?,
            Self::Loose(text) => evaluate(text).unwrap_or_else(|_| Value::String(text.clone())),
            Self::Text(pieces) => {
                let mut filled = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Fixed(text) => filled.push_str(text),
                        Piece::Expression(text) => filled.push_str(&as_text(&evaluate(text)?)),
                    }
                }
                Value::String(filled)
            }
            Self::List(elements) => {
                let elements = elements.iter().map(|element| element.fill(evaluate));
                Value::Array(elements.collect::<Result<_, _>>()?)
            }
            Self::Object(fields) => {
                let mut filled = Map::new();
                for (key, value) in fields {
                    filled.insert(key.clone(), value.fill(evaluate)?);
                }
                Value::Object(filled)
            }
        })
    }
}

/// A value as a part of a text: texts as they are, everything else as JSON.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The expression in a text that is one as a whole: `${ … }`.
pub(crate) fn strip(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("${")?;
    let end = closing(inner)?;
    (end + 1 == inner.len()).then(|| inner[..end].trim())
}

/// Position of an expression in a text that is not closed: a bracket or a quote in it has no
/// partner.
pub(crate) fn unclosed(text: &str) -> Option<usize> {
    let trimmed = text.trim();
    if strip(text).is_some() {
        return None;
    }
    let mut at = 0;
    while let Some(begin) = text[at..].find("${").map(|begin| at + begin) {
        let inner = &text[begin + 2..];
        // The text as a whole is marked as an expression, whatever it begins with.
        let is_whole =
            trimmed.starts_with("${") && trimmed.ends_with('}') && text[..begin].trim().is_empty();
        match closing(inner) {
            Some(end) if is_meant(inner) => at = begin + 2 + end + 1,
            None if is_meant(inner) || is_whole => return Some(begin),
            _ => at = begin + 2,
        }
    }
    None
}

/// Whether a text has an expression in it, closed or not.
pub(crate) fn has_expression(text: &str) -> bool {
    strip(text).is_some()
        || unclosed(text).is_some()
        || pieces(text).iter().any(|piece| matches!(piece, Piece::Expression(_)))
}

/// Whether what comes after `${` is an expression: a shell has no variable that begins so.
fn is_meant(inner: &str) -> bool {
    inner.starts_with([' ', '.', '$', '\t', '\r', '\n', '(', '[', '{', '"'])
}

/// The parts of a text. An expression in it begins with `${` and a space, `.`, `$`, a bracket or a
/// quote, so
/// that the variables of a shell are left alone.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut fixed = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find("${") {
        let inner = &rest[begin + 2..];
        match closing(inner).filter(|_| is_meant(inner)) {
            Some(end) => {
                fixed.push_str(&rest[..begin]);
                if !fixed.is_empty() {
                    pieces.push(Piece::Fixed(std::mem::take(&mut fixed)));
                }
                pieces.push(Piece::Expression(inner[..end].trim().to_owned()));
                rest = &inner[end + 1..];
            }
            None => {
                fixed.push_str(&rest[..begin + 2]);
                rest = inner;
            }
        }
    }
    fixed.push_str(rest);
    if !fixed.is_empty() {
        pieces.push(Piece::Fixed(fixed));
    }
    pieces
}

/// Position of the brace that closes an expression: braces in it, in its texts and in its comments
/// do not. A comment on the last line would never end: the brace closes the expression there.
fn closing(inner: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut texts: Vec<usize> = Vec::new();
    let mut is_in_text = false;
    let mut is_escaped = false;
    let mut code = 0;
    for (at, character) in inner.char_indices() {
        if at < code {
            // In a comment.
            continue;
        }
        if is_escaped {
            is_escaped = false;
            if character == '(' && is_in_text {
                // An interpolation: until its parenthesis is closed it is no text.
                texts.push(depth);
                is_in_text = false;
                depth += 1;
            }
            continue;
        }
        match character {
            '\\' if is_in_text => is_escaped = true,
            '"' => is_in_text = !is_in_text,
            _ if is_in_text => {}
            '#' => match comment_end(&inner[at..]) {
                Some(length) => code = at + length,
                None if depth == 0 => return closing_brace(&inner[at..]).map(|brace| at + brace),
                None => return None,
            },
            '{' | '(' | '[' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' | ')' | ']' => {
                depth = depth.checked_sub(1)?;
                if texts.last() == Some(&depth) && character == ')' {
                    texts.pop();
                    is_in_text = true;
                }
            }
            _ => {}
        }
    }
    None
}

/// Length of a comment with the end of its line; nothing if it is on the last one. As of jq 1.7, a
/// line that ends with an odd number of backslashes goes on on the next one.
fn comment_end(comment: &str) -> Option<usize> {
    let mut end = 0;
    for line in comment.split_inclusive('\n') {
        end += line.len();
        let text = line.strip_suffix('\n')?;
        let text = text.strip_suffix('\r').unwrap_or(text);
        let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(end);
        }
    }
    None
}

/// Position of the first closing brace without a partner.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().position(|byte| match byte {
        b'{' => {
            depth += 1;
            false
        }
        b'}' if depth > 0 => {
            depth -= 1;
            false
        }
        byte => byte == b'}',
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expression_is_a_text_as_a_whole_or_a_part_of_one() {
        assert_eq!(strip("${ .a }"), Some(".a"));
        assert_eq!(strip(" ${ {a: \"}\"} } "), Some("{a: \"}\"}"));
        assert_eq!(strip("${ \"a\\(.b | {c: .}.c)}\" }"), Some("\"a\\(.b | {c: .}.c)}\""));
        assert_eq!(strip("${ .a } ${ .b }"), None);
        assert_eq!(strip(".a"), None);
        let shell = Template::of(&json!("echo ${HOME} ${ .a }!"), false);
        let filled = shell.fill(&mut |_| Ok::<_, ()>(json!(7)));
        assert_eq!(filled, Ok(json!("echo ${HOME} 7!")));
        assert_eq!(Template::of(&json!("${unclosed"), false), Template::Fixed(json!("${unclosed")));
    }

    #[test]
    fn an_expression_that_is_not_closed_is_found() {
        let broken = [
            ("${ .x[0 }", 0),
            ("T ${ .a | (. + 1 } EUR", 2),
            ("${ .a } and ${ .b", 12),
            ("${x[0}", 0),
            ("${ \"a }", 0),
            ("${ .a] }", 0),
            ("${(1}", 0),
        ];
        for (text, at) in broken {
            assert_eq!(unclosed(text), Some(at), "{text}");
            assert!(has_expression(text), "{text}");
        }
        let others =
            ["echo ${HOME}", "${HOME}/${USER}", "${unclosed", "${ .a }", "a ${ .b } c", "$", "5 $"];
        for text in others {
            assert_eq!(unclosed(text), None, "{text}");
        }
        assert!(!has_expression("echo ${HOME}") && has_expression("T ${ .a }"));
    }

    #[test]
    fn comments_end_with_their_line_and_their_brackets_do_not_count() {
        let whole = [
            ("${ .a # }\n + 1 }", ".a # }\n + 1"),
            ("${ .a # (\n + 1 }", ".a # (\n + 1"),
            ("${ .a # \"\n + 1 }", ".a # \"\n + 1"),
            ("${ .a # ] ) } { [ ( \" \\(\r\n + 1 }", ".a # ] ) } { [ ( \" \\(\r\n + 1"),
            ("${ # first\n.a\n# last }\n}", "# first\n.a\n# last }"),
            // An odd number of backslashes before the end of the line: it goes on.
            ("${ .a # one \\\n } \n + 1 }", ".a # one \\\n } \n + 1"),
            ("${ .a # one \\\r\n } \n + 1 }", ".a # one \\\r\n } \n + 1"),
            ("${ .a # three \\\\\\\n } \n + 1 }", ".a # three \\\\\\\n } \n + 1"),
            ("${ .a # two \\\\\n + 1 }", ".a # two \\\\\n + 1"),
            // In a text it is none, and in an interpolation it is one.
            ("${ \"# }\" + .a }", "\"# }\" + .a"),
            ("${ \"\\\" # }\" + .a }", "\"\\\" # }\" + .a"),
            ("${ \"a\\(.a # )\n) # }\" }", "\"a\\(.a # )\n) # }\""),
            // On the last line.
            ("${ .a # why }", ".a # why"),
            ("${ .a # ( [ \" }", ".a # ( [ \""),
            ("${ .a # {b} and c }", ".a # {b} and c"),
            ("${ .a # one \\\n two }", ".a # one \\\n two"),
        ];
        for (text, inner) in whole {
            assert_eq!(strip(text), Some(inner), "{text}");
            let program = crate::expr::Program::compile(inner, &[]);
            assert!(program.is_ok(), "{text}: {:?}", program.err());
        }
        let parts = Template::of(&json!("a ${ .x # }\n } b ${ .y # ( }!"), false);
        assert_eq!(parts.expressions(), [".x # }", ".y # ("]);
        let broken = [
            ("${ {a: 1 # }\n }", 0),
            ("${ (.a # )\n }", 0),
            ("${ [.a # ] }", 0),
            ("${ \"a\\(.a # ) \" }", 0),
            ("T ${ .a # EUR", 2),
            ("${ .a # \\\n", 0),
        ];
        for (text, at) in broken {
            assert_eq!((strip(text), unclosed(text)), (None, Some(at)), "{text}");
        }
    }

    #[test]
    fn a_text_that_looks_like_an_expression_is_written_as_one_that_gives_it() {
        let escaped = Template::of(&json!("a ${ \"${\" } .x } b"), false);
        let filled = escaped.fill(&mut |text| serde_json::from_str(text));
        assert_eq!(filled.ok(), Some(json!("a ${ .x } b")));
    }

    #[test]
    fn in_loose_mode_what_cannot_be_evaluated_is_a_text() {
        let template = Template::of(&json!({ "a": ".x", "b": "plain" }), true);
        let filled = template.fill(&mut |text| if text == ".x" { Ok(json!(1)) } else { Err(()) });
        assert_eq!(filled, Ok(json!({ "a": 1, "b": "plain" })));
    }
}
