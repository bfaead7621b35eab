//! The files of the console.

use std::borrow::Cow;

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
        let found = OWN.iter().chain(VENDORED).find(|asset| asset.name == name)?;
        if cfg!(debug_assertions) {
            let folder = std::env::var_os("TURNWHEEL_CONSOLE").map(std::path::PathBuf::from);
            let edited = folder.and_then(|folder| std::fs::read_to_string(folder.join(name)).ok());
            if let Some(text) = edited {
                return Some(Self { name: found.name, text: Cow::Owned(text) });
            }
        }
        Some(found.clone())
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

    /// Its entity tag: FNV-1a of the content, quoted as the header requires.
    pub(super) fn tag(&self) -> String {
        let hash = self.text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("\"{hash:016x}\"")
    }
}
