//! Resources outside of a definition: schemas, and functions of catalogs or by their address.
//!
//! Nothing is read here. The text of each resource is a part of the definition, in
//! `document.metadata.resources`, or it is listed as missing; `resource.rs` puts it there.

use std::fmt::Write;
use std::mem;

use sha2::{Digest, Sha256};

use super::document::escape;
use super::fields::field;
use super::Reader;
use crate::expr::Template;
use crate::model::{Authentication, TaskId};
use crate::text::{parse, Collector, Content, Node, Place, Problem};

/// Resources of a definition.
const RESOURCES_MAX: usize = 64;

/// A resource as the definition has it.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    /// The SHA-256 that its text must have.
    pub(crate) hash: Option<String>,
    pub(crate) content: Option<String>,
}

/// A resource whose text the definition does not have.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) uri: String,
    pub(crate) hash: Option<String>,
    pub(crate) authentication: Option<Authentication>,
    /// Whether it is a function, which does what it likes, or data.
    pub(crate) is_function: bool,
    /// Place of its name, without a message.
    pub(crate) place: Problem,
}

impl Reader<'_> {
    /// Texts and hashes that `document.metadata.resources` has, by address.
    pub(super) fn pinned(&mut self, metadata: &Node) {
        let Some(Content::Map(resources)) = metadata.get("resources").map(|node| &node.content)
        else {
            return;
        };
        for (uri, _, node) in resources {
            let Content::Map(_) = node.content else { continue };
            let what = format!("the resource «{uri}»");
            let fields = self.object(node, &what, &["sha256", "content"], &[]);
            let text = |reader: &mut Self, name: &str| {
                field(fields, name)
                    .and_then(|node| reader.text(node, &format!("«{name}» of {what}")))
            };
            let (hash, content) = (text(self, "sha256"), text(self, "content"));
            let is_hash = |text: &String| {
                text.len() == 64 && text.chars().all(|sign| sign.is_ascii_hexdigit())
            };
            if let Some(wrong) = hash.as_ref().filter(|hash| !is_hash(hash)) {
                let hint = "write the 64 digits that sha256sum gives";
                self.wrong_so(node, format!("«{wrong}» is no SHA-256 of {what}"), hint);
            }
            let hash = hash.map(|hash| hash.to_ascii_lowercase());
            self.resources.insert(uri.clone(), Pinned { hash, content });
        }
    }

    pub(super) fn catalogs_of(&mut self, node: &Node) {
        for (name, _, node) in self.map(node, "use.catalogs") {
            let fields =
                self.object(node, &format!("the catalog «{name}»"), &["endpoint"], &["endpoint"]);
            let Some(endpoint) = field(fields, "endpoint") else { continue };
            let Some((uri, authentication)) = self.fixed_endpoint(endpoint) else { continue };
            self.catalogs.insert(name.clone(), (uri, authentication));
        }
    }

    /// An address that is known beforehand.
    fn fixed_endpoint(&mut self, node: &Node) -> Option<(String, Option<Authentication>)> {
        let endpoint = self.endpoint(node)?;
        match endpoint.uri {
            Template::Fixed(serde_json::Value::String(uri)) if !uri.contains('{') => {
                Some((uri, endpoint.authentication))
            }
            _ => {
                self.wrong(
                    node,
                    "the address of a resource that is read beforehand has no variables",
                );
                None
            }
        }
    }

    /// The content of `{ name: …, endpoint: … }`, if it was read.
    pub(super) fn document_of(&mut self, node: &Node, what: &str) -> Option<Node> {
        let fields = self.object(node, what, &["name", "endpoint"], &["endpoint"]);
        if let Some(name) = field(fields, "name") {
            self.text(name, "the name of a resource");
        }
        let (uri, authentication) = self.fixed_endpoint(field(fields, "endpoint")?)?;
        self.content(node, uri, authentication, false)
    }

    /// The task of a function of a catalog, or of an address; nothing if it was not read.
    pub(super) fn external_function(&mut self, node: &Node, name: &str) -> Option<TaskId> {
        let (uri, authentication) = match name.rsplit_once('@') {
            Some((function, catalog)) if !name.contains("://") => {
                let (root, policy) =
                    self.known(node, catalog, "catalog", |reader| &reader.catalogs)?;
                let Some((function, version)) = function.split_once(':') else {
                    let hint = "write name:version@catalog, such as log:1.0.0@global";
                    self.wrong_so(node, format!("«{name}» names no version of a function"), hint);
                    return None;
                };
                let root = root.trim_end_matches('/');
                (format!("{root}/functions/{function}/{version}/function.yaml"), policy)
            }
            _ => (name.to_owned(), None),
        };
        let uri = raw(&uri);
        if let Some(id) = self.functions.get(&uri) {
            return Some(*id);
        }
        let content = self.content(node, uri.clone(), authentication, true)?;
        let id = self.tasks.len();
        self.reserve(1);
        // Before it is read: it may call itself.
        self.functions.insert(uri.clone(), id);
        let scope = mem::take(&mut self.scope);
        let before = self.problems.within(Some(format!("in {uri}: ")));
        let pointer = format!("/use/functions/{}", escape(&uri));
        self.task_at(id, &uri, &content, pointer, &[]);
        self.problems.within(before);
        self.scope = scope;
        Some(id)
    }

    /// The content of a resource, every part of it at the place that names it.
    fn content(
        &mut self,
        node: &Node,
        uri: String,
        authentication: Option<Authentication>,
        is_function: bool,
    ) -> Option<Node> {
        let known = self.resources.get(&uri);
        let hash = known.and_then(|known| known.hash.clone());
        let Some(content) = known.and_then(|known| known.content.clone()) else {
            let place = self.problems.problem(node.at, "", None);
            let missing = Missing { uri, hash, authentication, is_function, place };
            if self.missing.len() >= RESOURCES_MAX {
                self.wrong(node, format!("a definition may name {RESOURCES_MAX} resources"));
            } else if !self.missing.iter().any(|known| known.uri == missing.uri) {
                self.missing.push(missing);
            }
            return None;
        };
        if hash.is_some_and(|hash| hash != sha256(&content)) {
            let hint = "what was pinned is not what is there: compare both, and write its SHA-256";
            self.wrong_so(node, format!("{uri} has another SHA-256 than it must have"), hint);
            return None;
        }
        let mut problems = Collector::new(&content, &uri);
        let mut nodes = parse(&content, &mut problems);
        nodes.retain(|node| !node.is_nothing());
        if let Some(first) = problems.problems().all.first() {
            let (line, column) = (first.line, first.column);
            self.wrong(node, format!("{uri}:{line}:{column}: {}", first.message));
            return None;
        }
        if nodes.len() != 1 {
            self.wrong(node, format!("{uri} has {} documents instead of one", nodes.len()));
            return None;
        }
        let mut content = nodes.remove(0);
        put_at(&mut content, node.at);
        Some(content)
    }
}

