//! Files that a release needs beside the binary, for standard output:
//!
//! ```sh
//! cargo run -p turnwheel-packaging -- licences   # fails if deny.toml does not allow one
//! cargo run -p turnwheel-packaging -- notices    # third-party notices of the binary
//! cargo run -p turnwheel-packaging -- sbom       # its software bill of materials, CycloneDX
//! ```
#![expect(clippy::print_stdout, reason = "a command line program")]

use std::process::ExitCode;

use turnwheel_packaging::{licence, notices, packages, sbom, Failure};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(words.first().map(String::as_str)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Option<&str>) -> Result<String, Failure> {
    match verb {
        Some("licences") => licence::check_all(),
        Some("notices") => notices::of(&packages::shipped()?),
        Some("sbom") => sbom::of(&packages::shipped()?),
        _ => Err("one of licences, notices and sbom is wanted".into()),
    }
}
