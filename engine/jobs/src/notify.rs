//! Notifications: who is told of which events of a job, and with what text.

use std::fmt;

use serde::{Deserialize, Serialize};
use turnwheel_engine::Time;

use crate::launch::Launch;
use crate::limits::{NOTICE_OUTPUT_MAX, NOTIFY_MAX};

/// An event of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A run begins.
    Start,
    /// A launch succeeded.
    Success,
    /// A launch failed after its last attempt, on some nodes or on all, or its outcome is unknown.
    Failure,
    /// A launch succeeded, and the one before it did not.
    Recovery,
    /// A launch began much later than planned.
    Late,
    /// A planned time was missed.
    Missed,
    /// A policy left a launch out.
    Skipped,
}

impl Event {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Recovery => "recovery",
            Self::Late => "late",
            Self::Missed => "missed",
            Self::Skipped => "skipped",
        }
    }
}

/// A notification: a webhook, or a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notify {
    /// The events.
    pub on: Vec<Event>,
    /// Address of a webhook.
    pub webhook: String,
    /// Addresses of a mail; `owner` is that of the job's owner.
    pub mail: Vec<String>,
    /// Headers of the webhook, as `Name: value`.
    pub headers: Vec<String>,
    /// Template of a mail's subject.
    pub subject: String,
    /// Template of the body.
    pub body: String,
}

/// A notification that is ready to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// The job.
    pub job: String,
    /// Address of a webhook; empty for a mail.
    pub webhook: String,
    /// Headers of the webhook.
    pub headers: Vec<String>,
    /// Addresses of a mail.
    pub mail: Vec<String>,
    /// Its subject.
    pub subject: String,
    /// The body.
    pub body: String,
    /// Key of the notification, the same for each attempt.
    pub key: String,
}

/// A sender of notifications. Calls may block for some seconds; they come from the blocking pool.
pub trait Notifier: Send + Sync + fmt::Debug + 'static {
    /// Checks a notification before it is stored.
    ///
    /// # Errors
    ///
    /// It could not be sent: what is missing, and what to do.
    fn check(&self, notify: &Notify) -> Result<(), String>;

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// It was not sent, or nobody knows; it is tried again.
    fn send(
        &self,
        message: &Message,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), String>;
}

/// Values of the variables of templates.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    values: [(&'static str, String); 13],
}

/// An event with what is known of it.
pub(crate) struct Told<'a> {
    pub(crate) job: &'a str,
    pub(crate) launch: &'a Launch,
    pub(crate) run: Option<usize>,
    pub(crate) event: Event,
    pub(crate) node: &'a str,
    pub(crate) output: &'a str,
}

const NAMES: [&str; 13] = [
    "Report",
    "JobName",
    "ReportingNode",
    "StartTime",
    "FinishedAt",
    "Success",
    "NodeName",
    "Output",
    "Event",
    "State",
    "Reason",
    "Launch",
    "PlannedAt",
];

fn text(time: Option<Time>) -> String {
    time.map_or(String::new(), |time| time.to_string())
}

impl Facts {
    pub(crate) fn new(told: &Told<'_>) -> Self {
        let Told { job, launch, run, event, node, .. } = *told;
        let row = run.map_or(launch.runs.last(), |run| launch.runs.get(run));
        let started = row.and_then(|row| row.started_at).or(Some(launch.decided));
        let finished = row.and_then(|row| row.ended_at).or(launch.ended_at);
        let is_success = matches!(event, Event::Success | Event::Recovery).to_string();
        let node_name = row.map_or("", |row| row.node.as_str());
        let from = told.output.len().saturating_sub(NOTICE_OUTPUT_MAX);
        let from = (from..=told.output.len()).find(|at| told.output.is_char_boundary(*at));
        let output = &told.output[from.unwrap_or(0)..];
        let (started, finished) = (text(started), text(finished));
        let planned = launch.planned;
        let mut report = format!(
            "Executed: {job}\nEvent: {}\nReporting node: {node}\nPlanned: {planned}\n\
             Start time: {started}\nEnd time: {finished}\nSuccess: {is_success}\n\
             Node: {node_name}\nReason: {}\nOutput: {output}\nExecution group: {}\n",
            event.name(),
            launch.reason,
            launch.id,
        );
        for run in &launch.runs {
            let (start, end) = (text(run.started_at), text(run.ended_at));
            let (node, state) = (&run.node, run.state.name());
            report.push_str(&format!("\t[Node]: {node} [Start]: {start} [End]: {end} [{state}]\n"));
        }
        let values = [
            report,
            job.to_owned(),
            node.to_owned(),
            started,
            finished,
            is_success,
            node_name.to_owned(),
            output.to_owned(),
            event.name().to_owned(),
            launch.state.name().to_owned(),
            launch.reason.clone(),
            launch.id.to_string(),
            planned.to_string(),
        ];
        let mut values = values.into_iter();
        Self { values: NAMES.map(|name| (name, values.next().unwrap_or_default())) }
    }

