//! The conformance kit and the examples of the Serverless Workflow specification, of a checkout that
//! `TURNWHEEL_SPECIFICATION` names, with stand-ins for the services that they use. `README.md` says more.

#[path = "../flows/cases.rs"]
mod cases;
#[path = "../flows/flow_common.rs"]
mod flow_common;
#[path = "../flows/stand_ins.rs"]
mod stand_ins;

use std::fs;
use std::path::PathBuf;

use serde_json::{json, Value};
use turnwheel_engine::PlanView;
use turnwheel_flow::{self as flow, FlowError};

use crate::cases::{example, yaml};
use crate::flow_common::{trace, Stage};
use crate::stand_ins::services;

/// The files of a folder of the checkout by name, with their texts.
fn files(name: &str) -> Vec<(String, String)> {
    let checkout = std::env::var("TURNWHEEL_SPECIFICATION").unwrap_or_else(|_| {
        panic!("TURNWHEEL_SPECIFICATION names no checkout of the specification")
    });
    let folder = PathBuf::from(checkout).join(name);
    let paths = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let read = |path: PathBuf| {
        let stem = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        (stem, fs::read_to_string(&path).expect("it is a text"))
    };
    let paths = paths
        .map(|it| it.expect("read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml" || end == "feature"));
    let mut files: Vec<_> = paths.map(read).collect();
    files.sort();
    files
}

/// One step of a scenario, with the text below it.
struct Step {
    says: String,
    text: String,
}

/// The scenarios of a feature by name.
fn scenarios(feature: &str) -> Vec<(String, Vec<Step>)> {
    let mut scenarios: Vec<(String, Vec<Step>)> = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for line in feature.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if trimmed.starts_with("\"\"\"") {
            let Some((_, text)) = block.take() else {
                block = Some((indent, String::new()));
                continue;
            };
            let (_, steps) = scenarios.last_mut().expect("a text is in a scenario");
            steps.last_mut().expect("a text is below a step").text = text;
        } else if let Some((margin, text)) = &mut block {
            text.push_str(line.get(*margin..).unwrap_or(""));
            text.push('\n');
        } else if let Some(name) = trimmed.strip_prefix("Scenario: ") {
            scenarios.push((name.trim().to_owned(), Vec::new()));
        } else if let Some((_, steps)) = scenarios.last_mut() {
            let words = ["Given ", "When ", "Then ", "And "];
            if let Some(says) = words.iter().find_map(|word| trimmed.strip_prefix(word)) {
                steps.push(Step { says: says.trim().to_owned(), text: String::new() });
            }
        }
    }
    scenarios
}

/// A value inside of others, by names with dots between.
fn inside<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

/// The texts in quotes.
fn quoted(says: &str) -> Vec<&str> {
    says.split('\'').skip(1).step_by(2).collect()
}

/// The names of the tasks that ran, in their order.
fn ran(view: &PlanView) -> Vec<String> {
    let name = |at: &String| at.rsplit('/').next().unwrap_or_default().to_owned();
    trace(view).iter().map(name).collect()
}

/// Checks a step of the kit; an error says what is otherwise.
fn holds(step: &Step, ended: &Result<Value, FlowError>, view: &PlanView) -> Result<(), String> {
    let output = || ended.as_ref().map_err(ToString::to_string);
    let check = |is: bool, what: &dyn std::fmt::Debug| {
        if is {
            Ok(())
        } else {
            Err(format!("{}: {what:?}", step.says))
        }
    };
    let says = step.says.as_str();
    if says == "the workflow should complete" {
        return output().map(drop);
    }
    if says == "the workflow should complete with output:" {
        return check(*output()? == yaml(&step.text), &ended);
    }
    if says.starts_with("the workflow should fault") {
        let Err(FlowError::Faulted(fault)) = ended else { return Err(format!("{ended:?}")) };
        let wanted = if step.text.is_empty() { json!({}) } else { yaml(&step.text) };
        let fault = fault.to_value();
        let fields = wanted.as_object().expect("an error has fields");
        let kind = |it: &Value| it.as_str().and_then(|it| it.rsplit('/').next()).map(str::to_owned);
        // Texts of the specification spell the types of its errors in several ways.
        let is = fields.iter().all(|(name, wanted)| match name.as_str() {
            "type" => kind(&fault["type"]) == kind(wanted),
            name => fault[name] == *wanted,
        });
        return check(is, &fault);
    }
    if says.starts_with("the workflow output should have properties") {
        let output = output()?;
        return check(quoted(says).iter().all(|path| inside(output, path).is_some()), &ended);
    }
    if says.starts_with("the workflow output should have a ") {
        let value = inside(output()?, quoted(says)[0]).ok_or(format!("{ended:?}"))?;
        if let Some(count) = says.strip_suffix(" items").and_then(|it| it.rsplit(' ').next()) {
            let is = value.as_array().is_some_and(|list| list.len().to_string() == count);
            return check(is, value);
        }
        return check(*value == yaml(&step.text), value);
    }
    let ran = ran(view);
    let place = |name: &str| ran.iter().position(|it| it == name);
    match says.split(' ').collect::<Vec<_>>()[..] {
        [task, "should", "run", "first"] => check(ran.first().is_some_and(|it| it == task), &ran),
        [task, "should", "run", "last"] => check(ran.last().is_some_and(|it| it == task), &ran),
        [task, "should", "run", "after", other] => check(place(task) > place(other), &ran),
        _ => Err(format!("the runner does not know the step «{says}»")),
    }
}

/// Runs a scenario of the kit.
fn scenario(steps: &[Step]) -> Result<(), String> {
    let text = |begin: &str| steps.iter().find(|step| step.says.starts_with(begin));
    let definition = text("a workflow with definition").expect("it has a definition");
    let flow = flow::load(&definition.text, "kit").map_err(|problems| problems.to_string())?;
    let input = text("given the workflow input").map_or(json!({}), |step| yaml(&step.text));
    let stage = Stage::new(services());
    let plan = stage.start(&flow, input);
    let (ended, view) = (stage.result(&plan), stage.view(&plan));
    let begun = steps.iter().position(|step| step.says == "the workflow is executed");
    let expected = &steps[begun.expect("it is executed") + 1..];
    expected.iter().try_for_each(|step| holds(step, &ended, &view))
}

#[test]
fn all_scenarios_of_the_specifications_kit_pass() {
    let (mut passed, mut failed) = (0, Vec::new());
    for (feature, text) in files("ctk/features") {
        for (name, steps) in scenarios(&text) {
            match scenario(&steps) {
                Ok(()) => passed += 1,
                Err(why) => failed.push(format!("{feature}, {name}: {why}")),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(passed, 21);
}

#[test]
fn all_examples_of_the_specification_run() {
    let cases = yaml(include_str!("examples.yaml"));
    let (mut failed, files) = (Vec::new(), files("examples"));
    for (name, text) in &files {
        let case = cases.get(name).unwrap_or_else(|| panic!("there is no case for {name}"));
        if let Err(why) = example(text, case) {
            failed.push(format!("{name}: {why}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(files.len(), 66);
}
