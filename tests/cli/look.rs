//! Verbs that look at a store: list, show, tree, logs, stats, export, backup, restore.

use serde_json::Value;

use crate::cli_common::Folder;

fn ids(list: &Value) -> Vec<String> {
    let plans = list["plans"].as_array().expect("a list of plans");
    plans.iter().map(|plan| plan["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn plans_are_listed_by_all_that_is_said() {
    let (folder, plans) = Folder::with_plans();
    let [done, waits, paused] = [plans.done, plans.waits, plans.paused].map(|id| id.to_string());
    let listed = |flags: &[&str]| {
        let all: Vec<&str> = ["list", "--json"].iter().chain(flags).copied().collect();
        ids(&folder.json(&all))
    };
    assert_eq!(listed(&[]), [&*paused, &waits, &done]);
    assert_eq!(listed(&["--oldest", "--limit", "2"]), [&*done, &waits]);
    assert_eq!(listed(&["--oldest", "--after-plan", &waits]), [&*paused]);
    assert_eq!(listed(&["--after-plan", "last"]), [&*waits, &done]);
    for flags in [
        &["--state", "stopped"][..],
        &["--result", "success"],
        &["--label", "customer"],
        &["--label", "customer=Ann"],
        &["--action", "greet"],
        &["--name", "greet"],
        &["--name", "REE"],
        &["--text", "gree"],
        &["gre"],
        &["--key", "k-1"],
        &["--triggered-by", "eva"],
        &["--ended-since", "1h"],
        &["--waits", "nothing"],
    ] {
        assert_eq!(listed(flags), [&*done], "{flags:?}");
    }
    assert_eq!(listed(&["--state", "running,paused"]), [&*paused, &waits]);
    assert_eq!(listed(&["--waits", "event", "--waits", "decision"]), [&*paused, &waits]);
    assert_eq!(listed(&["--since", "1h"]).len(), 3);
    assert_eq!(listed(&["the dice"]), [&*paused], "by the error");
    assert_eq!(listed(&["A WORD"]), [&*waits], "by the reason to wait");
    for flags in [
        &["--since", "2999-01-01T00:00:00Z"][..],
        &["--until", "1d"],
        &["--ended-until", "1h"],
        &["--caller", &done],
        &["--label", "customer=Bob"],
        &["no such thing"],
        &["--name", "the dice"],
    ] {
        let all: Vec<&str> = ["list", "--json"].iter().chain(flags).copied().collect();
        let none = folder.run(&all);
        assert_eq!(none.code(), 5, "{flags:?}");
        assert!(none.stdout().contains("\"plans\": []"), "{}", none.stdout());
    }
    let text = folder.ok(&["list"]);
    assert!(text.starts_with("plan ") && text.contains("a word"), "{text}");
    assert_eq!(text.lines().count(), 4);
    assert!(!text.contains('\x1b'), "no colours without a terminal");
    let colours = folder.ok(&["list", "--colour", "always"]);
    assert!(colours.contains("\x1b[32msuccess\x1b[0m"), "{colours}");
    let page = folder.run(&["list", "--limit", "1"]);
    assert!(page.stderr().contains(&format!("--after-plan {paused}")), "{}", page.stderr());
    let none = folder.run(&["list", "--state", "planning"]);
    assert_eq!((none.code(), none.stdout().as_str()), (5, ""));
    let empty = Folder::new();
    empty.world().shutdown().expect("it ends");
    assert_eq!(empty.run(&["list"]).code(), 0, "nothing was looked for");
}

#[test]
fn what_cannot_be_listed_is_refused_with_its_place() {
    let (folder, _) = Folder::with_plans();
    for (flags, says) in [
        (&["--state", "runing"][..], "running"),
        (&["--result", "great"], "success"),
        (&["--waits", "godot"], "decision"),
        (&["--limit", "0"], "--limit"),
        (&["--limit", "many"], "--limit"),
        (&["--since", "yesterday"], "yesterday"),
        (&["--until", "5y"], "5y"),
        (&["--ended-since", ""], "--ended-since"),
        (&["--ended-until", "x"], "--ended-until"),
        (&["--caller", "xyz"], "UUID"),
        (&["--after-plan", "xyz"], "xyz"),
        (&["--jsn"], "--json"),
        (&["--colour", "pink"], "never"),
    ] {
        let all: Vec<&str> = ["list"].iter().chain(flags).copied().collect();
        folder.run(&all).fails(2, &[says]);
    }
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let folder = Folder::new();
    for verb in [
        &["list"][..],
        &["show", "last"],
        &["tree", "last"],
        &["logs", "last"],
        &["stats"],
        &["export"],
        &["backup", "copy.db"],
        &["cancel", "last"],
        &["event", "send", "last"],
        &["schedule", "list"],
        &["schedule", "pause", "x"],
    ] {
        folder.run(verb).fails(3, &["turnwheel.db", "--store"]);
        let other: Vec<&str> = verb.iter().chain(&["--store", "other.db"]).copied().collect();
        folder.run(&other).fails(3, &["other.db"]);
    }
    assert!(!folder.path("turnwheel.db").exists(), "looking makes no store");
    folder.write("text.db", &"no database. ".repeat(500));
    folder.run(&["list", "--store", "text.db"]).fails(1, &["damaged", "restore"]);
    folder.write("empty.db", "");
    folder.run(&["cancel", "last", "--store", "empty.db"]).fails(1, &["empty.db", "no store"]);
    folder.run(&["list", "--store", "."]).fails(3, &["is no file"]);
}

#[test]
fn a_plan_is_shown_with_its_steps() {
    let (folder, plans) = Folder::with_plans();
    let done = plans.done.to_string();
    let plan = folder.json(&["show", &done, "--json"]);
    assert_eq!(plan["output"], "hello Ann");
    assert_eq!(plan["labels"]["customer"], "Ann");
    assert_eq!(plan["steps"]["success"], 2, "the API has their numbers here");
    let steps = folder.json(&["show", &done, "--steps", "--json"]);
    assert_eq!(steps["steps"][1]["state"], "success");
    folder.run(&["show", &done, "--steps"]).fails(2, &["--json"]);
    let text = folder.ok(&["show", &done]);
    for said in [&*done, "success, 100 %", "hello Ann", "customer=Ann", "by eva"] {
        assert!(text.contains(said), "«{said}» is missing from:\n{text}");
    }
    let end = &done[done.len() - 8..];
    assert_eq!(folder.json(&["show", end, "--json"])["id"], *done);
    let paused = folder.ok(&["show", "last"]);
    assert!(paused.contains("the dice [31m say no (no_luck)"), "{paused}");
    assert!(!paused.contains('\x1b'), "what an action says cannot steer a terminal");
    let step = folder.json(&["show", "last", "--step", "2", "--json"]);
    assert_eq!((&step["state"], &step["error"]["kind"]), (&"error".into(), &"no_luck".into()));
    let step = folder.ok(&["show", "last", "--step", "2"]);
    assert!(step.contains("the run phase of fail"), "{step}");
    folder.run(&["show", "last", "--step", "9"]).fails(3, &["no step 9"]);
    folder.run(&["show", "last", "--step", "x"]).fails(2, &["--step"]);
    folder.run(&["show"]).fails(2, &["<PLAN>"]);
    folder.run(&["show", "ffffffff"]).fails(3, &["ffffffff", "turnwheel list"]);
    let unknown = "0190a5c4-7b1e-7cc3-98c4-dc0c0c07398f";
    folder.run(&["show", unknown]).fails(3, &[unknown, "turnwheel list"]);
}

#[test]
fn actions_are_shown_as_a_tree() {
    let (folder, plans) = Folder::with_plans();
    let text = folder.ok(&["tree", &plans.done.to_string()]);
    assert!(text.contains("└── greet #2 success"), "{text}");
    let tree = folder.json(&["tree", "last", "--sub-plans", "--json"]);
    assert_eq!(tree["nodes"][0]["state"], "error");
    assert_eq!(tree["sub_plans"], Value::Array(Vec::new()));
    assert!(folder.ok(&["tree", "last", "--sub-plans"]).contains("fail"));
    folder.run(&["tree", "last", "--deep"]).fails(2, &["--deep"]);
}

#[test]
fn histories_are_shown_for_people_and_for_programs() {
    let (folder, plans) = Folder::with_plans();
    let done = plans.done.to_string();
    let text = folder.ok(&["logs", &done]);
    assert!(text.contains("all steps are done"), "{text}");
    assert!(text.contains("greet: success, ran "), "{text}");
    let failed = folder.ok(&["logs", &plans.paused.to_string()]);
    assert!(failed.contains("fail failed: the dice"), "{failed}");
    let order = ["fail failed: ", "paused: a step has failed"].map(|text| failed.find(text));
    assert!(order[0].is_some() && order[0] < order[1], "{failed}");
    let lines = folder.ok(&["logs", &done, "--json"]);
    let last: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert!(last["at"].is_string() && last["text"].is_string());
    let records = folder.ok(&["logs", &done, "--records"]);
    assert!(records.lines().next().expect("a line").contains("Created"), "{records}");
    assert_eq!(folder.ok(&["logs", &done, "--follow"]), text, "what is over is not waited for");
    folder.run(&["logs", &done, "--json", "--records"]).fails(2, &["--records"]);
}

#[test]
fn stats_count_what_there_is() {
    let (folder, plans) = Folder::with_plans();
    let stats = folder.json(&["stats", "--json"]);
    assert_eq!(stats["plans"], 3);
    assert_eq!(stats["states"]["paused"], 1);
    assert_eq!(stats["results"]["success"], 1);
    assert_eq!((&stats["waits"]["event"], &stats["waits"]["decision"]), (&1.into(), &1.into()));
    assert_eq!(stats["oldest_open"]["id"], plans.waits.to_string());
    let text = folder.ok(&["stats"]);
    assert!(text.contains("1 decision, 1 event"), "{text}");
    folder.run(&["stats", "--state", "paused"]).fails(2, &["--state"]);
}

#[test]
fn a_backup_is_the_store_and_nothing_is_overwritten() {
    let (folder, _) = Folder::with_plans();
    // Also while a world has the store.
    let world = folder.world();
    folder.ok(&["backup", "copy.db"]);
    world.shutdown().expect("it ends");
    folder.run(&["backup", "copy.db"]).fails(1, &["copy.db", "another name"]);
    folder.run(&["backup", "no/such/folder/copy.db"]).fails(1, &["no/such/folder"]);
    folder.run(&["restore", "copy.db"]).fails(1, &["turnwheel.db"]);
    folder.run(&["restore", "missing.db"]).fails(3, &["missing.db"]);
    folder.ok(&["restore", "copy.db", "--store", "again.db"]);
    assert_eq!(folder.json(&["stats", "--json", "--store", "again.db"])["plans"], 3);
    folder.write("text.db", &"no database. ".repeat(500));
    folder.run(&["restore", "text.db", "--store", "new.db"]).fails(1, &["damaged"]);
    assert!(!folder.path("new.db").exists());
}

#[test]
fn an_export_has_all_that_happened() {
    let (folder, plans) = Folder::with_plans();
    let lines = folder.ok(&["export", "--state", "stopped"]);
    let line: Value = serde_json::from_str(lines.trim()).expect("one line");
    assert_eq!(line["plan"], plans.done.to_string());
    assert!(line["records"].as_array().is_some_and(|records| records.len() > 3));
    let told = folder.run(&["export", "--output", "plans.jsonl"]);
    assert!(told.stderr().contains("plans.jsonl has 3 plans"), "{}", told.stderr());
    let text = std::fs::read_to_string(folder.path("plans.jsonl")).expect("it was written");
    assert_eq!(text.lines().count(), 3);
    folder.run(&["export", "--output", "no/such/folder/x"]).fails(1, &["no/such/folder/x"]);
}

#[test]
fn a_store_that_cannot_be_used_is_named() {
    let folder = Folder::new();
    folder.write("bad.db", "this is a text, and no store");
    folder.run(&["list", "--store", "bad.db"]).fails(1, &["bad.db is damaged", "--store FILE"]);
    folder.write("hello.yaml", "document: {dsl: '1.0.3', namespace: t, name: h, version: '1.0.0'}\ndo: [{a: {set: {a: 1}}}]\n");
    let run = |store: &str| folder.run(&["run", "hello.yaml", "--quiet", "--store", store]);
    run("bad.db").fails(1, &["bad.db is damaged", "--store FILE"]);
    run("none/w.db").fails(1, &["none/w.db", "there is no folder none", "make the folder"]);
}
