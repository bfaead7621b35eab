//! Third-party notices: who has the rights in what the binary contains, with their texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::packages::Package;
use crate::Failure;

/// Names that files with licences and notices begin with.
const FILES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// The notices of all packages that are not ours.
///
/// # Errors
///
/// The source of a package cannot be read.
pub fn of(packages: &[Package]) -> Result<String, Failure> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = String::from("Third-party software in this binary\n\n");
    for package in packages.iter().filter(|package| !package.is_own) {
        let id = format!("{} {}", package.name, package.version);
        let licence = package.licence.as_deref().unwrap_or("not stated");
        let repository = package.repository.as_deref().unwrap_or("");
        writeln!(out, "{id}  {licence}  {repository}")?;
        for text in texts_of(package)? {
            texts.entry(text).or_default().push(id.clone());
        }
    }
    for (text, mut users) in texts {
        users.dedup();
        writeln!(out, "\n{}\n{}\n\n{}", "-".repeat(80), users.join(", "), text.trim_end())?;
    }
    Ok(out)
}

/// Texts of licences and notices in the folder of a package.
fn texts_of(package: &Package) -> Result<Vec<String>, Failure> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(&package.folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
        let is_one = name.is_some_and(|name| FILES.iter().any(|begin| name.starts_with(begin)));
        if is_one && path.is_file() {
            texts.push(String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
