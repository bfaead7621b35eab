//! The engine's pictures of a plan, and events of plans, in the shapes of the API.

use std::time::Duration;

use turnwheel_engine::picture::{
    EdgeKind, GraphRows, PlanHistory, PlanTimeline, PlanTree, RowNode, RowWhat,
};
use turnwheel_engine::watch::{Cursor, Happening, What};
use turnwheel_engine::StepId;

use super::cursor::{self, List};
use super::limits::{SPANS, SPANS_FOR_EACH};
use super::show::{self, head, ms, node, said, time, times};
use crate::api;

/// The name of a variant, as it is written.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The graph of steps: a page of rows.
pub(super) fn graph(graph: GraphRows) -> api::Graph {
    let (plan, state, result) = head(&graph.plan);
    let edge = |edge: &turnwheel_engine::picture::Edge| api::Edge {
        from: edge.from,
        to: edge.to,
        kind: if edge.kind == EdgeKind::Output { "output" } else { "flow" }.to_owned(),
    };
    let next = graph.next.map(|place| {
        let place = [place.row, place.node, place.from].map(u32::to_be_bytes);
        cursor::write(List::Graph, place.as_flattened())
    });
    let (rows, steps) = (graph.rows, graph.steps);
    let edges = graph.edges.iter().map(edge).collect();
    let (mut nodes, mut joints, mut rests) = (Vec::new(), Vec::new(), Vec::new());
    for RowNode { node: id, row, what, .. } in graph.nodes {
        match what {
            RowWhat::Step(step) => nodes.push(api::GraphNode { row, node: node(*step) }),
            RowWhat::Rest(states) => rests.push(api::GraphRest {
                id,
                row,
                steps: states.iter().map(|(_, count)| count).sum(),
                states: states.iter().map(|(s, count)| (s.name().to_owned(), *count)).collect(),
            }),
            _ => joints.push(api::GraphJoint { id, row }),
        }
    }
    api::Graph { plan, state, result, rows, steps, nodes, joints, rests, edges, next }
}

/// The tree of actions: a page of the matching ones.
pub(super) fn tree(
    tree: PlanTree,
    fits: impl Fn(&turnwheel_engine::picture::TreeNode) -> bool,
    from: usize,
    limit: usize,
) -> api::Tree {
    let (plan, state, result) = head(&tree.plan);
    let fitting: Vec<_> = tree.nodes.into_iter().filter(|node| fits(node)).collect();
    let (total, end) = (fitting.len(), from.saturating_add(limit));
    let next = (end < total).then(|| cursor::write(List::Tree, &number(end).to_be_bytes()));
    let nodes = fitting.into_iter().skip(from).take(limit).map(show::tree_node).collect();
    api::Tree { plan, state, result, total: number(total), from: number(from), nodes, next }
}

/// The times of steps: a page of the matching ones. A place is the begin of a step, its number, and
/// the number of its spans on earlier pages.
pub(super) fn timeline(
    timeline: PlanTimeline,
    fits: impl Fn(&turnwheel_engine::picture::Bar) -> bool,
    after: Option<[u8; 16]>,
    limit: usize,
) -> api::Timeline {
    let (plan, state, result) = head(&timeline.plan);
    let span = |span: turnwheel_engine::picture::Span| api::Span {
        from: time(span.from),
        to: times(span.to),
        kind: word(&span.kind),
        attempt: span.attempt,
    };
    let bars: Vec<_> = timeline.bars.into_iter().filter(|bar| fits(bar)).collect();
    let total = number(bars.len());
    let after = after.map_or((0, 0), |place| {
        let place = u128::from_be_bytes(place);
        (place >> 32, place as u32 as usize)
    });
    let mut spans_left = SPANS.max(limit * SPANS_FOR_EACH);
    let (mut page, mut next) = (Vec::new(), None);
    for bar in bars {
        let began = bar.spans.first().map_or(0, |span| span.from.0);
        let key = (u128::from(began) << 32) | u128::from(bar.step.0);
        let before = if key == after.0 { after.1 } else { 0 };
        // Nothing is left of it, also if it is where the page before has ended.
        if key < after.0 || before >= bar.spans.len() {
            continue;
        }
        let at = |told: usize| {
            let place = (key << 32) | u128::from(number(told));
            Some(cursor::write(List::Timeline, &place.to_be_bytes()))
        };
        if page.len() == limit || spans_left == 0 {
            next = at(before);
            break;
        }
        let all = bar.spans.len();
        let told = all.min(before + spans_left);
        spans_left -= told - before;
        page.push(api::Bar {
            step: bar.step.0,
            action: bar.action.0,
            name: bar.name,
            phase: bar.kind.name().to_owned(),
            state: bar.state.name().to_owned(),
            spans_before: number(before),
            spans: bar.spans.into_iter().skip(before).take(told - before).map(span).collect(),
        });
        if told < all {
            next = at(told);
            break;
        }
    }
    let (from, until) = (time(timeline.from), time(timeline.until));
    api::Timeline { plan, state, result, from, until, total, bars: page, next }
}

