//! Contexts: servers with names, in a file that only this user may read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::config_folder;
use crate::cli::exit::Exit;

/// A server with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    /// Its address.
    pub(crate) server: String,
    /// The token for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The file with the certificates to trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificates: Option<String>,
}

impl Context {
    /// The settings that it gives.
    pub(super) fn values(self) -> Vec<(&'static str, String)> {
        let all = [
            ("server", Some(self.server)),
            ("token", self.token),
            ("server-certificates", self.certificates),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// All contexts of this user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// The one that is used if nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// By name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

fn file() -> Result<PathBuf, Exit> {
    let folder = config_folder().ok_or_else(|| {
        Exit::failed("there is no folder for contexts").advice("set HOME or XDG_CONFIG_HOME")
    })?;
    Ok(folder.join("contexts.json"))
}

impl Contexts {
    /// Those of the file; none without one.
    pub(crate) fn load() -> Result<Self, Exit> {
        let Ok(file) = file() else { return Ok(Self::default()) };
        let wrong = |problem: &dyn std::fmt::Display| {
            Exit::usage(format!("the contexts {}: {problem}", file.display()))
                .advice("mend the file, or remove it and add the contexts again")
        };
        match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| wrong(&error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(wrong(&error)),
        }
    }

    /// Writes them beside the old file, and then in its place.
    pub(crate) fn save(&self) -> Result<(), Exit> {
        let file = file()?;
        let failed = |error: std::io::Error| {
            Exit::failed(format!("the contexts {}: {error}", file.display()))
        };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let new = file.with_extension(format!("json.{}", std::process::id()));
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let mut writer = options.open(&new).map_err(failed)?;
        let text = serde_json::to_string_pretty(self).map_err(Exit::failed)?;
        writer.write_all(text.as_bytes()).map_err(failed)?;
        fs::rename(&new, &file).map_err(failed)
    }

    /// The context with a name.
    pub(crate) fn find(&self, name: &str) -> Result<&Context, Exit> {
        self.contexts.get(name).ok_or_else(|| {
            Exit::not_found(format!("there is no context «{name}»"))
                .advice("turnwheel context list shows them, turnwheel context add makes one")
        })
    }
}

/// The context of a command: the named one, else the current one if neither a store nor a server is
/// named.
pub(super) fn chosen(
    named: Option<&str>,
    is_open: bool,
) -> Result<Option<(String, Context)>, Exit> {
    if named.is_none() && !is_open {
        return Ok(None);
    }
    let contexts = Contexts::load()?;
    let name = named.map(str::to_owned).or_else(|| contexts.current.clone());
    name.map(|name| Ok((name.clone(), contexts.find(&name)?.clone()))).transpose()
}
