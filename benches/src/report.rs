//! Rows: as a table for people, as JSON for machines, and two files of them compared.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::{json, Map, Value};

use crate::error::BenchError;

/// One line of a result.
pub(crate) trait Row: Serialize {
    /// The heads of the columns, as many as `cells` gives.
    fn heads() -> &'static [&'static str];
    /// The row as text.
    fn cells(&self) -> Vec<String>;
}

/// Writes the rows where they are wanted: a table on standard output, JSON into a file, or JSON
/// instead of the table if the file is «-».
pub(crate) fn emit<R: Row>(rows: &[R], json: Option<&Path>) -> Result<(), BenchError> {
    write(rows, &[], json)
}

/// As [`emit`]; each failed process is a row of the JSON too, and then the end is an error.
pub(crate) fn emit_all<R: Row>(
    rows: &[R],
    failures: &[BenchError],
    json: Option<&Path>,
) -> Result<(), BenchError> {
    write(rows, failures, json)?;
    for failure in failures {
        eprintln!("turnwheel-bench: {failure}");
    }
    match failures.len() {
        0 => Ok(()),
        count => Err(BenchError::Incomplete(count)),
    }
}

fn write<R: Row>(
    rows: &[R],
    failures: &[BenchError],
    json: Option<&Path>,
) -> Result<(), BenchError> {
    let Some(path) = json else {
        print!("{}", table(rows));
        return Ok(());
    };
    let text = to_json(rows, failures);
    if path == Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    print!("{}", table(rows));
    fs::write(path, text)
        .map_err(|source| BenchError::File { path: path.display().to_string(), source })
}

/// The rows as a JSON array, one row a line: a committed file shows what changed.
fn to_json<R: Serialize>(rows: &[R], failures: &[BenchError]) -> String {
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| serde_json::to_string(row).expect("rows are plain records"))
        .collect();
    lines.extend(failures.iter().map(|failure| failed_row(failure).to_string()));
    format!("[\n  {}\n]\n", lines.join(",\n  "))
}

/// The row of a failed process: what it was doing, and its end.
fn failed_row(failure: &BenchError) -> Value {
    match failure {
        BenchError::Child { index, case, why, said } => {
            json!({ "failed": case, "process": index, "error": why, "said": said })
        }
        other => json!({ "failed": other.to_string() }),
    }
}

/// The rows as columns: the first text column to the left, figures to the right.
pub(crate) fn table<R: Row>(rows: &[R]) -> String {
    let heads = R::heads().iter().map(ToString::to_string).collect();
    columns(heads, rows.iter().map(Row::cells).collect())
}

fn columns(heads: Vec<String>, rows: Vec<Vec<String>>) -> String {
    let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let is_text: Vec<bool> = (0..heads.len())
        .map(|at| rows.iter().any(|row| row[at].starts_with(|c: char| c.is_ascii_alphabetic())))
        .collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(at, cell)| {
                let gap = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                if is_text[at] {
                    format!("{cell}{gap}")
                } else {
                    format!("{gap}{cell}")
                }
            })
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = line(&heads) + &line(&rule);
    for row in &rows {
        text.push_str(&line(row));
    }
    text
}

/// A figure with as many digits as it is worth.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A figure that there may not be.
pub(crate) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// Compares two files of rows, figure by figure, as a table of old, new and their ratio.
///
/// Rows belong together when the fields that name them are equal.
pub(crate) fn diff(old: &Path, new: &Path) -> Result<String, BenchError> {
    let (old, new) = (read(old)?, read(new)?);
    let mut lines = Vec::new();
    for row in &new {
        let name = name_of(row);
        let Some(before) = old.iter().find(|candidate| name_of(candidate) == name) else {
            lines.push(vec![name, "(new row)".into(), "-".into(), "-".into(), "-".into()]);
            continue;
        };
        for (field, value) in row {
            if NAMING.contains(&field.as_str()) || field == "reps" {
                continue;
            }
            let figures = (before.get(field).and_then(Value::as_f64), value.as_f64());
            let (Some(before), Some(after)) = figures else {
                continue;
            };
            let ratio = if before == 0.0 { None } else { Some(after / before) };
            let cells = [figure(before), figure(after), maybe(ratio)];
            let mut line = vec![name.clone(), field.clone()];
            line.extend(cells);
            lines.push(line);
        }
    }
    for row in &old {
        let name = name_of(row);
        if !new.iter().any(|candidate| name_of(candidate) == name) {
            lines.push(vec![name, "(row gone)".into(), "-".into(), "-".into(), "-".into()]);
        }
    }
    let heads = ["row", "field", "old", "new", "new / old"].map(str::to_owned).to_vec();
    Ok(columns(heads, lines))
}

/// Fields that say which run it was, and not what came out, in the order to name them.
const NAMING: [&str; 11] = [
    "failed",
    "pattern",
    "program",
    "case",
    "workload",
    "metric",
    "concurrency",
    "keys",
    "impl",
    "workers",
    "stealing",
];

/// The row's name: a remark in another field is no part of it.
fn name_of(row: &Map<String, Value>) -> String {
    let named = NAMING.iter().filter_map(|field| match row.get(*field)? {
        Value::String(text) => Some(text.clone()),
        value => Some(format!("{field}={value}")),
    });
    named.collect::<Vec<_>>().join(" ")
}

fn read(path: &Path) -> Result<Vec<Map<String, Value>>, BenchError> {
    let name = || path.display().to_string();
    let text =
        fs::read_to_string(path).map_err(|source| BenchError::File { path: name(), source })?;
    serde_json::from_str(&text).map_err(|source| BenchError::Rows { path: name(), source })
}

/// The value below which the given part of the sorted sample lies (nearest rank).
pub(crate) fn percentile(sorted: &[f64], part: f64) -> f64 {
    assert!(!sorted.is_empty(), "a percentile of nothing");
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The middle of a sample, the mean of the two middle ones if its size is even.
pub(crate) fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_sample_is_the_mean_of_the_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn percentile_takes_the_nearest_rank() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 0.5), 50.0);
        assert_eq!(percentile(&sorted, 0.99), 99.0);
        assert_eq!(percentile(&sorted, 1.0), 100.0);
    }

    #[test]
    fn names_of_rows_tell_workloads_and_metrics_apart() {
        let name = |row: Value| name_of(row.as_object().unwrap());
        let row = json!({"workload": "starts", "metric": "p50_us", "value": 4.0});
        assert_eq!(name(row), "starts p50_us");
        let row = json!({"workload": "sequential_1", "concurrency": 64, "steps_per_s": 4.0});
        assert_eq!(name(row), "sequential_1 concurrency=64");
    }

    #[test]
    fn diff_names_rows_by_their_text_and_shows_ratios() {
        let folder = std::env::temp_dir().join(format!("turnwheel-diff-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (old, new) = (folder.join("old.json"), folder.join("new.json"));
        fs::write(&old, r#"[{"pattern":"count","impl":"tokio","median_ns":40.0}]"#).unwrap();
        fs::write(&new, r#"[{"pattern":"count","impl":"tokio","median_ns":20.0}]"#).unwrap();
        let text = diff(&old, &new).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(text.contains("count tokio"), "{text}");
        assert!(text.contains("0.5000"), "{text}");
    }
}
