//! A simulated week with random jobs, edits, outages and clock jumps, from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use turnwheel_engine::Time;
use turnwheel_jobs::{After, Cause, JobSpec, LaunchState, Missed, On, Overlap, Span};

use super::common::{job, set, time, Stage};

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.roll(of.len() as u64)).expect("it is small")]
    }
}

const JOBS: u64 = 8;

fn random(dice: &mut Dice, name: &str) -> JobSpec {
    let schedule =
        dice.pick(&["0 17 * * * *", "0 0 ~/4 * * *", "@every 47m", "@daily", "0 30 2 * * 1-5"]);
    job(name, schedule, |spec| {
        spec.timezone = dice.pick(&["", "Europe/Berlin", "America/New_York"]).to_owned();
        spec.overlap = dice.pick(&[
            Overlap::Allow,
            Overlap::Forbid,
            Overlap::QueueOne,
            Overlap::QueueAll,
            Overlap::Replace,
        ]);
        let window = Missed::All(Span::seconds(3 * 3_600));
        spec.missed = dice.pick(&[Missed::None, Missed::Latest, window]);
        spec.retries = u32::try_from(dice.roll(3)).expect("it is small");
        spec.keep = 100_000;
        let (takes, fails) = (dice.pick(&["1s", "20m", "70m"]), dice.pick(&["0", "1", "5"]));
        set(spec, "takes", takes);
        set(spec, "fails", fails);
    })
}

/// Checks the rows of a job; `is_steady` if its schedule was never edited.
fn check(stage: &Stage, name: &str, begin: Time, is_steady: bool, seed: u64) {
    let history = stage.history(name);
    let view = stage.get(name);
    let mut covered: BTreeMap<Time, u64> = BTreeMap::new();
    for launch in history.iter().filter(|l| matches!(l.cause, Cause::Schedule | Cause::CatchUp)) {
        if launch.times == 1 {
            *covered.entry(launch.planned).or_default() += 1;
        }
    }
    let twice: Vec<_> = covered.iter().filter(|(_, rows)| **rows > 1).collect();
    assert!(twice.is_empty(), "seed {seed}: {name} has {twice:?}");
    if is_steady {
        let now = Time::from(stage.sim.wall());
        let mut spec = view.spec.clone();
        if spec.schedule.starts_with("@every") {
            return;
        }
        spec.starts_at = Some(Time(begin.0 + 1));
        let reference = Stage::at(&begin.to_string());
        let planned = reference.jobs.preview(&spec, 10_000).expect("a schedule");
        let planned = planned.into_iter().map(|next| next.planned);
        for planned in planned.take_while(|planned| *planned < now) {
            let rows = history
                .iter()
                .filter(|l| l.planned <= planned && planned <= l.until.unwrap_or(l.planned));
            assert_eq!(rows.count(), 1, "seed {seed}: {name} at {planned}");
        }
    }
    if view.spec.overlap == Overlap::Forbid && is_steady {
        let mut spans: Vec<(Time, Time)> = history
            .iter()
            .filter(|launch| !launch.runs.is_empty())
            .map(|launch| {
                let began = launch.runs[0].started_at.unwrap_or(launch.decided);
                (began, launch.ended_at.unwrap_or(Time(u64::MAX)))
            })
            .collect();
        spans.sort();
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "seed {seed}: {name} overlaps: {pair:?}");
        }
    }
}

fn week(seed: u64, has_jumps: bool) {
    let mut dice = Dice(seed);
    let mut stage = Stage::seeded(seed, "2026-03-26T00:00:00Z");
    let begin = time("2026-03-26T00:00:00Z");
    let mut edited: BTreeSet<String> = BTreeSet::new();
    for number in 0..JOBS {
        stage.put(random(&mut dice, &format!("job-{number}")));
        let mut child = random(&mut dice, &format!("child-{number}"));
        child.schedule.clear();
        let on = dice.pick(&[On::Success, On::Failure, On::Always]);
        child.after = vec![After::new(format!("job-{number}"), on)];
        stage.put(child);
    }
    for _ in 0..7 * 12 {
        stage.sim.advance(Duration::from_secs(600 + dice.roll(7_000)));
        match dice.roll(8) {
            0 => stage.outage(Duration::from_secs(dice.roll(6 * 3_600))),
            1 => {
                let name = format!("job-{}", dice.roll(JOBS));
                stage.put(random(&mut dice, &name));
                edited.insert(name);
            }
            2 => {
                let name = format!("job-{}", dice.roll(JOBS));
                let _overlaps = stage.wait(stage.jobs.run(&name, "ann", false));
            }
            3 if has_jumps => {
                let back = Duration::from_secs(dice.roll(2 * 3_600));
                let wall = stage.sim.wall() - back;
                stage.sim.set_wall(wall);
                stage.sim.advance(Duration::from_secs(10));
            }
            _ => {}
        }
    }
    stage.sim.run_until_idle();
    for number in 0..JOBS {
        let name = format!("job-{number}");
        check(&stage, &name, begin, !edited.contains(&name), seed);
        let child = stage.history(&format!("child-{number}"));
        let causes: Vec<_> = child.iter().map(|launch| &launch.cause).collect();
        let mut unique: Vec<_> = Vec::new();
        for cause in &causes {
            assert!(!unique.contains(cause), "seed {seed}: {cause:?} twice");
            unique.push(cause);
        }
        let parent = stage.history(&name);
        let ended = parent.iter().filter(|l| l.state.is_over() && !l.runs.is_empty());
        let told = ended.filter(|launch| {
            let cause = Cause::After { job: name.clone(), launch: launch.id };
            causes.contains(&&cause)
        });
        let over = |l: &&turnwheel_jobs::Launch| l.state.is_over() && !l.runs.is_empty();
        assert_eq!(told.count(), parent.iter().filter(over).count(), "seed {seed}: {name}");
        assert!(parent.iter().all(|l| l.state != LaunchState::Running || l.ended_at.is_none()));
    }
    stage.sim.assert_no_failures();
}

#[test]
fn a_week_has_one_row_for_each_planned_time() {
    for seed in 1..=2 {
        week(seed, false);
    }
}

#[test]
fn a_week_with_a_clock_that_is_set_back_has_one_row_as_well() {
    for seed in 11..=12 {
        week(seed, true);
    }
}
