//! The configuration file: TOML; an unknown name is an error with its place.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::keys::{problem, Key, Kind, KEYS};
use super::suggest;

/// A value of the file, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// A problem of a file: its place, the error, the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn located(&self, file: &Path) -> String {
        format!("{}:{}:{}: {}", file.display(), self.line, self.column, self.text)
    }
}

/// Reads the text of a file; all problems are found, not the first alone.
pub(crate) fn parse(text: &str) -> Result<Vec<Found>, Vec<Problem>> {
    let at = |offset: usize| {
        let before = &text[..offset.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|sign| *sign != '\n').count() + 1;
        (line, column)
    };
    let wrong = |offset: usize, text: String| {
        let (line, column) = at(offset);
        Problem { line, column, text }
    };
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        vec![wrong(offset, error.message().to_owned())]
    })?;
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut open = vec![(String::new(), table.get_ref())];
    while let Some((prefix, table)) = open.pop() {
        for (name, value) in table.iter() {
            let full = format!("{prefix}{}", name.get_ref());
            if let DeValue::Table(inner) = value.get_ref() {
                let is_known = KEYS.iter().any(|key| key.name.starts_with(&format!("{full}.")));
                if is_known {
                    open.push((format!("{full}."), inner));
                    continue;
                }
            }
            let offset = name.span().start;
            let Some(key) = KEYS.iter().find(|key| key.name == full) else {
                problems.push(wrong(offset, unknown(&full)));
                continue;
            };
            match scalar(key, value.get_ref()) {
                Ok(value) => found.push(Found { key: key.name, value, line: at(offset).0 }),
                Err(text) => {
                    let text = format!("«{full}» {text}");
                    problems.push(wrong(value.span().start, text));
                }
            }
        }
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(problems)
    }
}

/// The error for an unknown setting, with a similar name.
pub(crate) fn unknown(name: &str) -> String {
    let hint = suggest(name, KEYS.iter().map(|key| key.name));
    match hint {
        Some(known) => format!("there is no setting «{name}»; is «{known}» meant?"),
        None => format!("there is no setting «{name}»; turnwheel config print shows all of them"),
    }
}

fn scalar(key: &Key, value: &DeValue<'_>) -> Result<String, String> {
    let text = match (key.kind, value) {
        (Kind::Flag, DeValue::Boolean(value)) => value.to_string(),
        (Kind::Count | Kind::Bytes, DeValue::Integer(value)) => value.to_string(),
        (Kind::Flag, _) => return Err("must be true or false".to_owned()),
        (Kind::Count, _) => return Err("must be a whole number from 1 on".to_owned()),
        (_, DeValue::String(value)) => value.to_string(),
        _ => return Err("must be a text in quotes".to_owned()),
    };
    match problem(key, &text) {
        Some(problem) => Err(problem),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_has_a_place_and_a_suggestion() {
        let text = "store = \"a.db\"\n[io]\nhttp-timout = \"5s\"\nallow-shell = \"no\"\n";
        let problems = parse(text).expect_err("two things are wrong");
        assert_eq!((problems[0].line, problems[0].column), (3, 1));
        assert!(problems[0].text.contains("io.http-timeout"), "{}", problems[0].text);
        assert_eq!((problems[1].line, problems[1].column), (4, 15));
        assert!(problems[1].text.contains("true or false"), "{}", problems[1].text);
    }

    #[test]
    fn what_is_no_toml_has_a_place() {
        let problems = parse("store = \nby = \"eva\"").expect_err("a value is missing");
        assert_eq!(problems[0].line, 1, "{problems:?}");
        assert!(parse("[io]\n[io]\n").is_err());
        assert!(parse("[nothing]\nstore = 1").is_err());
        assert!(parse("store = [1]").is_err());
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn values_are_found_with_their_lines() {
        let found = parse("by = \"eva\"\nio.body-max = 10\n").expect("it is right");
        let body = Found { key: "io.body-max", value: "10".into(), line: 2 };
        assert!(found.contains(&body), "{found:?}");
    }
}
