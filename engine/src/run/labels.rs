//! Labels that are changed while the plan is there, also after its end.

use super::decide::Decisions;
use crate::limits::LABELS_MAX;
use crate::plan::Record;

impl Decisions<'_> {
    /// Changes labels; labels that have their value already are skipped.
    pub(super) fn label(
        &mut self,
        mut set: Vec<(String, String)>,
        mut removed: Vec<String>,
        by: &str,
    ) -> Result<(), String> {
        let labels = &self.plan.labels;
        set.retain(|(name, value)| labels.get(name) != Some(value));
        removed.retain(|name| labels.contains_key(name));
        if set.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let new = set.iter().filter(|(name, _)| !labels.contains_key(name)).count();
        if labels.len() + new > LABELS_MAX + removed.len() {
            return Err(format!("it has {} labels, and {LABELS_MAX} are the limit", labels.len()));
        }
        self.record(Record::Labelled { at: self.now, set, removed, by: by.to_owned() });
        Ok(())
    }
}
