//! Input, state and result of a task: the inputs and outputs of its step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwheel_engine::PlanId;

use super::gathered::Gathered;
use crate::event::CloudEvent;
use crate::fault::Fault;
use crate::interest::filters_of;
use crate::model::{Correlation, Directive, Filter, Strategy};

/// Input of a flow's plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowStart {
    /// The hash of the definition: a plan keeps the one that it began with.
    pub definition: String,
    /// Id of the flow, for people.
    pub flow: String,
    /// Its input.
    pub input: Value,
    /// End of the previous run, if the plan has [continued as
    /// new](turnwheel_engine::StepContext::continue_as_new), or is the retry of a failed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Box<Cursor>>,
    /// Of a retry: the places of nested tasks, from the outermost on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) within: Vec<Cursor>,
}

/// The part of it that all its tasks need.
#[derive(Debug, Deserialize)]
pub(crate) struct Which {
    pub(crate) definition: String,
}

/// Input of a task's step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskInput {
    /// Place of the task in the definition: a JSON pointer.
    pub at: String,
    /// Its raw input.
    pub raw: Value,
    /// The context of the flow.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// Variables of loops and handlers around it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub vars: Map<String, Value>,
    /// Whether it is the task with what extends it, instead of the task itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_extended: bool,
    /// The task that it is before or after, if it is a part of an extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extends: Option<Box<Extends>>,
    /// Whether an attempt that is not the first one begins with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_retry: bool,
    /// The namespace of its flow, of a task that does something outside.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    /// Its depth among nested tasks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) depth: u32,
    /// Whether a task around it has parts beside it or a limit for this attempt, and so cannot go on
    /// in another run of the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_kept: bool,
    /// Of a retry: where it goes on, and where tasks inside of it do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resume: Vec<Cursor>,
    /// When the task began for which it takes a message, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<u64>,
}

/// The task that a part of an extension is before or after: the value of `$task` there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Extends {
    /// Its place in the definition: a JSON pointer.
    pub(crate) at: String,
    /// Its raw input.
    pub(crate) input: Value,
    /// Its output, after it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) output: Value,
    /// When the whole of them began.
    pub(crate) began: u64,
}

/// State of a task's step, and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskOutput {
    /// Its result, when it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<Cursor>,
    /// Event filters that could not be evaluated, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) unclear: BTreeMap<String, u64>,
}

/// Result of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Its output, transformed.
    pub output: Value,
    /// The context, if it has exported one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Next task of the flow.
    #[serde(skip_serializing_if = "is_continue")]
    pub(crate) then: Directive,
    /// The fault, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Whether its condition left it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_skipped: bool,
    /// Correlation values of the events that it has got.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) keys: Map<String, Value>,
    /// The event that it has emitted, if its output is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) emitted: Option<Box<CloudEvent>>,
    /// It is not over: where the next run of the plan goes on, and where tasks inside of it do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) goes_on: Vec<Cursor>,
}

fn is_continue(then: &Directive) -> bool {
    *then == Directive::Continue
}

impl Listening {
    /// The value that each correlation of each filter must have, if it is known.
    pub(crate) fn expects(&self, strategy: &Strategy) -> Vec<Vec<Option<Value>>> {
        let of = |(index, filter): (usize, &Filter)| {
            let own = self.expected.get(index);
            let value = |correlation: &Correlation| {
                let name = &correlation.name;
                match correlation.expect {
                    Some(_) => own.and_then(|own| own.get(name)).cloned(),
                    None => self.keys.get(name).cloned(),
                }
            };
            filter.correlate.iter().map(value).collect()
        };
        filters_of(strategy).into_iter().enumerate().map(of).collect()
    }
}

impl Outcome {
    pub(crate) fn of(output: Value) -> Self {
        Self { output, ..Self::default() }
    }

    pub(crate) fn fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }
}

/// Position of a task that has parts, or waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Cursor {
    /// The part that is under way, counted through all of them.
    pub(crate) part: u32,
    /// Its place in its list.
    pub(crate) index: usize,
    /// The round of a loop, or the attempt.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) round: u32,
    #[serde(skip_serializing_if = "is_doing")]
    pub(crate) phase: Phase,
    /// Data of the parts.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) value: Value,
    /// The context as the parts have left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<Value>,
    /// The error that is being handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Fault>,
    /// Parts of a fork that are over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) branches: BTreeMap<u32, Outcome>,
    /// Extensions that apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) extensions: Vec<usize>,
    /// Next task of the flow after the extended one.
    #[serde(skip_serializing_if = "is_continue")]
    pub(crate) then: Directive,
    /// When the first attempt began, in microseconds since 1970.
    #[serde(skip_serializing_if = "is_none_at")]
    pub(crate) began: u64,
    /// The flow that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<PlanId>,
    /// Events of a listening task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) listening: Option<Listening>,
    /// The places of nested tasks, at the end of a run of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) within: Vec<Cursor>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none_at(number: &u64) -> bool {
    *number == 0
}

fn is_doing(phase: &Phase) -> bool {
    *phase == Phase::Doing
}

/// Activity of a task with parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Its parts.
    #[default]
    Doing,
    /// It waits for its next attempt.
    Pausing,
    /// It handles an error.
    Handling,
}

/// Events of a listening task so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Listening {
    /// Events, as they were read, in their order; outputs instead if each is processed.
    pub(crate) got: Gathered,
    /// Filters of «all» that have their event.
    pub(crate) filled: BTreeMap<usize, Value>,
    /// The same for «until».
    pub(crate) until: BTreeMap<usize, Value>,
    /// Values that later events must have, by the names of correlations.
    pub(crate) keys: Map<String, Value>,
    /// For each filter, the values that its correlations must have, as far as they were known
    /// before the first event; empty if none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) expected: Vec<Map<String, Value>>,
    /// Events that wait to be processed.
    pub(crate) queue: Gathered,
    /// Whether a processing is under way.
    pub(crate) is_busy: bool,
    /// Whether no further events are taken.
    pub(crate) is_over: bool,
    /// Events processed.
    pub(crate) count: u32,
}

/// Notice to a waiting step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    /// A part takes too long.
    Late(u32),
    /// The pause with this number is over.
    Awake(u32),
    /// An event has come.
    Event(Box<CloudEvent>),
}

/// Combines the exports of two branches: the fields of both; the later one wins.
pub(super) fn merged(one: Option<Value>, other: Value) -> Value {
    match (one, other) {
        (Some(Value::Object(mut one)), Value::Object(other)) => {
            one.extend(other);
            Value::Object(one)
        }
        (_, other) => other,
    }
}
