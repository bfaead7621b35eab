//! The settings of a job from a file and from flags.

use std::collections::BTreeMap;

use serde_json::{json, Value};
use turnwheel::jobs::JobSpec;

use super::file::read_one;
use crate::cli::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Add {
    /// Name of the job: lower-case letters, digits, _ and -.
    pub(super) name: String,

    /// A file with its settings, JSON or YAML; - for standard input. Flags change what it says.
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Option<String>,

    /// When it fires: six fields with the second first, @daily, @every 1h30m, @at TIME, @manually.
    #[arg(long)]
    schedule: Option<String>,

    /// The time zone of the schedule, by its name in the IANA database [default: the server's].
    #[arg(long)]
    zone: Option<String>,

    /// The command of the executor shell.
    #[arg(long)]
    command: Option<String>,

    /// Run the command through the system's shell.
    #[arg(long)]
    shell: bool,

    /// Its executor: shell or http.
    #[arg(long)]
    executor: Option<String>,

    /// A setting of the executor; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// Policy for a launch while another one is under way.
    #[arg(long, value_parser = ["allow", "forbid", "queue_one", "queue_all", "replace"])]
    overlap: Option<String>,

    /// Policy for missed times: none, latest, or a window such as 2h in which all are made up for.
    #[arg(long, value_name = "HOW")]
    missed: Option<String>,

    /// Further attempts after a failure.
    #[arg(long)]
    retries: Option<u32>,

    /// Time limit of an attempt: 90s, 15m.
    #[arg(long, value_name = "LENGTH")]
    timeout: Option<String>,

    /// A job after which it runs, with :success, :failure or :always; may be given several times.
    #[arg(long, value_name = "JOB[:END]")]
    after: Vec<String>,

    /// Store it switched off.
    #[arg(long)]
    disabled: bool,
}

impl Add {
    /// The settings: those of the file, changed by the flags.
    pub(super) fn spec(&self) -> Result<JobSpec, Exit> {
        self.spec_over(json!({}))
    }

    /// The same over those that the job has.
    pub(super) fn spec_over(&self, mut fields: Value) -> Result<JobSpec, Exit> {
        if let Some(file) = &self.file {
            let Value::Object(given) = read_one(file)? else {
                return Err(Exit::usage(format!("{file}: a job is an object of settings")));
            };
            given.into_iter().for_each(|(field, value)| fields[field] = value);
        }
        fields["name"] = Value::from(self.name.as_str());
        let texts = [
            ("schedule", &self.schedule),
            ("timezone", &self.zone),
            ("executor", &self.executor),
            ("overlap", &self.overlap),
            ("timeout", &self.timeout),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                fields[field] = Value::from(text.as_str());
            }
        }
        if let Some(missed) = &self.missed {
            fields["missed"] = match missed.as_str() {
                "none" | "latest" => Value::from(missed.as_str()),
                window => json!({ "all": window }),
            };
        }
        if let Some(retries) = self.retries {
            fields["retries"] = Value::from(retries);
        }
        if self.disabled {
            fields["disabled"] = Value::from(true);
        }
        if !self.after.is_empty() {
            let after = self.after.iter().map(|text| match text.split_once(':') {
                Some((job, on)) => json!({ "job": job, "on": on }),
                None => json!({ "job": text }),
            });
            fields["after"] = after.collect();
        }
        let mut config = BTreeMap::new();
        config.extend(self.command.as_ref().map(|text| ("command", text.as_str())));
        config.extend(self.shell.then_some(("shell", "true")));
        for pair in &self.set {
            let wrong = || Exit::usage(format!("--set {pair}: write it as NAME=VALUE"));
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            config.insert(name, value);
        }
        if !config.is_empty() && !matches!(fields["config"], Value::Null | Value::Object(_)) {
            let problem = "config: an object of texts is wanted";
            return Err(Exit::usage(format!("the job «{}»: {problem}", self.name)));
        }
        for (name, value) in config {
            fields["config"][name] = Value::from(value);
        }
        serde_json::from_value(fields)
            .map_err(|error| Exit::usage(format!("the job «{}»: {error}", self.name)))
    }
}
