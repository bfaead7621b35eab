//! Faults against a real server process under load. Each case ends with a last `kill -9` and a start,
//! after which every accepted start must be there once.

mod cases;
mod load;

use indicatif::ProgressBar;
use serde::Serialize;

use self::load::Load;
use crate::error::BenchError;
use crate::report::Row;
use crate::serve_common::{binary, Place};

/// The longest that an answer of `/health` may take.
const HEALTH_MS: f64 = 100.0;

/// Outcome of a case.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    case: &'static str,
    accepted: usize,
    refused: u64,
    lost: usize,
    doubled: usize,
    unfinished: usize,
    health_answers: usize,
    health_p99_ms: f64,
    health_max_ms: f64,
    health_over_100_ms: usize,
    health_unanswered: u64,
    note: String,
}

impl Row for Case {
    fn heads() -> &'static [&'static str] {
        &[
            "case",
            "accepted",
            "refused",
            "lost",
            "doubled",
            "unfinished",
            "health",
            "p99 ms",
            "max ms",
            "> 100 ms",
            "unanswered",
            "note",
        ]
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.case.to_owned(),
            self.accepted.to_string(),
            self.refused.to_string(),
            self.lost.to_string(),
            self.doubled.to_string(),
            self.unfinished.to_string(),
            self.health_answers.to_string(),
            format!("{:.1}", self.health_p99_ms),
            format!("{:.1}", self.health_max_ms),
            self.health_over_100_ms.to_string(),
            self.health_unanswered.to_string(),
            self.note.clone(),
        ]
    }
}

/// Runs the named cases, or all.
pub(crate) fn run(
    names: &[String],
    seconds: u64,
    bar: &ProgressBar,
) -> Result<Vec<Case>, BenchError> {
    let known: Vec<&str> = cases::ALL.iter().map(|(name, _)| *name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let (name, known) = (name.clone(), known.join(", "));
        return Err(BenchError::UnknownName { what: "case", name, known });
    }
    if !binary().is_file() {
        let (what, why) = (binary().display().to_string(), "it is not there: build it too".into());
        return Err(BenchError::Start { what, why });
    }
    let is_meant = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
    let meant: Vec<_> = cases::ALL.iter().filter(|(name, _)| is_meant(name)).collect();
    bar.set_length(meant.len() as u64);
    let mut rows = Vec::with_capacity(meant.len());
    for (name, case) in meant {
        bar.set_message(*name);
        let (place, load) = (Place::new(), Load::default());
        let (server, note) =
            load.during(|load| case(&place, load, std::time::Duration::from_secs(seconds)));
        let mut row = load.outcome(&server, name);
        row.note = note;
        rows.push(row);
        bar.inc(1);
    }
    Ok(rows)
}

/// Whether what must hold has held.
pub(crate) fn judge(rows: &[Case]) -> Result<(), BenchError> {
    let wrong = |row: &&Case| {
        row.lost + row.doubled + row.unfinished > 0
            || row.health_unanswered > 0
            || row.accepted == 0
            || row.health_answers == 0
    };
    match rows.iter().find(wrong) {
        Some(row) => Err(BenchError::Failed(format!("the case {} went wrong: {row:?}", row.case))),
        None => Ok(()),
    }
}
