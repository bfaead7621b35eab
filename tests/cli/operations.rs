//! Each operation of the HTTP API has a verb.

use std::collections::BTreeMap;

use crate::cli_common::Folder;

/// Verbs of operations; those without one say who needs them instead.
const VERBS: &[(&str, &str)] = &[
    ("addFlow", "flow add"),
    ("addJourney", "journey add"),
    ("allowEvents", "- webhooks"),
    ("answerJob", "job answer"),
    ("backfillSchedule", "schedule backfill"),
    ("beatTask", "- workers"),
    ("cancelJob", "job cancel"),
    ("checkFlow", "check"),
    ("checkJobs", "job apply"),
    ("completeTask", "- workers"),
    ("countJourney", "journey counts"),
    ("drainNode", "node drain"),
    ("dryRunJourney", "journey dry-run"),
    ("failTask", "- workers"),
    ("followJobOutput", "job history --follow"),
    ("forgetJobHistory", "api"),
    ("forgetUser", "api"),
    ("getAlive", "- load balancers"),
    ("getCalls", "api"),
    ("getEnded", "stats"),
    ("getEntity", "world entity"),
    ("getFlow", "flow show"),
    ("getGraph", "api"),
    ("getHealth", "health"),
    ("getHistory", "logs"),
    ("getJob", "job show"),
    ("getJobHistory", "job history"),
    ("getJobOutput", "job history --output"),
    ("getJourney", "journey show"),
    ("getJourneyElements", "journey show --elements"),
    ("getMetrics", "- collectors of figures"),
    ("getNode", "node show"),
    ("getPlan", "show"),
    ("getRuntime", "world runtime"),
    ("getSchedule", "schedule show"),
    ("getSession", "- the console"),
    ("getSlots", "node slots"),
    ("getStats", "stats"),
    ("getStep", "show"),
    ("getTimeline", "api"),
    ("getTopic", "world topic"),
    ("getTree", "tree"),
    ("getUser", "journey user"),
    ("getWorld", "world about"),
    ("leaseTasks", "- workers"),
    ("listActions", "world actions"),
    ("listDeadLetters", "letter list"),
    ("listEntityTypes", "world entities"),
    ("listFlows", "flow list"),
    ("listJobExecutors", "job executors"),
    ("listJobTimes", "job next"),
    ("listJobs", "job list"),
    ("listJourneys", "journey list"),
    ("listRecentEvents", "api"),
    ("listLocks", "world locks"),
    ("listNodes", "node list"),
    ("listPlans", "list"),
    ("listQueues", "world queues"),
    ("listScheduleTimes", "schedule next"),
    ("listSchedules", "schedule list"),
    ("listSteps", "show"),
    ("makeCallback", "api"),
    ("optOutUser", "journey user --opt-out"),
    ("orderPlan", "cancel"),
    ("orderPlans", "cancel"),
    ("pauseSchedule", "schedule pause"),
    ("publishEvents", "event emit"),
    ("publishUserEvents", "journey event"),
    ("putJob", "job add"),
    ("putSchedule", "schedule add"),
    ("putUser", "journey user --set"),
    ("redeliverDeadLetter", "letter redeliver"),
    ("releaseTask", "- workers"),
    ("removeFlow", "flow rm"),
    ("removeJob", "job rm"),
    ("removeJourney", "journey rm"),
    ("removePlan", "delete"),
    ("removeSchedule", "schedule rm"),
    ("resendMessages", "journey resend"),
    ("retryPlan", "retry"),
    ("runJob", "job run"),
    ("runPlanAgain", "again"),
    ("sendEvent", "event send"),
    ("sendHeartbeat", "api"),
    ("signIn", "- the console"),
    ("signOut", "- the console"),
    ("startFlow", "flow start"),
    ("startPlan", "start"),
    ("toggleJob", "job toggle"),
    ("triggerSchedule", "schedule trigger"),
    ("unpauseSchedule", "schedule unpause"),
    ("useCallback", "- services outside"),
    ("watchEvents", "- the console"),
];

/// Verbs of the orders for a plan.
const ORDERS: &[(&str, &str)] = &[
    ("cancel", "cancel"),
    ("cancel_now", "cancel --force"),
    ("terminate", "terminate"),
    ("pause", "pause"),
    ("resume", "resume"),
    ("fail", "fail"),
    ("revert", "revert"),
    ("skip_failed", "skip"),
    ("retry_failed", "retry"),
    ("skip", "skip --step"),
    ("retry", "retry --step"),
    ("edit_input", "edit-input"),
    ("delay_until", "delay"),
    ("freeze", "freeze"),
    ("label", "label"),
    ("remove_label", "label --remove"),
];

/// The help of a verb says what it does, with the flag if one is meant.
fn has_verb(folder: &Folder, verb: &str) {
    let words: Vec<&str> = verb.split(' ').filter(|word| !word.starts_with('-')).collect();
    let help = folder.ok(&[&["help"][..], &words].concat());
    assert!(help.contains(&format!("Usage: turnwheel {}", words.join(" "))), "{verb}: {help}");
    for flag in verb.split(' ').filter(|word| word.starts_with("--")) {
        assert!(help.contains(flag), "{verb}: {help}");
    }
}

#[test]
fn each_operation_of_the_api_has_a_verb_or_a_reason() {
    let folder = Folder::new();
    let api = serde_json::to_value(turnwheel::http::openapi()).expect("JSON");
    let known: BTreeMap<&str, &str> = VERBS.iter().copied().collect();
    let mut operations = Vec::new();
    for item in api["paths"].as_object().expect("paths").values() {
        for operation in item.as_object().expect("operations").values() {
            operations.push(operation["operationId"].as_str().expect("an id").to_owned());
        }
    }
    for operation in &operations {
        let verb = known.get(operation.as_str());
        let verb = verb.unwrap_or_else(|| panic!("the operation {operation} has no verb"));
        if !verb.starts_with("- ") {
            has_verb(&folder, verb);
        }
    }
    let gone: Vec<_> = known.keys().filter(|id| !operations.iter().any(|it| it == *id)).collect();
    assert_eq!(gone, Vec::<&&str>::new(), "these operations are gone");
}

#[test]
fn each_order_for_a_plan_has_a_verb() {
    let folder = Folder::new();
    let api = serde_json::to_value(turnwheel::http::openapi()).expect("JSON");
    let orders = api["components"]["schemas"]["Order"]["oneOf"].as_array().expect("orders");
    let mut names: Vec<&str> = Vec::new();
    for order in orders {
        let name = &order["properties"]["order"]["enum"][0];
        names.push(
            name.as_str().or(order["properties"]["order"]["const"].as_str()).expect("a name"),
        );
    }
    let known: BTreeMap<&str, &str> = ORDERS.iter().copied().collect();
    assert_eq!(names.len(), known.len(), "{names:?}");
    for name in names {
        let verb = known.get(name).unwrap_or_else(|| panic!("the order {name} has no verb"));
        has_verb(&folder, verb);
    }
}
