//! Every fenced block of README.md, of `docs/` and of `examples/flows/README.md` is what it says.
//!
//! | language | what is done |
//! | --- | --- |
//! | `rust` | compiled, and run unless `no_run`, as a test of the documentation (`src/lib.rs` includes the page) |
//! | `yaml` | loaded as a flow; a part of one is made whole before; rules for alerts name figures that a server has |
//! | `toml` | passes `config check`; dependencies are packages and features that exist |
//! | `json` | read |
//! | `sh` | run by the shell in the folder of the page; each line must succeed |
//! | `console` | the same, and what a command prints must be what the page shows; `...` stands for anything |
//! | `ini`, `dockerfile`, `nginx` | what they run is a command line of the binary, what they set is a setting, what they lead to is a path of the server |
//!
//! A page has one folder, and its blocks are taken in order: a block whose first line is `# NAME.yaml`
//! is that file from then on. `turnwheel serve` starts a server on a free port, which stands for the
//! port 7070 of the page, until `kill %1` or the next one. What a test must not do to a host is not
//! done: `place.rs` lists those commands.
#![cfg(unix)]

#[path = "../../benches/src/cli.rs"]
#[allow(dead_code, reason = "it is parsed here, and nothing is measured")]
mod bench_cli;
mod blocks;
mod cargo;
mod checker;
mod files;
mod links;
mod packaging;
mod place;
mod shell;
mod verbs;

use std::fs;
use std::path::{Path, PathBuf};

use blocks::{Block, Fault};
use place::Place;

/// What the command line of the benchmark harness takes from it.
mod savina {
    /// How much of each program.
    #[derive(Clone, Copy, Debug, clap::ValueEnum)]
    pub(crate) enum Size {
        Smoke,
        Standard,
    }
}

/// The pages: README.md, all of `docs/`, and that of the example flows.
fn pages() -> Vec<PathBuf> {
    let root = cargo::root();
    let docs = fs::read_dir(root.join("docs")).expect("the folder is there");
    let mut pages: Vec<PathBuf> = docs
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.extend([root.join("README.md"), root.join("examples/flows/README.md")]);
    pages.sort();
    pages
}

fn text_of(page: &Path) -> String {
    fs::read_to_string(page).expect("the page is there")
}

/// Checks all blocks of a page; `tested` says whether its Rust blocks are tests of the documentation.
fn check(page: &str, tested: bool) -> Vec<Fault> {
    let blocks = match blocks::of(page) {
        Ok(blocks) => blocks,
        Err(fault) => return vec![fault],
    };
    let mut place = Place::new(&cargo::root());
    let is_asking = |block: &Block| shell::is_shell(block) && block.text.contains("curl ");
    let mut is_without = blocks.iter().any(is_asking) && !shell::has("curl");
    let is_python = |block: &Block| shell::is_shell(block) && block.text.contains("python3 ");
    is_without |= blocks.iter().any(is_python) && !shell::has("python3");
    if is_without {
        eprintln!(
            "LEFT OUT: there is no curl or no python3 on this host, so the shell blocks of a page \
             that uses it are not run"
        );
    }
    let run = blocks.iter().filter(|block| !is_without || !shell::is_shell(block));
    run.flat_map(|block| one(block, &mut place, tested)).collect()
}

fn one(block: &Block, place: &mut Place, tested: bool) -> Vec<Fault> {
    match block.language.as_str() {
        "rust" => rust(block, tested),
        _ if shell::is_shell(block) => shell::check(block, place),
        "yaml" | "toml" | "json" | "ini" | "dockerfile" | "nginx" => files::check(block, place),
        "" => vec![Fault::new(block.line, "a block without a language")],
        other => vec![Fault::new(block.line, format!("a block of an unknown language «{other}»"))],
    }
}

fn rust(block: &Block, tested: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !tested {
        faults.push(Fault::new(block.line, "src/lib.rs does not include the page"));
    }
    for word in block.attributes.iter().filter(|word| *word != "no_run") {
        faults.push(Fault::new(block.line, format!("«{word}» keeps a block from being run")));
    }
    faults
}

#[test]
fn every_block_of_every_page_is_what_it_says() {
    let library = fs::read_to_string(cargo::root().join("src/lib.rs")).expect("it is there");
    let pages = pages();
    assert!(pages.len() > 3, "{pages:?}");
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let library = &library;
        let checks = pages.iter().map(|page| {
            scope.spawn(move || {
                let name = page.strip_prefix(cargo::root()).expect("it lies there").display();
                let tested = library.contains(&format!("include_str!(\"../{name}\")"));
                let begin = std::time::Instant::now();
                let faults = check(&text_of(page), tested);
                println!("{name}: {:.1} s", begin.elapsed().as_secs_f64());
                let told = |fault: Fault| format!("{name}:{}: {}", fault.line, fault.text);
                faults.into_iter().map(told).collect::<Vec<String>>()
            })
        });
        for check in checks.collect::<Vec<_>>() {
            all.extend(check.join().expect("a check says what is wrong"));
        }
    });
    assert!(all.is_empty(), "{} blocks are not what they say:\n\n{}", all.len(), all.join("\n\n"));
}
