//! Limits of the source text: lines of a file, columns of a line.

use super::each_source_of;

const FILE_LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 100;

/// Each crate and how many lines of it are too wide today. A number may fall, never rise.
const CRATES: &[(&str, usize)] = &[
    ("runtime/src", 0),
    ("runtime/checked", 0),
    ("runtime/extras/src", 0),
    ("actors/src", 22),
    ("actors/macros/src", 4),
    ("actors/interceptors/src", 0),
    ("actors/testkit/src", 0),
    ("engine/macros/src", 0),
    ("engine/src", 255),
    ("engine/postgres/src", 0),
    ("engine/sqlite/src", 16),
    ("engine/testkit/src", 27),
    ("engine/flow/src", 82),
    ("src", 235),
];

#[test]
fn files_have_at_most_500_lines() {
    let mut large = Vec::new();
    for (folder, _) in CRATES {
        each_source_of(folder, |name, text| {
            let lines = text.lines().count();
            if lines > FILE_LINES_MAX {
                large.push(format!("{folder}/{name}: {lines} lines"));
            }
        });
    }
    assert!(large.is_empty(), "one file, one noun:\n{}", large.join("\n"));
}

#[test]
fn lines_have_at_most_100_columns() {
    for (folder, known) in CRATES {
        let mut wide = Vec::new();
        each_source_of(folder, |name, text| {
            let too_wide = |(_, line): &(usize, &str)| line.chars().count() > COLUMNS_MAX;
            let lines = text.lines().enumerate().filter(too_wide);
            wide.extend(lines.map(|(index, _)| format!("{folder}/{name}:{}", index + 1)));
        });
        let count = wide.len();
        assert!(count <= *known, "{count} wide lines, {known} allowed:\n{}", wide.join("\n"));
    }
}
