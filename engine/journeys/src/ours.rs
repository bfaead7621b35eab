//! Our form of definitions: named elements that say what comes next.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwheel_flow::internal::{nearest, Complaint, Source};

use crate::definition::{Definition, Placed, Places};
use crate::element::{Element, Extensions, Id, Kind, Rule, Send, Settings, Unmatched};
use crate::settings::{self, OWN};

/// Name of the end that needs not be defined.
const END: &str = "end";

/// Kinds of elements, each said by the field of this name.
const FORMS: [&str; 8] = ["start", "send", "flow", "wait", "choose", "set", "case", "end"];

/// Name of the channel that starts flows.
const FLOWS: &str = "flow";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    start: Option<On>,
    send: Option<Send>,
    flow: Option<Run>,
    wait: Option<Wait>,
    choose: Option<Choose>,
    set: Option<String>,
    #[serde(default)]
    case: bool,
    #[serde(default)]
    end: bool,
    then: Option<String>,
    #[serde(default)]
    lines: Vec<Way>,
    otherwise: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct On {
    on: String,
    contains: Option<String>,
    equals: Option<String>,
    #[serde(rename = "if")]
    condition: Option<String>,
}

/// A flow that is started with an input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    #[serde(default)]
    with: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    on: Option<String>,
    contains: Option<String>,
    equals: Option<String>,
    #[serde(rename = "if")]
    condition: Option<String>,
    #[serde(rename = "for")]
    time: Option<String>,
    unmatched: Option<Unmatched>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Choose {
    First,
    All,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    name: Option<String>,
    #[serde(rename = "if")]
    condition: Option<String>,
    contains: Option<String>,
    equals: Option<String>,
    then: String,
}

struct Reader<'a> {
    source: &'a Source<'a>,
    name: String,
    elements: Vec<Element>,
    places: Vec<Vec<String>>,
    wrong: Vec<Complaint>,
}

/// Reads a definition. Wrong settings are left out, and elements that cannot be read: all are told.
pub(crate) fn read(source: &Source<'_>, value: &Value) -> Result<Placed, Vec<Complaint>> {
    let mut reader = Reader {
        source,
        name: String::new(),
        elements: Vec::new(),
        places: Vec::new(),
        wrong: Vec::new(),
    };
    let settings = reader.head(value);
    let parts = match value.get("elements") {
        Some(Value::Object(parts)) => parts,
        _ => {
            let hint = "elements:\n  hello: { start: { on: signed-up }, then: end }";
            reader.complain(
                &["elements"],
                "a journey has «elements», an object",
                Some(hint.into()),
            );
            return Err(reader.wrong);
        }
    };
    let before = reader.wrong.len();
    let names = source.names(&["elements"]);
    for name in &names {
        if let Some(part) = parts.get(name) {
            reader.part(name, part);
        }
    }
    let is_whole = reader.wrong.len() == before;
    let is_end_used = reader.elements.iter().any(|it| it.outgoings.contains(&END.into()));
    if is_end_used && !names.iter().any(|name| name == END) {
        reader.add(END, Kind::End, Vec::new(), Extensions::default(), vec!["elements".into()]);
    }
    reader.connect();
    if let Some(start) = reader.elements.iter_mut().find(|it| it.kind == Kind::Start) {
        start.extensions.settings = Some(settings.clone());
    }
    let Reader { name, elements, places, wrong, .. } = reader;
    let definition = Definition { name, settings, elements, written: Vec::new() };
    let places = Places { elements: places, settings: Vec::new() };
    Ok(Placed { definition, places, wrong, is_whole })
}

