//! Licences: expressions of SPDX against the list in `deny.toml`.

use crate::packages::{self, Package};
use crate::Failure;

/// Checks the licences of all packages; the text says how many there are.
///
/// # Errors
///
/// A package has a licence that `deny.toml` does not allow, or none.
pub fn check_all() -> Result<String, Failure> {
    let allowed = allowed()?;
    let packages = packages::all()?;
    let refused: Vec<String> = packages.iter().filter_map(|it| refusal(it, &allowed)).collect();
    match refused.is_empty() {
        true => Ok(format!("the licences of {} packages are allowed\n", packages.len())),
        false => Err(refused.join("\n").into()),
    }
}

fn refusal(package: &Package, allowed: &[String]) -> Option<String> {
    let (name, version) = (&package.name, &package.version);
    match &package.licence {
        None => Some(format!("{name} {version} does not say its licence")),
        Some(licence) if is_allowed(licence, allowed) => None,
        Some(licence) => Some(format!("{name} {version}: deny.toml does not allow {licence}")),
    }
}

/// The licences that `deny.toml` allows.
fn allowed() -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(packages::root().join("deny.toml"))?;
    let table: toml::Table = text.parse()?;
    let list = table.get("licenses").and_then(|it| it.get("allow")).and_then(|it| it.as_array());
    let list = list.ok_or("deny.toml has no list licenses.allow")?;
    Ok(list.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect())
}

/// Whether an expression is true when only these licences are.
pub fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let outcome = any(&mut words, allowed);
    outcome && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut holds = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        holds |= all(words, allowed);
    }
    holds
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut holds = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        holds &= one(words, allowed);
    }
    holds
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let holds = any(words, allowed);
        return words.next() == Some(")") && holds;
    }
    let mut licence = words.next().unwrap_or_default().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(&licence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_hold_if_a_choice_of_allowed_licences_fulfils_them() {
        let allowed = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        let good = [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 AND ISC OR MIT",
        ];
        for expression in good {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        let bad =
            ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT", "MIT MIT", "MIT WITH x", ")"];
        for expression in bad {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }
}
