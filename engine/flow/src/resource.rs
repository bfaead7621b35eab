//! Resources that a definition names by address, and that are read once, when it is added: schemas
//! and functions. Their texts become a part of the definition, so that it does the same for ever.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Map, Value};

use crate::definition::{load, Flow};
use crate::expr::{as_text, Template};
use crate::flows::{FlowError, Flows};
use crate::io::{HttpRequest, Io, IoCall};
use crate::model::{Authentication, Properties, Scheme};
use crate::read::{sha256, Missing};
use crate::text::{Problem, Problems};

/// Resources may name resources, so deep.
const DEPTH_MAX: usize = 8;

/// Time limit of all resources of a definition together.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(60);

impl Missing {
    fn read(&self, io: &dyn Io, call: &IoCall<'_>) -> Result<String, String> {
        if let (true, Some(problem)) = (self.is_function, io.function_problem(&self.uri)) {
            if self.hash.is_none() {
                return Err(problem);
            }
        }
        let told = |error: &dyn std::fmt::Display| format!("{} was not read: {error}", self.uri);
        let bytes = if self.uri.starts_with("http://") || self.uri.starts_with("https://") {
            let mut request = HttpRequest {
                method: "GET".to_owned(),
                uri: self.uri.clone(),
                headers: Vec::new(),
                body: None,
                follows_redirects: true,
                digest: None,
            };
            if let Some(policy) = &self.authentication {
                let header = header(policy, io).map_err(|error| told(&error))?;
                request.headers.push(("Authorization".to_owned(), header));
            }
            let answer = io.http(&request, call).map_err(|error| told(&error))?;
            if !(200..300).contains(&answer.status) {
                return Err(told(&format!("the answer has the status {}", answer.status)));
            }
            answer.body
        } else {
            io.resource(&self.uri, call).map_err(|error| told(&error))?
        };
        let text = String::from_utf8(bytes).map_err(|_| told(&"it is no text"))?;
        let is = sha256(&text);
        match &self.hash {
            Some(wanted) if *wanted != is => {
                Err(format!("{} has the SHA-256 {is}, and the definition wants {wanted}", self.uri))
            }
            _ => Ok(text),
        }
    }
}

/// The header of a policy whose values are known beforehand.
fn header(policy: &Authentication, io: &dyn Io) -> Result<String, String> {
    let properties = match &policy.properties {
        Properties::Written(template) if template.expressions().is_empty() => fixed(template),
        Properties::Written(_) => return Err("its authentication is an expression".to_owned()),
        Properties::Secret(name) => io
            .secret(name)
            .map_err(|error| error.to_string())?
            .ok_or_else(|| format!("there is no secret «{name}»"))?,
    };
    let field = |name: &str| properties.get(name).map(as_text).unwrap_or_default();
    match policy.scheme {
        Scheme::Basic => {
            let pair = format!("{}:{}", field("username"), field("password"));
            Ok(format!("Basic {}", STANDARD.encode(pair)))
        }
        Scheme::Bearer if properties.is_string() => Ok(format!("Bearer {}", as_text(&properties))),
        Scheme::Bearer => Ok(format!("Bearer {}", field("token"))),
        _ => Err("only «basic» and «bearer» can be used before a flow runs".to_owned()),
    }
}

/// The value of a template without expressions.
fn fixed(template: &Template) -> Value {
    match template {
        Template::Fixed(value) => value.clone(),
        Template::Object(fields) => {
            Value::Object(fields.iter().map(|(name, it)| (name.clone(), fixed(it))).collect())
        }
        Template::List(elements) => elements.iter().map(fixed).collect(),
        _ => Value::Null,
    }
}

/// The resources of a definition, by address.
fn resources(source: &mut Value) -> Option<&mut Map<String, Value>> {
    let document = source.get_mut("document")?.as_object_mut()?;
    let metadata = document.entry("metadata").or_insert_with(|| json!({})).as_object_mut()?;
    metadata.entry("resources").or_insert_with(|| json!({})).as_object_mut()
}

impl Flow {
    /// Addresses of the resources that it names and that are not a part of it yet.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.definition().missing.iter().map(|missing| missing.uri.as_str())
    }

    /// The flow with the texts of all resources that it names: schemas, and functions of catalogs
    /// or by address. Each is read once, by `io`, and kept in `document.metadata.resources` with
    /// its SHA-256. A definition may have that beforehand: the text must agree then. It blocks.
    /// `path` names the source of the text.
    ///
    /// # Errors
    ///
    /// A resource cannot be read, is none, or has another SHA-256; a function whose SHA-256 the
    /// definition does not have, from a place that `io` does not allow.
    pub fn resolved(&self, io: &dyn Io, path: &str) -> Result<Self, Problems> {
        let call = IoCall::new("resources", &|| false).limit(Some(WITHIN));
        let mut flow = self.clone();
        for _ in 0..DEPTH_MAX {
            let missing = &flow.definition().missing;
            let Some(first) = missing.first() else { return Ok(flow) };
            let place = first.place.clone();
            let (mut source, mut all) = (flow.source().clone(), Vec::new());
            for missing in missing {
                match missing.read(io, &call) {
                    Ok(text) => {
                        let kept = json!({ "sha256": sha256(&text), "content": text });
                        resources(&mut source).map(|known| known.insert(missing.uri.clone(), kept));
                    }
                    Err(message) => all.push(Problem { message, ..missing.place.clone() }),
                }
            }
            if !all.is_empty() {
                return Err(Problems { path: path.to_owned(), all });
            }
            // The text was right before: what is wrong now is in a resource.
            flow = load(&source.to_string(), path).map_err(|wrong| {
                let all = wrong.all.into_iter().map(|it| Problem {
                    message: it.message,
                    suggestion: it.suggestion,
                    ..place.clone()
                });
                Problems { path: path.to_owned(), all: all.collect() }
            })?;
        }
        let Some(first) = flow.definition().missing.first() else { return Ok(flow) };
        let message = format!("{} is named by resources more than {DEPTH_MAX} deep", first.uri);
        let all = vec![Problem { message, ..first.place.clone() }];
        Err(Problems { path: path.to_owned(), all })
    }
}

impl Flows {
    /// The flow with the resources that it names, to be added: see [`Flow::resolved`]. If this
    /// version is there already, they are those that it was added with, and nothing is read. It
    /// blocks.
    ///
    /// # Errors
    ///
    /// As [`Flow::resolved`].
    pub fn resolve(&self, flow: &Flow) -> Result<Flow, FlowError> {
        if flow.missing().next().is_none() {
            return Ok(flow.clone());
        }
        let unable = |problems: Problems| FlowError::Unable {
            flow: flow.id(),
            problem: problems.to_string(),
        };
        let mut source = flow.source().clone();
        let known = self.bench.find(flow.namespace(), flow.name(), flow.version());
        let known = known.and_then(|known| {
            known.source().pointer("/document/metadata/resources")?.as_object().cloned()
        });
        for (uri, kept) in known.into_iter().flatten() {
            let Some(own) = resources(&mut source) else { continue };
            let entry = own.entry(uri).or_insert_with(|| json!({}));
            let is_other = entry.get("sha256").is_some_and(|hash| *hash != kept["sha256"]);
            if entry.get("content").is_none() && !is_other {
                *entry = kept;
            }
        }
        let again = load(&source.to_string(), "the flow").map_err(unable)?;
        again.resolved(&*self.bench.io, "the flow").map_err(unable)
    }
}