    fn of(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// All of them as a JSON object: the body of a webhook without a template.
    fn json(&self) -> String {
        let fields = self.values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let fields: serde_json::Map<String, serde_json::Value> =
            fields.map(|(name, value)| (name, value.into())).collect();
        serde_json::Value::from(fields).to_string()
    }
}

/// A part of a template.
enum Part<'a> {
    Text(&'a str),
    Variable { name: &'a str, is_json: bool },
}

/// Reads a template: texts, `{{.Name}}`, and `{{.Name | json}}` for a JSON text with its quotes.
fn parts(template: &str) -> Result<Vec<Part<'_>>, String> {
    let (mut parts, mut rest) = (Vec::new(), template);
    while let Some((before, after)) = rest.split_once("{{") {
        let (inner, behind) =
            after.split_once("}}").ok_or("a «{{» is not closed by «}}»".to_owned())?;
        let (name, filter) = match inner.split_once('|') {
            Some((name, filter)) => (name.trim(), filter.trim()),
            None => (inner.trim(), ""),
        };
        let known = name.strip_prefix('.').filter(|name| NAMES.contains(name));
        let Some(name) = known else {
            return Err(format!("«{name}» is no variable: there are .{}", NAMES.join(", .")));
        };
        if !matches!(filter, "" | "json") {
            return Err(format!("«{filter}» is no filter: there is json"));
        }
        parts.push(Part::Text(before));
        parts.push(Part::Variable { name, is_json: filter == "json" });
        rest = behind;
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn render(template: &str, facts: &Facts) -> String {
    // It was checked when it was stored; one of an older version is sent as it is.
    let Ok(parts) = parts(template) else { return template.to_owned() };
    let mut rendered = String::new();
    for part in parts {
        match part {
            Part::Text(text) => rendered.push_str(text),
            Part::Variable { name, is_json } => {
                let value = facts.of(name).unwrap_or_default();
                match is_json {
                    true => rendered.push_str(&serde_json::Value::from(value).to_string()),
                    false => rendered.push_str(value),
                }
            }
        }
    }
    rendered
}

impl Notify {
    /// Checks all that needs no notifier.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.on.is_empty() {
            return Err("on: name the events, such as failure and recovery".to_owned());
        }
        if self.webhook.is_empty() == self.mail.is_empty() {
            return Err("give either webhook, an address, or mail, a list of them".to_owned());
        }
        if let Some(line) = self.headers.iter().find(|line| !line.contains(':')) {
            return Err(format!("headers: «{line}» has no colon after its name"));
        }
        for (field, template) in [("subject", &self.subject), ("body", &self.body)] {
            parts(template).map_err(|problem| format!("{field}: {problem}"))?;
        }
        Ok(())
    }

    /// The message of an event; nothing if nobody gets it.
    pub(crate) fn message(&self, facts: &Facts, owner: &str, key: String) -> Option<Message> {
        let named = self.mail.iter().map(|to| if to == "owner" { owner } else { to.as_str() });
        let mail: Vec<String> = named.filter(|to| !to.is_empty()).map(str::to_owned).collect();
        if self.webhook.is_empty() && mail.is_empty() {
            return None;
        }
        let body = match (self.body.is_empty(), self.webhook.is_empty()) {
            (false, _) => render(&self.body, facts),
            (true, false) => facts.json(),
            (true, true) => facts.of("Report").unwrap_or_default().to_owned(),
        };
        let subject = match self.subject.as_str() {
            "" => "{{.Event}}: job {{.JobName}}",
            subject => subject,
        };
        // A subject is one line.
        let subject = render(subject, facts).replace(['\r', '\n'], " ");
        let (webhook, headers) = (self.webhook.clone(), self.headers.clone());
        let job = facts.of("JobName").unwrap_or_default().to_owned();
        Some(Message { job, webhook, headers, mail, subject, body, key })
    }
}

/// Checks a list of notifications.
pub(crate) fn check(list: &[Notify]) -> Result<(), String> {
    if list.len() > NOTIFY_MAX {
        return Err(format!("{NOTIFY_MAX} notifications are the limit"));
    }
    let numbered = list.iter().enumerate();
    for (number, notify) in numbered {
        notify.check().map_err(|problem| format!("number {}: {problem}", number + 1))?;
    }
    Ok(())
}
