//! The whole of a definition: document, use, schedule.

use std::sync::Arc;

use parking_lot::Mutex;

use super::fields::field;
use super::Reader;
use crate::model::{Extension, Kind, Listen, ReadAs, Start, Strategy};
use crate::run::STARTS;
use crate::scope::Stage;
use crate::text::{Content, Node, Problems};
use crate::{hash, Definition};

const WORKFLOW: [&str; 8] =
    ["document", "input", "use", "do", "timeout", "output", "schedule", "evaluate"];

const USE: [&str; 8] = [
    "authentications",
    "catalogs",
    "errors",
    "extensions",
    "functions",
    "retries",
    "secrets",
    "timeouts",
];

const DOCUMENT: [&str; 8] =
    ["dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata"];

/// Tasks that an extension can extend.
const EXTENDED: [(&str, &str); 12] = [
    ("all", "all"),
    ("call", "call"),
    ("composite", "composite"),
    ("emit", "emit"),
    ("for", "for"),
    ("listen", "listen"),
    ("raise", "raise"),
    ("run", "run"),
    ("set", "set"),
    ("switch", "switch"),
    ("try", "try"),
    ("wait", "wait"),
];

impl Reader<'_> {
    /// Reads one definition.
    pub(super) fn definition(mut self, node: &Node) -> Result<Definition, Problems> {
        let fields = self.object(node, "a workflow", &WORKFLOW, &["document", "do"]);
        let [namespace, name, version, title] = match field(fields, "document") {
            Some(document) => self.document(document),
            None => Default::default(),
        };
        if let Some(evaluate) = field(fields, "evaluate") {
            self.evaluate(evaluate);
        }
        if let Some(components) = field(fields, "use") {
            self.components(components);
        }
        let input = field(fields, "input")
            .map(|node| self.transform(node, "input", "from", Stage::WorkflowInput));
        let output = field(fields, "output")
            .map(|node| self.transform(node, "output", "as", Stage::WorkflowOutput));
        let timeout = field(fields, "timeout").and_then(|node| self.timeout(node, "timeout"));
        let schedule = field(fields, "schedule").and_then(|node| self.schedule(node));
        let main = field(fields, "do").map(|node| self.block(node, "/do")).unwrap_or_default();
        if field(fields, "do")
            .is_some_and(|node| matches!(&node.content, Content::List(l) if l.is_empty()))
        {
            self.wrong(node, "«do» has no tasks");
        }
        if !self.problems.is_empty() {
            return Err(self.problems.problems());
        }
        let source = node.to_value();
        let by_pointer = self.tasks.iter().enumerate();
        let by_pointer = by_pointer.map(|(id, task)| (task.pointer.clone(), id)).collect();
        Ok(Definition {
            hash: hash::of(&source),
            source,
            text: None,
            namespace,
            name,
            version,
            title: Some(title).filter(|title| !title.is_empty()),
            input: input.unwrap_or_default(),
            output: output.unwrap_or_default(),
            timeout,
            schedule,
            main,
            tasks: self.tasks,
            by_pointer,
            extensions: self.extensions,
            secrets: self.secrets,
            needs: self.needs,
            missing: self.missing,
            programs: Arc::new(Mutex::new(self.programs)),
        })
    }

    fn document(&mut self, node: &Node) -> [String; 4] {
        let required = ["dsl", "namespace", "name", "version"];
        let fields = self.object(node, "document", &DOCUMENT, &required);
        if let Some(dsl) = field(fields, "dsl") {
            let text = self.text(dsl, "document.dsl").unwrap_or_else(|| "1.0.0".to_owned());
            let number = text.split(['-', '+']).next().unwrap_or_default();
            if !text.starts_with("1.0.") || !is_version(number) {
                let what = format!("version «{text}» of the DSL");
                self.unsupported(dsl, &what, "this engine reads 1.0.x, such as '1.0.3'");
            }
        }
        for name in ["tags", "metadata"] {
            if let Some(node) = field(fields, name) {
                self.map(node, &format!("document.{name}"));
            }
        }
        if let Some(metadata) = field(fields, "metadata") {
            self.pinned(metadata);
        }
        if let Some(node) = field(fields, "summary") {
            self.text(node, "document.summary");
        }
        ["namespace", "name", "version", "title"].map(|name| {
            let what = format!("document.{name}");
            let Some(node) = field(fields, name) else { return String::new() };
            let Some(text) = self.text(node, &what) else { return String::new() };
            let is_good = match name {
                "version" => is_version(&text),
                "title" => true,
                _ => is_name(&text),
            };
            if !is_good && name == "version" {
                let hint = "write a semantic version such as '1.0.0'";
                self.wrong_so(node, format!("{what} cannot be «{text}»"), hint);
            } else if !is_good {
                let hint = "letters, digits and hyphens, 63 at most, no hyphen at an end";
                self.wrong_so(node, format!("{what} cannot be «{text}»"), hint);
            }
            text
        })
    }

    fn evaluate(&mut self, node: &Node) {
        let fields = self.object(node, "evaluate", &["language", "mode"], &[]);
        if let Some(language) = field(fields, "language") {
            let text = self.text(language, "evaluate.language").unwrap_or_default();
            if text != "jq" && !text.is_empty() {
                let what = format!("the expression language «{text}»");
                self.unsupported(language, &what, "use «jq»");
            }
        }
        if let Some(mode) = field(fields, "mode") {
            let modes = [("strict", false), ("loose", true)];
            self.is_loose = self.choice(mode, "evaluate.mode", &modes).unwrap_or(false);
        }
    }

    fn components(&mut self, node: &Node) {
        let fields = self.object(node, "use", &USE, &[]);
        if let Some(secrets) = field(fields, "secrets") {
            for secret in self.list(secrets, "use.secrets") {
                let name = self.text(secret, "the name of a secret");
                self.secrets.extend(name);
            }
        }
        if let Some(timeouts) = field(fields, "timeouts") {
            for (name, _, node) in self.map(timeouts, "use.timeouts") {
                if let Some(span) = self.timeout(node, &format!("the timeout «{name}»")) {
                    self.timeouts.insert(name.clone(), span);
                }
            }
        }
        if let Some(errors) = field(fields, "errors") {
            for (name, _, node) in self.map(errors, "use.errors") {
                self.error_definition(node);
                let value = self.fixed_data(node);
                self.errors.insert(name.clone(), value);
            }
        }
        if let Some(policies) = field(fields, "authentications") {
            for (name, _, node) in self.map(policies, "use.authentications") {
                if let Some(policy) = self.authentication(node, false) {
                    self.authentications.insert(name.clone(), policy);
                }
            }
        }
        if let Some(catalogs) = field(fields, "catalogs") {
            self.catalogs_of(catalogs);
        }
        if let Some(retries) = field(fields, "retries") {
            for (name, _, node) in self.map(retries, "use.retries") {
                self.scope.push("error".to_owned());
                let retry = self.retry(node);
                self.scope.pop();
                self.retries.insert(name.clone(), retry);
            }
        }
        if let Some(functions) = field(fields, "functions") {
            self.functions_of(functions);
        }
        if let Some(extensions) = field(fields, "extensions") {
            self.extensions_of(extensions);
        }
    }

    /// Functions can call one another: their places are known before they are read.
    fn functions_of(&mut self, node: &Node) {
        let fields = self.map(node, "use.functions");
        let first = self.tasks.len();
        for (index, (name, _, _)) in fields.iter().enumerate() {
            self.functions.insert(name.clone(), first + index);
        }
        self.reserve(fields.len());
        for (index, (name, _, node)) in fields.iter().enumerate() {
            let pointer = format!("/use/functions/{}", escape(name));
            self.task_at(first + index, name, node, pointer, &[]);
        }
        self.endless_functions(fields, first);
    }

    fn extensions_of(&mut self, node: &Node) {
        self.is_in_extension = true;
        for (index, item) in self.list(node, "use.extensions").iter().enumerate() {
            let Some((name, node)) = self.single(item, "an extension") else { continue };
            let what = format!("the extension «{name}»");
            let known = ["extend", "when", "before", "after"];
            let fields = self.object(node, &what, &known, &["extend"]);
            let extend =
                field(fields, "extend").and_then(|n| self.choice(n, "«extend»", &EXTENDED));
            let when = field(fields, "when");
            let when = when.and_then(|node| self.expression(node, "«when»", Stage::Condition));
            let pointer = format!("/use/extensions/{index}/{}", escape(&name));
            let mut block = |part: &str| {
                let tasks = field(fields, part);
                tasks.map(|node| self.block(node, &format!("{pointer}/{part}"))).unwrap_or_default()
            };
            let (before, after) = (block("before"), block("after"));
            let extend = extend.unwrap_or_default().to_owned();
            self.extensions.push(Extension { extend, when, before, after });
        }
        self.is_in_extension = false;
    }

    fn schedule(&mut self, node: &Node) -> Option<Start> {
        let known = ["every", "cron", "after", "on"];
        let fields = self.object(node, "schedule", &known, &[]);
        if fields.len() != 1 {
            let hint = "write one of «every», «cron», «after» and «on»";
            self.wrong_so(node, format!("schedule says {} times to start", fields.len()), hint);
        }
        let (name, _, value) = fields.first()?;
        match name.as_str() {
            "every" => self.fixed_span(value, "schedule.every").map(|every| {
                if every < std::time::Duration::from_secs(1) {
                    self.wrong(value, "schedule.every must be a second at least");
                }
                Start::Every(every)
            }),
            "after" => self.fixed_span(value, "schedule.after").map(|after| {
                if after < std::time::Duration::from_millis(1) {
                    self.wrong(value, "schedule.after must be a millisecond at least");
                }
                Start::After(after)
            }),
            "cron" => {
                let text = self.text(value, "schedule.cron")?;
                let (zone, pattern) = zone_of(&text);
                let check = turnwheel_engine::Schedule::cron("check", pattern);
                let check =
                    check.and_then(|check| check.zone(zone).times(turnwheel_engine::Time(0), 1));
                if let Err(error) = check {
                    self.wrong(value, format!("schedule.cron: {error}"));
                }
                Some(Start::Cron { pattern: pattern.to_owned(), zone: zone.to_owned() })
            }
            "on" => {
                let strategy = self.strategy(value, "schedule.on", true)?;
                let has_more = |strategy: &Strategy| match strategy {
                    Strategy::One(filter) => !filter.correlate.is_empty(),
                    Strategy::All(_) | Strategy::Any { until: Some(_), .. } => true,
                    Strategy::Any { filters, .. } => {
                        filters.iter().any(|filter| !filter.correlate.is_empty())
                    }
                };
                if has_more(&strategy) {
                    self.collector(strategy, value);
                    return Some(Start::Collected);
                }
                Some(Start::On(strategy))
            }
            _ => None,
        }
    }
}

