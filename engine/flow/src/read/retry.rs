//! Retries and errors.

use super::fields::field;
use super::Reader;
use crate::expr::{has_expression, strip, Template};
use crate::model::{Backoff, Kind, Retry, Span};
use crate::scope::Stage;
use crate::text::{Content, Node};

const STAGE: Stage = Stage::Definition { is_effect: false };

impl Reader<'_> {
    /// A retry policy, or the name of one in `use.retries`.
    pub(super) fn retry_or_name(&mut self, node: &Node) -> Option<Retry> {
        if let Content::Text(name) = &node.content {
            let known = self.known(node, name, "retry policy", |reader| &reader.retries);
            return known.map(|retry| Retry { is_shared: true, ..retry });
        }
        Some(self.retry(node))
    }

    pub(super) fn retry(&mut self, node: &Node) -> Retry {
        let known = ["when", "exceptWhen", "delay", "limit", "backoff", "jitter"];
        let fields = self.object(node, "a retry policy", &known, &[]);
        let mut retry = Retry::default();
        for (name, _, value) in fields {
            match name.as_str() {
                "when" => retry.when = self.expression(value, "«retry.when»", STAGE),
                "exceptWhen" => {
                    retry.except_when = self.expression(value, "«retry.exceptWhen»", STAGE);
                }
                "delay" => retry.delay = self.span(value, "«retry.delay»", STAGE),
                "limit" => self.retry_limit(value, &mut retry),
                "backoff" => retry.backoff = self.backoff(value),
                "jitter" => {
                    let fields =
                        self.object(value, "«retry.jitter»", &["from", "to"], &["from", "to"]);
                    let mut span = |name: &str| {
                        let node = field(fields, name)?;
                        self.span(node, &format!("«retry.jitter.{name}»"), STAGE)
                    };
                    retry.jitter = span("from").zip(span("to"));
                    if let Some((Span::Fixed(from), Span::Fixed(to))) = &retry.jitter {
                        if from > to {
                            let message = "«retry.jitter» begins with more than it ends with";
                            self.wrong_so(value, message, "exchange «from» and «to»");
                        }
                    }
                }
                _ => {}
            }
        }
        let has_pause = retry.delay.as_ref().is_some_and(|delay| !delay.is_zero())
            || retry.jitter.as_ref().is_some_and(|(_, to)| !to.is_zero());
        let has_end = retry.attempts.is_some() || retry.limit.is_some();
        if !has_pause && !has_end && matches!(node.content, Content::Map(_)) {
            let hint = "say how long to wait («delay: PT1S»), or how often to try at most \
                        («limit: { attempt: { count: 3 } }»)";
            self.wrong_so(node, "a retry policy would try for ever without a pause", hint);
        }
        retry
    }

    fn retry_limit(&mut self, node: &Node, retry: &mut Retry) {
        let fields = self.object(node, "«retry.limit»", &["attempt", "duration"], &[]);
        if let Some(duration) = field(fields, "duration") {
            retry.limit = self.span(duration, "«retry.limit.duration»", STAGE);
        }
        if let Some(attempt) = field(fields, "attempt") {
            let fields = self.object(attempt, "«retry.limit.attempt»", &["count", "duration"], &[]);
            if let Some(count) = field(fields, "count") {
                let count = self.integer(count, "«retry.limit.attempt.count»");
                retry.attempts = count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            }
            if let Some(duration) = field(fields, "duration") {
                retry.attempt_limit = self.span(duration, "«retry.limit.attempt.duration»", STAGE);
            }
        }
    }

    fn backoff(&mut self, node: &Node) -> Backoff {
        let known = ["constant", "linear", "exponential"];
        let fields = self.object(node, "«retry.backoff»", &known, &[]);
        let [(name, _, settings)] = fields else {
            self.wrong(
                node,
                "«retry.backoff» must have one of «constant», «linear», «exponential»",
            );
            return Backoff::Constant;
        };
        if !settings.is_nothing() {
            self.object(settings, &format!("«retry.backoff.{name}»"), &[], &[]);
        }
        match name.as_str() {
            "linear" => Backoff::Linear,
            "exponential" => Backoff::Exponential,
            _ => Backoff::Constant,
        }
    }

    pub(super) fn raise(&mut self, node: &Node) -> Option<Kind> {
        let fields = self.object(node, "«raise»", &["error"], &["error"]);
        let error = field(fields, "error")?;
        if let Content::Text(name) = &error.content {
            let error = self.known(error, name, "error", |reader| &reader.errors)?;
            return Some(Kind::Raise(Template::of(&error, self.is_loose)));
        }
        self.error_definition(error);
        Some(Kind::Raise(self.template(error, "«raise.error»", STAGE)))
    }

    /// A property that a caught error must have: it is compared as it is written.
    pub(super) fn error_property(&mut self, name: &str, node: &Node) {
        let what = format!("«{name}» of «catch.errors.with»");
        if matches!(&node.content, Content::Text(text) if has_expression(text)) {
            let hint = "write the condition into «catch.when», where the error is $error";
            self.wrong_so(node, format!("{what} cannot be an expression"), hint);
        } else if name == "status" {
            self.integer(node, &what);
        } else {
            self.text(node, &what);
        }
    }

    pub(super) fn error_definition(&mut self, node: &Node) {
        let known = ["type", "status", "instance", "title", "detail"];
        let fields = self.object(node, "an error", &known, &["type", "status"]);
        for (name, _, value) in fields {
            match name.as_str() {
                "status" => {
                    let is_expression =
                        matches!(&value.content, Content::Text(text) if strip(text).is_some());
                    if is_expression {
                        self.template(value, "the status of an error", STAGE);
                    } else if self
                        .integer(value, "the status of an error")
                        .is_some_and(|status| !(100..=599).contains(&status))
                    {
                        self.wrong(value, "the status of an error is from 100 to 599");
                    }
                }
                "type" => {
                    let text = self.text(value, "the type of an error").unwrap_or_default();
                    if !text.contains(':') && strip(&text).is_none() && !text.is_empty() {
                        let hint = "such as https://example.com/errors/out-of-stock";
                        self.wrong_so(
                            value,
                            format!("the type of an error is a URI, not «{text}»"),
                            hint,
                        );
                    }
                }
                _ => {
                    self.text_template(value, &format!("the {name} of an error"), STAGE);
                    let is_wrong = |text: &str| {
                        !text.is_empty() && !text.starts_with('/') && !has_expression(text)
                    };
                    if name == "instance"
                        && matches!(&value.content, Content::Text(text) if is_wrong(text))
                    {
                        let message = "the instance of an error is a JSON pointer";
                        self.wrong_so(value, message, "such as /do/0/pay");
                    }
                }
            }
        }
    }
}
