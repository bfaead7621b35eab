//! Numbers of users at each element of a journey, and of those who went on and who did not.

use std::collections::BTreeMap;

use serde::Serialize;
use turnwheel_engine::store::StateScan;
use turnwheel_engine::TimedStates;

use crate::catalogue::Catalogue;
use crate::chart::Chart;
use crate::desk::USER;
use crate::element::Kind;
use crate::error::JourneyError;
use crate::limits::{COUNTED_MAX, LIST_PAGE};
use crate::row::{Cause, Pass, Row, Why};
use crate::walk::Turn;

/// Numbers of a journey, from the paths that users have in the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JourneyCounts {
    /// The journey.
    pub journey: String,
    /// Its newest version, whose elements are counted; those of older versions by the same names.
    pub version: u32,
    /// Users of its platform that were looked at.
    pub users: u64,
    /// Whether those are all.
    pub is_complete: bool,
    /// Passes under way.
    pub under_way: u64,
    /// Passes that are over, as far as users have them in their history.
    pub ended: u64,
    /// The elements, in the order of the definition.
    pub elements: Vec<ElementCounts>,
}

/// Numbers of an element.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ElementCounts {
    /// The element.
    pub element: String,
    /// Its type.
    pub kind: &'static str,
    /// Users who wait there now.
    pub here: u64,
    /// Visits in all paths.
    pub visits: u64,
    /// Passes that were over there before an end: no line held, or the pass was ended.
    pub dropped: u64,
    /// For a line: its part of the visits of the element before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversion: Option<f64>,
}

#[derive(Default)]
struct Counting {
    users: u64,
    under_way: u64,
    ended: u64,
    /// By the names of elements: here, visits, dropped.
    elements: BTreeMap<String, (u64, u64, u64)>,
}

impl Counting {
    fn at(&mut self, chart: &Chart, element: u16) -> &mut (u64, u64, u64) {
        self.elements.entry(chart.id(element).to_owned()).or_default()
    }

    fn row(&mut self, catalogue: &Catalogue, journey: u32, row: &Row) {
        self.users += 1;
        for pass in row.passes.iter().filter(|pass| pass.journey == journey) {
            self.under_way += 1;
            self.path(catalogue, pass);
            let Some(chart) = catalogue.chart(journey, pass.version) else { continue };
            pass.waits.iter().for_each(|wait| self.at(chart, wait.element).0 += 1);
        }
        for ended in row.ended.iter().filter(|ended| ended.pass.journey == journey) {
            self.ended += 1;
            self.path(catalogue, &ended.pass);
            let last = ended.pass.moves.last();
            let place = last.and_then(|last| Some((last.version, *last.path.last()?)));
            let Some((version, element)) = place.filter(|_| ended.why != Why::End) else {
                continue;
            };
            if let Some(chart) = catalogue.chart(journey, version) {
                self.at(chart, element).2 += 1;
            }
        }
    }

    /// Counts each visit once. A move begins at a wait that an earlier one has come to, unless that
    /// is kept no more, or an older program has left no trace of a move to another version.
    fn path(&mut self, catalogue: &Catalogue, pass: &Pass) {
        // Waits that were come to and not left, by the names of their elements.
        let mut open: Vec<&str> = Vec::new();
        for made in &pass.moves {
            let Some(chart) = catalogue.chart(pass.journey, made.version) else { continue };
            let (from, path) = match (made.cause, &made.path[..]) {
                (Cause::Moved { version, element }, path) => {
                    (catalogue.chart(pass.journey, version).map(|old| (old, element)), path)
                }
                (_, [first, path @ ..]) if made.wait > 0 => (Some((chart, *first)), path),
                (_, path) => (None, path),
            };
            if let Some((chart, element)) = from {
                match open.iter().position(|it| *it == chart.id(element)) {
                    Some(at) => drop(open.swap_remove(at)),
                    None => self.at(chart, element).1 += 1,
                }
                if made.cause == Cause::Unmatched {
                    open.push(chart.id(element));
                }
            }
            for element in path {
                self.at(chart, *element).1 += 1;
                if chart.node(*element).is_some_and(|node| node.kind == Kind::Trigger) {
                    open.push(chart.id(*element));
                }
            }
        }
    }
}

/// Counts the users of a journey's platform, page by page.
pub(crate) async fn count(
    states: &TimedStates,
    catalogue: &Catalogue,
    chart: &Chart,
) -> Result<JourneyCounts, JourneyError> {
    let of_platform = format!("{}/", chart.settings.platform);
    let (mut counting, mut after) = (Counting::default(), of_platform.clone());
    let mut is_complete = false;
    while !is_complete && counting.users < COUNTED_MAX {
        let rows = states.list(USER, StateScan::After(after.clone()), LIST_PAGE).await;
        let rows = rows.map_err(JourneyError::failed)?;
        is_complete = rows.len() < LIST_PAGE;
        for row in rows {
            if !row.key.starts_with(&of_platform) {
                is_complete = true;
                break;
            }
            match Row::decode(row.record.bytes.as_deref().unwrap_or_default()) {
                Ok(mut decoded) => {
                    Turn::new(catalogue, &row.key, &mut decoded, 0).leave_removed();
                    counting.row(catalogue, chart.journey, &decoded);
                }
                Err(problem) => tracing::error!(user = row.key, %problem, "a row cannot be read"),
            }
            after = row.key;
        }
    }
    let Counting { users, under_way, ended, elements } = counting;
    let (journey, version) = (chart.name.clone(), chart.version);
    let of = |id: &str| elements.get(id).copied().unwrap_or_default();
    let elements = chart.nodes.iter().zip(0..).map(|(node, number)| {
        let (here, visits, dropped) = of(&node.id);
        let before = (node.kind == Kind::Line).then(|| {
            chart.nodes.iter().find(|it| it.kind != Kind::Line && it.next.contains(&number))
        });
        let before = before.flatten().map_or(0, |before| of(&before.id).1);
        let conversion = (before > 0).then(|| visits as f64 / before as f64);
        ElementCounts {
            element: node.id.clone(),
            kind: node.kind.name(),
            here,
            visits,
            dropped,
            conversion,
        }
    });
    let elements = elements.collect();
    Ok(JourneyCounts { journey, version, users, is_complete, under_way, ended, elements })
}