impl Reader<'_> {
    fn complain(&mut self, at: &[&str], message: impl Into<String>, suggestion: Option<String>) {
        let at = at.iter().map(|step| (*step).to_owned()).collect();
        self.wrong.push(Complaint { at, message: message.into(), suggestion });
    }

    /// The name and the settings.
    fn head(&mut self, value: &Value) -> Settings {
        match value.get("journey") {
            Some(Value::String(name)) => self.name.clone_from(name),
            _ => {
                let hint = "journey: welcome".to_owned();
                self.complain(&["journey"], "a journey has a name, a text", Some(hint));
            }
        }
        let mut fields = value.as_object().cloned().unwrap_or_else(Map::new);
        fields.retain(|name, _| !OWN.contains(&name.as_str()));
        let (settings, wrong) = settings::read(&fields);
        self.wrong.extend(wrong);
        settings
    }

    fn part(&mut self, name: &str, value: &Value) {
        let at = ["elements", name];
        if value.as_str() == Some(END) {
            return self.add(name, Kind::End, Vec::new(), Extensions::default(), owned(&at));
        }
        let part: Part = match serde_json::from_value(value.clone()) {
            Ok(part) => part,
            Err(error) => {
                let hint = self.hint(&at, value);
                return self.complain(&at, format!("«{name}» cannot be read: {error}"), hint);
            }
        };
        let (kind, rules, mut extensions) = match forms(&part) {
            Ok(form) => form,
            Err(problem) => {
                let hint = format!("an element has one of {}", FORMS.join(", "));
                return self.complain(&at, format!("«{name}» {problem}"), Some(hint));
            }
        };
        if let (Kind::Start, None, [Way { condition, contains, equals, .. }]) =
            (kind, &part.then, &part.lines[..])
        {
            if condition.is_some() || contains.is_some() || equals.is_some() {
                let hint = "write it into «start», or add «then» for the others".to_owned();
                let message = format!("the only line of the start «{name}» has a condition");
                return self.complain(&at, message, Some(hint));
            }
        }
        extensions.parallel = matches!(part.choose, Some(Choose::All));
        self.add(name, kind, rules, extensions, owned(&at));
        self.ways(name, part);
    }

    /// A hint at a name that is not known.
    fn hint(&self, at: &[&str], value: &Value) -> Option<String> {
        let known = FORMS.into_iter().chain(["then", "lines", "otherwise"]);
        let Value::Object(_) = value else {
            return Some("write «end», or an object such as { send: .., then: .. }".to_owned());
        };
        let names = self.source.names(at);
        let wrong = names.iter().find(|name| !known.clone().any(|it| it == name.as_str()))?;
        nearest(wrong, known).map(|near| format!("did you mean «{near}»?"))
    }

    /// The lines of an element.
    fn ways(&mut self, name: &str, part: Part) {
        let at = owned(&["elements", name]);
        let mut number = 0;
        if let Some(then) = &part.then {
            number += 1;
            self.line(name, &format!("{name}.{number}"), then, (Vec::new(), false), at.clone());
        }
        for (place, way) in part.lines.into_iter().enumerate() {
            number += 1;
            let id = way.name.unwrap_or_else(|| format!("{name}.{number}"));
            let Way { condition, contains, equals, then, .. } = way;
            let has_rule = condition.is_some() || contains.is_some() || equals.is_some();
            let rule = Rule { event: None, contains, equals, condition, ..Rule::default() };
            let rules = if has_rule { vec![rule] } else { Vec::new() };
            let at = at.iter().cloned().chain(["lines".to_owned(), place.to_string()]).collect();
            self.line(name, &id, &then, (rules, false), at);
        }
        if let Some(otherwise) = &part.otherwise {
            self.line(name, &format!("{name}.otherwise"), otherwise, (Vec::new(), true), at);
        }
    }

    fn line(
        &mut self,
        from: &str,
        id: &str,
        to: &str,
        (rules, default): (Vec<Rule>, bool),
        at: Vec<String>,
    ) {
        let extensions = Extensions { default, ..Extensions::default() };
        self.add(id, Kind::Line, rules, extensions, at);
        if let Some(line) = self.elements.last_mut() {
            (line.incomings, line.outgoings) = (vec![from.into()], vec![to.into()]);
        }
    }

    fn add(
        &mut self,
        id: &str,
        kind: Kind,
        properties: Vec<Rule>,
        extensions: Extensions,
        at: Vec<String>,
    ) {
        self.elements.push(Element {
            id: id.into(),
            journey: Id::Text(self.name.clone()),
            kind,
            incomings: Vec::new(),
            outgoings: Vec::new(),
            properties,
            extensions,
            extra: Default::default(),
        });
        self.places.push(at);
    }

    /// Elements know the lines that begin and end at them.
    fn connect(&mut self) {
        let number = |(number, element): (usize, &Element)| (element.id.clone(), number);
        let numbers: HashMap<Id, usize> = self.elements.iter().enumerate().map(number).collect();
        for line in 0..self.elements.len() {
            if self.elements[line].kind != Kind::Line {
                continue;
            }
            let id = self.elements[line].id.clone();
            let (from, to) = (&self.elements[line].incomings, &self.elements[line].outgoings);
            let from = from.first().and_then(|from| numbers.get(from)).copied();
            let to = to.first().and_then(|to| numbers.get(to)).copied();
            if let Some(from) = from {
                self.elements[from].outgoings.push(id.clone());
            }
            if let Some(to) = to {
                self.elements[to].incomings.push(id);
            }
        }
    }
}

