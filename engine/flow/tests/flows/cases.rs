//! Flows with what becomes of them: an output or a fault, a wait, or the words of a refusal.

use serde_json::{json, Value};
use turnwheel_flow::{self as flow, CloudEvent, FlowError, Problems};

use crate::flow_common::Stage;
use crate::stand_ins::services;

pub(crate) fn yaml(text: &str) -> Value {
    flow::documents(text, "a text").expect("it is YAML").remove(0)
}

/// Runs a flow as its case says.
pub(crate) fn example(text: &str, case: &Value) -> Result<(), String> {
    let loaded = flow::load(text, "example.yaml");
    if let Some(why) = case["refused"].as_str() {
        let problems = loaded.err().as_ref().map(Problems::to_string).unwrap_or_default();
        return if problems.contains(why) {
            Ok(())
        } else {
            Err(format!("refused: «{problems}»"))
        };
    }
    if case["endless"] == true {
        // Its service sends its messages anew each time, and there is no end of them.
        return loaded.map(drop).map_err(|problems| problems.to_string());
    }
    let flow = loaded.map_err(|problems| problems.to_string())?;
    let stage = Stage::new(services());
    let other =
        "document: { dsl: '1.0.3', namespace: test, name: register-customer, version: '0.1.0' }
do: [ { register: { set: { registered: '${ .customer }' } } } ]";
    let other = flow::load(other, "other.yaml").expect("it is right");
    stage.sim.block_on(stage.flows.add(&other)).expect("it ends").expect("it is added");
    let flow = stage.flows.resolve(&flow).map_err(|error| error.to_string())?;
    let mut plan = stage.start(&flow, case["input"].clone());
    stage.sim.run_until_idle();
    for (number, event) in case["events"].as_array().into_iter().flatten().enumerate() {
        let mut fields = event.as_object().expect("an event has fields").clone();
        for (name, value) in [("specversion", "1.0"), ("source", "/test"), ("type", "any")] {
            fields.entry(name).or_insert(json!(value));
        }
        fields.insert("id".to_owned(), json!(number.to_string()));
        let event = CloudEvent::from_value(Value::Object(fields)).expect("it is an event");
        let published = stage.publish(event);
        if let Some(started) = published.started.first().filter(|_| case["started"] == true) {
            plan = stage.world.plan(*started);
        }
        stage.sim.run_until_idle();
    }
    if case["waits"] == true {
        let state = stage.view(&plan).state.name();
        return if state == "running" { Ok(()) } else { Err(format!("it is {state}")) };
    }
    let ended = match stage.result(&plan) {
        Ok(output) => json!({ "output": output }),
        Err(FlowError::Faulted(fault)) => json!({ "fault": fault.to_value() }),
        Err(other) => return Err(other.to_string()),
    };
    let is = |wanted: &Value, is: &Value| match wanted.as_object() {
        Some(fields) => fields.iter().all(|(name, wanted)| is[name] == *wanted),
        None => wanted == is,
    };
    let fits =
        ["output", "fault"].iter().all(|of| case.get(of).is_none_or(|it| is(it, &ended[of])));
    let is_said = case.get("output").or(case.get("fault")).is_some();
    if fits && is_said {
        Ok(())
    } else {
        Err(ended.to_string())
    }
}