/// The requested part of a list.
pub(super) struct Page<P> {
    pub(super) is_newest_first: bool,
    /// The place that the page before ended with.
    pub(super) after: Option<P>,
    pub(super) limit: usize,
}

impl<P: Copy + Ord> Page<P> {
    /// The part of a list that is in the order of its places, oldest first; and the place of the last one
    /// if there are more.
    fn of<T>(&self, all: Vec<(P, T)>) -> (Vec<T>, Option<P>) {
        let is_after = |place: P| match self.after {
            None => true,
            Some(after) if self.is_newest_first => place < after,
            Some(after) => place > after,
        };
        let wanted: Vec<(P, T)> = all.into_iter().filter(|(place, _)| is_after(*place)).collect();
        let has_more = wanted.len() > self.limit;
        let (mut page, mut last) = (Vec::new(), None);
        let mut take = |(place, one)| {
            last = Some(place);
            page.push(one);
        };
        if self.is_newest_first {
            wanted.into_iter().rev().take(self.limit).for_each(&mut take);
        } else {
            wanted.into_iter().take(self.limit).for_each(&mut take);
        }
        (page, last.filter(|_| has_more))
    }
}

/// All that happened: a page of it.
pub(super) fn history(history: PlanHistory, page: Page<Cursor>) -> api::History {
    let plan = history.plan.id.to_string();
    let total = history.happenings.len() as u64 + history.left_out;
    let all = history.happenings.into_iter().map(|one| (one.cursor, one)).collect();
    let (happenings, next) = page.of(all);
    let next = next.map(|place: Cursor| {
        let place = [&place.seq.to_be_bytes()[..], &place.nth.to_be_bytes()].concat();
        cursor::write(List::History, &place)
    });
    let happenings = happenings.into_iter().map(happening).collect();
    api::History { plan, total, left_out: history.left_out, happenings, next }
}

/// Each call, or each of one step: a page of them. The place of a call is its number in the plan.
pub(super) fn calls(history: PlanHistory, step: Option<StepId>, page: Page<u64>) -> api::Calls {
    let call = |call: turnwheel_engine::picture::CallSpan| api::CallInfo {
        step: call.step.0,
        call: call.call,
        attempt: call.attempt,
        why: call.why,
        began: time(call.began),
        admitted: times(call.admitted),
        ended: times(call.ended),
        ran_ms: ms(Duration::from_micros(call.ran_us)),
        state: call.state.name().to_owned(),
        error: call.error.as_ref().map(show::error),
        is_revert: call.is_revert,
    };
    let left_out = history.calls_left_out;
    let all = (left_out..).zip(history.calls);
    let fits = |of: &StepId| step.is_none_or(|step| step == *of);
    let fitting: Vec<_> = all.filter(|(_, call)| fits(&call.step)).collect();
    let (plan, total) = (history.plan.id.to_string(), fitting.len() as u64);
    let (calls, next) = page.of(fitting);
    let next = next.map(|place| cursor::write(List::Calls, &place.to_be_bytes()));
    api::Calls { plan, total, left_out, calls: calls.into_iter().map(call).collect(), next }
}

/// One thing that happened.
pub(super) fn happening(happening: Happening) -> api::HappeningInfo {
    let mut info = api::HappeningInfo {
        cursor: happening.cursor.to_string(),
        plan: happening.plan.to_string(),
        label: happening.label,
        at: time(happening.at),
        what: "note".to_owned(),
        step: None,
        action: None,
        phase: None,
        from: None,
        to: None,
        result: None,
        attempt: None,
        event: None,
        is_forced: None,
        by: happening.by,
        why: said(happening.why),
    };
    match happening.what {
        What::Plan { from, to, result } => {
            info.what = "plan".to_owned();
            info.from = from.map(|state| state.name().to_owned());
            info.to = Some(to.name().to_owned());
            info.result = Some(result.name().to_owned());
        }
        What::Step { step, action, kind, from, to, attempt } => {
            info.what = "step".to_owned();
            (info.step, info.action, info.attempt) = (Some(step.0), Some(action), Some(attempt));
            info.phase = Some(kind.name().to_owned());
            info.from = Some(from.name().to_owned());
            info.to = Some(to.name().to_owned());
        }
        What::Event { step, action, id } => {
            info.what = "event".to_owned();
            (info.step, info.action, info.event) = (Some(step.0), Some(action), id);
        }
        What::Cancel { is_forced } => {
            info.what = "cancel".to_owned();
            info.is_forced = Some(is_forced);
        }
        _ => {}
    }
    info
}
