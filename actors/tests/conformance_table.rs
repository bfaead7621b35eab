//! The conformance table of the actors is complete and names existing tests.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

/// Every case of the reference.
#[rustfmt::skip]
const CASES: &[&str] = &[
    "O-T001", "O-T002", "O-T004", "O-T005", "O-T006", "O-T007", "O-T009", "O-T010", "O-T011",
    "O-T012", "O-T014", "O-T015", "O-T016", "O-T017", "O-T019", "O-T020", "O-T021", "O-T022",
    "O-T025", "O-T026", "O-T027", "O-T029", "O-T030", "O-T031", "O-T032", "O-T034", "O-T035",
    "O-T036", "O-T037", "O-T040", "O-T041", "O-T042", "O-T044", "O-T045", "O-T046", "O-T047",
    "O-T049", "O-T050", "O-T051", "O-T052", "O-T054", "O-T055", "O-T056", "O-T057", "O-T059",
    "O-T060", "O-T061", "O-T062", "O-T064", "O-T065", "O-T066", "O-T067", "O-T069", "O-T070",
    "O-T071", "O-T072", "O-T074", "O-T075", "O-T076", "O-T077", "O-T079", "O-T080", "O-T081",
    "O-T082", "O-T083", "O-T084", "O-T085", "O-T086", "O-T087", "O-T089", "O-T090", "O-T091",
    "O-T092", "O-T094", "O-T095", "O-T096", "O-T097", "O-T099", "O-T100", "O-T101", "O-T102",
    "O-T106", "O-T107", "O-T111", "O-T112", "O-T114", "O-T115", "O-T116", "O-T117", "O-T119",
    "O-T120", "O-T121", "O-T122", "O-T124", "O-T125", "O-T126", "O-T127", "O-T129", "O-T130",
    "O-T131", "O-T132", "O-T133", "O-T134", "O-T135", "O-T136", "O-T137", "O-T139", "O-T140",
    "O-T141", "O-T142", "O-T144", "O-T145", "O-T146", "O-T147", "O-T149", "O-T150", "O-T151",
    "O-T152", "O-T154", "O-T155", "O-T156", "O-T157", "O-T159", "O-T160", "O-T161", "O-T162",
    "O-T163", "O-T164", "O-T165", "O-T166",
];

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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut sources = String::new();
    read_all(&folder, &mut sources)?;
    let table = fs::read_to_string(folder.join("CONFORMANCE.md"))?;
    let mut seen = BTreeSet::new();
    for line in table.lines().filter(|line| line.starts_with("| O-T")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (id, text) = (cells.next().ok_or("no case")?, cells.next().ok_or("no text")?);
        assert!(CASES.contains(&id), "{id} is no case of the reference");
        assert!(seen.insert(id.to_owned()), "{id} has two rows");
        let says_why = ["differs: ", "later: ", "open: "].iter().any(|why| text.starts_with(why));
        assert!(says_why || text.starts_with('`'), "{id} has neither a test nor a reason");
        for name in text.split('`').skip(1).step_by(2).filter(|_| !says_why) {
            assert!(sources.contains(&format!("fn {name}(")), "{id}: no test `{name}`");
        }
    }
    assert_eq!(seen.len(), CASES.len(), "a case has no row");
    Ok(())
}
