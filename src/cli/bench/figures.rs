//! Measured figures, beside their targets.

use std::fmt::Write as _;

use serde_json::{json, Value};
use turnwheel::doctor::Machine;

use super::Patience;
use crate::cli::exit::{Exit, INTERRUPTED};
use crate::cli::paint::{print, print_json};

/// Unit of `/proc`: Linux shows hundredths of a second to programs on every machine.
const TICK_MS: f64 = 10.0;

/// Target of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wanted {
    /// At least so much.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// At most so much.
    AtMost(f64),
}

impl Wanted {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::Below(limit) => value < limit,
            Self::AtMost(limit) => value <= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!(">= {limit}"),
            Self::Below(limit) => format!("< {limit}"),
            Self::AtMost(limit) => format!("<= {limit}"),
        }
    }
}

/// One number.
#[derive(Clone, Debug)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    wanted: Option<Wanted>,
}

/// The numbers of a measurement.
#[derive(Debug)]
pub(super) struct Figures {
    what: &'static str,
    figures: Vec<Figure>,
    load_before: Option<f64>,
}

impl Figures {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, figures: Vec::new(), load_before: load() }
    }

    pub(super) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure { name: name.into(), value, unit, wanted: None });
    }

    pub(super) fn add_wanted(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        wanted: Wanted,
    ) {
        self.figures.push(Figure { name: name.into(), value, unit, wanted: Some(wanted) });
    }

    /// Prints them; an interrupted measurement says so with its exit code.
    pub(super) fn print(self, is_json: bool, patience: &Patience) -> Result<(), Exit> {
        let is_interrupted = patience.is_over();
        if is_json {
            print_json(&self.json(is_interrupted))?;
        } else {
            print(&self.table(is_interrupted))?;
        }
        if is_interrupted {
            return Err(Exit::new(
                INTERRUPTED,
                "bench: interrupted; the figures are of what was done",
            ));
        }
        Ok(())
    }

    fn json(&self, is_interrupted: bool) -> Value {
        let one = |figure: &Figure| {
            json!({
                "name": figure.name,
                "value": figure.value.is_finite().then_some(figure.value),
                "unit": figure.unit,
                "wanted": figure.wanted.map(Wanted::text),
                "is_met": figure.wanted.map(|wanted| wanted.is_met(figure.value)),
            })
        };
        json!({
            "measured": self.what,
            "version": env!("CARGO_PKG_VERSION"),
            "machine": Machine::read(),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "load_before": self.load_before,
            "is_interrupted": is_interrupted,
            "figures": self.figures.iter().map(one).collect::<Vec<_>>(),
        })
    }

    fn table(&self, is_interrupted: bool) -> String {
        let machine = Machine::read();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let model = machine.processor.as_deref().unwrap_or("unknown processor");
        let load = self.load_before.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        // Writing to a String cannot fail.
        let mut text = format!("{}: {model}, {cores} cores, load {load}\n", self.what);
        let wide = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(0);
        for figure in &self.figures {
            let Figure { name, value, unit, wanted } = figure;
            let pad = " ".repeat(wide - name.chars().count());
            let _ = write!(text, "  {name}{pad}  {:>9} {unit:<10}", shown(*value));
            if let Some(wanted) = wanted {
                let met = if wanted.is_met(*value) { "met" } else { "missed" };
                let _ = write!(text, " wanted {:<9} {met}", wanted.text());
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        if is_interrupted {
            text.push_str("interrupted: less was measured than was asked for\n");
        }
        if !machine.is_optimised {
            text.push_str("built without optimization: build it with --release for true figures\n");
        }
        text
    }
}

/// Three digits: a repeated run confirms no more. Large numbers are counted.
fn shown(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        value if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// Processes that wanted a core, on average of the last minute.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Milliseconds for which processors have worked for a process; nothing where the system does not tell.
pub(super) fn processor_ms(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let ticks: f64 = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks * TICK_MS)
}

/// The middle of some values, and their ends.
pub(super) struct Ends {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

/// Sorts values; nothing if there are none.
pub(super) fn ends(values: &mut [f64]) -> Option<Ends> {
    values.sort_unstable_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    Some(Ends { median: values[values.len() / 2], min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_met_or_missed() {
        assert!(Wanted::AtLeast(5.0).is_met(5.0) && !Wanted::AtLeast(5.0).is_met(4.9));
        assert!(Wanted::Below(5.0).is_met(4.9) && !Wanted::Below(5.0).is_met(5.0));
        assert!(Wanted::AtMost(5.0).is_met(5.0) && !Wanted::AtMost(5.0).is_met(5.1));
        // A missing figure does not meet its target.
        assert!(!Wanted::Below(5.0).is_met(f64::NAN));
    }

    #[test]
    fn a_table_says_what_is_wanted() {
        let mut figures = Figures::new("test");
        figures.add_wanted("starts", 6_000.0, "a second", Wanted::AtLeast(5_000.0));
        figures.add_wanted("cold", 31.0, "ms", Wanted::Below(30.0));
        let text = figures.table(false);
        assert!(text.contains("6000 a second") && text.contains("wanted >= 5000   met"), "{text}");
        assert!(text.contains("31.0 ms") && text.contains("wanted < 30      missed"), "{text}");
        let json = figures.json(true);
        assert_eq!(json["figures"][1]["is_met"], false);
        assert_eq!(json["is_interrupted"], true);
    }

    #[test]
    fn the_middle_and_the_ends() {
        let ends = ends(&mut [3.0, 1.0, 2.0]).expect("there are some");
        assert_eq!((ends.min, ends.median, ends.max), (1.0, 2.0, 3.0));
        assert!(super::ends(&mut []).is_none());
    }
}
