//! The folders of each crate import in the order that ARCHITECTURE.md gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{code_lines, each_source_of, workspace};

/// Files that are not ordered: roots of crates, entry points, and the glue for models.
const UNORDERED: &[&str] = &["lib", "main", "macros", "model", "surface"];

/// Each crate of the table with the rank of its folders. Folders in braces share a rank.
fn table() -> Vec<(String, BTreeMap<String, usize>)> {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it is there");
    let table = text.split_once("<!-- order of folders -->").expect("the table is marked").1;
    let rows = table.lines().take_while(|line| *line != "<!-- end -->");
    let rows = rows.filter(|line| line.starts_with("| `")).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let folder = cells.next().unwrap_or_default().trim_matches('`').to_owned();
        (folder, ranks(cells.next().unwrap_or_default()))
    });
    rows.collect()
}

fn ranks(folders: &str) -> BTreeMap<String, usize> {
    let (mut ranks, mut rank, mut is_group) = (BTreeMap::new(), 0, false);
    for word in folders.split_whitespace() {
        is_group |= word.starts_with('{');
        rank += usize::from(!is_group || word.starts_with('{'));
        ranks.insert(word.trim_matches(['{', '}']).to_owned(), rank);
        is_group &= !word.ends_with('}');
    }
    ranks
}

/// The folder or file below the root that a source belongs to.
fn top(name: &str) -> &str {
    name.split('/').next().unwrap_or(name).trim_end_matches(".rs")
}

/// Names that the crate's root re-exports, with their folder of origin.
fn reexports(folder: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(workspace().join(folder).join("lib.rs")).unwrap_or_default();
    let mut found = BTreeMap::new();
    for item in text.split(';').filter_map(|item| Some(item.split_once("pub use ")?.1)) {
        let path = item.trim_start_matches("crate::").trim_start_matches("self::");
        let (module, names) = path.split_once("::").unwrap_or((path, ""));
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
        let types = names.filter(|name| name.starts_with(char::is_uppercase));
        found.extend(types.map(|name| (name.to_owned(), module.to_owned())));
    }
    found
}

/// Names that follow `crate::` in the code: one, or those of a list in braces.
fn imported(code: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let first = |path: &'_ str| path.split(|c| !is_part(c)).next().map_or(0, str::len);
    let mut names = Vec::new();
    for (start, _) in code.match_indices("crate::") {
        if code[..start].ends_with(|c: char| is_part(c) || c == '$') {
            continue;
        }
        let rest = &code[start + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.push(&rest[..first(rest)]);
            continue;
        };
        let mut depth = 1;
        for part in list.split_inclusive(['{', '}', ',']) {
            let name = part.trim();
            if depth == 1 {
                names.push(&name[..first(name)]);
            }
            match part.as_bytes().last() {
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

#[test]
fn folders_import_in_the_order_of_the_table() {
    let mut broken = BTreeSet::new();
    let table = table();
    assert!(table.len() >= 6, "every crate has a row");
    for (folder, ranks) in &table {
        let reexports = reexports(folder);
        let rank = |name: &str| {
            let module = reexports.get(name).map_or(name, String::as_str);
            ranks.get(module).map(|rank| (module.to_owned(), *rank))
        };
        each_source_of(folder, |name, text| {
            let own = top(name);
            if UNORDERED.contains(&own) || name.ends_with("tests.rs") {
                return;
            }
            let Some(own_rank) = ranks.get(own) else {
                broken.insert(format!("{folder}/{own} is not in the table"));
                return;
            };
            let code: Vec<_> = code_lines(text).map(|(_, line)| line).collect();
            for (module, rank) in imported(&code.join(" ")).into_iter().filter_map(rank) {
                if rank > *own_rank {
                    broken.insert(format!("{folder}/{name} imports {module}"));
                }
            }
        });
    }
    let broken: Vec<_> = broken.into_iter().collect();
    assert!(broken.is_empty(), "against the table in ARCHITECTURE.md:\n{}", broken.join("\n"));
}

fn shares(ranks: &BTreeMap<String, usize>, rank: usize) -> bool {
    ranks.values().filter(|other| **other == rank).count() > 1
}

#[test]
fn folders_in_braces_are_those_of_today() {
    // A group of folders that import each other may lose members, never gain any.
    let grouped = |folder: &str| -> usize {
        let table = table();
        let ranks = &table.iter().find(|(name, _)| name == folder).expect("it has a row").1;
        ranks.values().filter(|rank| shares(ranks, **rank)).count()
    };
    for (folder, known) in [
        ("runtime/src", 4),
        ("runtime/extras/src", 0),
        ("actors/src", 0),
        ("actors/macros/src", 2),
        ("actors/interceptors/src", 0),
        ("actors/testkit/src", 0),
        ("engine/macros/src", 0),
        ("engine/src", 14),
        ("engine/flow/src", 9),
        ("engine/postgres/src", 0),
        ("engine/sqlite/src", 0),
        ("engine/testkit/src", 2),
        ("src", 0),
    ] {
        assert_eq!(grouped(folder), known, "{folder}: folders in braces; this number only falls");
    }
}
