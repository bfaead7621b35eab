//! Problems of a definition, found before any user takes it.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;
use turnwheel_flow::internal::{duration, nearest, Expression};

use crate::definition::{At, Definition, Wrong};
use crate::element::{Element, Kind};
use crate::limits::{ELEMENTS_MAX, NAME_BYTES_MAX};
use crate::quiet::{hour, zone, zone_like};

/// Fields of a condition.
const RULE_FIELDS: [&str; 4] = ["event", "contains", "equals", "if"];

/// The channels of a server.
pub(crate) trait Offered {
    fn names(&self) -> Vec<&str>;

    /// Why a channel could never send this content, if that is so.
    fn refusal(&self, channel: &str, with: &Value) -> Option<String>;
}

/// All that is wrong.
pub(crate) fn check(definition: &Definition, channels: Option<&dyn Offered>) -> Vec<Wrong> {
    let mut check = Check::new(definition, channels);
    check.without_effect();
    check.all()
}

/// All that is wrong with one that was stored: users may be under way on it, so it may say what has
/// no effect, which is refused in new ones.
pub(crate) fn check_stored(definition: &Definition) -> Vec<Wrong> {
    Check::new(definition, None).all()
}

/// All that is wrong with the name and the settings.
pub(crate) fn check_settings(definition: &Definition) -> Vec<Wrong> {
    let mut check = Check::new(definition, None);
    check.head();
    check.wrong
}

struct Check<'a> {
    of: &'a Definition,
    channels: Option<&'a dyn Offered>,
    ids: HashMap<String, usize>,
    wrong: Vec<Wrong>,
}

impl<'a> Check<'a> {
    fn new(of: &'a Definition, channels: Option<&'a dyn Offered>) -> Self {
        Self { of, channels, ids: HashMap::new(), wrong: Vec::new() }
    }

    fn all(mut self) -> Vec<Wrong> {
        self.head();
        // Each look at the elements needs what the one before has found to be right.
        let before = self.wrong.len();
        self.ids();
        if self.wrong.len() == before {
            self.each();
        }
        if self.wrong.len() == before {
            self.graph();
        }
        self.wrong
    }

    /// Parts that would be taken and do nothing, or never let anybody through.
    fn without_effect(&mut self) {
        let Definition { settings, elements, .. } = self.of;
        if settings.quiet.as_ref().is_some_and(|quiet| quiet.from == quiet.to) {
            let message = "quiet hours that end when they begin are none".to_owned();
            self.setting(&["quiet"], message, Some("leave «quiet» out".to_owned()));
        }
        for (number, element) in elements.iter().enumerate() {
            self.rules(number, element);
        }
    }

    /// Conditions that are known, and can hold together. One that is not known would hold always.
    fn rules(&mut self, number: usize, element: &Element) {
        let id = &element.id;
        for name in element.properties.iter().flat_map(|rule| rule.extra.keys()) {
            let hint = match nearest(name, RULE_FIELDS.into_iter()) {
                Some(near) => format!("did you mean «{near}»?"),
                None => format!("a condition has {}", RULE_FIELDS.join(", ")),
            };
            self.wrong(number, format!("«{name}» of «{id}» is no condition"), Some(hint));
        }
        let kinds = element.properties.iter().filter_map(|rule| rule.event.as_ref());
        if kinds.collect::<BTreeSet<_>>().len() > 1 {
            let message = format!("«{id}» asks for events of several kinds at once: none is");
            self.wrong(number, message, Some("make an element for each kind".to_owned()));
        }
    }

    fn wrong(&mut self, element: usize, message: String, suggestion: Option<String>) {
        self.wrong.push(Wrong { at: At::Element(element), message, suggestion });
    }

