//! Settings: defaults, then the configuration file, then the environment, then flags.

pub(crate) mod context;
mod file;
mod keys;

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turnwheel::sqlite::SqliteSync;

pub(crate) use keys::{bytes, labels, ports, sinks, Key, KEYS, SECRET_VARIABLES};

use super::exit::Exit;
use super::hidden;
use super::paint::Colour;
use super::span;
use keys::FILE_VARIABLE;

/// The file in the working folder.
const FILE: &str = "turnwheel.toml";

/// Flags that every verb has.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Flags {
    /// The configuration file, instead of ./turnwheel.toml or ~/.config/turnwheel/turnwheel.toml.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The file that holds plans, schedules and their history, or a URL of PostgreSQL
    /// [default: ./turnwheel.db].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// A server that is asked in place of the store, such as <https://wheel.example.org>.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// The token for the server; better in `TURNWHEEL_TOKEN`, which other users cannot see.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// The context with server and token [default: the one that turnwheel context use has chosen].
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "server")]
    pub(crate) context: Option<String>,

    /// Name noted in histories [default: the user's name].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) by: Option<String>,

    /// Whether output is coloured [default: auto, which is on a terminal unless `NO_COLOR` is set].
    #[arg(long, global = true, value_parser = ["auto", "always", "never"])]
    pub(crate) colour: Option<String>,
}

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(usize),
    Variable,
    Context(String),
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "file, line {line}"),
            Self::Variable => f.write_str("environment"),
            Self::Context(name) => write!(f, "context {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// All current settings, each with its source.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, (String, Origin)>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
}

impl Settings {
    /// Reads the file and the environment, and takes the flags.
    pub(crate) fn load(flags: &Flags) -> Result<Self, Exit> {
        let settings = Self::collect(flags)?;
        settings.map_err(|problems| {
            Exit::usage(problems.join("\n  ")).advice("turnwheel config print shows all settings")
        })
    }

