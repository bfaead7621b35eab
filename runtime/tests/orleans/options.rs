//! Every option has an effect that a test shows, and a test reaches every limit.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{mpsc, Arc, Mutex};
use std::time::{Duration, Instant};

use turnwheel_runtime::limits::FAST_JOBS_MAX;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{
    Context, Failure, Group, IdlePolicy, Lifecycle, Mailbox, OnFailure, Pinning, SubmitErrorKind,
    Task,
};

/// Longer than any sound machine takes; a wait that ends by it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files that hold builders, and for each option the test that shows its effect.
#[rustfmt::skip]
const OPTIONS: &[(&str, &[(&str, &str)])] = &[
    ("group/builder.rs", &[
        ("workers", "threads_are_named_after_prefix_group_and_number"),
        ("pinning", "a_pinned_worker_may_use_its_core_alone"),
        ("stack_bytes", "a_worker_has_the_stack_that_was_asked_for"),
        ("on_worker_start", "hooks_of_virtual_workers_run_at_start_and_end"),
        ("on_worker_stop", "the_current_task_is_known_in_every_job_and_gone_after_a_panic"),
        ("on_escalate", "an_escalated_failure_reaches_the_hook_of_the_group"),
        ("on_long_turn", "a_long_turn_is_named_and_counted_while_it_lasts"),
        ("idle", "a_worker_without_work_spins_or_parks_as_it_was_told"),
        ("clock", "a_turn_ends_after_its_budget_of_time"),
        ("budget", "a_turn_ends_after_its_budget_of_jobs_and_lets_the_others_run"),
        ("mailbox", "the_mailbox_of_the_group_is_for_tasks_without_one_of_their_own"),
        ("memory_budget", "a_flood_beyond_the_groups_memory_is_refused_and_loses_nothing"),
        ("without_stealing", "without_stealing_each_worker_keeps_its_own"),
        ("tokio", "a_task_uses_tokio_sockets_interleaved_with_other_jobs"),
    ]),
    ("group/spawn.rs", &[
        ("name", "a_task_has_the_name_it_was_given_or_its_class"),
        ("class", "a_task_has_the_name_it_was_given_or_its_class"),
        ("class_of", "a_task_can_be_counted_under_the_type_that_its_state_wraps"),
        ("mailbox", "the_mailbox_of_the_group_is_for_tasks_without_one_of_their_own"),
        ("budget", "a_turn_ends_after_its_budget_of_jobs_and_lets_the_others_run"),
        ("lifecycle", "the_policy_hook_gets_the_panic_of_a_job"),
        ("hooks", "hooks_of_a_type_are_called_and_take_no_room_and_a_tag_is_answered"),
        ("tag", "hooks_of_a_type_are_called_and_take_no_room_and_a_tag_is_answered"),
        ("label", "a_task_has_the_name_it_was_given_or_its_class"),
        ("system", "a_system_task_is_behind_nobody_else"),
    ]),
    ("../extras/src/runtime.rs", &[
        ("prefix", "threads_are_named_after_prefix_group_and_number"),
        ("cpu", "the_groups_of_a_runtime_are_as_they_were_described"),
        ("io", "the_groups_of_a_runtime_are_as_they_were_described"),
        ("group", "the_groups_of_a_runtime_are_as_they_were_described"),
        ("clock", "timers_fire_on_threads_of_the_group_that_owns_them"),
        ("controlled_clock", "a_controlled_clock_is_read_pinned_moved_and_reset_at_run_time"),
    ]),
    ("sim/builder.rs", &[
        ("seed", "equal_seeds_give_equal_events_to_the_byte_and_others_give_others"),
        ("fifo", "turns_end_early_by_chance_but_not_without_a_seed"),
        ("workers", "virtual_workers_steal_from_each_other"),
        ("turns_max", "work_without_end_is_found_and_named"),
        ("wall", "a_wall_clock_that_jumps_moves_no_timer"),
    ]),
];

fn read_all(folder: &Path, text: &mut String) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, text)?;
        } else {
            text.push_str(&fs::read_to_string(path)?);
        }
    }
    Ok(())
}

