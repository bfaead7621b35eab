//! Functions that call themselves whatever they are given: they could only ever fail, however deep.

use std::collections::HashMap;

use super::Reader;
use crate::model::{Directive, Kind, TaskId};
use crate::text::{Node, Place};

/// Functions of a circle that are named.
const WAY_MAX: usize = 10;

impl Reader<'_> {
    /// Tells functions that surely call themselves. `first` is the task of the first of these fields.
    pub(super) fn endless_functions(&mut self, fields: &[(String, Place, Node)], first: TaskId) {
        // Each function surely calls at most one other, so the calls from one are a path. The pass
        // that visited a function is stored: a path that meets its own pass has found a cycle.
        let mut passed: HashMap<TaskId, usize> = HashMap::new();
        for start in 0..fields.len() {
            let mut path = vec![first + start];
            while let Some(&last) = path.last() {
                passed.insert(last, start);
                match self.sure_call(last) {
                    Some(next) if !passed.contains_key(&next) => path.push(next),
                    Some(next) if passed[&next] == start => {
                        let begin = path.iter().position(|id| *id == next).unwrap_or_default();
                        self.tell_circle(fields, &path[begin..], first);
                        break;
                    }
                    _ => break,
                }
            }
        }
    }

    fn tell_circle(&mut self, fields: &[(String, Place, Node)], circle: &[TaskId], first: TaskId) {
        let [begin, ..] = circle else { return };
        let (name, at, _) = &fields[begin - first];
        let way: String =
            circle.iter().take(WAY_MAX).map(|id| format!("{} → ", fields[id - first].0)).collect();
        let left_out = if circle.len() > WAY_MAX { "… → " } else { "" };
        let message = format!("the function «{name}» calls itself for ever: {way}{left_out}{name}");
        let hint = "give a call on this way an «if», so that it ends";
        self.problems.add(*at, message, Some(hint.to_owned()));
    }

    /// The function that a task calls before anything decides whether to.
    fn sure_call(&self, task: TaskId) -> Option<TaskId> {
        let task = &self.tasks[task];
        if task.condition.is_some() {
            return None;
        }
        let block = match &task.kind {
            Kind::Function { task, .. } => return Some(*task),
            Kind::Do(block) => block,
            Kind::Try(careful) => &careful.block,
            _ => return None,
        };
        for &inner in block {
            if let Some(called) = self.sure_call(inner) {
                return Some(called);
            }
            let inner = &self.tasks[inner];
            let goes_on = matches!(inner.kind, Kind::Set(_) | Kind::Wait(_) | Kind::Emit(_));
            if !goes_on || !matches!(inner.then, Directive::Continue) {
                return None;
            }
        }
        None
    }
}