/// The SHA-256 of a text, in digits.
pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut digits, byte| {
        let _fits = write!(digits, "{byte:02x}");
        digits
    })
}

fn put_at(node: &mut Node, at: Place) {
    node.at = at;
    match &mut node.content {
        Content::List(elements) => elements.iter_mut().for_each(|node| put_at(node, at)),
        Content::Map(fields) => fields.iter_mut().for_each(|(_, place, node)| {
            *place = at;
            put_at(node, at);
        }),
        _ => {}
    }
}

/// The address of a file's content, of its page at GitHub or GitLab.
fn raw(uri: &str) -> String {
    if let Some(rest) = uri.strip_prefix("https://github.com/") {
        let mut parts = rest.splitn(3, '/');
        let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let path = parts.next().unwrap_or_default();
        let host = "https://raw.githubusercontent.com";
        let of_branch = path.strip_prefix("tree/").or_else(|| path.strip_prefix("blob/"));
        return match of_branch {
            Some(path) => format!("{host}/{owner}/{name}/refs/heads/{path}"),
            None => format!("{host}/{owner}/{name}/refs/heads/main/{path}"),
        };
    }
    match uri.strip_prefix("https://gitlab.com/") {
        Some(_) if uri.contains("/-/") => uri.replacen("/-/tree/", "/-/raw/", 1),
        Some(_) => uri.replacen("/functions/", "/-/raw/main/functions/", 1),
        None => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_lead_to_their_content() {
        let end = "functions/log/1.0.0/function.yaml";
        let raw_of = "https://raw.githubusercontent.com/a/b/refs/heads";
        for (page, content) in [
            (format!("https://github.com/a/b/{end}"), format!("{raw_of}/main/{end}")),
            (format!("https://github.com/a/b/tree/next/{end}"), format!("{raw_of}/next/{end}")),
            (
                format!("https://gitlab.com/a/b/-/tree/main/{end}"),
                format!("https://gitlab.com/a/b/-/raw/main/{end}"),
            ),
            (
                format!("https://gitlab.com/a/b/{end}"),
                format!("https://gitlab.com/a/b/-/raw/main/{end}"),
            ),
            (format!("https://a.example/{end}"), format!("https://a.example/{end}")),
        ] {
            assert_eq!(raw(&page), content);
        }
        assert_eq!(sha256("abc")[..8], *"ba7816bf");
    }
}