    fn setting(
        &mut self,
        at: &'static [&'static str],
        message: String,
        suggestion: Option<String>,
    ) {
        self.wrong.push(Wrong { at: At::Setting(at), message, suggestion });
    }

    fn field(&mut self, name: &'static str, message: String, suggestion: Option<String>) {
        self.wrong.push(Wrong { at: At::Field(name), message, suggestion });
    }

    /// Name and settings.
    fn head(&mut self) {
        let Definition { name, settings, elements, .. } = self.of;
        let said = |what: &str| format!("{what} has 1 to {NAME_BYTES_MAX} bytes, and no slash");
        let is_plain = |text: &str| {
            let is_short = (1..=NAME_BYTES_MAX).contains(&text.len());
            is_short && !text.contains(['/', '\0']) && text.trim() == text
        };
        if !is_plain(name) {
            self.field("journey", said("the name"), Some("journey: shop".to_owned()));
        }
        if !is_plain(&settings.platform) {
            let hint = Some("platform: shop".to_owned());
            self.setting(&["platform"], said("the platform"), hint);
        }
        if elements.len() > ELEMENTS_MAX {
            let message = format!("a journey has at most {ELEMENTS_MAX} elements");
            self.field("elements", message, None);
        }
        if let Some(Err(problem)) = settings.every.as_deref().map(duration) {
            self.setting(&["every"], problem, Some("every: P7D".to_owned()));
        }
        if let Some(cap) = &settings.cap {
            let hint = || Some("cap: { messages: 1, per: P1D }".to_owned());
            if let Err(problem) = duration(&cap.per) {
                self.setting(&["cap", "per"], problem, hint());
            }
            if cap.messages == 0 {
                let message = "a cap of no message sends nothing".to_owned();
                self.setting(&["cap", "messages"], message, hint());
            }
        }
        if let Some(quiet) = &settings.quiet {
            let hint = || Some("quiet: { from: '22:00', to: '08:00' }".to_owned());
            if let Err(problem) = hour(&quiet.from) {
                self.setting(&["quiet", "from"], problem, hint());
            }
            if let Err(problem) = hour(&quiet.to) {
                self.setting(&["quiet", "to"], problem, hint());
            }
            if let Some((name, Err(problem))) = quiet.zone.as_deref().map(|name| (name, zone(name)))
            {
                let near = zone_like(name).map(|near| format!("did you mean «{near}»?"));
                let hint = near.unwrap_or_else(|| "zone: Europe/Berlin".to_owned());
                self.setting(&["quiet", "zone"], problem, Some(hint));
            }
        }
    }

    /// Each id once, and what refers to it.
    fn ids(&mut self) {
        for (number, element) in self.of.elements.iter().enumerate() {
            if self.ids.insert(element.id.to_string(), number).is_some() {
                self.wrong(number, format!("there are two elements «{}»", element.id), None);
            }
        }
        for (number, element) in self.of.elements.iter().enumerate() {
            for before in &element.incomings {
                let from = self.ids.get(&before.to_string()).map(|at| &self.of.elements[*at]);
                if !from.is_some_and(|from| from.outgoings.contains(&element.id)) {
                    let id = &element.id;
                    let message = format!("«{before}» is named before «{id}» and leads not there");
                    self.wrong(number, message, None);
                }
            }
            for next in &element.outgoings {
                let Some(target) = self.ids.get(&next.to_string()).copied() else {
                    let near = nearest(&next.to_string(), self.ids.keys().map(String::as_str))
                        .map(|near| format!("did you mean «{near}»?"));
                    let message = format!("«{}» leads to «{next}», which is not there", element.id);
                    self.wrong(number, message, near);
                    continue;
                };
                let target = &self.of.elements[target];
                if !target.incomings.is_empty() && !target.incomings.contains(&element.id) {
                    let message = format!(
                        "«{}» leads to «{next}», whose «incomings» do not name it",
                        element.id
                    );
                    self.wrong(number, message, None);
                }
                if (element.kind == Kind::Line) == (target.kind == Kind::Line) {
                    let message = format!("«{}» leads to «{next}» without a line", element.id);
                    self.wrong(number, message, None);
                }
            }
        }
    }

    /// Each element for itself.
    fn each(&mut self) {
        if !self.of.elements.iter().any(|element| element.kind == Kind::Start) {
            let hint = "hello: { start: { on: signed-up }, then: end }".to_owned();
            self.field("elements", "a journey has a start".to_owned(), Some(hint));
        }
        for (number, element) in self.of.elements.iter().enumerate() {
            self.shape(number, element);
            self.texts(number, element);
            self.channel(number, element);
        }
        let moves = &self.of.settings.moves;
        for (from, to) in moves {
            let target = self.ids.get(to).map(|to| self.of.elements[*to].kind);
            if target != Some(Kind::Trigger) {
                let message = format!("«{from}» moves to «{to}», which waits for nothing");
                self.setting(&["moves"], message, None);
            }
        }
    }

    fn shape(&mut self, number: usize, element: &Element) {
        let id = &element.id;
        match (element.kind, element.outgoings.len()) {
            (Kind::End, 0) => {}
            (Kind::End, _) => self.wrong(number, format!("the end «{id}» leads on"), None),
            (Kind::Line, 1) => {}
            (Kind::Line, _) => {
                self.wrong(number, format!("the line «{id}» must lead to one element"), None);
            }
            (_, 0) => {
                let hint = Some("then: end".to_owned());
                self.wrong(number, format!("«{id}» leads nowhere: lines end at an end"), hint);
            }
            _ => {}
        }
        let lines = self.lines(element).count();
        let defaults = self.lines(element).filter(|line| line.extensions.default).count();
        let free = self.lines(element).filter(|line| is_free(line)).count();
        let is_wait = element.kind == Kind::Trigger;
        if defaults > 1 || (defaults == 0 && free > 1 && !element.extensions.parallel) {
            let hint = "give all but one of them a condition".to_owned();
            self.wrong(number, format!("«{id}» has several default lines"), Some(hint));
        }
        let has_default = defaults == 1 || (free == 1 && lines > 1);
        if element.extensions.wait.is_some() && is_wait && !has_default {
            let hint = "otherwise: end".to_owned();
            self.wrong(number, format!("«{id}» waits for a time and has no default"), Some(hint));
        }
        let has_kind = element.properties.iter().any(|rule| rule.event.is_some());
        if element.kind == Kind::Start && !has_kind {
            let hint = "start: { on: signed-up }".to_owned();
            self.wrong(number, format!("the start «{id}» names no kind of event"), Some(hint));
        }
    }

    fn lines(&self, element: &Element) -> impl Iterator<Item = &Element> {
        let numbers = element.outgoings.iter().filter_map(|id| self.ids.get(&id.to_string()));
        let numbers: Vec<usize> = numbers.copied().collect();
        let of = self.of;
        let is_line = element.kind != Kind::Line;
        numbers.into_iter().filter(move |_| is_line).map(move |number| &of.elements[number])
    }

    /// Expressions and durations.
    fn texts(&mut self, number: usize, element: &Element) {
        let conditions = element.properties.iter().filter_map(|rule| rule.condition.as_ref());
        let mut texts: Vec<String> = conditions.chain(&element.extensions.set).cloned().collect();
        if let Some(send) = &element.extensions.send {
            expressions(&send.with, &mut texts);
        }
        for text in texts {
            if let Err(problem) = Expression::compile(&text) {
                let message = format!("the expression «{text}» of «{}»: {problem}", element.id);
                self.wrong(number, message, text.contains("${").then(|| WHOLE.to_owned()));
            }
        }
        match element.extensions.wait.as_deref().map(duration) {
            Some(Err(problem)) => self.wrong(number, problem, None),
            Some(Ok(wait)) if wait.as_millis() == 0 => {
                let message = format!("«{}» waits for no time at all", element.id);
                self.wrong(number, message, Some("a wait lasts at least PT0.001S".to_owned()));
            }
            _ => {}
        }
    }

    /// The channel of a message is one of the server's, and could send it.
    fn channel(&mut self, number: usize, element: &Element) {
        let Some((channels, name)) = self.channels.zip(element.channel()) else { return };
        let id = &element.id;
        // Stored definitions are read as they are: whoever stored one before has such a text sent.
        let mut mixed = Vec::new();
        element.extensions.send.iter().for_each(|send| mixtures(&send.with, &mut mixed));
        for text in mixed {
            let message = format!("«{id}» would send «{text}» as it stands, with its «${{»");
            self.wrong(number, message, Some(WHOLE.to_owned()));
        }
        let names = channels.names();
        if names.contains(&name) {
            let content = element.extensions.send.as_ref().map(|send| &send.with);
            if let Some(problem) = content.and_then(|with| channels.refusal(name, with)) {
                let message = format!("«{id}» sends through «{name}», which refuses it: {problem}");
                self.wrong(number, message, None);
            }
            return;
        }
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean «{near}»?"),
            None => format!("there are {}", names.join(", ")),
        };
        let message = format!("«{id}» sends through «{name}», which is no channel");
        self.wrong(number, message, Some(hint));
    }

    /// Elements that can be reached, and where they lead.
    fn graph(&mut self) {
        let next = |number: usize| {
            let element = &self.of.elements[number];
            element.outgoings.iter().map(|id| self.ids[&id.to_string()]).collect::<Vec<_>>()
        };
        let all: Vec<Vec<usize>> = (0..self.of.elements.len()).map(next).collect();
        let of_kind = |kind: Kind| {
            let elements = self.of.elements.iter().enumerate();
            elements.filter(move |(_, it)| it.kind == kind).map(|(number, _)| number)
        };
        let reached = closure(of_kind(Kind::Start), |number| all[number].clone());
        let mut before = vec![Vec::new(); all.len()];
        for (from, to) in all.iter().enumerate() {
            to.iter().for_each(|to| before[*to].push(from));
        }
        let ending = closure(of_kind(Kind::End), |number| before[number].clone());
        let elements = &self.of.elements;
        let mut wrong = Vec::new();
        for (number, element) in elements.iter().enumerate() {
            let id = &element.id;
            if !reached.contains(&number) {
                let hint = Some("lead a line to it, or remove it".to_owned());
                wrong.push((number, format!("«{id}» is reached from no start"), hint));
            } else if !ending.contains(&number) {
                let hint = Some("lead a line from it to an end".to_owned());
                wrong.push((number, format!("no end is reached from «{id}»"), hint));
            }
        }
        if let Some(number) = circle(&all, |number| elements[number].kind == Kind::Trigger) {
            let hint = Some("put a wait into the circle".to_owned());
            let message = format!("«{}» leads to itself without a wait", elements[number].id);
            wrong.push((number, message, hint));
        }
        wrong.into_iter().for_each(|(number, message, hint)| self.wrong(number, message, hint));
    }
}

