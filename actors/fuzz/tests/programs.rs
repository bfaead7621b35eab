//! A bounded number of random programs keep the contract, and a broken twin is found.

use std::time::{Duration, Instant};

use turnwheel_fuzz::generate::Generator;
use turnwheel_fuzz::program::Program;
use turnwheel_fuzz::run::{run, Twin, TWINS};
use turnwheel_fuzz::shrink::shrink;

/// How long programs are run here; `.ci/run fuzz` runs more.
const LIMIT: Duration = Duration::from_secs(20);
const PROGRAMS: u64 = 20_000;
/// Programs in which a broken twin shows at the latest.
const TWIN_PROGRAMS: u64 = 60_000;

#[test]
fn random_programs_keep_the_contract() {
    let generator = Generator::default();
    let begin = Instant::now();
    for seed in 0..PROGRAMS {
        if begin.elapsed() > LIMIT {
            break;
        }
        let violations = run(&generator.program(seed), None);
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
}

#[test]
fn a_lost_job_is_found_and_its_program_shrinks() {
    let generator = Generator::default();
    let is_broken = |program: &Program| !run(program, Some(Twin::LosesJobs)).is_empty();
    let found = (0..2_000).map(|seed| generator.program(seed)).find(is_broken);
    let program = found.expect("a lost job is a violation");
    let small = shrink(&program, 2_000, is_broken);
    assert!(is_broken(&small));
    assert!(small.len() <= 12, "{} acts are left:\n{small}", small.len());
}

#[test]
fn every_broken_twin_is_found() {
    let generator = Generator::default();
    for (name, twin) in TWINS {
        let is_broken = |seed: &u64| !run(&generator.program(*seed), Some(*twin)).is_empty();
        assert!((0..TWIN_PROGRAMS).any(|seed| is_broken(&seed)), "{name} is not found");
    }
}

#[test]
fn a_printed_program_is_the_same_when_parsed() {
    let generator = Generator::default();
    for seed in 0..200 {
        let program = generator.program(seed);
        assert_eq!(program.to_string().parse(), Ok(program));
    }
}

#[test]
fn equal_programs_have_equal_outcomes() {
    let generator = Generator::default();
    for seed in 0..50 {
        let program = generator.program(seed);
        let twin = Some(Twin::LosesJobs);
        assert_eq!(run(&program, twin), run(&program, twin), "seed {seed}");
    }
}

/// Minimal programs of violations that are mended. Each found bug leaves its program here.
#[test]
fn programs_that_have_found_bugs_keep_the_contract() -> Result<(), Box<dyn std::error::Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/found");
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let program: Program = std::fs::read_to_string(&path)?.parse()?;
        let violations = run(&program, None);
        assert!(violations.is_empty(), "{}: {violations:#?}", path.display());
        count += 1;
    }
    assert!(count > 0, "{folder} holds no programs");
    Ok(())
}
