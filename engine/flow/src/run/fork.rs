//! Branches that are run at once, and races of them.

use serde_json::Value;

use super::machine::{Machine, Turn};
use super::state::{merged, Outcome};
use crate::fault::Fault;
use crate::model::Directive;

impl Machine<'_> {
    /// A branch is over.
    pub(super) fn branch_ended(
        &mut self,
        part: u32,
        outcome: Outcome,
        branches: usize,
        is_race: bool,
    ) -> Result<Turn, Fault> {
        let fault = outcome.fault.clone();
        match fault {
            Some(fault) if !is_race => return Err(fault),
            // A branch that is left out has not run: it cannot win.
            None if (is_race && !outcome.is_skipped) || outcome.then == Directive::End => {
                self.cursor.context = outcome.context.or(self.cursor.context.take());
                return match outcome.then {
                    Directive::End => self.ended(outcome.output),
                    _ => self.done(outcome.output),
                };
            }
            _ => {}
        }
        self.cursor.branches.insert(part, outcome);
        if self.cursor.branches.len() < branches {
            return Ok(self.wait());
        }
        // In the order of the branches, so that nothing depends on which one was faster.
        let ended = std::mem::take(&mut self.cursor.branches);
        let mut outputs = Vec::new();
        for outcome in ended.into_values() {
            if let Some(fault) = outcome.fault {
                return Err(fault);
            }
            if let Some(context) = outcome.context {
                self.cursor.context = Some(merged(self.cursor.context.take(), context));
            }
            outputs.push(outcome.output);
        }
        if is_race {
            // All branches were left out.
            self.env.begun()?;
            return self.done(self.env.input.clone());
        }
        self.done(Value::Array(outputs))
    }
}
