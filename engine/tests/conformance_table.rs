//! The tables of conformance, of trouble and of flows are whole and name tests that exist.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Every case of the reference that concerns the core.
#[rustfmt::skip]
const CASES: &[&str] = &[
    "D-001", "D-002", "D-004", "D-005", "D-006", "D-007", "D-009", "D-010", "D-011", "D-012",
    "D-014", "D-015", "D-016", "D-017", "D-019", "D-020", "D-021", "D-022", "D-029", "D-030",
    "D-031", "D-032", "D-034", "D-035", "D-036", "D-037", "D-039", "D-040", "D-041", "D-042",
    "D-044", "D-045", "D-046", "D-047", "D-049", "D-050", "D-051", "D-052", "D-054", "D-055",
    "D-056", "D-057", "D-059", "D-060", "D-061", "D-062", "D-064", "D-069", "D-070", "D-071",
    "D-072", "D-074", "D-075", "D-076", "D-077", "D-079", "D-080", "D-081", "D-082", "D-084",
    "D-085", "D-086", "D-087", "D-089", "D-090", "D-091", "D-092", "D-104", "D-105", "D-106",
    "D-107", "D-109", "D-110", "D-111", "D-112", "D-114", "D-115", "D-116", "D-117", "D-119",
    "D-120", "D-121", "D-122", "D-124", "D-125", "D-126", "D-127", "D-129", "D-130", "D-131",
    "D-132", "D-134", "D-135", "D-136", "D-137", "D-139", "D-140", "D-141", "D-142", "D-144",
    "D-145", "D-146", "D-147", "D-149", "D-150", "D-151", "D-152", "D-154", "D-155", "D-156",
    "D-157", "D-159", "D-160", "D-161", "D-162", "D-164", "D-165", "D-166", "D-167", "D-169",
    "D-170", "D-171", "D-172", "D-174", "D-175", "D-176", "D-177", "D-179", "D-180", "D-181",
    "D-182", "D-184", "D-185", "D-186", "D-187", "D-189", "D-190", "D-191", "D-192", "D-194",
    "D-195", "D-200", "D-201", "D-202", "D-204", "D-205", "D-206", "D-207", "D-209", "D-210",
    "D-211", "D-212", "D-214", "D-215", "D-216", "D-217", "D-219", "D-220", "D-221", "D-222",
    "D-224", "D-229", "D-230", "D-231", "D-232", "D-234", "D-235", "D-236", "D-237", "D-239",
    "D-240", "D-241", "D-242", "D-244", "D-245", "D-246", "D-247", "D-249", "D-250", "D-251",
    "D-252", "D-254", "D-255", "D-256", "D-257", "D-259", "D-261", "D-262", "D-271", "D-272",
    "D-274", "D-275", "D-276", "D-277", "D-279", "D-280", "D-281", "D-282", "D-284", "D-285",
    "D-286", "D-287", "D-289", "D-296", "D-297", "D-299", "D-300", "D-301", "D-302", "D-304",
    "D-305", "D-306", "D-307", "D-309", "D-310", "D-311", "D-312", "D-319", "D-320", "D-321",
    "D-322", "D-324", "D-325", "D-326", "D-327", "S-01", "S-02", "S-03", "S-04", "S-05", "S-06",
    "S-07", "S-08", "S-09", "S-10", "S-11", "S-12", "S-13", "S-14", "S-15", "S-16", "S-17",
    "S-18", "S-19", "S-20", "S-21", "S-22", "S-23", "S-24", "S-25", "S-26",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// All tests, as text.
fn sources() -> Result<String, Box<dyn Error>> {
    let mut sources = String::new();
    read_all(&folder(), &mut sources)?;
    read_all(&folder().join("../flow/tests"), &mut sources)?;
    Ok(sources)
}

fn read_all(folder: &Path, sources: &mut String) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, sources)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            sources.push_str(&fs::read_to_string(path)?);
        }
    }
    Ok(())
}

#[test]
fn every_kind_of_trouble_has_tests_that_exist() -> Result<(), Box<dyn Error>> {
    let (sources, table) = (sources()?, fs::read_to_string(folder().join("TROUBLE.md"))?);
    let mut rows = 0;
    for line in table.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, trouble, outcome, tests, _] = cells[..] else { return Err(line.into()) };
        assert!(!trouble.is_empty() && !outcome.is_empty(), "{line}");
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{trouble} has no test");
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "{trouble}: no test `{name}`");
        }
        rows += 1;
    }
    assert!(rows >= 15, "a row is gone: {rows}");
    Ok(())
}

#[test]
fn every_case_has_one_row_and_every_named_test_exists() -> Result<(), Box<dyn Error>> {
    let (mut sources, table) = (sources()?, fs::read_to_string(folder().join("CONFORMANCE.md"))?);
    read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources)?;
    let mut seen = BTreeSet::new();
    for line in table.lines().filter(|line| line.starts_with("| D-") || line.starts_with("| S-")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (id, text) = (cells.next().ok_or("no case")?, cells.next().ok_or("no text")?);
        assert!(CASES.contains(&id), "{id} is no case of the reference");
        assert!(seen.insert(id.to_owned()), "{id} has two rows");
        let says_why = ["differs: ", "later: ", "open: "].iter().any(|why| text.starts_with(why));
        assert!(says_why || text.starts_with('`'), "{id} has neither a test nor a reason");
        // A reason may name other things as well, which are shorter.
        let is_test = |name: &&str| !says_why || name.matches('_').count() > 3;
        for name in text.split('`').skip(1).step_by(2).filter(is_test) {
            assert!(sources.contains(&format!("fn {name}(")), "{id}: no test `{name}`");
        }
    }
    assert_eq!(seen.len(), CASES.len(), "a case has no row");
    Ok(())
}

#[test]
fn the_tests_that_the_table_of_flows_names_are_there() -> Result<(), Box<dyn Error>> {
    let (engine, mut sources) = (Path::new(env!("CARGO_MANIFEST_DIR")), sources()?);
    read_all(&engine.join("flow/src"), &mut sources)?;
    // Those with real servers of messages.
    read_all(&engine.join("../tests/serve"), &mut sources)?;
    let table = fs::read_to_string(engine.join("../docs/flows.md"))?;
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with('|')) {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        assert!(!last.trim().is_empty(), "{row} says nothing");
        for name in last.split('`').filter(|name| name.matches('_').count() > 3) {
            named += 1;
            assert!(sources.contains(&format!("fn {name}()")), "there is no test {name}");
        }
    }
    assert!(named > 40, "{named} tests are named");
    Ok(())
}
