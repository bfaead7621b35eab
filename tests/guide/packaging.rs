//! The files of `packaging/`: commands, settings and paths in them are those of this program.

use std::fs;
use std::path::Path;

use crate::blocks::Block;
use crate::cargo;
use crate::files;
use crate::place::Place;

fn check(file: &str, language: &str) {
    let text = fs::read_to_string(cargo::root().join(file)).expect(file);
    let block = Block { language: language.to_owned(), attributes: Vec::new(), line: 1, text };
    let faults = files::check(&block, &mut Place::new(&cargo::root()));
    let faults: Vec<String> = faults.into_iter().map(|fault| fault.text).collect();
    assert!(faults.is_empty(), "{file}: {}", faults.join("\n"));
}

#[test]
fn unit_and_container_file_run_what_there_is() {
    check("packaging/systemd/turnwheel.service", "ini");
    check("packaging/systemd/turnwheel-node@.service", "ini");
    check("packaging/container/Dockerfile", "dockerfile");
}

#[test]
fn compose_files_run_what_there_is() {
    let place = Place::new(&cargo::root());
    for (name, servers) in [("one", 1), ("postgres", 3)] {
        let folder = cargo::root().join("packaging/compose");
        let text = fs::read_to_string(folder.join(format!("{name}.yaml"))).expect(name);
        let mut commands = 0;
        for line in text.lines().map(str::trim) {
            if let Some(list) = line.strip_prefix("command: ") {
                let words: Vec<String> = serde_json::from_str(list).expect("a list in one line");
                files::arguments(&place, &format!("turnwheel {}", words.join(" "))).expect(list);
                commands += 1;
            }
            if let Some(build) = line.strip_prefix("build: ") {
                assert!(is_there(&folder, build), "{name}: {build}");
            }
            if let Some((setting, value)) = line.split_once(": ") {
                if setting.starts_with("TURNWHEEL_") {
                    files::settings(&place, &[(setting, value)]).expect(line);
                }
            }
        }
        assert_eq!(commands, servers, "{name}");
        assert!(!text.contains('\t'), "YAML has no tabs");
    }
}

/// `{ context: FOLDER, dockerfile: FILE }`, the file within the folder.
fn is_there(folder: &Path, build: &str) -> bool {
    let part = |name: &str| {
        let (_, rest) = build.split_once(&format!("{name}: "))?;
        rest.split([',', ' ', '}']).next()
    };
    let (context, file) = (part("context"), part("dockerfile"));
    context.zip(file).is_some_and(|(context, file)| folder.join(context).join(file).is_file())
}
