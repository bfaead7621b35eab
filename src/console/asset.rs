//! The files of the console.

/// A file that is embedded in the binary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asset {
    name: &'static str,
    pub(super) text: &'static str,
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, text: include_str!(concat!("assets/", $name)) }),*]
    };
}

const ALL: &[Asset] = assets![
    "index.html",
    "icon.svg",
    "console.css",
    "app.js",
    "api.js",
    "dom.js",
    "editor.js",
    "entities.js",
    "flowgraph.js",
    "flows.js",
    "format.js",
    "overview.js",
    "pages.js",
    "picture.js",
    "plan.js",
    "plans.js",
    "runtime.js",
    "schedules.js",
    "steps.js",
    "world.js",
];

impl Asset {
    /// The file with this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|asset| asset.name == name)
    }

    /// Its content type.
    pub(super) fn kind(self) -> &'static str {
        match self.name.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        }
    }

    /// Its entity tag: FNV-1a of the content, quoted as the header requires.
    pub(super) fn tag(self) -> String {
        let hash = self.text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("\"{hash:016x}\"")
    }
}