// O-064
#[test]
fn every_option_has_a_test_that_shows_its_effect() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = String::new();
    read_all(&root.join("tests"), &mut tests)?;
    read_all(&root.join("extras/tests"), &mut tests)?;
    for (file, options) in OPTIONS {
        let source = fs::read_to_string(root.join("src").join(file))?;
        // An option takes the builder and gives it back: a function, some with their parameters
        // below the name, or a line of the macro `setters!`.
        let source = source.replace("(\n        mut self", "(mut self");
        let names = source.lines().filter_map(|line| {
            let line = line.trim();
            let is_of_macro =
                line.contains("(self") && line.contains(" =>") && !line.starts_with('(');
            let function = line.strip_prefix("pub fn ").or(is_of_macro.then_some(line))?;
            let (name, parameters) = function.split_once('(')?;
            let name = name.split_once('<').map_or(name, |(name, _)| name);
            (is_of_macro || parameters.starts_with("mut self")).then_some(name)
        });
        let shown: BTreeMap<_, _> = options.iter().copied().collect();
        let (names, listed): (BTreeSet<_>, _) = (names.collect(), shown.keys().copied().collect());
        assert_eq!(names, listed, "the options of {file}, and those with a test");
        for (name, test) in shown {
            assert!(tests.contains(&format!("fn {test}(")), "{file}: {name}: no test {test}");
        }
    }
    Ok(())
}

fn group(
    configure: impl FnOnce(turnwheel_runtime::GroupBuilder) -> turnwheel_runtime::GroupBuilder,
) -> Group {
    let builder = Group::builder("options").workers(1).pinning(Pinning::None);
    configure(builder).build().expect("a group with one worker")
}

#[test]
fn a_task_can_be_counted_under_the_type_that_its_state_wraps() {
    let group = group(|group| group);
    let wrapped = group.task((0_u8, "mail")).class_of::<u8>().spawn().expect("the group runs");
    assert_eq!((wrapped.class(), wrapped.name()), ("u8".to_owned(), "u8".to_owned()));
    let both = group.task(0_u8).class_of::<u16>().class("Account").spawn().expect("it runs");
    assert_eq!(both.class(), "Account", "the name that is given counts");
    group.shutdown().expect("not on a worker");
}

/// Hooks without a value.
#[derive(Default)]
struct Counting;

impl Lifecycle<u64> for Counting {
    fn starting(&mut self, count: &mut u64, _: &mut Context<'_, u64>) -> Result<(), Failure> {
        *count += 1;
        Ok(())
    }
}

#[test]
fn hooks_of_a_type_are_called_and_take_no_room_and_a_tag_is_answered() -> Result<(), Failure> {
    let sim = Sim::fifo();
    let group = sim.group("cpu");
    let hooked = group.task(0).hooks::<Counting>().tag(7).spawn().expect("the group runs");
    let plain = group.spawn(0_u64).expect("the group runs");
    let begun = hooked.call(|count, _| *count);
    sim.run_until_idle();
    assert_eq!(begun.wait()?, 1, "its start was counted");
    assert_eq!((hooked.tag(), hooked.downgrade().tag(), plain.tag()), (7, 7, 0));
    let bytes: BTreeMap<_, _> =
        group.tasks().into_iter().map(|info| (info.id, info.bytes)).collect();
    assert_eq!(bytes[&hooked.id()], bytes[&plain.id()]);
    Ok(())
}

/// The cores that the calling thread may use, as the system writes them.
#[cfg(target_os = "linux")]
fn cores_here() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("Linux says it").trim().to_owned()
}

// O-064
#[cfg(target_os = "linux")]
#[test]
fn a_pinned_worker_may_use_its_core_alone() {
    let cores = cores_here();
    let first: String = cores.chars().take_while(char::is_ascii_digit).collect();
    let core = first.parse().unwrap();
    for (pinning, expected) in [(Pinning::Cores(vec![core]), first), (Pinning::None, cores)] {
        let group = group(|group| group.pinning(pinning));
        let task = group.spawn(()).unwrap();
        assert_eq!(task.call(|(), _| cores_here()).wait_timeout(PATIENCE).unwrap(), expected);
        group.shutdown().unwrap();
    }
}

// O-064
#[test]
fn a_worker_has_the_stack_that_was_asked_for() {
    const LARGE: usize = 16 << 20;
    let group = group(|group| group.stack_bytes(2 * LARGE));
    let task = group.spawn(()).unwrap();
    // Eight times the default: without the option the process would end here.
    let used = task.call(|(), _| {
        let mut large = [0_u8; LARGE];
        std::hint::black_box(&mut large).iter().map(|byte| usize::from(*byte)).sum::<usize>()
    });
    assert_eq!(used.wait_timeout(PATIENCE).unwrap(), 0);
    group.shutdown().unwrap();
}

struct Escalating;

impl Lifecycle<()> for Escalating {
    fn on_failure(&mut self, (): &mut (), _: &mut Context<'_, ()>, _: &Failure) -> OnFailure {
        OnFailure::Escalate
    }
}

