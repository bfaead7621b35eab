//! Expressions, templates, durations, schemas, directives.

use serde_json::Value;

use super::fields::field;
use super::Reader;
use crate::duration;
use crate::expr::{has_expression, strip, unclosed, Program, Template};
use crate::model::{Directive, Span, Transform};
use crate::schema::Schema;
use crate::scope::Stage;
use crate::text::{Content, Node, Place};

impl Reader<'_> {
    /// An expression, with or without `${ }` around it.
    pub(super) fn expression(&mut self, node: &Node, what: &str, stage: Stage) -> Option<String> {
        let text = match &node.content {
            Content::Text(text) => text.clone(),
            Content::Bool(_) | Content::Number(_) => node.to_value().to_string(),
            _ => {
                self.wrong(node, format!("{what} must be an expression and is {}", node.kind()));
                return None;
            }
        };
        if self.is_unclosed(node, &text, what) {
            return None;
        }
        let text = strip(&text).map_or_else(|| text.trim().to_owned(), str::to_owned);
        self.compile(node.at, &text, what, stage);
        Some(text)
    }

    /// Data with expressions in it.
    pub(super) fn template(&mut self, node: &Node, what: &str, stage: Stage) -> Template {
        self.compile_in(node, what, stage);
        Template::of(&node.to_value(), self.is_loose)
    }

    /// A text that can have expressions in it.
    pub(super) fn text_template(&mut self, node: &Node, what: &str, stage: Stage) -> Template {
        self.text(node, what);
        self.template(node, what, stage)
    }

    /// An object with texts in it, or an expression that gives one.
    pub(super) fn object_template(&mut self, node: &Node, what: &str, stage: Stage) -> Template {
        let is_expression =
            matches!(&node.content, Content::Text(text) if self.is_loose || is_one(text));
        if !is_expression {
            self.map(node, what);
        }
        self.template(node, what, stage)
    }

    /// A list, or an expression that gives one.
    pub(super) fn list_template(&mut self, node: &Node, what: &str, stage: Stage) -> Template {
        let is_expression =
            matches!(&node.content, Content::Text(text) if self.is_loose || is_one(text));
        if !is_expression {
            self.list(node, what);
        }
        self.template(node, what, stage)
    }

    /// A text is an expression, an object a template.
    pub(super) fn mapping(&mut self, node: &Node, what: &str, stage: Stage) -> Option<Template> {
        match &node.content {
            Content::Text(_) | Content::Bool(_) => {
                self.expression(node, what, stage).map(Template::Expression)
            }
            Content::Map(_) | Content::List(_) => Some(self.template(node, what, stage)),
            _ => {
                self.wrong(node, format!("{what} must be an expression or an object"));
                None
            }
        }
    }

    fn compile_in(&mut self, node: &Node, what: &str, stage: Stage) {
        match &node.content {
            Content::Text(text) => {
                if self.is_unclosed(node, text, what) {
                    return;
                }
                let template = Template::of(&node.to_value(), false);
                for text in template.expressions() {
                    self.compile(node.at, text, what, stage);
                }
            }
            Content::List(elements) => {
                elements.iter().for_each(|element| self.compile_in(element, what, stage));
            }
            Content::Map(fields) => {
                for (name, at, value) in fields {
                    if has_expression(name) || unclosed(name).is_some() {
                        let message = format!("{what} has the name «{name}»: names are texts");
                        let hint = "make the object by an expression: ${ { (.name): .value } }";
                        self.problems.add(*at, message, Some(hint.to_owned()));
                    }
                    self.compile_in(value, what, stage);
                }
            }
            _ => {}
        }
    }

    /// Says so if an expression in a text is not closed: it would be a text otherwise.
    fn is_unclosed(&mut self, node: &Node, text: &str, what: &str) -> bool {
        let Some(at) = unclosed(text) else { return false };
        let line = text[at..].lines().next().unwrap_or_default();
        let place = self.place_in(node.at, line, 0);
        let message = format!(
            "{what} has an expression that is not closed: a bracket or a quote in «{}» has no partner",
            line.chars().take(60).collect::<String>()
        );
        let hint = match text[at..].contains('#') {
            true => "a comment, from «#» on, goes to the end of its line, with the brackets in it",
            false => "to mean the text «${», write it as the expression ${ \"${\" }",
        };
        self.problems.add(place, message, Some(hint.to_owned()));
        true
    }

    /// Compiles an expression, so that what is wrong with it is known before it is run.
    fn compile(&mut self, at: Place, text: &str, what: &str, stage: Stage) {
        let names = stage.names(&self.scope);
        let key = (names.join(","), text.to_owned());
        if self.programs.contains_key(&key) || self.problems.is_full() {
            return;
        }
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        match Program::compile(text, &list) {
            Ok(program) => {
                self.programs.insert(key, program.into());
            }
            Err(error) => {
                let is_secret = error.message.starts_with("there is no variable $secrets");
                let hint = is_secret.then(|| {
                    "secrets are for calls and processes only: what other tasks have is stored"
                        .to_owned()
                });
                let place = self.place_in(at, text, error.at);
                let message = format!("{what} is no expression: {}", error.message);
                self.problems.add(place, message, hint);
            }
        }
    }

    /// Place of a byte of an expression in the text, if it is on the first line of the expression.
    fn place_in(&self, at: Place, expression: &str, byte: usize) -> Place {
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        let Some(begin) = line.find(expression) else { return at };
        let characters = line[..begin].chars().count();
        let inside = expression.get(..byte).map_or(0, |before| before.chars().count());
        Place { line: at.line, column: characters + inside + 1 }
    }

    /// A duration, or an expression that gives one.
    pub(super) fn span(&mut self, node: &Node, what: &str, stage: Stage) -> Option<Span> {
        match &node.content {
            Content::Text(text) if is_one(text) => {
                self.expression(node, what, stage).map(Span::Expression)
            }
            Content::Text(text) => match duration::parse(text) {
                Ok(duration) => Some(Span::Fixed(duration)),
                Err(problem) => {
                    self.wrong(node, format!("{what}: {problem}"));
                    None
                }
            },
            _ => {
                let names: Vec<&str> = duration::FIELDS.iter().map(|(name, _)| *name).collect();
                let fields = self.object(node, what, &names, &[]);
                if fields.is_empty() {
                    self.wrong(node, format!("{what} says no time"));
                    return None;
                }
                for (name, _, value) in fields {
                    self.integer(value, &format!("«{name}» of {what}"));
                }
                match duration::of_value(&node.to_value()) {
                    Ok(duration) => Some(Span::Fixed(duration)),
                    Err(problem) => {
                        self.wrong(node, format!("{what}: {problem}"));
                        None
                    }
                }
            }
        }
    }

    /// A duration that is known beforehand.
    pub(super) fn fixed_span(&mut self, node: &Node, what: &str) -> Option<std::time::Duration> {
        match self.span(node, what, Stage::Definition { is_effect: false })? {
            Span::Fixed(duration) if !duration.is_zero() => Some(duration),
            Span::Fixed(_) => {
                self.wrong(node, format!("{what} must be longer than nothing"));
                None
            }
            Span::Expression(_) => {
                self.wrong(node, format!("{what} cannot be an expression"));
                None
            }
        }
    }

    /// `{ after: … }`, or the name of one in `use.timeouts`.
    pub(super) fn timeout(&mut self, node: &Node, what: &str) -> Option<Span> {
        if let Content::Text(name) = &node.content {
            return self.known(node, name, "timeout", |reader| &reader.timeouts);
        }
        let fields = self.object(node, what, &["after"], &["after"]);
        let after = field(fields, "after")?;
        self.span(after, what, Stage::Definition { is_effect: false })
    }

    /// `{ schema: …, from: … }` and the like.
    pub(super) fn transform(
        &mut self,
        node: &Node,
        what: &str,
        name: &str,
        stage: Stage,
    ) -> Transform {
        let fields = self.object(node, what, &["schema", name], &[]);
        let schema = field(fields, "schema").and_then(|node| self.schema(node, what));
        let with = field(fields, name);
        let with = with.and_then(|node| self.mapping(node, &format!("{what}.{name}"), stage));
        Transform { schema, with }
    }

    fn schema(&mut self, node: &Node, what: &str) -> Option<Schema> {
        let what = format!("{what}.schema");
        let fields = self.object(node, &what, &["format", "document", "resource"], &[]);
        if let Some(format) = field(fields, "format") {
            let text = self.text(format, "the format of a schema").unwrap_or_default();
            if text != "json" && !text.starts_with("json:") {
                self.unsupported(format, &format!("the schema format «{text}»"), "use «json»");
            }
        }
        let (document, resource) = (field(fields, "document"), field(fields, "resource"));
        let (at, schema) = match (document, resource) {
            (Some(document), None) => (document, document.to_value()),
            (None, Some(resource)) => {
                let what = format!("{what}.resource");
                (resource, self.document_of(resource, &what)?.to_value())
            }
            _ => {
                let message = format!("{what} must have the field «document», or «resource»");
                self.wrong(node, message);
                return None;
            }
        };
        match Schema::new(&schema) {
            Ok(schema) => Some(schema),
            Err(problem) => {
                self.wrong(at, format!("{what}: {problem}"));
                None
            }
        }
    }

    /// Next task of a flow; names are checked against the tasks of the list.
    pub(super) fn directive(&mut self, node: &Node, siblings: &[&str]) -> Directive {
        let Some(text) = self.text(node, "«then»") else { return Directive::Continue };
        match text.as_str() {
            "continue" => Directive::Continue,
            "exit" => Directive::Exit,
            "end" => Directive::End,
            name if siblings.contains(&name) => Directive::To(text),
            name => {
                let known = ["continue", "exit", "end"].into_iter().chain(siblings.iter().copied());
                let message = format!("«then» names «{name}», which is no task of the same list");
                match crate::text::nearest(name, known) {
                    Some(near) => self.wrong_so(node, message, &format!("did you mean «{near}»?")),
                    None => self.wrong(node, message),
                }
                Directive::Continue
            }
        }
    }

    /// Data that must not be changed by anybody.
    pub(super) fn fixed_data(&mut self, node: &Node) -> Value {
        node.to_value()
    }
}

/// Whether a text is marked as an expression as a whole, closed or not.
fn is_one(text: &str) -> bool {
    strip(text).is_some() || (text.trim().starts_with("${") && unclosed(text).is_some())
}
