//! Containers.

use serde_json::Value;

use super::effect::{fault_of, Effect};
use super::process::{arguments, output, pairs, stdin};
use crate::expr::{as_text, Template};
use crate::fault::Fault;
use crate::io::{Cleanup, Container};
use crate::model::{ContainerRun, Lifetime};

/// Characters of a name that are made of the name of a task.
const TASK_NAME_MAX: usize = 60;

pub(super) fn run(
    effect: &mut Effect<'_, '_>,
    task: &str,
    it: &ContainerRun,
) -> Result<Value, Fault> {
    let text = |template: &Template| effect.env.fill_own(template).map(|value| as_text(&value));
    let image = text(&it.image)?;
    // A leading dash would make it an option of the engine.
    if image.trim().is_empty() || image.starts_with('-') {
        return Err(Fault::expression(format!("«{image}» is no image of a container")));
    }
    let name = match it.name.as_ref().map(text).transpose()? {
        Some(name) => checked(name)?,
        None => name_of(effect, task),
    };
    let command = it.command.as_ref().map(text).transpose()?;
    let cleanup = match &it.lifetime {
        Lifetime::Never => Cleanup::Never,
        Lifetime::Always => Cleanup::Always,
        Lifetime::Eventually(after) => Cleanup::After(effect.env.duration(after)?),
    };
    let environment = pairs(effect, it.environment.as_ref(), "an environment")?;
    if let Some((name, _)) = environment.iter().find(|(name, _)| !is_variable(name)) {
        return Err(Fault::expression(format!("«{name}» is no name of a variable")));
    }
    let container = Container {
        image,
        name,
        command,
        arguments: arguments(effect, it.arguments.as_ref())?,
        ports: pairs(effect, it.ports.as_ref(), "ports")?,
        volumes: pairs(effect, it.volumes.as_ref(), "volumes")?,
        environment,
        stdin: stdin(effect, it.stdin.as_ref())?,
        pull: it.pull,
        cleanup,
    };
    if !it.is_awaited {
        effect.io.container_detached(&container, &effect.call).map_err(fault_of)?;
        return Ok(effect.env.input.clone());
    }
    let result = effect.io.container(&container, &effect.call).map_err(fault_of)?;
    output(effect, it.returns, result)
}

/// As the specification recommends, `{workflow.name}-{uuid}.{workflow.namespace}-{task.name}`, and the
/// step: a task that is run again by a loop or a retry is another one.
fn name_of(effect: &Effect<'_, '_>, task: &str) -> String {
    let (flow, key) = (effect.env.flow, effect.call.key);
    let (plan, step) = key.rsplit_once('/').unwrap_or((key, "0"));
    let task: String = task.chars().take(TASK_NAME_MAX).collect();
    let name = format!("{}-{plan}.{}-{task}.{step}", flow.name, flow.namespace);
    name.chars().map(|sign| if may_be_in_name(sign) { sign } else { '_' }).collect()
}

fn may_be_in_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || matches!(sign, '_' | '.' | '-')
}

fn checked(name: String) -> Result<String, Fault> {
    let begins = name.starts_with(|sign: char| sign.is_ascii_alphanumeric());
    if begins && name.chars().all(may_be_in_name) {
        return Ok(name);
    }
    Err(Fault::expression(format!(
        "«{name}» is no name of a container: it begins with a letter or digit, and goes on with those and _ . -"
    )))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}
