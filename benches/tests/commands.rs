//! The harness as its user sees it: verbs, rows, exit codes.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnwheel-bench"))
        .args(arguments)
        .output()
        .expect("the harness starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("rows are JSON")
}

#[test]
fn every_savina_program_comes_to_its_known_result() {
    let rows = rows(&bench(&["savina", "--size", "smoke", "--no-steal", "--json", "-"]));
    assert_eq!(rows.len(), 14 * 3);
    assert!(rows.iter().all(|row| row["messages"].as_u64().unwrap() > 0));
}

#[test]
fn compare_gives_one_row_for_each_pattern_and_implementation() {
    let output = bench(&[
        "compare",
        "--pattern",
        "big,fjcreate",
        "--impl",
        "turnwheel,tokio",
        "--reps",
        "2",
        "--procs",
        "2",
        "--json",
        "-",
    ]);
    let rows = rows(&output);
    let names: Vec<_> = rows.iter().map(|row| (&row["pattern"], &row["impl"])).collect();
    assert_eq!(names.len(), 4);
    assert!(names.iter().any(|(pattern, who)| *pattern == "big" && *who == "turnwheel"));
    for row in &rows {
        assert_eq!(row["reps"], 2);
        assert!(row["median_ns"].as_f64().unwrap() >= row["min_ns"].as_f64().unwrap());
        assert!(row["max_ns"].as_f64().unwrap() >= row["median_ns"].as_f64().unwrap());
        assert!(row["allocs_per_msg"].is_number());
        assert!(row.as_object().unwrap().contains_key("wakes_per_msg"));
    }
}

#[test]
fn compare_checks_the_messages_of_every_kind_of_load_and_of_asking() {
    let output = bench(&[
        "compare",
        "--pattern",
        "big_ref,pipe,service",
        "--impl",
        "turnwheel,turnwheel-actors,tokio",
        "--reps",
        "1",
        "--json",
        "-",
    ]);
    let rows = rows(&output);
    assert_eq!(rows.len(), 3 * 3);
    for row in &rows {
        for field in ["to_tokio", "to_tokio_min", "to_tokio_max", "worst_to_best"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{field}: {row}");
        }
        assert!(row["to_ractor"].is_null());
    }
}

#[test]
fn compare_runs_beside_another_binary_of_the_harness() {
    let this = env!("CARGO_BIN_EXE_turnwheel-bench");
    let arguments = ["--pattern", "fjcreate", "--reps", "2", "--procs", "2", "--json", "-"];
    let rows = rows(&bench(&[&["compare", "--beside", this], &arguments[..]].concat()));
    assert_eq!(rows.len(), 2, "our own implementations");
    for row in &rows {
        let ratio = |field: &str| row[field].as_f64().unwrap();
        assert!(ratio("ratio_min") <= ratio("ratio_max") && ratio("ratio_min") > 0.0, "{row}");
        assert_eq!(row["reps"], 2);
    }

    let output = bench(&[&["compare", "--beside", "/no/such/binary"], &arguments[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("its start of /no/such/binary"), "{errors}");
}

#[test]
fn compare_reports_a_child_that_fails_and_goes_on_with_the_other_patterns() {
    let output = bench(&[
        "compare",
        "--pattern",
        "ask_lone,ask_chain8,memory",
        "--impl",
        "turnwheel,tokio",
        "--reps",
        "1",
        "--fails-at",
        "ask_lone on tokio",
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("rows");
    let failed: Vec<_> = rows.iter().filter(|row| row.get("failed").is_some()).collect();
    assert_eq!(failed.len(), 1, "{rows:?}");
    assert_eq!(failed[0]["failed"], "ask_lone on tokio");
    assert_eq!(failed[0]["error"], "exit status: 101");
    let said = failed[0]["said"].to_string();
    assert!(said.contains("asked to fail at ask_lone on tokio"), "{said}");
    let of = |pattern: &str| rows.iter().filter(|row| row["pattern"] == pattern).count();
    assert_eq!((of("ask_lone"), of("ask_chain8"), of("memory")), (0, 2, 2), "{rows:?}");
    let errors = text(&output.stderr);
    assert!(errors.contains("child process 1, at ask_lone on tokio"), "{errors}");
}

#[test]
fn memory_has_rows_of_its_own_form() {
    let output =
        bench(&["compare", "--pattern", "memory", "--impl", "tokio", "--reps", "1", "--json", "-"]);
    let rows = rows(&output);
    assert_eq!(rows.len(), 1);
    let fields: Vec<_> = rows[0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["bytes", "impl", "pattern"]);
    assert!(rows[0]["bytes"].as_f64().unwrap() > 100.0);
}

#[test]
fn every_case_of_entities_comes_to_its_end() {
    let output =
        bench(&["entities", "--keys", "1000", "--reps", "1", "--procs", "1", "--json", "-"]);
    let rows = rows(&output);
    assert_eq!(rows.len(), 17 + 1, "and the ratio of the two hot ones");
    for row in &rows {
        let figure = ["median_ns", "resident_bytes", "ratio"].iter().find_map(|at| row.get(at));
        assert!(figure.is_some_and(serde_json::Value::is_number), "{row}");
    }
}

#[test]
fn an_unknown_name_is_an_error_that_names_the_known_ones() {
    for (arguments, known) in [
        (["compare", "--pattern", "nothing"], "pingpong"),
        (["compare", "--impl", "nothing"], "ractor"),
        (["savina", "--program", "nothing"], "chameneos"),
        (["latency", "--case", "nothing"], "outside_parked"),
        (["entities", "--case", "nothing"], "activate_text"),
    ] {
        let output = bench(&arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(known), "{}", text(&output.stderr));
    }
}

#[test]
fn absurd_numbers_are_refused() {
    for arguments in [
        ["compare", "--reps", "0"],
        ["compare", "--workers", "0"],
        ["compare", "--work-ns", "7"],
        ["savina", "--workers", "0"],
        ["latency", "--samples", "0"],
        ["idle", "--seconds", "0"],
        ["timers", "--millions", "0"],
        ["entities", "--keys", "0"],
        ["entities", "--reps", "0"],
    ] {
        assert_eq!(bench(&arguments).status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn help_names_every_verb_and_hides_the_child() {
    let help = text(&bench(&["--help"]).stdout);
    for verb in ["compare", "entities", "savina", "latency", "timers", "idle", "diff"] {
        assert!(help.contains(verb), "{verb}");
    }
    assert!(!help.contains("-child"));
}
