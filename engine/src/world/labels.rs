//! Labels for searches of plans.

use turnwheel_runtime::Completion;

use super::PlanHandle;
use crate::error::{PlanError, TextTooLong};
use crate::limits::{LABELS_MAX, LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX};
use crate::run::OrderKind;

/// Whether labels can be stored.
pub(crate) fn check_all(labels: &[(String, String)]) -> Result<(), String> {
    if labels.len() > LABELS_MAX {
        return Err(format!("{} labels are given, and {LABELS_MAX} are the limit", labels.len()));
    }
    labels.iter().try_for_each(|(name, value)| check(name, value))
}

fn check(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the name of a label is empty".to_owned());
    }
    let limits = [(name, LABEL_NAME_BYTES_MAX, "name"), (value, LABEL_VALUE_BYTES_MAX, "value")];
    limits.into_iter().try_for_each(|(text, limit, what)| {
        let start: String = name.chars().take(32).collect();
        TextTooLong::check(&format!("{what} of the label «{start}»"), text, limit)
            .map_err(|error| error.to_string())
    })
}

impl PlanHandle {
    /// Gives the plan a label, or another value of it; also when the plan is over.
    ///
    /// # Errors
    ///
    /// There is no such plan, it has [too many](crate::limits::LABELS_MAX), or the label is too long.
    pub fn label(
        &self,
        name: impl Into<String>,
        value: impl Into<String>,
        by: &str,
    ) -> Completion<Result<(), PlanError>> {
        let (name, value) = (name.into(), value.into());
        if let Err(problem) = check(&name, &value) {
            return Completion::done(Err(PlanError::Refused { plan: self.id(), problem }));
        }
        self.order(OrderKind::Label { set: vec![(name, value)], removed: Vec::new() }, by)
    }

    /// Takes a label from the plan; nothing happens if it has none of this name.
    ///
    /// # Errors
    ///
    /// There is no such plan.
    pub fn remove_label(
        &self,
        name: impl Into<String>,
        by: &str,
    ) -> Completion<Result<(), PlanError>> {
        self.order(OrderKind::Label { set: Vec::new(), removed: vec![name.into()] }, by)
    }
}
