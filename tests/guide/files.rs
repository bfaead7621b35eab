//! Blocks that are files: flows, settings, manifests, units, container files, proxies.

use std::fs;

use serde_json::Value;
use turnwheel::flow;
use turnwheel::jobs::JobSpec;

use crate::blocks::{Block, Fault};
use crate::cargo;
use crate::place::Place;

/// What a fragment of a flow lacks to be one.
const DOCUMENT: &str =
    "document: { dsl: '1.0.3', namespace: guide, name: fragment, version: '1.0.0' }\n";

pub(crate) fn check(block: &Block, place: &mut Place) -> Vec<Fault> {
    let name = block.file_name().map(str::to_owned);
    if let Some(name) = &name {
        let text = place.to_run(&block.text);
        fs::write(place.file(name), text).expect("the folder of the page is writable");
    }
    let checked = match block.language.as_str() {
        "yaml" => yaml(block, name.as_deref(), place),
        "json" => {
            serde_json::from_str::<Value>(&block.text).map(drop).map_err(|error| error.to_string())
        }
        "toml" => toml(block, place),
        "ini" => unit(block, place),
        "dockerfile" => container(block, place),
        _ => nginx(block, place),
    };
    checked.err().map(|text| Fault::new(block.line, text)).into_iter().collect()
}

/// A flow, a part of one, jobs, or rules for alerts.
fn yaml(block: &Block, name: Option<&str>, place: &mut Place) -> Result<(), String> {
    let text = &block.text;
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    if has("groups:") {
        return alerts(text, place);
    }
    if has("journey:") {
        let read = turnwheel::journeys::Definition::read(text, name.unwrap_or("block"));
        return read.map(drop).map_err(|problems| problems.to_string());
    }
    if name.is_some_and(|name| name.starts_with("jobs")) {
        return jobs(text);
    }
    let whole = if has("document:") {
        text.clone()
    } else if has("- ") {
        format!("{DOCUMENT}do:\n{text}")
    } else if has("do:") {
        format!("{DOCUMENT}{text}")
    } else {
        format!("{DOCUMENT}{text}\ndo:\n  - one: {{ set: {{ a: 1 }} }}\n")
    };
    let loaded = flow::load_all(&whole, name.unwrap_or("block"));
    let is_broken = name.is_some_and(|name| name.starts_with("broken"));
    match loaded {
        Ok(_) if is_broken => Err("nothing is wrong with it, and its name says so".to_owned()),
        Ok(_) => Ok(()),
        Err(_) if is_broken => Ok(()),
        Err(problems) => Err(problems.to_string()),
    }
}

/// A file of jobs.
fn jobs(text: &str) -> Result<(), String> {
    let documents = flow::documents(text, "jobs.yaml").map_err(|error| error.to_string())?;
    for document in documents {
        let list = document.as_array().cloned().unwrap_or(vec![document]);
        for job in list {
            serde_json::from_value::<JobSpec>(job).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Rules name figures: the server must have them.
fn alerts(text: &str, place: &mut Place) -> Result<(), String> {
    let figures = fetch(place, "/metrics")?;
    let is_letter = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let expressions = text.lines().filter_map(|line| line.trim().strip_prefix("expr:"));
    let mut names = 0;
    for name in expressions.flat_map(|line| line.split(|sign| !is_letter(sign))) {
        let name = name.trim();
        if !name.starts_with("turnwheel_") {
            continue;
        }
        names += 1;
        let begins =
            |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        // A counter without anything counted is told by its description alone.
        let family = format!("# TYPE {} ", name.strip_suffix("_total").unwrap_or(name));
        if !figures.lines().any(|line| begins(line) || line.starts_with(&family)) {
            return Err(format!("the server has no figure «{name}»"));
        }
    }
    match names {
        0 => Err("rules that name no figure of ours".to_owned()),
        _ => Ok(()),
    }
}

/// Asks the server of the page; one is started if there is none.
fn fetch(place: &mut Place, path: &str) -> Result<String, String> {
    if !place.is_served() {
        place.serve("turnwheel serve --store fetched.db")?;
    }
    let url = place.to_run(&format!("http://127.0.0.1:7070{path}"));
    let mut answer = ureq::get(&url).call().map_err(|error| format!("{path}: {error}"))?;
    answer.body_mut().read_to_string().map_err(|error| format!("{path}: {error}"))
}

/// The configuration file, or dependencies of a manifest.
fn toml(block: &Block, place: &Place) -> Result<(), String> {
    let table: toml::Table =
        block.text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let sections = ["dependencies", "dev-dependencies"];
    let manifests: Vec<_> = sections.iter().filter_map(|section| table.get(*section)).collect();
    if manifests.is_empty() {
        let file = place.file("checked.toml");
        fs::write(&file, place.to_run(&block.text)).map_err(|error| error.to_string())?;
        let arguments = ["config", "check", "--config", "checked.toml"];
        return binary(place, &arguments, &[]);
    }
    for (name, wanted) in manifests.iter().filter_map(|it| it.as_table()).flatten() {
        dependency(name, wanted)?;
    }
    Ok(())
}

/// A dependency is one of our packages with features that it has, or one that we have ourselves.
fn dependency(name: &str, wanted: &toml::Value) -> Result<(), String> {
    let Some(folder) = cargo::folder_of(name) else {
        let lock = fs::read_to_string(cargo::root().join("Cargo.lock"));
        let lock = lock.map_err(|error| error.to_string())?;
        return match lock.contains(&format!("\nname = \"{name}\"\n")) {
            true => Ok(()),
            false => Err(format!("«{name}» is neither ours nor in our lock file")),
        };
    };
    let features = wanted.get("features").and_then(toml::Value::as_array);
    let mut features = features.into_iter().flatten().filter_map(toml::Value::as_str);
    features.try_for_each(|feature| cargo::has_feature(&folder, feature))
}

/// A unit of systemd: what it runs is right, and so are the settings in its environment.
fn unit(block: &Block, place: &Place) -> Result<(), String> {
    let mut environment = Vec::new();
    let mut runs = Vec::new();
    let text = block.text.replace("\\\n", " ");
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';', '[']) {
            continue;
        }
        let (key, value) =
            line.split_once('=').ok_or_else(|| format!("«{line}» is no setting of a unit"))?;
        match key {
            "Environment" => environment.extend(value.trim_matches('"').split_once('=')),
            _ if key.starts_with("Exec") => runs.push(value.to_owned()),
            _ => {}
        }
    }
    runs.iter().try_for_each(|line| arguments(place, line))?;
    settings(place, &environment)
}

