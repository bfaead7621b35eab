//! Links between pages lead somewhere: the file is there, and the heading in it.

use std::fs;
use std::path::Path;

use crate::{pages, text_of};

/// What a page links to: `](target)`, outside of code.
fn targets(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            found.extend(rest.split_once(')').map(|(target, _)| (at + 1, target.to_owned())));
        }
    }
    found
}

/// The name that forges give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept =
        kept.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

fn problem(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent().expect("a page lies in a folder");
    let file = if file.is_empty() { page.to_owned() } else { folder.join(file) };
    if !file.exists() {
        return Some(format!("«{target}» leads nowhere"));
    }
    if heading.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
    let is_there = anchors.any(|anchor| anchor == heading);
    (!is_there).then(|| format!("«{target}»: there is no such heading"))
}

#[test]
fn links_lead_somewhere_and_the_index_names_every_page() {
    let mut problems = Vec::new();
    for page in pages() {
        for (line, target) in targets(&text_of(&page)) {
            let found = problem(&page, &target);
            problems.extend(found.map(|text| format!("{}:{line}: {text}", page.display())));
        }
        let name = page.file_name().expect("a page has a name").to_string_lossy().into_owned();
        let index = fs::read_to_string(crate::cargo::root().join("docs/README.md"));
        let index = index.expect("the index is there");
        if page.parent().is_some_and(|folder| folder.ends_with("docs"))
            && name != "README.md"
            && !index.contains(&format!("]({name})"))
        {
            problems.push(format!("docs/README.md does not name {name}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let page = crate::cargo::root().join("docs/README.md");
    assert!(problem(&page, "nothing.md").is_some());
    assert!(problem(&page, "cli.md#no-such-verb").is_some());
    assert_eq!(problem(&page, "cli.md#exit-codes"), None);
    assert_eq!(problem(&page, "https://example.org"), None);
    assert_eq!(targets("a [b](c.md) d\n```sh\n](e)\n```\n"), [(1, "c.md".to_owned())]);
}
