//! The cases.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use turnwheel_engine::{PlanHandle, StepId};

use super::node::{Node, Order, Said, Until, Wait};
use super::{until, Client, Stage};
use crate::engine::failed;
use crate::error::BenchError;

type Figures = Vec<(&'static str, f64)>;

const STEPS: u32 = 10;
/// Plans under way in all nodes together.
const PLANS: u32 = 256;
/// Rows in a commit of raw inserts.
const BATCH: usize = 128;
/// Plans that are due after their node was killed.
const DUE: usize = 48;
/// From their trigger: their node is gone by then.
const DUE_MS: u64 = 1_000;
/// Plans that get events while nodes drain.
const TALKERS: usize = 48;
/// Between two events to one of them.
const PAUSE: Duration = Duration::from_millis(30);
/// The run step of a plan whose root action waits.
const STEP: StepId = StepId(2);

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A percentile of figures; 1 is the greatest.
fn at(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let place = (figures.len() as f64 * share).ceil() as usize;
    figures.get(place.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Steps a second of nodes that run plans of their own, and the worst of their 99th percentiles.
fn loaded(stage: &Stage<'_>, nodes: &mut [Node]) -> Result<(f64, f64), BenchError> {
    let plans = PLANS / nodes.len() as u32;
    let order = Order::Load { steps: STEPS, plans, ms: stage.options.seconds * 1_000 };
    nodes.iter_mut().try_for_each(|node| node.order(&order))?;
    let (mut sum, mut worst) = (0.0, 0.0_f64);
    for node in nodes {
        let Said::Loaded { steps, seconds, p99_us } = node.hear()? else {
            return Err(failed(&"a node has run no plans"));
        };
        sum += steps as f64 / seconds;
        worst = worst.max(p99_us);
    }
    Ok((sum, worst))
}

/// One node and three, on the same cores as their database.
pub(super) fn throughput(stage: &Stage<'_>) -> Result<Figures, BenchError> {
    let mut nodes = stage.nodes(1)?;
    let (one, one_p99_us) = loaded(stage, &mut nodes)?;
    let bytes = stage.database.entry_bytes(&stage.schema)?;
    nodes.extend(stage.nodes(2)?);
    let client = stage.client()?;
    client.are_even(3)?;
    client.end()?;
    let (three, three_p99_us) = loaded(stage, &mut nodes)?;
    nodes.into_iter().try_for_each(Node::end)?;
    let raw = stage.database.raw_per_s(BATCH, bytes)?;
    Ok(vec![
        ("one_node_steps_per_s", one),
        ("one_node_p99_us", one_p99_us),
        ("three_nodes_steps_per_s", three),
        ("three_nodes_p99_us", three_p99_us),
        ("three_to_one", three / one),
        ("raw_rows_per_s", raw),
        ("entry_bytes", bytes as f64),
    ])
}

/// Plans that are due a moment later, and are of the node that is killed.
fn due_at(client: &Client, node: u64) -> Result<Vec<PlanHandle>, BenchError> {
    let trigger = |_| client.world.trigger::<Wait>(Until { ms: Some(DUE_MS) });
    let made: Vec<_> = (0..DUE).map(trigger).collect();
    let mut plans = Vec::new();
    for plan in made {
        let plan = plan.wait().map_err(|error| failed(&error))?;
        if client.world.owner_of(plan.id()) == Some(node) {
            plans.push(plan);
        }
    }
    Ok(plans)
}

fn finished(plan: &PlanHandle) -> Result<(), BenchError> {
    plan.finished().wait().map(drop).map_err(|error| failed(&error))
}

/// From a kill to the ends of the plans of that node, which are due within its lease.
pub(super) fn kill(stage: &Stage<'_>) -> Result<Figures, BenchError> {
    let (mut nodes, client) = (stage.nodes(3)?, stage.client()?);
    let (mut all, mut worst) = (Vec::new(), Vec::new());
    for _ in 0..stage.options.repetitions {
        client.are_even(nodes.len())?;
        let victim = nodes.remove(0);
        let plans = due_at(&client, victim.world)?;
        let begin = Instant::now();
        victim.kill()?;
        let mut each = Vec::new();
        for plan in &plans {
            finished(plan)?;
            each.push(ms(begin));
        }
        worst.push(at(&mut each, 1.0));
        all.append(&mut each);
        nodes.push(stage.node()?);
    }
    client.end()?;
    nodes.into_iter().try_for_each(Node::end)?;
    Ok(vec![
        ("kills", f64::from(stage.options.repetitions)),
        ("plans", all.len() as f64),
        ("to_due_plans_p50_ms", at(&mut all, 0.5)),
        ("to_due_plans_p99_ms", at(&mut all, 0.99)),
        ("to_due_plans_max_ms", at(&mut all, 1.0)),
        ("last_of_a_kill_min_ms", at(&mut worst, 0.0)),
        ("last_of_a_kill_median_ms", at(&mut worst, 0.5)),
    ])
}

/// Events to one plan, one after the other, until the node is drained. The longest wait in
/// milliseconds while it drains.
fn talk(client: &Client, plan: &PlanHandle, is_over: &AtomicBool) -> Result<f64, BenchError> {
    let (mut longest, mut number) = (0.0_f64, 0_u64);
    while !is_over.load(Ordering::SeqCst) {
        let begin = Instant::now();
        number += 1;
        let id = number.to_string();
        let told = client.world.event(plan.id(), STEP, Some(&id), &());
        told.wait().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        longest = longest.max(ms(begin));
        std::thread::sleep(PAUSE);
    }
    Ok(longest)
}

/// The longest waits of plans while the node that has them drains, and of the others.
pub(super) fn drain(stage: &Stage<'_>) -> Result<Figures, BenchError> {
    let (mut nodes, client) = (stage.nodes(3)?, stage.client()?);
    let (mut moved, mut others, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..stage.options.repetitions {
        client.are_even(nodes.len())?;
        let trigger = |_| client.world.trigger::<Wait>(Until { ms: None });
        let plans: Vec<_> = (0..TALKERS).map(trigger).collect();
        let plans: Result<Vec<_>, _> = plans.into_iter().map(|plan| plan.wait()).collect();
        let plans = plans.map_err(|error| failed(&error))?;
        let victim = nodes.remove(0);
        let of_it = |plan: &PlanHandle| client.world.owner_of(plan.id()) == Some(victim.world);
        let were_its: Vec<bool> = plans.iter().map(of_it).collect();
        let is_over = AtomicBool::new(false);
        let longest = std::thread::scope(|scope| {
            let talks = plans.iter().map(|plan| scope.spawn(|| talk(&client, plan, &is_over)));
            let talks: Vec<_> = talks.collect();
            std::thread::sleep(Duration::from_secs(1));
            let begin = Instant::now();
            let drained = client.world.drain_node(victim.world).wait();
            let drained = drained.map_err(|error| failed(&error)).and_then(|_| {
                until("the node has no slot", || client.slots_of(victim.world) == Some(0))
            });
            lengths.push(ms(begin));
            std::thread::sleep(Duration::from_millis(500));
            is_over.store(true, Ordering::SeqCst);
            let longest = talks.into_iter().map(|talk| talk.join().expect("no panic"));
            let longest: Result<Vec<f64>, BenchError> = longest.collect();
            drained.and(longest)
        })?;
        for (longest, was_its) in longest.into_iter().zip(were_its) {
            if was_its { &mut moved } else { &mut others }.push(longest);
        }
        for plan in &plans {
            let ended = plan.cancel("it was measured").wait().map_err(|error| failed(&error))?;
            ended.map_err(|error| failed(&error))?;
        }
        victim.end()?;
        nodes.push(stage.node()?);
    }
    client.end()?;
    nodes.into_iter().try_for_each(Node::end)?;
    Ok(vec![
        ("plans_that_move", moved.len() as f64),
        ("longest_wait_p50_ms", at(&mut moved, 0.5)),
        ("longest_wait_p99_ms", at(&mut moved, 0.99)),
        ("longest_wait_of_others_p99_ms", at(&mut others, 0.99)),
        ("drain_median_ms", at(&mut lengths, 0.5)),
        ("drain_max_ms", at(&mut lengths, 1.0)),
    ])
}

/// A node with half of many sleeping plans is killed while some of its plans are due.
pub(super) fn takeover(stage: &Stage<'_>) -> Result<Figures, BenchError> {
    let (mut nodes, client) = (stage.nodes(2)?, stage.client()?);
    client.are_even(2)?;
    let begin = Instant::now();
    let order = Order::Sleepers(stage.options.sleepers / 2);
    nodes.iter_mut().try_for_each(|node| node.order(&order))?;
    for node in &mut nodes {
        if !matches!(node.hear()?, Said::Slept) {
            return Err(failed(&"a node has made no plans"));
        }
    }
    let made_s = begin.elapsed().as_secs_f64();
    let victim = nodes.remove(0);
    let gone = victim.world;
    let plans = due_at(&client, gone)?;
    let killed = Instant::now();
    victim.kill()?;
    let schema = &stage.schema;
    let busy =
        stage.database.number(&format!("SELECT count(*) FROM {schema}.plans WHERE is_busy"))?;
    let behind = stage.database.number(&format!(
        "SELECT count(*) FROM (SELECT plan, max(seq) AS last FROM {schema}.journal GROUP BY plan) n
            LEFT JOIN {schema}.plans p ON p.id = n.plan WHERE coalesce(p.head, 0) < n.last"
    ))?;
    until("the node is gone", || client.slots_of(gone).is_none())?;
    let (dead_ms, dead) = (ms(killed), Instant::now());
    let mut each = Vec::new();
    for plan in &plans {
        finished(plan)?;
        each.push(ms(dead));
    }
    client.end()?;
    nodes.into_iter().try_for_each(Node::end)?;
    Ok(vec![
        ("sleepers", stage.options.sleepers as f64),
        ("made_per_s", stage.options.sleepers as f64 / made_s),
        ("busy_rows_at_the_kill", busy as f64),
        ("rows_behind_at_the_kill", behind as f64),
        ("kill_to_dead_ms", dead_ms),
        ("dead_to_due_p50_ms", at(&mut each, 0.5)),
        ("dead_to_due_max_ms", at(&mut each, 1.0)),
    ])
}

/// From the start of a third process to its share of the slots.
pub(super) fn join(stage: &Stage<'_>) -> Result<Figures, BenchError> {
    let (nodes, client) = (stage.nodes(2)?, stage.client()?);
    let mut each = Vec::new();
    for _ in 0..stage.options.repetitions {
        client.are_even(2)?;
        let begin = Instant::now();
        let third = stage.node()?;
        client.are_even(3)?;
        each.push(ms(begin));
        third.end()?;
    }
    client.end()?;
    nodes.into_iter().try_for_each(Node::end)?;
    Ok(vec![
        ("to_fair_share_min_ms", at(&mut each, 0.0)),
        ("to_fair_share_median_ms", at(&mut each, 0.5)),
        ("to_fair_share_max_ms", at(&mut each, 1.0)),
    ])
}

/// Statements a second of nodes without work: each is a transaction of its own.
pub(super) fn idle(stage: &Stage<'_>) -> Result<Figures, BenchError> {
    const COUNT: &str = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database
        WHERE datname = current_database()";
    let length = Duration::from_secs(stage.options.seconds);
    let mut figures = Vec::new();
    let mut nodes = Vec::new();
    for (metric, count) in [("one_node_per_s", 1_usize), ("three_nodes_per_s_each", 3)] {
        while nodes.len() < count {
            nodes.push(stage.node()?);
        }
        // Counters of idle connections are published after a second or so.
        std::thread::sleep(Duration::from_secs(12));
        let (before, begin) = (stage.database.number(COUNT)?, Instant::now());
        std::thread::sleep(length);
        let statements = (stage.database.number(COUNT)? - before) as f64;
        figures.push((metric, statements / begin.elapsed().as_secs_f64() / count as f64));
    }
    nodes.into_iter().try_for_each(Node::end)?;
    Ok(figures)
}
