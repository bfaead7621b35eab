//! The live tree of a plan on a terminal.

use std::io::{self, IsTerminal};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use turnwheel::engine::picture::state_of;
use turnwheel::engine::plan::ActionData;
use turnwheel::engine::{PlanId, PlanView, StepState, World};

use super::paint::{one_line, tell};
use super::words::{plain, task};

/// Lines of the tree, at most: running actions go before finished ones.
const LINES: usize = 20;

/// Shows how far a plan is, as long as it runs.
pub(crate) struct Progress {
    lines: Option<(MultiProgress, ProgressBar, Vec<ProgressBar>)>,
}

impl Progress {
    /// For a plan; shows nothing unless standard error is a terminal.
    pub(crate) fn new(plan: PlanId, is_quiet: bool) -> Self {
        if is_quiet {
            return Self { lines: None };
        }
        tell!("plan {plan}; Ctrl-C stops it here, turnwheel resume last goes on");
        if !io::stderr().is_terminal() {
            return Self { lines: None };
        }
        let all = MultiProgress::new();
        let bar = all.add(ProgressBar::new(1_000));
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { lines: Some((all, bar, Vec::new())) }
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.lines.is_some()
    }

    pub(crate) fn show(&mut self, world: &World, view: &PlanView) {
        let Some((all, bar, lines)) = &mut self.lines else { return };
        // A step that plans more steps makes the share of those that are done smaller.
        let done = (view.progress() * 1_000.0) as u64;
        bar.set_position(done.max(bar.position()));
        bar.set_message(one_line(&plain(&view.waits_for())));
        let tree = tree(world, view);
        while lines.len() < tree.len() {
            let line = all.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{wide_msg}");
            line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            lines.push(line);
        }
        for (place, line) in lines.iter().enumerate() {
            line.set_message(tree.get(place).cloned().unwrap_or_default());
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some((all, _, _)) = self.lines.take() {
            // If the terminal does not take it, there is nothing to clear.
            let _ = all.clear();
        }
    }
}

/// The actions under those that planned them, up to the maximum number of lines.
fn tree(world: &World, view: &PlanView) -> Vec<String> {
    let state = |action: &ActionData| {
        let step = action.run_step.or(action.plan_step)?;
        view.find_step(step).map(|step| state_of(action, step))
    };
    let shown = world.present(view);
    let mut depths = vec![0_usize; view.actions.len() + 1];
    let mut lines = Vec::new();
    for (action, shown) in view.actions.iter().zip(&shown.actions) {
        let depth = action.parent.map_or(0, |parent| depths[parent.0 as usize] + 1);
        depths[action.id.0 as usize] = depth;
        let state = state(action).unwrap_or(StepState::Pending);
        let sign = match state {
            StepState::Success => "✓",
            StepState::Error | StepState::RevertFailed => "✗",
            StepState::Pending => "·",
            state if state.is_live() => "▶",
            _ => "-",
        };
        let line = format!(
            "{}{sign} {} {}",
            "  ".repeat(depth),
            one_line(&task(&shown.name)),
            shown.state
        );
        lines.push((state.is_live(), line));
    }
    let mut left_out = lines.len().saturating_sub(LINES);
    let mut kept = Vec::new();
    for (is_live, line) in lines {
        if left_out > 0 && !is_live {
            left_out -= 1;
        } else {
            kept.push(line);
        }
    }
    kept.truncate(LINES);
    kept
}