/// Whether a line holds always.
fn is_free(line: &Element) -> bool {
    line.properties.iter().all(|rule| {
        let texts = [&rule.event, &rule.contains, &rule.equals, &rule.condition];
        texts.iter().all(|text| text.is_none())
    })
}

/// The suggestion where an expression is a part of a text.
const WHOLE: &str = r#"an expression is a whole text: "${ \"Hello \\(.user.name)\" }""#;

/// The texts of a value in which an expression begins that is not the whole text.
fn mixtures<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if as_expression(text).is_none() && text.contains("${") => {
            into.push(text);
        }
        Value::Array(items) => items.iter().for_each(|item| mixtures(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| mixtures(field, into)),
        _ => {}
    }
}

/// The texts of a value that are expressions.
pub(crate) fn expressions(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.extend(as_expression(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| expressions(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| expressions(field, into)),
        _ => {}
    }
}

/// The expression of a text `${ .. }`.
pub(crate) fn as_expression(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}').map(str::trim)
}

fn closure(
    from: impl Iterator<Item = usize>,
    next: impl Fn(usize) -> Vec<usize>,
) -> HashSet<usize> {
    let mut open: Vec<usize> = from.collect();
    let mut found: HashSet<usize> = open.iter().copied().collect();
    while let Some(number) = open.pop() {
        open.extend(next(number).into_iter().filter(|next| found.insert(*next)));
    }
    found
}

/// An element of a circle without any that stops a walk.
fn circle(all: &[Vec<usize>], stops: impl Fn(usize) -> bool) -> Option<usize> {
    let mut left: Vec<usize> = vec![0; all.len()];
    all.iter().flatten().for_each(|to| left[*to] += 1);
    let mut open: BTreeSet<usize> =
        (0..all.len()).filter(|number| left[*number] == 0 || stops(*number)).collect();
    let mut done = vec![false; all.len()];
    while let Some(number) = open.pop_first() {
        if std::mem::replace(&mut done[number], true) {
            continue;
        }
        for to in &all[number] {
            left[*to] -= 1;
            if left[*to] == 0 {
                open.insert(*to);
            }
        }
    }
    done.iter().position(|is_done| !is_done)
}
