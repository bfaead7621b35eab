//! A plan as tree, graph, timeline and history, and what can be done with it.

use std::time::Duration;

use turnwheel_engine::picture::{
    Can, Edge, EdgeKind, GraphPart, RowNode, RowWhat, SpanKind, StepNode, TreePart,
};
use turnwheel_engine::{
    Action, ActionError, Delay, Next, OutputRef, PlanError, PlanId, PlanState, Planner, StepState,
    Waiting,
};

use crate::common::{error, part, step_of, Part, Play, Theatre};

/// Who can do what: «3 skip retry».
fn able(node: &StepNode) -> String {
    let can = serde_json::to_value(&node.can).expect("it is data");
    let can: Vec<&str> =
        can.as_array().expect("a list").iter().filter_map(|c| c.as_str()).collect();
    format!("{} {}", node.step, can.join(" "))
}

#[test]
fn the_tree_has_children_after_their_parents() {
    let theatre = Theatre::new();
    theatre.script.on("bob", |_| Err(error("pause")));
    let plan = theatre.perform("ann bob");
    let view = theatre.finished(&plan);
    let tree = view.tree();
    let lines: Vec<String> = tree
        .nodes
        .iter()
        .map(|node| {
            format!("{}{} {}", " ".repeat(node.depth as usize), node.name, node.state.name())
        })
        .collect();
    assert_eq!(lines, ["piece success", " play pending", " play error"]);
    assert_eq!((tree.nodes[0].children, tree.nodes[1].steps.len()), (2, 3));
    assert_eq!(tree.plan.can, [Can::Cancel, Can::Halt, Can::Resume, Can::Revert]);
    assert_eq!(tree.plan.waiting, Waiting::Decision);
    let failed = &tree.nodes[2].steps[1];
    assert_eq!(able(failed), format!("{} skip retry edit_input", step_of(&view, "bob")));
    assert_eq!(failed.error.as_ref().map(|error| error.message.as_str()), Some("pause me"));
    assert_eq!((failed.attempts, failed.calls), (1, 1));
    let json = serde_json::to_value(&tree).expect("it is data");
    assert_eq!(json["plan"]["state"], "paused");
    assert_eq!(json["nodes"][2]["steps"][1]["state"], "error");
    assert_eq!(json["plan"]["waiting"], "decision");
}

/// What people can do follows from the state, and is taken when it is done.
#[test]
fn what_can_be_done_is_what_is_taken() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Ok(Next::suspend("a call")));
    let plan = theatre.perform("ann bob");
    let view = theatre.settle(&plan);
    let tree = view.tree();
    assert_eq!(tree.plan.can, [Can::Cancel, Can::CancelNow, Can::Halt, Can::Pause]);
    let waits = &tree.nodes[1].steps[1];
    assert_eq!(
        (waits.can.as_slice(), waits.waits_for.as_str()),
        ([Can::SendEvent].as_slice(), "a call")
    );
    assert!(tree.nodes[2].steps[1].can.is_empty(), "what has not begun can only wait");
    theatre.done(theatre.world.event(plan.id(), waits.step, None, &1)).expect("it is taken");
    theatre.settle(&plan);
    theatre.done(plan.cancel("eve")).expect("it can be");
    let view = theatre.finished(&plan);
    assert!(view.tree().plan.can.is_empty());
    assert!(view.tree().nodes.iter().flat_map(|node| &node.steps).all(|step| step.can.is_empty()));
    // One that is not planned yet.
    let later = theatre.world.delay::<Play>(Delay::frozen(), part("cid"));
    let later = theatre.sim.block_on(later).expect("it ends").expect("it is taken");
    let head = theatre.settle(&later).tree().plan;
    assert_eq!(head.can, [Can::Cancel, Can::Halt, Can::DelayUntil]);
    assert_eq!(head.waiting, Waiting::Permission);
    theatre.done(later.delay_until(None, "eve")).expect("it is allowed");
    theatre.finished(&later);
}

/// Two producers at once, one consumer of both outputs.
struct Funnel;

impl Action for Funnel {
    const NAME: &'static str = "funnel";
    type Input = ();
    type Output = ();
    type Phases = ();

    fn plan(&self, planner: &mut Planner<'_, Self>, (): ()) -> Result<(), ActionError> {
        let mut outputs: Vec<OutputRef<serde_json::Value>> = Vec::new();
        planner.concurrence(|planner| {
            for who in ["ann", "bob"] {
                outputs.push(planner.plan_action::<Play>(part(who))?.output()?);
            }
            Ok(())
        })?;
        let needs = outputs.into_iter().map(Into::into).collect();
        planner.plan_action::<Play>(Part { who: "cid".to_owned(), needs })?;
        Ok(())
    }
}

