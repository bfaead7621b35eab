//! Selection of plans: flags of a filter, and names of single plans.

use clap::builder::PossibleValuesParser;
use clap_complete::engine::ArgValueCompleter;
use serde_json::{json, Map, Value};
use turnwheel::api::PlanSummary;
use turnwheel::engine::store::{Filter, Order};
use turnwheel::engine::{PlanId, PlanResult, PlanState, Time, Waiting};
use turnwheel::key;

use super::complete;
use super::exit::Exit;
use super::settings::Settings;
use super::source::Source;
use super::span;

const STATES: [&str; 7] =
    ["pending", "scheduled", "planning", "planned", "running", "paused", "stopped"];
const RESULTS: [&str; 6] = ["pending", "success", "warning", "error", "cancelled", "reverted"];
const REASONS: [&str; 13] = [
    "nothing",
    "decision",
    "permission",
    "plan",
    "time",
    "lock",
    "sub-plans",
    "event",
    "timer",
    "retry",
    "place",
    "store",
    "unreadable",
];

/// Filter of plans; all given conditions must hold.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which plans")]
pub(crate) struct Which {
    /// Plans in one of these states (comma-separated, or given several times).
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(STATES))]
    state: Vec<String>,

    /// Plans with one of these results.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(RESULTS))]
    result: Vec<String>,

    /// Plans that wait for one of these.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(REASONS))]
    waits: Vec<String>,

    /// Plans whose name has this part, such as hello or guide/hello.
    #[arg(long, value_name = "PART")]
    name: Option<String>,

    /// Plans whose name, reason to wait or error has this part.
    #[arg(long, value_name = "PART")]
    text: Option<String>,

    /// Plans of this flow: its name, or namespace/name, or namespace/name:version.
    #[arg(long, value_name = "FLOW", add = ArgValueCompleter::new(complete::flows))]
    flow: Option<String>,

    /// Plans with this label, and with this value if one is given; all that are said.
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,

    /// Plans with this root action.
    #[arg(long)]
    action: Option<String>,

    /// The plan with this idempotency key: your own, else the one that shows this key.
    #[arg(long)]
    key: Option<String>,

    /// Plans that this person or program has triggered.
    #[arg(long)]
    triggered_by: Option<String>,

    /// Plans started by a step of this plan.
    #[arg(long, value_name = "PLAN")]
    caller: Option<PlanId>,

    /// Plans created at this time or later: RFC 3339, or how long ago (2h, 7d).
    #[arg(long, value_name = "TIME", value_parser = span::moment)]
    since: Option<Time>,

    /// Plans created before this time.
    #[arg(long, value_name = "TIME", value_parser = span::moment)]
    until: Option<Time>,

    /// Plans that were stopped at this time or later.
    #[arg(long, value_name = "TIME", value_parser = span::moment)]
    ended_since: Option<Time>,

    /// Plans that were stopped before this time.
    #[arg(long, value_name = "TIME", value_parser = span::moment)]
    ended_until: Option<Time>,

    /// Plans of this node, by its name; a server says which those are.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

impl Which {
    /// Whether nothing is said, so that all plans are meant.
    pub(crate) fn is_all(&self) -> bool {
        self.node.is_none() && self.filter(0) == Filter { limit: 0, ..Filter::default() }
    }

    /// The node whose plans are meant.
    pub(crate) fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Refuses a node where no server is asked.
    pub(crate) fn refuse_node(&self) -> Result<(), Exit> {
        match &self.node {
            None => Ok(()),
            Some(node) => Err(Exit::usage(format!(
                "which plans the node «{node}» has is known to servers alone"
            ))
            .advice("say with --server which server is asked")),
        }
    }

    /// The same, with a part of a text if one is given.
    pub(crate) fn with_text(&self, part: Option<&str>) -> Self {
        let text = part.map(str::to_owned).or_else(|| self.text.clone());
        Self { text, ..self.clone() }
    }

    /// Whether only plans that are over are meant.
    pub(crate) fn is_of_stopped(&self) -> bool {
        self.state == ["stopped"]
    }

    /// Whether the plan of an idempotency key is meant.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// In the shape of the HTTP API, the key left out.
    pub(crate) fn json(&self) -> Value {
        let labels = self.filter(1).labels.into_iter();
        let labels: Map<String, Value> =
            labels.map(|(name, value)| (name, value.map_or(Value::Null, Value::from))).collect();
        let time = |time: Option<Time>| time.map(|time| time.to_string());
        let all = json!({
            "states": self.state, "results": self.result, "waits": self.waits, "name": self.name, "text": self.text,
            "labels": labels, "action": self.action, "by": self.triggered_by,
            "caller": self.caller.map(|plan| plan.to_string()), "created_from": time(self.since),
            "created_before": time(self.until), "ended_from": time(self.ended_since),
            "ended_before": time(self.ended_until), "node": self.node,
        });
        let Value::Object(mut all) = all else { return Value::Null };
        all.retain(|_, value| !value.is_null());
        Value::Object(all)
    }

    /// The engine's filter, with the key as it is stored: the caller's own, else as it was given.
    pub(crate) fn filter_in(
        &self,
        source: &mut Source,
        settings: &Settings,
        limit: usize,
    ) -> Result<Filter, Exit> {
        if matches!(source, Source::Store(..)) {
            self.refuse_node()?;
        }
        let mut filter = self.filter(limit);
        // A server looks for the caller's own key itself.
        if let Some(key) = self.key.as_ref().filter(|_| matches!(source, Source::Store(..))) {
            let own = key::scoped(&settings.by(), key);
            let of_own = Filter { key: Some(own.clone()), limit: 1, ..Filter::default() };
            if !source.list(&of_own)?.is_empty() {
                filter.key = Some(own);
            }
        }
        Ok(filter)
    }

