//! Packages of the workspace and of registries, as cargo has resolved them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Failure;

/// The package whose binary is shipped.
const ROOT: &str = "turnwheel";

/// A package of a certain version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The expression of its licence, in the form of SPDX.
    pub licence: Option<String>,
    /// Where its source is developed.
    pub repository: Option<String>,
    /// Whether it is a part of this workspace.
    pub is_own: bool,
    /// The folder of its source.
    pub folder: PathBuf,
    /// SHA-256 of its archive in the registry.
    pub checksum: Option<String>,
    /// Names and versions of the packages that it needs to be built.
    pub needs: Vec<(String, String)>,
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All packages of the lock file, with all features.
///
/// # Errors
///
/// Cargo cannot resolve the workspace.
pub fn all() -> Result<Vec<Package>, Failure> {
    Ok(read(&metadata(&["--all-features"])?, &checksums()?)?.into_values().collect())
}

/// The packages that the shipped binary is built of, itself first.
///
/// # Errors
///
/// Cargo cannot resolve the workspace.
pub fn shipped() -> Result<Vec<Package>, Failure> {
    let metadata = metadata(&[])?;
    let mut packages = read(&metadata, &checksums()?)?;
    let root = packages.keys().find(|id| packages[*id].name == ROOT).cloned();
    let mut left = vec![root.ok_or("the workspace has no package of the binary")?];
    let mut seen: BTreeSet<String> = left.iter().cloned().collect();
    let mut shipped = Vec::new();
    let graph = needs(&metadata);
    while let Some(id) = left.pop() {
        let needed = graph.get(&id).cloned().unwrap_or_default();
        left.extend(needed.into_iter().filter(|id| seen.insert(id.clone())));
        shipped.extend(packages.remove(&id));
    }
    shipped[1..]
        .sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(shipped)
}

fn metadata(more: &[&str]) -> Result<Value, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked"]).args(more);
    let output = command.current_dir(root()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Checksums of archives by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>, Failure> {
    let lock: toml::Table = std::fs::read_to_string(root().join("Cargo.lock"))?.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, name: &str| Some(package.get(name)?.as_str()?.to_owned());
    let known = packages.into_iter().flatten().filter_map(|package| {
        let id = (text(package, "name")?, text(package, "version")?);
        Some((id, text(package, "checksum")?))
    });
    Ok(known.collect())
}

/// The packages that each one needs, for itself or its build script.
fn needs(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let is_for_tests = |dependency: &Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev"))
    };
    let of = |node: &Value| {
        let all = node["deps"].as_array().into_iter().flatten();
        let needed = all.filter(|dependency| !is_for_tests(dependency));
        needed.filter_map(|dependency| Some(dependency["pkg"].as_str()?.to_owned())).collect()
    };
    nodes.filter_map(|node| Some((node["id"].as_str()?.to_owned(), of(node)))).collect()
}

fn read(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<BTreeMap<String, Package>, Failure> {
    let mut packages = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |name: &str| package[name].as_str().map(str::to_owned);
        let (name, version) = (text("name").ok_or("a name")?, text("version").ok_or("a version")?);
        let manifest = PathBuf::from(text("manifest_path").ok_or("a path")?);
        let id = (name.clone(), version.clone());
        let read = Package {
            // The slash is an older form of «or».
            licence: text("license").map(|licence| licence.replace('/', " OR ").replace("  ", " ")),
            repository: text("repository"),
            is_own: package["source"].is_null(),
            folder: manifest.parent().ok_or("a folder")?.to_owned(),
            checksum: checksums.get(&id).cloned(),
            needs: Vec::new(),
            name,
            version,
        };
        packages.insert(text("id").ok_or("an id")?, read);
    }
    for (id, needed) in needs(metadata) {
        let named = |id: &String| packages.get(id).map(|it| (it.name.clone(), it.version.clone()));
        let needed: Vec<(String, String)> = needed.iter().filter_map(named).collect();
        if let Some(package) = packages.get_mut(&id) {
            package.needs = needed;
        }
    }
    Ok(packages)
}