#[test]
fn the_graph_says_who_waits_for_whom_and_why() {
    let theatre = Theatre::with(|_| {}, |builder| builder.action(Funnel));
    let plan = theatre.sim.block_on(theatre.world.trigger::<Funnel>(())).unwrap().unwrap();
    let view = theatre.finished(&plan);
    let graph = view.graph();
    assert_eq!(graph.nodes.len(), 6, "three run steps and three finalize steps");
    let [ann, bob, cid] = ["ann", "bob", "cid"].map(|who| step_of(&view, who).0);
    let outputs: Vec<(u32, u32)> = graph
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::Output)
        .map(|edge| (edge.from, edge.to))
        .collect();
    assert_eq!(outputs, [(ann, cid), (bob, cid)]);
    let end = graph.joints.iter().find(|joint| joint.ends_run).expect("it has finalize steps");
    let after = |node: u32| graph.edges.iter().filter(move |edge| edge.from == node);
    let joint = after(cid).next().expect("it is before the end").to;
    assert!(joint == end.node || after(joint).any(|edge| edge.to == end.node));
    // From the begin every node is reached: nothing hangs in the air.
    let known: Vec<u32> = graph.nodes.iter().map(|node| node.step.0).collect();
    let is_known = |node: u32| known.contains(&node) || graph.joints.iter().any(|j| j.node == node);
    assert!(graph.edges.iter().all(|edge| is_known(edge.from) && is_known(edge.to)));
}

#[test]
fn two_wide_parts_have_a_joint_between_them() {
    let theatre = Theatre::new();
    let plan = theatre.perform("a|b|c d|e|f");
    let graph = theatre.finished(&plan).graph();
    let between = graph.edges.iter().filter(|edge| edge.kind == EdgeKind::Order).count();
    // 3 + 3 around the joint, 3 to the end of the run phase by a joint, 6 in a row to finalize.
    assert!(between < 20, "{between} edges");
    assert!(graph.joints.iter().any(|joint| !joint.ends_run));
}

#[test]
fn the_history_has_each_call_with_its_times() {
    let theatre = Theatre::with(|play| play.attempts = 2, |builder| builder);
    theatre.script.on("ann", |step| match (step.attempt(), step.has_event()) {
        (1, _) => Err(error("pause")),
        (_, false) => {
            step.event_after(Duration::from_secs(7), &1)?;
            Ok(Next::suspend("a call"))
        }
        _ => Ok(Next::Done),
    });
    let plan = theatre.perform("ann");
    let ann = step_of(&theatre.settle(&plan), "ann");
    let history = theatre.sim.block_on(plan.history()).unwrap().unwrap();
    assert_eq!(history.calls_of(ann).count(), 1);
    theatre.sim.advance(Duration::from_secs(30));
    let view = theatre.finished(&plan);
    let history = theatre.sim.block_on(plan.history()).unwrap().unwrap();
    let calls: Vec<_> = history.calls_of(ann).collect();
    let states: Vec<StepState> = calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [StepState::Retrying, StepState::Suspended, StepState::Success]);
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 2]);
    assert_eq!(calls[0].error.as_ref().map(|error| error.kind.as_str()), Some("pause"));
    assert_eq!(calls[2].why, "an event");
    assert!(calls[1].began.since(calls[0].began) >= Duration::from_secs(10));
    assert_eq!(calls[2].began.since(calls[1].ended.expect("it is over")), Duration::from_secs(7));
    // The same as a timeline.
    let timeline = history.timeline();
    let bar = timeline.bars.iter().find(|bar| bar.step == ann).expect("it has begun");
    let kinds: Vec<SpanKind> = bar.spans.iter().map(|span| span.kind).collect();
    let (runs, waits) = (SpanKind::Running, SpanKind::Waiting);
    assert_eq!(kinds, [runs, SpanKind::Retrying, runs, waits, runs]);
    assert!(bar.spans.windows(2).all(|pair| pair[0].to == Some(pair[1].from)));
    assert_eq!(bar.spans.last().and_then(|span| span.to), view.step(ann).ended_at);
    // The plan alone knows the whole only.
    let whole = view.timeline();
    let bar = whole.bars.iter().find(|bar| bar.step == ann).expect("it has begun");
    assert_eq!((bar.spans.len(), bar.spans[0].kind), (1, SpanKind::Whole));
    assert_eq!((whole.from, whole.until), (timeline.from, timeline.until));
    assert_eq!(
        history.happenings.last().and_then(|one| one.plan_state()),
        Some(PlanState::Stopped)
    );
    serde_json::to_string(&(history, timeline)).expect("it is data");
}

/// Also after the plan was stored as a whole, and left memory.
#[test]
fn the_history_survives_a_crash_and_has_the_places_that_listeners_know() {
    let theatre = Theatre::new();
    theatre.script.on("ann", |_| Err(error("pause")));
    let plan = theatre.perform("ann");
    theatre.finished(&plan);
    theatre.done(plan.skip(step_of(&theatre.settle(&plan), "ann"), "eve")).expect("it has failed");
    let before = theatre.sim.block_on(plan.history()).unwrap().unwrap();
    let theatre = theatre.crash();
    let plan = theatre.world.plan(plan.id());
    let after = theatre.sim.block_on(plan.history()).unwrap().unwrap();
    assert_eq!(after.happenings, before.happenings);
    assert_eq!((&after.calls, after.left_out), (&before.calls, 0));
    let last = after.happenings.last().expect("there is one");
    assert!(after.happenings.iter().any(|one| one.by.as_deref() == Some("eve")));
    let filter = turnwheel_engine::watch::WatchFilter::new().after(last.cursor);
    let mut watch = theatre.world.watch(filter);
    theatre.done(plan.resume("eve")).expect("it is paused");
    let next = theatre.sim.block_on(async move { watch.next().await }).unwrap().unwrap().unwrap();
    let turnwheel_engine::watch::Watched::Happened(next) = next else { panic!("{next:?}") };
    assert_eq!(next.plan_state(), Some(PlanState::Running));
}