impl Reader<'_> {
    /// Several events are collected as a task does that listens for them.
    fn collector(&mut self, strategy: Strategy, node: &Node) {
        let id = self.tasks.len();
        self.reserve(1);
        let task = &mut self.tasks[id];
        task.pointer = STARTS.to_owned();
        task.name = "on".to_owned();
        task.definition = node.to_value();
        task.kind = Kind::Listen(Box::new(Listen { strategy, read: ReadAs::Envelope, each: None }));
    }
}

/// The zone of a pattern such as `CRON_TZ=Europe/Berlin 0 3 * * *`, and the pattern itself.
fn zone_of(text: &str) -> (&str, &str) {
    let rest = text.trim().strip_prefix("CRON_TZ=").or_else(|| text.trim().strip_prefix("TZ="));
    let parts = rest.map(|rest| rest.split_once(char::is_whitespace).unwrap_or((rest, "")));
    parts.map_or(("UTC", text), |(zone, pattern)| (zone, pattern.trim()))
}

/// A name as a part of a JSON pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is_name(text: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_end_good = !text.starts_with('-') && !text.ends_with('-');
    !text.is_empty() && text.len() <= 63 && text.chars().all(is_good) && is_end_good
}

fn is_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(it, build)| (it, Some(build)));
    let (main, before) = text.split_once('-').map_or((text, None), |(it, rest)| (it, Some(rest)));
    let numbers: Vec<&str> = main.split('.').collect();
    let is_number = |part: &&str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    let is_word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let is_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    let is_before = |part: &str| is_word(part) && (!is_digits(part) || is_number(&part));
    numbers.len() == 3
        && numbers.iter().all(is_number)
        && before.is_none_or(|before| before.split('.').all(is_before))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn versions_are_semantic_ones() {
        for good in ["1.0.0", "0.1.2-alpha", "1.0.0-rc.1", "1.0.0--", "1.0.0+001.a-b", "1.0.0-0a+b"]
        {
            assert!(is_version(good), "{good}");
        }
        for wrong in ["1.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0-a..b", "1.0.0+", "1.0.0+a+b"] {
            assert!(!is_version(wrong), "{wrong}");
        }
    }
}
