//! `docs/cli.md` names every verb, every flag and every exit code of the binary, and no others.

use std::collections::BTreeSet;
use std::fs;

use crate::cargo::root;
use crate::place::Place;

/// Flags that every verb has; they have a section of their own.
const EVERYWHERE: [&str; 8] =
    ["--config", "--store", "--server", "--token", "--context", "--by", "--colour", "--help"];

fn help(place: &Place, verb: &[&str]) -> String {
    let output = place.command("turnwheel").args(verb).arg("--help").output();
    String::from_utf8(output.expect("it was built for this test").stdout).expect("it is text")
}

/// The verbs below a verb.
fn verbs(help: &str) -> Vec<&str> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let named = commands.take_while(|line| !line.is_empty());
    let names = named.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The flags that a help describes.
fn flags(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    lines.flat_map(named).filter(|flag| !EVERYWHERE.contains(flag)).collect()
}

/// Everything in a text that looks like a flag.
fn named(text: &str) -> Vec<&str> {
    let is_part = |sign: char| sign.is_ascii_lowercase() || sign == '-';
    let words = text.split(|sign| !is_part(sign));
    words.filter(|word| word.starts_with("--") && word.len() > 3).collect()
}

/// The section of a page below a heading, up to the next one.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let from = page.find(&format!("\n{heading}\n"))? + heading.len() + 2;
    let rest = &page[from..];
    Some(rest.find("\n## ").map_or(rest, |to| &rest[..to]))
}

#[test]
fn the_page_of_verbs_is_what_the_binary_says() {
    let place = Place::new(&root());
    let page = fs::read_to_string(root().join("docs/cli.md")).expect("the page is there");
    let which = section(&page, "## Which plans").expect("it has that section");
    let output = section(&page, "## Output").expect("it has that section");
    let everything = help(&place, &[]);
    let mut paths: Vec<Vec<&str>> = verbs(&everything).into_iter().map(|verb| vec![verb]).collect();
    assert!(paths.len() > 15, "{paths:?}");
    let helps: Vec<(String, String)> = {
        let mut all = Vec::new();
        while let Some(path) = paths.pop() {
            let text = help(&place, &path);
            let below: Vec<String> = verbs(&text).into_iter().map(str::to_owned).collect();
            for verb in below {
                let nested = help(&place, &[path[0], &verb]);
                all.push((path[0].to_owned(), nested));
            }
            all.push((path[0].to_owned(), text));
        }
        all
    };
    let names: BTreeSet<&str> = helps.iter().map(|(verb, _)| verb.as_str()).collect();
    for verb in names {
        let said = section(&page, &format!("## `{verb}`"))
            .unwrap_or_else(|| panic!("docs/cli.md has no section «## `{verb}`»"));
        let own = helps.iter().filter(|(name, _)| name == verb);
        let real: BTreeSet<&str> = own.flat_map(|(_, help)| flags(help)).collect();
        let mut told: BTreeSet<&str> = named(said).into_iter().collect();
        for (link, shared) in [("(#which-plans)", which), ("(#output)", output)] {
            if said.contains(link) {
                told.extend(named(shared).into_iter().filter(|flag| real.contains(flag)));
            }
        }
        let missing: Vec<_> = real.difference(&told).collect();
        assert!(missing.is_empty(), "docs/cli.md says nothing of {missing:?} of {verb}");
        let others = told.difference(&real).filter(|flag| !EVERYWHERE.contains(flag));
        let others: Vec<_> = others.collect();
        assert!(others.is_empty(), "docs/cli.md tells {others:?}, which {verb} does not have");
    }
    let codes = everything.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    for line in codes.take_while(|line| !line.is_empty()) {
        let code = line.split_whitespace().next().expect("a line has a code");
        assert!(
            page.contains(&format!("\n| {code} |")),
            "docs/cli.md does not tell exit code {code}"
        );
    }
}
