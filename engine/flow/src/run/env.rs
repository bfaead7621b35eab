//! Variables of a task's expressions, and the path of data through a task.

use std::sync::Arc;

use serde_json::{json, Map, Value};
use turnwheel_engine::{Payload, PlanId, Time};

use super::state::{Extends, Outcome, TaskInput};
use crate::duration;
use crate::expr::{Failure, Template};
use crate::fault::Fault;
use crate::model::{Directive, Span, Task, Transform};
use crate::scope::Stage;
use crate::Definition;

/// Facts about the plan around a task.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) plan: PlanId,
    /// The idempotency key of the step: the same in each of its turns, and for no other one.
    pub(crate) key: String,
    pub(crate) created_at: Time,
    pub(crate) now: Time,
    /// The input of the plan's root.
    pub(crate) root: Payload,
    /// The items of the loop that the task is, if they are known from its turns before.
    pub(crate) items: Option<Arc<Vec<Value>>>,
}

/// A task that is being run, and what its expressions see.
pub(crate) struct Env<'a> {
    pub(crate) flow: &'a Definition,
    /// The task; nothing for the workflow itself.
    pub(crate) task: Option<&'a Task>,
    pub(crate) around: &'a Around,
    /// The raw input.
    pub(crate) raw: &'a Value,
    /// The transformed input.
    pub(crate) input: Value,
    /// The context; nothing as long as nobody has exported one.
    pub(crate) context: Value,
    pub(crate) vars: Map<String, Value>,
    /// The transformed output, once there is one.
    pub(crate) output: Value,
    /// The raw output, likewise.
    pub(crate) raw_output: Value,
    pub(crate) secrets: Option<Value>,
    pub(crate) authorization: Value,
    /// When the task began.
    pub(crate) began: Time,
    /// Current time of expressions.
    pub(crate) clock: Time,
    /// The context as it was when the task began.
    pub(crate) first_context: Option<&'a Value>,
    /// Whether the transformed input is known.
    pub(crate) has_begun: bool,
    /// The task that it is before or after.
    pub(crate) extends: Option<&'a Extends>,
}

impl<'a> Env<'a> {
    pub(crate) fn of_task(
        flow: &'a Definition,
        task: &'a Task,
        around: &'a Around,
        input: &'a TaskInput,
    ) -> Self {
        Self {
            flow,
            task: Some(task),
            around,
            raw: &input.raw,
            input: Value::Null,
            context: input.context.clone(),
            vars: input.vars.clone(),
            output: Value::Null,
            raw_output: Value::Null,
            secrets: None,
            authorization: Value::Null,
            began: around.now,
            clock: around.now,
            first_context: Some(&input.context),
            has_begun: false,
            extends: input.extends.as_deref(),
        }
    }

    pub(crate) fn of_workflow(flow: &'a Definition, around: &'a Around, raw: &'a Value) -> Self {
        Self {
            flow,
            task: None,
            around,
            raw,
            input: Value::Null,
            context: Value::Null,
            vars: Map::new(),
            output: Value::Null,
            raw_output: Value::Null,
            secrets: None,
            authorization: Value::Null,
            began: around.now,
            clock: around.now,
            first_context: None,
            has_begun: false,
            extends: None,
        }
    }

    /// Its place, for errors.
    pub(crate) fn pointer(&self) -> &str {
        self.task.map_or("", |task| &task.pointer)
    }

    pub(crate) fn definition_stage(&self) -> Stage {
        Stage::Definition { is_effect: self.task.is_some_and(|task| task.kind.is_effect()) }
    }

    /// The value of an expression.
    pub(crate) fn evaluate(&self, text: &str, on: &Value, stage: Stage) -> Result<Value, Fault> {
        let scope: Vec<String> = self.vars.keys().cloned().collect();
        let names = stage.names(&scope);
        let program = self.flow.program(text, &names)?;
        let values: Vec<Value> = names.iter().map(|name| self.variable(name, text)).collect();
        let values: Vec<&Value> = values.iter().collect();
        let now = self.clock.0 as f64 / 1_000_000.0;
        program.run(on, &values, now).map_err(|failure| match failure {
            Failure::Problem(problem) => {
                Fault::expression(format!("«{}»: {problem}", shortened(text)))
            }
            secret @ Failure::Secret(_) => Fault::authorization(secret),
        })
    }

