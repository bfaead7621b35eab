//! A task with what extends it: the parts before, the task itself, the parts after.
//!
//! The parts leave the data alone, unless one before the task says `exit`: its output stands for the task
//! then. Directives with names lead within the list that they are in.

use serde_json::{Map, Value};

use super::machine::{Machine, Told, Turn};
use super::state::{Extends, Notice, Outcome};
use crate::fault::Fault;
use crate::model::{Directive, Task, TaskId};
use crate::scope::Stage;

/// Role of a list of parts in the task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    Itself,
    After,
}

impl Machine<'_> {
    pub(super) fn extended(&mut self, is_new: bool, told: Told) -> Result<Turn, Fault> {
        let Some(task) = self.env.task else {
            return Err(Fault::runtime("a workflow cannot be extended"));
        };
        if is_new {
            if !matches!(told, Told::Begin) {
                return Ok(Turn::Wait("nothing".to_owned()));
            }
            self.choose_extensions(task)?;
            self.cursor.began = self.env.around.now.0;
            self.cursor.value = self.env.raw.clone();
            return self.extended_go_to(0);
        }
        if let Some(context) = &self.cursor.context {
            self.env.context = context.clone();
        }
        let (part, outcome) = match told {
            Told::Part(part, outcome) => (part, outcome.unwrap_or_default()),
            Told::Notice(Notice::Late(part)) if part == self.cursor.part => {
                let fault = Fault::timeout("the task takes too long").from_task(&task.pointer);
                self.asks.drops.push((part, Some(fault.clone())));
                (part, Outcome::fault(fault))
            }
            _ => return Ok(self.wait()),
        };
        if part != self.cursor.part {
            return Ok(self.wait());
        }
        if outcome.fault.is_some() {
            return Ok(Turn::Done(outcome));
        }
        self.extended_part_ended(task, outcome)
    }

    fn choose_extensions(&mut self, task: &Task) -> Result<(), Fault> {
        for (index, extension) in self.env.flow.extensions.iter().enumerate() {
            let is_meant = extension.extend == "all" || extension.extend == task.kind.extended_as();
            let applies = match &extension.when {
                Some(when) if is_meant => self.env.holds(when, self.env.raw, Stage::Condition)?,
                _ => is_meant,
            };
            if applies {
                self.cursor.extensions.push(index);
            }
        }
        Ok(())
    }

    fn extended_part_ended(&mut self, task: &Task, outcome: Outcome) -> Result<Turn, Fault> {
        if let Some(context) = outcome.context {
            self.env.context = context.clone();
            self.cursor.context = Some(context);
        }
        let Some((side, begin, list)) = self.extended_list() else { return self.extended_end() };
        if side == Side::Itself {
            self.cursor.value = outcome.output;
            self.cursor.then = outcome.then;
            return self.extended_go_to(self.cursor.index + 1);
        }
        match (outcome.then, side) {
            (Directive::Continue, _) => self.extended_go_to(self.cursor.index + 1),
            (Directive::Exit, Side::After) => self.extended_go_to(begin + list.len()),
            (Directive::Exit, _) => {
                // The extension stands for the task.
                let then = task.then.clone();
                let outcome = Outcome { then, ..Outcome::of(outcome.output) };
                Ok(Turn::Done(self.with_context(outcome)))
            }
            (Directive::End, _) => {
                let outcome = Outcome { then: Directive::End, ..Outcome::of(outcome.output) };
                Ok(Turn::Done(self.with_context(outcome)))
            }
            (Directive::To(name), _) => {
                let flow = self.env.flow;
                let place = list.iter().position(|id| flow.task(*id).name == name);
                let place = place.ok_or_else(|| {
                    Fault::configuration(format!("there is no task «{name}» here"))
                })?;
                self.extended_go_to(begin + place)
            }
        }
    }

    /// All lists of parts, in their order.
    fn extended_lists(&self) -> Vec<(Side, Vec<TaskId>)> {
        let all = self.cursor.extensions.iter().map(|index| &self.env.flow.extensions[*index]);
        let own = self.env.flow.by_pointer.get(self.env.pointer()).copied();
        let before = all.clone().map(|extension| (Side::Before, extension.before.clone()));
        let after = all.map(|extension| (Side::After, extension.after.clone()));
        before.chain([(Side::Itself, own.into_iter().collect())]).chain(after).collect()
    }

    /// The list that is under way, and where it begins among all parts.
    fn extended_list(&self) -> Option<(Side, usize, Vec<TaskId>)> {
        let mut begin = 0;
        for (side, list) in self.extended_lists() {
            if self.cursor.index < begin + list.len() {
                return Some((side, begin, list));
            }
            begin += list.len();
        }
        None
    }

    pub(super) fn extended_part(&self) -> Option<TaskId> {
        let (_, begin, list) = self.extended_list()?;
        list.get(self.cursor.index - begin).copied()
    }

    fn extended_go_to(&mut self, index: usize) -> Result<Turn, Fault> {
        self.cursor.index = index;
        let Some(id) = self.extended_part() else { return self.extended_end() };
        self.cursor.part += 1;
        // The task's own limit is watched by who has asked for all of it.
        self.ask(id, self.cursor.part, self.cursor.value.clone(), Map::new())?;
        Ok(self.wait())
    }

    fn extended_end(&self) -> Result<Turn, Fault> {
        let then = self.cursor.then.clone();
        let outcome = Outcome { then, ..Outcome::of(self.cursor.value.clone()) };
        Ok(Turn::Done(self.with_context(outcome)))
    }

    /// Data for a part about the task that it extends; parts of parts get the same.
    pub(super) fn extends_for(&self, part: &Task) -> Option<Box<Extends>> {
        if !self.is_extended {
            return self.env.extends.cloned().map(Box::new);
        }
        let is_after = matches!(self.extended_list(), Some((Side::After, _, _)));
        part.is_of_extension.then(|| {
            Box::new(Extends {
                at: self.env.pointer().to_owned(),
                input: self.env.raw.clone(),
                output: if is_after { self.cursor.value.clone() } else { Value::Null },
                began: self.cursor.began,
            })
        })
    }
}