    /// As [`Settings::load`], with all problems by themselves.
    pub(crate) fn collect(flags: &Flags) -> Result<Result<Self, Vec<String>>, Exit> {
        let mut values = BTreeMap::new();
        for key in KEYS {
            values.insert(key.name, (key.default.to_owned(), Origin::Default));
        }
        let mut problems = Vec::new();
        let file = file_of(flags)?;
        if let Some(file) = &file {
            let text = fs::read_to_string(file).map_err(|error| {
                Exit::usage(format!("the configuration file {}: {error}", file.display()))
                    .advice("name an existing file with --config, or leave it out")
            })?;
            match file::parse(&text) {
                Ok(found) => {
                    for found in found {
                        values.insert(found.key, (found.value, Origin::File(found.line)));
                    }
                }
                Err(found) => problems.extend(found.iter().map(|problem| problem.located(file))),
            }
        }
        for key in KEYS {
            let variable = key.variable();
            let Some(value) = hidden::variable(&variable) else { continue };
            let Some(value) = value.to_str() else {
                problems.push(format!("the variable {variable} is no text"));
                continue;
            };
            match keys::problem(key, value) {
                Some(problem) => problems.push(format!("the variable {variable} {problem}")),
                None => {
                    values.insert(key.name, (value.to_owned(), Origin::Variable));
                }
            }
        }
        let path = |path: &PathBuf| path.display().to_string();
        let given = [
            ("store", flags.store.as_ref().map(path)),
            ("by", flags.by.clone()),
            ("colour", flags.colour.clone()),
            ("server", flags.server.clone()),
            ("token", flags.token.clone()),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                values.insert(name, (value, Origin::Flag));
            }
        }
        let is_default =
            |name: &str| values.get(name).is_some_and(|(_, at)| *at == Origin::Default);
        let is_open = is_default("server") && is_default("store");
        if let Some((name, context)) = context::chosen(flags.context.as_deref(), is_open)? {
            for (key, value) in context.values() {
                let is_said = matches!(values.get(key), Some((_, Origin::Flag)));
                if !is_said {
                    values.insert(key, (value, Origin::Context(name.clone())));
                }
            }
        }
        let settings = Self { values, file };
        Ok(if problems.is_empty() { Ok(settings) } else { Err(problems) })
    }

    /// A value and its source.
    pub(crate) fn get(&self, name: &str) -> (&str, &Origin) {
        let (value, origin) = self.values.get(name).expect("names of settings are written once");
        (value, origin)
    }

    /// Whether a server is named, which verbs ask in place of the store. A store that is named on
    /// the command line goes before a server that is named elsewhere.
    pub(crate) fn asks_server(&self) -> bool {
        let (server, origin) = self.get("server");
        let is_said_now = matches!(origin, Origin::Flag | Origin::Context(_));
        !server.is_empty() && (is_said_now || *self.get("store").1 != Origin::Flag)
    }

    /// A value; nothing if it is empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        Some(self.get(name).0).filter(|value| !value.is_empty())
    }

    /// The source of a value, for users who have to change it: a line of the file, or another
    /// source.
    pub(crate) fn place(&self, name: &str) -> String {
        match (self.get(name).1, &self.file) {
            (Origin::File(line), Some(file)) => format!("{}:{line}: «{name}»", file.display()),
            (Origin::Variable, _) => {
                let key = KEYS.iter().find(|key| key.name == name);
                key.map_or_else(String::new, |key| format!("the variable {}", key.variable()))
            }
            (Origin::Flag, _) => format!("--{}", name.strip_prefix("serve.").unwrap_or(name)),
            _ => format!("the setting «{name}»"),
        }
    }

    /// Takes the value of a command's flag.
    pub(crate) fn take(&mut self, name: &'static str, value: Option<String>) {
        if let Some(value) = value {
            self.values.insert(name, (value, Origin::Flag));
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).0 == "true"
    }

    pub(crate) fn count(&self, name: &str) -> u32 {
        self.get(name).0.parse().expect("it was checked")
    }

    pub(crate) fn bytes(&self, name: &str) -> usize {
        keys::bytes(self.get(name).0).expect("it was checked")
    }

    pub(crate) fn length(&self, name: &str) -> Duration {
        span::duration(self.get(name).0).expect("it was checked")
    }

    pub(crate) fn store(&self) -> PathBuf {
        PathBuf::from(self.get("store").0)
    }

    /// When a commit waits for the disk.
    pub(crate) fn sync(&self) -> SqliteSync {
        match self.get("sync").0 {
            "off" => SqliteSync::Off,
            "normal" => SqliteSync::Normal,
            _ => SqliteSync::Full,
        }
    }

    pub(crate) fn colour(&self) -> Colour {
        Colour::from_name(self.get("colour").0).unwrap_or_default()
    }

    /// The name noted in histories.
    pub(crate) fn by(&self) -> String {
        let user = || env::var("USER").ok().filter(|user| !user.is_empty());
        let by = self.text("by").map(str::to_owned).or_else(user);
        by.unwrap_or_else(|| "command line".to_owned())
    }
}

/// The folder for files of this user.
fn config_folder() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or(home);
    config.map(|config| config.join("turnwheel"))
}

/// The configuration file: the named one, or the first of the usual ones.
fn file_of(flags: &Flags) -> Result<Option<PathBuf>, Exit> {
    let named = flags.config.clone().or_else(|| env::var_os(FILE_VARIABLE).map(PathBuf::from));
    if let Some(file) = named {
        if !file.is_file() {
            return Err(Exit::usage(format!("there is no configuration file {}", file.display()))
                .advice("name an existing file with --config, or leave it out"));
        }
        return Ok(Some(file));
    }
    let looked = [Some(PathBuf::from(FILE)), config_folder().map(|folder| folder.join(FILE))];
    Ok(looked.into_iter().flatten().find(|file| file.is_file()))
}

/// Variables of the environment that look like settings and are none.
pub(crate) fn unknown_variables() -> Vec<String> {
    let known: Vec<String> = KEYS.iter().map(keys::Key::variable).collect();
    let mut unknown = Vec::new();
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let is_ours = name.starts_with("TURNWHEEL_") && !name.starts_with(SECRET_VARIABLES);
        if is_ours && name != FILE_VARIABLE && !known.iter().any(|known| known == name) {
            let hint = suggest(name, known.iter().map(String::as_str));
            let hint = hint.map_or_else(String::new, |known| format!("; is {known} meant?"));
            unknown.push(format!("the variable {name} is no setting{hint}"));
        }
    }
    unknown.sort();
    unknown
}

/// The known name that is most like one.
pub(crate) fn suggest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likely = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = likely.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness > 0.8).map(|(_, known)| known)
}