    /// The value of a variable; of those that take work only if the expression names them.
    fn variable(&self, name: &str, text: &str) -> Value {
        if !text.contains(name) {
            return Value::Null;
        }
        match name {
            "$context" => self.context(),
            "$input" => self.input.clone(),
            "$output" => self.output.clone(),
            "$secrets" => self.secrets.clone().unwrap_or(Value::Null),
            "$authorization" => self.authorization.clone(),
            "$task" => self.task_descriptor(),
            "$workflow" => self.workflow_descriptor(),
            "$runtime" => json!({
                "name": "Turnwheel", "version": env!("CARGO_PKG_VERSION"), "metadata": {},
            }),
            own => self.vars.get(&own[1..]).cloned().unwrap_or(Value::Null),
        }
    }

    /// The last exported value; before that, by the specification, the transformed input of the
    /// workflow. That is computed again from the plan's input, so no task has to carry it.
    fn context(&self) -> Value {
        match self.task {
            _ if !self.context.is_null() => return self.context.clone(),
            None => return self.input.clone(),
            Some(_) => {}
        }
        let input = self.root_input();
        let around = Env::of_workflow(self.flow, self.around, &input);
        // It was transformed before, or no task would be here.
        around.transformed(&self.flow.input, &input, Stage::WorkflowInput).unwrap_or(Value::Null)
    }

    fn task_descriptor(&self) -> Value {
        let Some(own) = self.task else { return Value::Null };
        // A part before or after a task has the variables of that task.
        let extended = self.extends.and_then(|extends| {
            let id = self.flow.by_pointer.get(&extends.at)?;
            Some((self.flow.task(*id), &extends.input, &extends.output, Time(extends.began)))
        });
        let (task, input, output, began) =
            extended.unwrap_or((own, self.raw, &self.raw_output, self.began));
        // Conditions of extensions see the definition itself.
        let mut fields = task.definition.as_object().cloned().unwrap_or_default();
        fields.insert("name".to_owned(), json!(task.name));
        fields.insert("reference".to_owned(), json!(task.pointer));
        fields.insert("definition".to_owned(), task.definition.clone());
        fields.insert("input".to_owned(), input.clone());
        fields.insert("output".to_owned(), output.clone());
        fields.insert("startedAt".to_owned(), moment(began));
        Value::Object(fields)
    }

    /// The raw input of the workflow.
    fn root_input(&self) -> Value {
        let root: Value = self.around.root.read().unwrap_or(Value::Null);
        root.get("input").cloned().unwrap_or(Value::Null)
    }

    fn workflow_descriptor(&self) -> Value {
        json!({
            "id": self.around.plan.to_string(),
            "definition": self.flow.source,
            "input": self.root_input(),
            "startedAt": moment(self.around.created_at),
        })
    }

    /// Data with its expressions evaluated.
    pub(crate) fn fill(
        &self,
        template: &Template,
        on: &Value,
        stage: Stage,
    ) -> Result<Value, Fault> {
        template.fill(&mut |text| self.evaluate(text, on, stage))
    }

    /// The same, of the task's definition on its input.
    pub(crate) fn fill_own(&self, template: &Template) -> Result<Value, Fault> {
        self.fill(template, &self.input, self.definition_stage())
    }

    /// Whether a condition holds: anything but `false` and `null` does.
    pub(crate) fn holds(&self, text: &str, on: &Value, stage: Stage) -> Result<bool, Fault> {
        Ok(!matches!(self.evaluate(text, on, stage)?, Value::Null | Value::Bool(false)))
    }

