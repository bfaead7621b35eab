//! Flows by the names that people write: `NAME`, `NAMESPACE/NAME`, either with `:VERSION`.

use turnwheel_flow::{Flow, Flows};

/// The flow that a text names; the error says why there is none.
pub(super) fn named(flows: &Flows, text: &str) -> Result<Flow, String> {
    let (path, version) = text.split_once(':').unwrap_or((text, "latest"));
    let (namespace, name) = match path.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name),
        None => {
            let all = flows.list().into_iter().filter(|entry| entry.name == path);
            let mut spaces: Vec<String> = all.map(|entry| entry.namespace).collect();
            spaces.sort_unstable();
            spaces.dedup();
            match &spaces[..] {
                [space] => (space.clone(), path),
                [] => {
                    return Err(format!("there is no flow «{text}»: turnwheel flow list has all"));
                }
                _ => {
                    return Err(format!("several flows have the name «{text}»: add a namespace"));
                }
            }
        }
    };
    flows.find(&namespace, name, version).map_err(|error| error.to_string())
}
