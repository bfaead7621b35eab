//! `turnwheel config`: the current settings, and their problems.

use std::fmt::Write as _;

use serde_json::json;

use super::exit::Exit;
use super::paint::{print, print_json, table, Paint};
use super::place::without_password;
#[cfg(feature = "server")]
use super::serve;
use super::settings::{unknown_variables, Flags, Key, Settings, KEYS};

const AFTER_HELP: &str = "\
A setting is taken from the configuration file (TOML), from the environment if that says otherwise,
and from flags if those do. The file is ./turnwheel.toml, else ~/.config/turnwheel/turnwheel.toml,
unless --config or TURNWHEEL_CONFIG names another one.

A file:
  store = \"/var/lib/turnwheel/flows.db\"
  [serve]
  listen = \"0.0.0.0:7070\"
  tokens = \"/etc/turnwheel/tokens\"
  [io]
  http-timeout = \"30s\"
  allow-shell = false

Examples:
  turnwheel config print            every setting, its value, where it comes from, what it means
  turnwheel config print --json
  turnwheel config check            what is wrong, with file, line and suggestion; exit code 2 then;
                                    the files of tokens, certificates and keys are looked at too
  TURNWHEEL_IO_HTTP_TIMEOUT=5s turnwheel config print";

/// Show the settings, or check them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Show every setting with its value and its source.
    Print {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Report problems of the file and the environment.
    Check,
}

pub(crate) fn run(flags: &Flags, arguments: &Arguments) -> Result<(), Exit> {
    match arguments.what {
        What::Print { json } => show(&Settings::load(flags)?, json),
        What::Check => check(flags),
    }
}

/// The shown form of a value: secrets are hidden.
fn value(key: &Key, value: &str) -> String {
    if key.is_secret() && !value.is_empty() {
        "••••".to_owned()
    } else {
        without_password(value)
    }
}

fn show(settings: &Settings, is_json: bool) -> Result<(), Exit> {
    if is_json {
        let all = KEYS.iter().map(|key| {
            let (found, origin) = settings.get(key.name);
            let entry = json!({
                "value": value(key, found),
                "from": origin.to_string(),
                "default": key.default,
                "variable": key.variable(),
                "about": key.about,
            });
            (key.name.to_owned(), entry)
        });
        let all: serde_json::Map<String, serde_json::Value> = all.collect();
        let file = settings.file.as_ref().map(|file| file.display().to_string());
        return print_json(&json!({ "file": file, "settings": all }));
    }
    let paint = Paint::stdout(settings.colour());
    let rows: Vec<Vec<String>> = KEYS
        .iter()
        .map(|key| {
            let (found, origin) = settings.get(key.name);
            let found = value(key, found);
            vec![key.name.to_owned(), found, origin.to_string(), paint.dim(key.about)]
        })
        .collect();
    let mut text = String::new();
    if let Some(file) = &settings.file {
        let _ = writeln!(text, "file: {}\n", file.display());
    }
    text.push_str(&table(paint, &["setting", "value", "from", "what it is"], &rows));
    print(&text)
}

fn check(flags: &Flags) -> Result<(), Exit> {
    let (file, mut problems) = match Settings::collect(flags)? {
        Ok(settings) => {
            #[cfg(feature = "server")]
            let problems = serve::problems(&settings);
            #[cfg(not(feature = "server"))]
            let problems = Vec::new();
            (settings.file, problems)
        }
        Err(problems) => (None, problems),
    };
    problems.extend(unknown_variables());
    if !problems.is_empty() {
        return Err(Exit::usage(problems.join("\n  ")));
    }
    let file = file.map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    print(&format!("the configuration is right ({file})\n"))
}