fn owned(at: &[&str]) -> Vec<String> {
    at.iter().map(|step| (*step).to_owned()).collect()
}

/// Kind of an element, by the one field that says it.
fn forms(part: &Part) -> Result<(Kind, Vec<Rule>, Extensions), String> {
    let is_action = part.send.is_some() || part.flow.is_some() || part.set.is_some();
    let said = [
        part.start.is_some(),
        part.wait.is_some(),
        part.choose.is_some(),
        part.case,
        part.end,
        part.send.is_some(),
        part.flow.is_some(),
    ];
    let number = said.iter().filter(|is_said| **is_said).count();
    if number > 1 {
        return Err("is several things at once".to_owned());
    }
    if part.otherwise.is_some() && part.wait.is_none() && part.choose.is_none() {
        return Err("has «otherwise», which only «wait» and «choose» have".to_owned());
    }
    let rule = |event: Option<&String>, (contains, equals, condition): Texts<'_>| {
        vec![Rule {
            event: event.cloned(),
            contains: contains.clone(),
            equals: equals.clone(),
            condition: condition.clone(),
            ..Rule::default()
        }]
    };
    let mut extensions = Extensions { set: part.set.clone(), ..Extensions::default() };
    if let Some(on) = &part.start {
        let texts = (&on.contains, &on.equals, &on.condition);
        return Ok((Kind::Start, rule(Some(&on.on), texts), extensions));
    }
    if let Some(wait) = &part.wait {
        (extensions.wait, extensions.unmatched) = (wait.time.clone(), wait.unmatched);
        let texts = (&wait.contains, &wait.equals, &wait.condition);
        return Ok((Kind::Trigger, rule(wait.on.as_ref(), texts), extensions));
    }
    let flow = part.flow.as_ref().map(|Run { name, with }| Send {
        channel: FLOWS.to_owned(),
        with: serde_json::json!({ "flow": name, "input": with }),
    });
    extensions.send = part.send.clone().or(flow);
    match (is_action, part.choose.is_some(), part.case, part.end) {
        (_, true, ..) => Ok((Kind::Rule, Vec::new(), extensions)),
        (_, _, true, _) => Ok((Kind::Case, Vec::new(), extensions)),
        (_, _, _, true) => Ok((Kind::End, Vec::new(), extensions)),
        (true, ..) => Ok((Kind::Action, Vec::new(), extensions)),
        _ => Err("says nothing".to_owned()),
    }
}

type Texts<'a> = (&'a Option<String>, &'a Option<String>, &'a Option<String>);