    pub(crate) fn duration(&self, span: &Span) -> Result<std::time::Duration, Fault> {
        match span {
            Span::Fixed(duration) => Ok(*duration),
            Span::Expression(text) => {
                let stage = Stage::Definition { is_effect: false };
                let value = self.evaluate(text, &self.input, stage)?;
                duration::of_value(&value).map_err(Fault::expression)
            }
        }
    }

    pub(crate) fn transformed(
        &self,
        transform: &Transform,
        value: &Value,
        stage: Stage,
    ) -> Result<Value, Fault> {
        match &transform.with {
            Some(template) => self.fill(template, value, stage),
            None => Ok(value.clone()),
        }
    }

    /// A new context.
    pub(crate) fn exported(&self, template: &Template, on: &Value) -> Result<Value, Fault> {
        let context = self.fill(template, on, Stage::Export)?;
        // «Nothing» would be the context that there is before one was exported.
        Ok(if context.is_null() { json!({}) } else { context })
    }

    /// Steps before a task's work: its condition, the schema of its input, its transformed input.
    /// False if the task is skipped.
    pub(crate) fn begin(&mut self, stage: Stage) -> Result<bool, Fault> {
        let (condition, transform) = match self.task {
            Some(task) => (task.condition.as_deref(), &task.input),
            None => (None, &self.flow.input),
        };
        if let Some(condition) = condition {
            if !self.holds(condition, self.raw, Stage::Condition)? {
                return Ok(false);
            }
        }
        check(transform, self.raw, "the input")?;
        self.input = self.transformed(transform, self.raw, stage)?;
        self.has_begun = true;
        Ok(true)
    }

    /// The same for a task of whose input a turn has needed nothing so far.
    pub(crate) fn begun(&mut self) -> Result<(), Fault> {
        if self.has_begun {
            return Ok(());
        }
        // It was not left out, or there would be no further turn.
        self.as_at_first(|env| env.begin(Stage::Input { is_effect: false })).map(|_| ())
    }

    /// Evaluates with what there was when the task began.
    pub(crate) fn as_at_first<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        let first = self.first_context.cloned().unwrap_or_default();
        let context = std::mem::replace(&mut self.context, first);
        let clock = std::mem::replace(&mut self.clock, self.began);
        let outcome = evaluate(self);
        (self.context, self.clock) = (context, clock);
        outcome
    }

    /// Steps after it: the transformed output, its schema, the exported context.
    pub(crate) fn end(&mut self, raw: Value, then: Option<Directive>) -> Result<Outcome, Fault> {
        self.raw_output = raw;
        let (transform, stage) = match self.task {
            Some(task) => (&task.output, Stage::Output),
            None => (&self.flow.output, Stage::WorkflowOutput),
        };
        self.output = self.transformed(transform, &self.raw_output, stage)?;
        check(transform, &self.output, "the output")?;
        let mut outcome = Outcome::of(self.output.clone());
        let Some(task) = self.task else { return Ok(outcome) };
        outcome.then = then.unwrap_or_else(|| task.then.clone());
        if let Some(template) = &task.export.with {
            let context = self.exported(template, &self.output)?;
            check(&task.export, &context, "the context")?;
            outcome.context = Some(context);
        } else if task.export.schema.is_some() {
            check(&task.export, &self.context(), "the context")?;
        }
        Ok(outcome)
    }
}

/// Whether a value is as its schema says.
pub(super) fn check(transform: &Transform, value: &Value, what: &str) -> Result<(), Fault> {
    let wrong = |problem| Fault::validation(format!("{what}: {problem}"));
    transform.schema.as_ref().map_or(Ok(()), |schema| schema.validate(value).map_err(wrong))
}

/// A moment as the DSL describes it.
fn moment(time: Time) -> Value {
    let ms = time.0 / 1_000;
    json!({
        "iso8601": time.to_string(),
        "epoch": { "seconds": ms / 1_000, "milliseconds": ms },
    })
}

fn shortened(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        format!("{short}…")
    } else {
        short
    }
}
