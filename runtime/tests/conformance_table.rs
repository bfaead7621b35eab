//! The conformance tables of the runtime and of the extras are complete and name existing tests.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Every case of the reference; the `O` ones are numbered without a gap.
#[rustfmt::skip]
const CASES: &[&str] = &[
    "Z-001", "Z-002", "Z-004", "Z-005", "Z-006", "Z-007", "Z-009", "Z-010", "Z-011",
    "Z-012", "Z-014", "Z-015", "Z-016", "Z-017", "Z-019", "Z-020", "Z-021", "Z-022",
    "Z-024", "Z-025", "Z-026", "Z-027", "Z-029", "Z-030", "Z-031", "Z-032", "Z-034",
    "Z-035", "Z-036", "Z-037", "Z-039", "Z-040", "Z-041", "Z-042", "Z-044", "Z-045",
    "Z-046", "Z-047", "Z-049", "Z-050", "Z-051", "Z-052", "Z-054", "Z-055", "Z-056",
    "Z-057", "Z-059", "Z-060", "Z-061", "Z-062", "Z-064", "Z-065", "Z-066", "Z-067",
    "Z-069", "Z-070", "Z-071", "Z-072", "Z-074", "Z-075", "Z-076", "Z-077", "Z-079",
    "Z-080", "Z-081", "Z-082", "Z-084", "Z-085", "Z-086", "Z-087", "Z-089", "Z-090",
    "Z-091", "Z-092", "Z-094", "Z-095", "Z-096", "Z-097", "Z-099", "Z-100", "Z-101",
    "Z-102", "Z-104", "Z-105", "Z-106", "Z-107", "Z-109", "Z-110", "Z-111", "Z-112",
    "Z-114", "Z-115", "Z-116", "Z-117", "Z-119", "Z-120", "Z-121", "Z-122", "Z-124",
    "Z-125", "Z-126", "Z-127", "Z-129", "Z-130", "Z-131", "Z-132", "Z-134", "Z-135",
    "Z-136", "Z-137", "Z-139", "Z-140", "Z-141", "Z-142", "Z-144", "Z-145", "Z-146",
    "Z-147", "Z-149", "Z-150", "Z-151", "Z-152", "Z-154", "Z-155", "Z-156", "Z-157",
    "Z-159", "Z-160", "Z-161", "Z-162", "Z-164", "Z-165", "Z-166", "Z-167", "Z-169",
    "Z-170", "Z-171", "Z-172", "Z-174", "Z-175", "Z-176", "Z-177", "Z-179", "Z-180",
    "Z-181", "Z-182", "Z-184", "Z-185", "Z-186", "Z-187", "Z-189", "Z-190", "Z-191",
    "Z-192", "Z-194", "Z-195", "Z-196", "Z-197", "Z-199", "Z-200", "Z-201", "Z-202",
    "Z-205", "Z-206", "Z-207", "Z-209", "Z-210", "Z-211", "Z-212", "Z-214", "Z-215",
    "Z-216", "Z-217", "Z-218", "Z-219", "Z-220", "Z-221", "Z-222", "Z-223", "Z-224",
    "Z-225", "Z-226", "Z-227", "Z-229", "Z-230", "Z-231", "Z-232", "Z-234", "Z-235",
    "Z-236", "Z-237", "Z-238", "Z-239", "Z-240", "Z-H01", "Z-H02", "Z-H03", "Z-H04",
    "Z-H05", "Z-H06", "Z-H07", "Z-H08", "Z-H09", "Z-H10", "Z-H11", "Z-H12", "Z-H13",
    "Z-H14", "Z-H15", "Z-H16", "Z-H17", "Z-H18", "Z-H19", "Z-H20", "Z-H21", "Z-H22",
    "Z-H23", "Z-H24", "Z-X01", "Z-X02", "Z-X03", "Z-X04", "Z-X05", "Z-X06", "Z-X07",
    "Z-X08", "Z-X09", "Z-X10", "Z-X11", "Z-X12", "Z-X13",
];
/// Requirements O-001 to this one.
const REQUIREMENTS: usize = 66;

fn read_all(folder: &Path, text: &mut String) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, text)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            text.push_str(&fs::read_to_string(path)?);
        }
    }
    Ok(())
}

#[test]
fn every_case_has_one_row_and_every_named_test_exists() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    read_all(&root.join("tests"), &mut sources)?;
    read_all(&root.join("src"), &mut sources)?;
    read_all(&root.join("extras"), &mut sources)?;
    let mut table = fs::read_to_string(root.join("tests/CONFORMANCE.md"))?;
    table += &fs::read_to_string(root.join("extras/tests/CONFORMANCE.md"))?;
    let mut rows = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| Z-") || line.starts_with("| O-")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (id, text) = (cells.next().ok_or("no case")?, cells.next().ok_or("no text")?);
        assert!(rows.insert(id.to_owned(), text).is_none(), "{id} has two rows");
        let says_why = ["differs: ", "later: ", "open: "].iter().any(|why| text.starts_with(why));
        assert!(says_why || text.starts_with('`'), "{id} has neither a test nor a reason");
        for name in text.split('`').skip(1).step_by(2).filter(|_| !says_why) {
            assert!(sources.contains(&format!("fn {name}(")), "{id}: no test `{name}`");
        }
    }
    let requirements = (1..=REQUIREMENTS).map(|number| format!("O-{number:03}"));
    let expected = CASES.iter().map(|id| (*id).to_owned()).chain(requirements);
    let mut count = 0;
    for id in expected {
        assert!(rows.contains_key(&id), "{id} has no row");
        count += 1;
    }
    assert_eq!(rows.len(), count, "a row for a case that the reference does not have");
    Ok(())
}