/// A container file: entry point, commands and settings are right, and what is copied is there.
fn container(block: &Block, place: &Place) -> Result<(), String> {
    let mut environment = Vec::new();
    let mut words = Vec::new();
    let text = block.text.replace("\\\n", " ");
    let instructions = ["FROM", "WORKDIR", "USER", "VOLUME", "EXPOSE"];
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
        let list = || serde_json::from_str::<Vec<String>>(rest).map_err(|error| error.to_string());
        match instruction {
            "RUN" => rest.split("&&").try_for_each(|one| cargo::check(one.trim()))?,
            "COPY" if !rest.starts_with("--from=") => {
                let source = rest.split_whitespace().next().unwrap_or_default();
                if !cargo::root().join(source).exists() {
                    return Err(format!("«{source}» is not there to be copied"));
                }
            }
            "COPY" => {}
            "ENV" => environment.extend(rest.split_once('=')),
            "ENTRYPOINT" | "CMD" => words.extend(list()?),
            "HEALTHCHECK" => {
                let command = rest.split_once("CMD ").map(|(_, command)| command.trim());
                arguments(place, command.ok_or("a health check without CMD")?)?;
            }
            _ if instructions.contains(&instruction) => {}
            _ => return Err(format!("«{instruction}» is nothing that the checker knows")),
        }
    }
    if words.is_empty() {
        return Err("it runs nothing".to_owned());
    }
    arguments(place, &words.join(" "))?;
    settings(place, &environment)
}

/// A proxy: the paths that it names are those of the server.
fn nginx(block: &Block, place: &mut Place) -> Result<(), String> {
    let depth = block.text.chars().fold(0_i32, |depth, sign| match sign {
        '{' => depth + 1,
        '}' => depth - 1,
        _ => depth,
    });
    if depth != 0 {
        return Err("its braces do not fit".to_owned());
    }
    for line in block.text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["location", .., path, "{"] => fetch(place, path).map(drop)?,
            ["proxy_pass", url] if !url.starts_with("http://127.0.0.1:7070") => {
                return Err(format!("«{url}» is not where the server listens"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A command line of the binary is one that it takes: `--help` behind the rest is reached only then.
pub(crate) fn arguments(place: &Place, line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default().trim_start_matches(['-', '+', '!', '@']);
    if program.rsplit('/').next() != Some("turnwheel") {
        return Ok(());
    }
    let words: Vec<&str> = words.chain(["--help"]).collect();
    binary(place, &words, &[])
}

pub(crate) fn settings(place: &Place, environment: &[(&str, &str)]) -> Result<(), String> {
    binary(place, &["config", "check"], environment)
}

fn binary(place: &Place, words: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    let mut command = place.command("turnwheel");
    let command = command.args(words).envs(environment.iter().copied());
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
