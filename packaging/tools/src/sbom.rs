//! The software bill of materials, in the format CycloneDX 1.5. It has no date and no serial number: the
//! same source gives the same text.

use serde_json::{json, Value};

use crate::packages::Package;
use crate::Failure;

/// The bill of a binary that is built of these packages, its own first.
///
/// # Errors
///
/// There is no package.
pub fn of(packages: &[Package]) -> Result<String, Failure> {
    let (own, others) = packages.split_first().ok_or("a binary has at least one package")?;
    let dependencies: Vec<Value> = packages
        .iter()
        .map(|package| {
            let needs = package.needs.iter().map(|(name, version)| purl(name, version));
            let needs: Vec<String> = needs.collect();
            json!({"ref": purl(&package.name, &package.version), "dependsOn": needs})
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(own, "application")},
        "components": others.iter().map(|it| component(it, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn component(package: &Package, kind: &str) -> Value {
    let id = purl(&package.name, &package.version);
    let mut component = json!({
        "type": kind,
        "bom-ref": id,
        "name": package.name,
        "version": package.version,
        "purl": id,
    });
    if let Some(licence) = &package.licence {
        component["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// The URL of a package of cargo.
fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}