#[test]
fn a_plan_that_is_not_there_has_no_history() {
    let theatre = Theatre::new();
    let nobody = theatre.world.plan(PlanId::from_bytes([9; 16]));
    let history = theatre.sim.block_on(nobody.history()).unwrap();
    assert!(matches!(history, Err(PlanError::Unknown(_))));
}

#[test]
fn a_tree_is_read_part_by_part() {
    let theatre = Theatre::new();
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    let plan = theatre.perform(&names.join(" "));
    let view = theatre.finished(&plan);
    let all = view.tree();
    assert_eq!((all.nodes.len(), all.next), (31, None));
    let root = all.nodes[0].action;
    // Its levels.
    let top = view.tree_part(TreePart::all().depth(0));
    assert_eq!((top.nodes.len(), top.nodes[0].children, top.next), (1, 30, None));
    assert_eq!(view.tree_part(TreePart::all().depth(1)).nodes, all.nodes);
    // One branch of it, with its depth in the plan.
    let one = view.tree_part(TreePart::all().under(all.nodes[7].action));
    assert_eq!((one.nodes.as_slice(), one.nodes[0].depth), (&all.nodes[7..8], 1));
    assert_eq!(view.tree_part(TreePart::all().under(root)).nodes, all.nodes);
    // Page by page.
    let (mut seen, mut part) = (Vec::new(), TreePart::all().limit(7));
    loop {
        let page = view.tree_part(part);
        assert!(page.nodes.len() <= 7);
        seen.extend(page.nodes);
        let Some(next) = page.next else { break };
        part = part.after(next);
    }
    assert_eq!(seen, all.nodes);
    // One action is shown as it is among all.
    let shown = theatre.world.present(&view);
    for action in &shown.actions {
        assert_eq!(theatre.world.present_action(&view, action.id).as_ref(), Some(action));
    }
    assert_eq!(theatre.world.present_action(&view, turnwheel_engine::ActionId(99)), None);
}

#[test]
fn a_graph_is_read_row_by_row_and_part_by_part() {
    let theatre = Theatre::new();
    theatre.script.on("p17", |_| Err(error("pause")));
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    let plan = theatre.perform(&format!("{} a|b {}", names.join("|"), names.join("|")));
    let view = theatre.finished(&plan);
    let (graph, all) = (view.graph(), view.graph_part(GraphPart::all()));
    assert_eq!(all.next, None);
    assert_eq!(all.steps as usize, graph.nodes.len());
    assert_eq!(all.nodes.len(), graph.nodes.len() + graph.joints.len());
    let mut edges = all.edges.clone();
    edges.sort_unstable();
    assert_eq!(edges, graph.edges);
    // Each is below what it waits for.
    let row = |node: u32| all.nodes.iter().find(|one| one.node == node).expect("it is there").row;
    assert!(all.edges.iter().all(|edge| row(edge.from) < row(edge.to)));
    assert_eq!(all.nodes.last().map(|node| node.row + 1), Some(all.rows));
    // The parts are the whole, whatever their size.
    for beside in [usize::MAX, 4] {
        let whole = view.graph_part(GraphPart::all().beside(beside));
        for limit in [1, 3, 7, 50] {
            let (mut nodes, mut edges) = (Vec::<RowNode>::new(), Vec::<Edge>::new());
            let mut part = GraphPart::all().beside(beside).limit(limit);
            loop {
                let page = view.graph_part(part);
                assert!(page.nodes.len() <= limit && page.edges.len() <= 4 * limit);
                assert!(!page.nodes.is_empty() || !page.edges.is_empty());
                nodes.extend(page.nodes);
                edges.extend(page.edges);
                let Some(next) = page.next else { break };
                part = part.after(next);
            }
            assert_eq!((nodes, edges), (whole.nodes.clone(), whole.edges.clone()), "{limit}");
        }
    }
    // A wide row shows what needs somebody, and how many others there are.
    let folded = view.graph_part(GraphPart::all().beside(4));
    let first: Vec<&RowNode> = folded.nodes.iter().filter(|node| node.row == 0).collect();
    let failed = step_of(&view, "p17").0;
    assert_eq!(first.len(), 5);
    assert!(first.iter().any(|node| node.node == failed));
    let RowWhat::Rest(states) = &first[4].what else { panic!("{:?}", first[4]) };
    assert_eq!(states.iter().map(|(_, count)| count).sum::<u32>(), 26);
    assert!(folded.edges.len() < all.edges.len());
}
