//! The files of the console.

use std::borrow::Cow;
use std::sync::OnceLock;

/// A file that is embedded in the binary.
#[derive(Clone, Debug)]
pub(super) struct Asset {
    name: &'static str,
    pub(super) text: Cow<'static, str>,
}

macro_rules! assets {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, text: Cow::Borrowed(include_str!(concat!($folder, "/", $name))) }),*]
    };
}

const OWN: &[Asset] = assets![
    "assets":
    "index.html",
    "icon.svg",
    "console.css",
    "views.css",
    "api.js",
    "app.js",
    "bulk.js",
    "charts.js",
    "cluster.js",
    "dag.js",
    "dialogs.js",
    "editor.js",
    "entities.js",
    "events.js",
    "flow-graph.js",
    "flow-start.js",
    "flow.js",
    "flows.js",
    "format.js",
    "job-form.js",
    "job.js",
    "jobs.js",
    "journey-graph.js",
    "journey.js",
    "journeys.js",
    "keys.js",
    "live.js",
    "overview.js",
    "pointer.js",
    "recent.js",
    "resource.js",
    "run-orders.js",
    "run-state.js",
    "run.js",
    "runs.js",
    "runtime.js",
    "schedules.js",
    "settings.js",
    "sse.js",
    "step-graph.js",
    "steps.js",
    "system.js",
    "task.js",
    "theme.js",
    "timeline.js",
    "ui.js",
    "walk.js",
    "yaml.js",
];

/// Modules of others; `vendored/VENDORED` lists their versions, licences and hashes.
const VENDORED: &[Asset] = assets!["vendored": "preact-htm.js", "dagre.js"];

impl Asset {
    /// The file with this name. A build for development reads it from the folder that
    /// `TURNWHEEL_CONSOLE` names, so that a change is seen without a build.
    pub(super) fn find(name: &str) -> Option<Self> {
        let found = all().find(|asset| asset.name == name)?;
        let edited = edited().and_then(|folder| std::fs::read_to_string(folder.join(name)).ok());
        match edited {
            Some(text) => Some(Self { name: found.name, text: Cow::Owned(text) }),
            None => Some(found.clone()),
        }
    }

    /// The document. It names the other files in a folder that is called after the content of all
    /// of them: a browser may keep those for ever, and another version of the program has another
    /// folder.
    pub(super) fn document() -> Option<Self> {
        let document = Self::find(DOCUMENT)?;
        let folder = version();
        let mut text = document.text.into_owned();
        for asset in all().filter(|asset| asset.name != DOCUMENT) {
            for link in ["href", "src"] {
                let named = format!("{link}=\"{}\"", asset.name);
                text = text.replace(&named, &format!("{link}=\"{folder}/{}\"", asset.name));
            }
        }
        Some(Self { text: Cow::Owned(text), ..document })
    }

    /// Its content type.
    pub(super) fn kind(&self) -> &'static str {
        match self.name.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        }
    }

    /// Its entity tag: a hash of the content, quoted as the header requires.
    pub(super) fn tag(&self) -> String {
        format!("\"{:016x}\"", hash(self.text.bytes()))
    }
}

/// The document, which is asked for each time.
const DOCUMENT: &str = "index.html";

fn all() -> impl Iterator<Item = &'static Asset> {
    OWN.iter().chain(VENDORED)
}

/// The folder of edited files, in a build for development.
fn edited() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("TURNWHEEL_CONSOLE").filter(|_| cfg!(debug_assertions));
    folder.map(std::path::PathBuf::from)
}

/// A name for the content of all files.
pub(super) fn version() -> String {
    static EMBEDDED: OnceLock<String> = OnceLock::new();
    let name = || {
        let found = all().filter_map(|asset| Asset::find(asset.name));
        let tags: String = found.map(|asset| asset.tag()).collect();
        format!("{:016x}", hash(tags.bytes()))
    };
    if edited().is_some() {
        return name();
    }
    EMBEDDED.get_or_init(name).clone()
}

/// FNV-1a.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