// O-064
#[test]
fn an_escalated_failure_reaches_the_hook_of_the_group() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let group = group(|group| {
        group.on_escalate(move |task, failure| {
            let tell = tell.lock().expect("nobody panics while telling");
            assert!(tell.send((task.name(), failure.to_string())).is_ok());
            panic!("planted in the hook");
        })
    });
    let task = group.task(()).name("fragile").lifecycle(Escalating).spawn().unwrap();
    task.submit(|(), _| panic!("planted")).unwrap();
    let expected = ("fragile".to_owned(), "panicked: planted".to_owned());
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), expected);
    assert!(matches!(task.closed().wait_timeout(PATIENCE), Err(Failure::Panicked(_))));
    group.shutdown().unwrap();
    assert!(told.try_recv().is_err(), "told once");
}

// O-064
#[test]
fn a_worker_without_work_spins_or_parks_as_it_was_told() {
    let parks = |group: &Group| group.metrics().workers[0].parks;
    for policy in [IdlePolicy::PowerFirst, IdlePolicy::LatencyFirst] {
        let group = group(|group| group.idle(policy));
        while group.metrics().parked == 0 {
            std::thread::yield_now();
        }
        assert!(parks(&group) >= 1, "{policy:?}");
        group.shutdown().unwrap();
    }
    let started = Instant::now();
    let group = group(|group| group.idle(IdlePolicy::Spin(Duration::from_secs(1))));
    let task = group.spawn(()).unwrap();
    while started.elapsed() < Duration::from_millis(100) {
        task.call(|(), _| ()).wait_timeout(PATIENCE).unwrap();
    }
    // Each pause was far below a second; on a machine that took longer nothing is known.
    assert!(parks(&group) == 0 || started.elapsed() > Duration::from_secs(1));
    group.shutdown().unwrap();
}

// O-064
#[test]
fn the_mailbox_of_the_group_is_for_tasks_without_one_of_their_own() {
    let sim = Sim::fifo();
    let builder = Group::builder("cpu").mailbox(Mailbox::bounded(1));
    let group = sim.build(builder).unwrap();
    let plain = group.spawn(()).unwrap();
    let own = group.task(()).mailbox(Mailbox::bounded(2)).spawn().unwrap();
    for (task, bound) in [(plain, 1), (own, 2)] {
        let admitted = (0..5).filter(|_| task.submit(|(), _| ()).is_ok()).count();
        assert_eq!(admitted, bound);
        assert_eq!(task.submit(|(), _| ()).unwrap_err().kind, SubmitErrorKind::Full);
    }
}

// O-064
#[test]
fn a_system_task_is_behind_nobody_else() {
    let group = group(|group| group);
    let log = Arc::new(Mutex::new(String::new()));
    let write = |task: &Task<()>, what: char| {
        let log = Arc::clone(&log);
        let job = move |(): &mut (), _: &mut Context<'_, ()>| {
            log.lock().expect("nobody panics while writing").push(what);
        };
        task.submit(job).expect("room");
    };
    let (release, held) = mpsc::channel::<()>();
    let busy = group.spawn(()).unwrap();
    busy.submit(move |(), _| assert!(held.recv().is_ok())).unwrap();
    let users: Vec<_> = (0..5).map(|_| group.spawn(()).unwrap()).collect();
    let system = group.task(()).system().spawn().unwrap();
    users.iter().for_each(|task| write(task, 'u'));
    write(&system, 's');
    release.send(()).unwrap();
    assert!(group.shutdown().unwrap().is_clean());
    assert_eq!(*log.lock().unwrap(), "suuuuu");
}

// O-064
// O-064
#[test]
fn a_job_that_makes_jobs_without_end_is_stopped_by_the_limit() {
    let group = group(|group| group);
    let task = group.spawn(0_u32).unwrap();
    let made = task.call(|_, cx| {
        let mut made = 0_u32;
        loop {
            match cx.run(|count: &mut u32, _| *count += 1) {
                Ok(()) => made += 1,
                Err(refused) => return (made, refused.kind),
            }
        }
    });
    let (made, kind) = made.wait_timeout(PATIENCE).unwrap();
    assert_eq!((made, kind), (FAST_JOBS_MAX, SubmitErrorKind::Full));
    assert_eq!(task.call(|count, _| *count).wait_timeout(PATIENCE).unwrap(), FAST_JOBS_MAX);
    assert!(group.shutdown().unwrap().is_clean());
}