    /// As the engine has it.
    pub(crate) fn filter(&self, limit: usize) -> Filter {
        let labels = self.label.iter().map(|label| match label.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (label.clone(), None),
        });
        let labels = labels.chain(self.flow.iter().flat_map(|flow| labels_of(flow)));
        Filter {
            states: self.state.iter().filter_map(|name| PlanState::from_name(name)).collect(),
            results: self.result.iter().filter_map(|name| PlanResult::from_name(name)).collect(),
            waits: self.waits.iter().filter_map(|name| Waiting::from_name(name)).collect(),
            name: self.name.clone(),
            text: self.text.clone(),
            labels: labels.collect(),
            action: self.action.clone(),
            key: self.key.clone(),
            by: self.triggered_by.clone(),
            caller: self.caller,
            created_from: self.since,
            created_before: self.until,
            ended_from: self.ended_since,
            ended_before: self.ended_until,
            limit,
            ..Filter::default()
        }
    }
}

/// The id of a listed plan.
pub(crate) fn id_of(row: &PlanSummary) -> Result<PlanId, Exit> {
    row.id.parse().map_err(|error| Exit::failed(format!("the plan «{}»: {error}", row.id)))
}

/// The labels of the plans of a flow, by its name, `namespace/name`, and with `:version`.
fn labels_of(flow: &str) -> Vec<(String, Option<String>)> {
    let (path, version) = match flow.split_once(':') {
        Some((path, version)) => (path, Some(version)),
        None => (flow, None),
    };
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, path),
    };
    let all = [("namespace", namespace), ("name", Some(name)), ("version", version)];
    let label = |(part, value): (&str, Option<&str>)| {
        Some((format!("flow.{part}"), Some(value?.to_owned())))
    };
    all.into_iter().filter_map(label).collect()
}

/// A plan as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlanRef {
    /// By its id.
    Id(PlanId),
    /// The newest one.
    Last,
    /// By the last letters of its id.
    End(String),
}

/// The fewest letters that name a plan.
pub(crate) const END_MIN: usize = 4;

/// The newest plans that are looked through for one with these last letters.
const END_PLANS: usize = 10_000;

impl std::str::FromStr for PlanRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "last" {
            return Ok(Self::Last);
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let is_end = text.len() >= END_MIN && text.chars().all(|sign| sign.is_ascii_hexdigit());
        if is_end {
            return Ok(Self::End(text.to_ascii_lowercase()));
        }
        Err(format!(
            "«{text}» names no plan: give its id, the last {END_MIN} or more letters of it, or «last»"
        ))
    }
}

impl PlanRef {
    /// Finds the plan.
    pub(crate) fn find(&self, source: &mut Source) -> Result<PlanId, Exit> {
        match self {
            Self::Id(id) => Ok(*id),
            Self::Last => {
                let newest = Filter { limit: 1, ..Filter::default() };
                let row = source.list(&newest)?.pop();
                row.map(|row| id_of(&row))
                    .ok_or_else(|| Exit::not_found("the store has no plans"))?
            }
            Self::End(end) => {
                let newest =
                    Filter { limit: END_PLANS, order: Order::NewestFirst, ..Filter::default() };
                let rows = source.list(&newest)?;
                let mut fits =
                    rows.iter().map(|row| row.id.as_str()).filter(|id| id.ends_with(end));
                match (fits.next(), fits.next()) {
                    (Some(id), None) => id.parse().map_err(Exit::failed),
                    (Some(a), Some(b)) => Err(Exit::usage(format!(
                        "the ids of several plans end with «{end}», for instance {a} and {b}"
                    ))
                    .advice("give more letters of the id")),
                    _ => Err(Exit::not_found(format!(
                        "no plan has an id that ends with «{end}» among the newest {END_PLANS}"
                    ))
                    .advice("turnwheel list shows the plans of the store")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_engine_can_be_typed() {
        assert!(STATES.iter().all(|name| PlanState::from_name(name).is_some()));
        assert!(RESULTS.iter().all(|name| PlanResult::from_name(name).is_some()));
        assert!(REASONS.iter().all(|name| Waiting::from_name(name).is_some()));
    }

    #[test]
    fn plans_of_a_flow_are_named_by_its_name_or_more_of_it() {
        let label = |part: &str, value: &str| (format!("flow.{part}"), Some(value.to_owned()));
        assert_eq!(labels_of("hello"), [label("name", "hello")]);
        let both = [label("namespace", "guide"), label("name", "hello")];
        assert_eq!(labels_of("guide/hello"), both);
        let all = [both.as_slice(), &[label("version", "1.0.0")]].concat();
        assert_eq!(labels_of("guide/hello:1.0.0"), all);
    }

    #[test]
    fn plans_are_named_by_id_end_or_last() {
        let id = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f";
        assert!(matches!(id.parse(), Ok(PlanRef::Id(_))));
        assert_eq!("last".parse(), Ok(PlanRef::Last));
        assert_eq!("07398F".parse(), Ok(PlanRef::End("07398f".into())));
        for wrong in ["", "abc", "xyzzy", "0190a5c4-7b1e"] {
            assert!(wrong.parse::<PlanRef>().is_err(), "{wrong}");
        }
    }
}
