//! `turnwheel bench steps`: durable steps a second in this process, beside the limit of the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use turnwheel::engine::{PlanState, World};
use turnwheel::runtime::{Context, Group, Mailbox, Task};
use turnwheel::sqlite::SqliteStore;

use super::figures::{processor_ms, Figures, Wanted};
use super::scratch::Scratch;
use super::work::{Chain, NoOp, Times};
use super::{failed, Common, Patience};
use crate::cli::exit::Exit;
use crate::cli::paint::tell;
use crate::cli::settings::Settings;
use crate::cli::span;

/// Steps of a plan.
const STEPS: u32 = 10;

/// Before figures are taken.
const WARM_UP: Duration = Duration::from_millis(500);

/// Interval of checks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// Durable steps a second that are wanted with many plans at a time, and how long one may take.
const STEPS_WANTED: f64 = 30_000.0;
const STEP_WANTED_MS: f64 = 20.0;

/// Target cost of a step of a single plan, in appends with fdatasync.
const LONE_WANTED: f64 = 2.5;

/// Number of concurrent plans from which on the target of steps a second applies.
const MANY: u32 = 256;

const AFTER_HELP: &str = "\
Plans of 10 steps that do nothing, so many at a time, in this process and over a new store. The time of a
step is from its call to that of the next one, which waits until the first is durable. Beside it stands the
ceiling: plans at a time, by one append with fdatasync and the time of the processors. The setting
`sync` is honoured: with `normal` or `off` no step waits for the disk, and the ceiling says nothing.

Examples:
  turnwheel bench steps
  turnwheel bench steps --plans 1,256,4096 --time 20s
  TURNWHEEL_SYNC=normal turnwheel bench steps --json

Exit codes: 0 measured; 1 a measurement failed; 2 wrong usage; 130 interrupted.";

/// Durable steps a second in this process, beside the limit of the disk.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,

    /// Plans at a time, one measurement for each.
    #[arg(long, value_delimiter = ',', default_value = "1,64,256", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    plans: Vec<u32>,

    /// Duration of each measurement.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span::duration)]
    time: Duration,
}

pub(super) fn run(
    settings: &Settings,
    arguments: &Arguments,
    patience: &Patience,
) -> Result<(), Exit> {
    let scratch = Scratch::new(&arguments.common.dir)?;
    let mut figures = Figures::new("bench steps");
    tell!("measuring the disk …");
    let floor = scratch.append_floor(patience)?;
    figures.add("append + fdatasync", floor.p50, "ms");
    for plans in &arguments.plans {
        if patience.is_over() {
            break;
        }
        tell!("{plans} plans at a time for {} …", span::long(arguments.time));
        let store = SqliteStore::new(scratch.join(&format!("steps-{plans}.db")));
        let store = store.sync(settings.sync());
        let measured = measure(store, *plans, arguments.time, patience)?;
        add(&mut figures, *plans, &measured, floor.p50);
    }
    figures.print(arguments.common.json, patience)
}

fn add(figures: &mut Figures, plans: u32, measured: &Measured, floor_ms: f64) {
    let name = |what: &str| format!("{plans} at a time, {what}");
    let (rate, width) = (measured.steps_per_s, f64::from(plans));
    match plans {
        plans if plans >= MANY => {
            figures.add_wanted(name("steps"), rate, "a second", Wanted::AtLeast(STEPS_WANTED));
        }
        _ => figures.add(name("steps"), rate, "a second"),
    }
    if let Some(cpu_us) = measured.cpu_us {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let ceiling = width / (floor_ms * 1_000.0 + width * cpu_us / cores) * 1e6;
        figures.add(name("ceiling"), ceiling, "a second");
        figures.add(name("processors"), cpu_us, "us a step");
    }
    figures.add(name("p50"), measured.p50_ms, "ms");
    match plans {
        1 => {
            let share = measured.p50_ms / floor_ms;
            figures.add_wanted(name("p50"), share, "appends", Wanted::AtMost(LONE_WANTED));
        }
        plans if plans >= MANY => {
            let wanted = Wanted::Below(STEP_WANTED_MS);
            figures.add_wanted(name("p99"), measured.p99_ms, "ms", wanted);
        }
        _ => figures.add(name("p99"), measured.p99_ms, "ms"),
    }
}

struct Measured {
    steps_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: Option<f64>,
}

fn measure(
    store: SqliteStore,
    plans: u32,
    time: Duration,
    patience: &Patience,
) -> Result<Measured, Exit> {
    let group = Group::builder("plans").build().map_err(failed)?;
    let times = Times::new();
    let world = World::builder()
        .action(NoOp(Arc::clone(&times)))
        .action(Chain)
        .group(&group)
        .build(store)
        .map_err(Exit::from)?;
    let mut clients = Vec::new();
    for _ in 0..plans {
        let client = Client {
            world: world.clone(),
            times: Arc::clone(&times),
            patience: patience.clone(),
            until: Instant::now() + WARM_UP + time,
            failed: None,
        };
        let client: Task<Client> =
            group.task(client).mailbox(Mailbox::unbounded()).spawn().map_err(failed)?;
        client.submit(Client::next).map_err(|error| failed(error.kind))?;
        clients.push(client);
    }
    pass(WARM_UP, patience);
    let own = std::process::id();
    let (before, cpu_before, begin) = (times.take(true).0, processor_ms(own), Instant::now());
    pass(time, patience);
    let (seconds, cpu_after) = (begin.elapsed().as_secs_f64(), processor_ms(own));
    let (after, mut us) = times.take(false);
    for client in &clients {
        let problem = client.call(|client, _| client.failed.take()).wait().map_err(failed)?;
        if let Some(problem) = problem {
            return Err(failed(problem));
        }
    }
    world.shutdown()?;
    drop(clients);
    let _left = group.shutdown();
    us.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (us.len().saturating_sub(1) as f64 * share) as usize;
        us.get(place).map_or(f64::NAN, |us| us / 1_000.0)
    };
    let steps = (after - before) as f64;
    let cpu_us =
        cpu_before.zip(cpu_after).map(|(before, after)| (after - before) * 1_000.0 / steps);
    Ok(Measured { steps_per_s: steps / seconds, p50_ms: at(0.5), p99_ms: at(0.99), cpu_us })
}

/// Lets time pass, unless the user interrupts.
fn pass(time: Duration, patience: &Patience) {
    let until = Instant::now() + time;
    while !patience.is_over() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Triggers one plan after the other.
struct Client {
    world: World,
    times: Arc<Times>,
    patience: Patience,
    until: Instant,
    failed: Option<String>,
}

impl Client {
    fn next(&mut self, cx: &mut Context<'_, Self>) {
        if Instant::now() >= self.until || self.patience.is_over() {
            return;
        }
        let world = self.world.clone();
        let plan = async move {
            let plan = world.trigger::<Chain>(STEPS).await.map_err(|error| error.to_string())?;
            plan.finished().await.map_err(|error| error.to_string())
        };
        cx.await_interleaved(plan, |client, cx, outcome| match outcome {
            Ok(view) if view.state == PlanState::Stopped => {
                client.times.forget(view.id);
                client.next(cx);
            }
            Ok(view) => client.failed = Some(format!("plan {} is {}", view.id, view.state.name())),
            Err(error) => client.failed = Some(error),
        });
    }
}
