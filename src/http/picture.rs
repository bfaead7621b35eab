//! The engine's pictures of a plan, and what happens to plans, in the shapes of the API.

use std::time::Duration;

use turnwheel_engine::picture::{
    EdgeKind, PlanGraph, PlanHead, PlanHistory, PlanTimeline, PlanTree, StepNode,
};
use turnwheel_engine::watch::{Happening, What};

use super::cursor::{self, List};
use super::show::{self, error, ms, names, said, time, times};
use crate::api;

/// The name of a variant, as it is written.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn head(head: &PlanHead) -> (String, String, String) {
    (head.id.to_string(), head.state.name().to_owned(), head.result.name().to_owned())
}

fn node(node: StepNode) -> api::Node {
    api::Node {
        id: node.step.0,
        phase: node.kind.name().to_owned(),
        action: node.action.0,
        name: node.name,
        state: node.state.name().to_owned(),
        progress: f64::from(node.progress) / 1_000.0,
        attempts: node.attempts,
        started_at: times(node.started_at),
        ended_at: times(node.ended_at),
        ran_ms: ms(Duration::from_micros(node.ran_us)),
        waits_for: said(node.waits_for),
        error: node.error.as_ref().map(error),
        possible: names(&node.can),
    }
}

/// Which step waits for which.
pub(super) fn graph(graph: PlanGraph) -> api::Graph {
    let (plan, state, result) = head(&graph.plan);
    let edge = |edge: &turnwheel_engine::picture::Edge| api::Edge {
        from: edge.from,
        to: edge.to,
        kind: if edge.kind == EdgeKind::Output { "output" } else { "flow" }.to_owned(),
    };
    api::Graph {
        plan,
        state,
        result,
        joints: graph.joints.iter().map(|joint| joint.node).collect(),
        edges: graph.edges.iter().map(edge).collect(),
        nodes: graph.nodes.into_iter().map(node).collect(),
    }
}

/// Who planned whom: a page of those that fit.
pub(super) fn tree(
    tree: PlanTree,
    fits: impl Fn(&turnwheel_engine::picture::TreeNode) -> bool,
    from: usize,
    limit: usize,
) -> api::Tree {
    let (plan, state, result) = head(&tree.plan);
    let of = |of: turnwheel_engine::picture::TreeNode| api::TreeNode {
        action: of.action.0,
        name: of.name,
        version: of.version,
        parent: of.parent.map(|parent| parent.0),
        depth: of.depth,
        children: of.children,
        state: of.state.name().to_owned(),
        steps: of.steps.into_iter().map(node).collect(),
    };
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let fitting: Vec<_> = tree.nodes.into_iter().filter(|node| fits(node)).collect();
    let (total, end) = (fitting.len(), from.saturating_add(limit));
    let next = (end < total).then(|| cursor::write(List::Tree, &number(end).to_be_bytes()));
    let nodes = fitting.into_iter().skip(from).take(limit).map(of).collect();
    api::Tree { plan, state, result, total: number(total), from: number(from), nodes, next }
}

/// When each step did what.
pub(super) fn timeline(timeline: PlanTimeline) -> api::Timeline {
    let (plan, state, result) = head(&timeline.plan);
    let span = |span: turnwheel_engine::picture::Span| api::Span {
        from: time(span.from),
        to: times(span.to),
        kind: word(&span.kind),
        attempt: span.attempt,
    };
    let bar = |bar: turnwheel_engine::picture::Bar| api::Bar {
        step: bar.step.0,
        action: bar.action.0,
        name: bar.name,
        phase: bar.kind.name().to_owned(),
        state: bar.state.name().to_owned(),
        spans: bar.spans.into_iter().map(span).collect(),
    };
    api::Timeline {
        plan,
        state,
        result,
        from: time(timeline.from),
        until: time(timeline.until),
        bars: timeline.bars.into_iter().map(bar).collect(),
    }
}

/// All that happened, and each call.
pub(super) fn history(history: PlanHistory) -> api::History {
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
    api::History {
        plan: history.plan.id.to_string(),
        left_out: history.left_out,
        happenings: history.happenings.into_iter().map(happening).collect(),
        calls: history.calls.into_iter().map(call).collect(),
    }
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
