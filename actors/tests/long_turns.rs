//! Long turns: many of them on few workers, and the report of a turn that lasts too long.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{mpsc, Mutex};
use std::time::{Duration, Instant};

use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, System,
};
use turnwheel_runtime::{AnyTask, Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(40);

struct Busy;

impl Actor for Busy {
    type Error = Infallible;
}

impl Entity for Busy {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self
    }
}

/// Waits for so long.
struct Pause(Duration);

impl AsyncHandler<Pause> for Busy {
    type Reply = ();

    async fn handle(&mut self, Pause(time): Pause, cx: AsyncContext<Self>) {
        cx.sleep(time).await.expect("there is room for a timer");
    }
}

/// Occupies its worker for so long.
struct Work(Duration);

impl Handler<Work> for Busy {
    type Reply = ();

    fn handle(&mut self, Work(time): Work, _: &mut Context<'_, Self>) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }
}

// O-T019
#[test]
fn a_hundred_entities_with_long_requests_on_two_workers_all_answer_in_time() -> Outcome {
    let group = Group::builder("busy").workers(2).pinning(Pinning::None).build()?;
    let system = System::builder(&group).ask_limit(PATIENCE).build();
    let entities = Entities::new(&system);
    let time = Duration::from_millis(12);
    let pauses: Vec<_> =
        (0..100_u64).map(|key| entities.get::<Busy>(key).ask(Pause(time))).collect();
    let works: Vec<_> =
        (0..100_u64).map(|key| entities.get::<Busy>(key).ask(Work(time / 4))).collect();
    for pause in pauses {
        pause.wait()?;
    }
    for work in works {
        work.wait()?;
    }
    assert_eq!(entities.active::<Busy>(), 100);
    group.shutdown()?;
    Ok(())
}

struct Hold(mpsc::Receiver<()>);

impl Handler<Hold> for Busy {
    type Reply = ();

    fn handle(&mut self, Hold(released): Hold, _: &mut Context<'_, Self>) {
        let _ = released.recv();
    }
}

// O-T020
#[test]
fn a_turn_that_is_too_long_is_told_with_the_name_of_its_actor_while_it_lasts() -> Outcome {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let on_long_turn = move |task: &AnyTask, held: Duration| {
        let tell = tell.lock().expect("nobody panics while telling");
        tell.send((task.name(), task.class(), held)).expect("the test lives");
    };
    let limit = Duration::from_millis(50);
    let builder = Group::builder("long").workers(1).pinning(Pinning::None);
    let group = builder.on_long_turn(limit, on_long_turn).build()?;
    let system = System::new(&group);
    let ledger = system.actor(Busy).name("ledger 7").class("Ledger").spawn()?;
    let (release, released) = mpsc::channel();
    let asked = ledger.ask(Hold(released));
    let (name, class, held) = told.recv_timeout(PATIENCE)?;
    assert_eq!((name.as_str(), class.as_str()), ("ledger 7", "Ledger"));
    assert!(held >= limit && group.metrics().long_turns == 1, "counted while it lasts");
    drop(release);
    asked.wait()?;
    // Of an entity, its type.
    let (release, released) = mpsc::channel();
    let entities = Entities::new(&system);
    let asked = entities.get::<Busy>(7_u64).ask(Hold(released));
    let (_, class, _) = told.recv_timeout(PATIENCE)?;
    assert!(class.ends_with("Busy"), "{class}");
    drop(release);
    asked.wait()?;
    group.shutdown()?;
    assert_eq!(group.metrics().long_turns, 2);
    Ok(())
}
