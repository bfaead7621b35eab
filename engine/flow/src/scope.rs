//! The variables of expressions: which there are at which place.

/// Place of an expression. The specification lists the variables of each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// `input.from` of a workflow.
    WorkflowInput,
    /// `output.as` of a workflow.
    WorkflowOutput,
    /// `if` of a task, and `when` of an extension.
    Condition,
    /// `input.from` of a task. Inputs of calls and processes are not stored, so they may use
    /// secrets.
    Input { is_effect: bool },
    /// Properties of a task, likewise.
    Definition { is_effect: bool },
    /// `output.as` of a task.
    Output,
    /// `export.as` of a task.
    Export,
}

impl Stage {
    /// The variables, with those of loops and handlers around the place.
    pub(crate) fn names(self, scope: &[String]) -> Vec<String> {
        let known: &[&str] = match self {
            Self::WorkflowInput => &["$workflow", "$runtime"],
            Self::WorkflowOutput => &["$context", "$input", "$workflow", "$runtime"],
            Self::Condition | Self::Input { is_effect: false } => {
                &["$context", "$task", "$workflow", "$runtime"]
            }
            Self::Input { is_effect: true } => {
                &["$context", "$task", "$workflow", "$runtime", "$secrets"]
            }
            Self::Definition { is_effect: false } => {
                &["$context", "$input", "$task", "$workflow", "$runtime", "$authorization"]
            }
            Self::Definition { is_effect: true } => &[
                "$context",
                "$input",
                "$task",
                "$workflow",
                "$runtime",
                "$secrets",
                "$authorization",
            ],
            Self::Output => {
                &["$context", "$input", "$task", "$workflow", "$runtime", "$authorization"]
            }
            Self::Export => &[
                "$context",
                "$input",
                "$output",
                "$task",
                "$workflow",
                "$runtime",
                "$authorization",
            ],
        };
        let mut own: Vec<String> = scope.iter().map(|name| format!("${name}")).collect();
        // In one order, so that what was compiled when the text was read is found when it is run.
        own.sort_unstable();
        own.dedup();
        known.iter().map(|name| (*name).to_owned()).chain(own).collect()
    }
}
