//! Entities as parents, and begins that wait.

use std::sync::OnceLock;

use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::{Actor, Address, Context, Entities, Entity, Exit, Handler, Restart, System};
use turnwheel_runtime::sim::Sim;

use crate::nodes::{Journal, Node, Note, OnPurpose, Outcome, SECOND};

static FAMILY: OnceLock<Journal> = OnceLock::new();

/// An entity with a child.
struct Parent(Option<Address<Node>>);

impl Actor for Parent {
    type Error = OnPurpose;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        let child = Node::new("child", FAMILY.get_or_init(Journal::default));
        self.0 = cx.spawn_child(child).ok();
        Ok(())
    }

    fn closing(&mut self, _: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        FAMILY.get_or_init(Journal::default).add("closing parent".to_owned());
        Ok(())
    }

    fn ended(&mut self, _: &Exit) {
        FAMILY.get_or_init(Journal::default).add("ended parent".to_owned());
    }
}

impl Entity for Parent {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self(None)
    }
}

/// Passivates its entity, when it has given its child something to do.
struct Leave;

impl Handler<Leave> for Parent {
    type Reply = ();

    fn handle(&mut self, _: Leave, cx: &mut Context<'_, Self>) {
        let child = self.0.as_ref().expect("it was spawned");
        child.tell(Note(1)).expect("there is room");
        child.tell(Note(2)).expect("there is room");
        cx.passivate();
    }
}

struct Fall;

impl Handler<Fall> for Parent {
    type Reply = ();

    fn handle(&mut self, _: Fall, _: &mut Context<'_, Self>) {
        panic!("on purpose");
    }
}

#[test]
fn children_of_an_entity_end_in_order_before_it_and_before_it_begins_anew() -> Outcome {
    let journal = FAMILY.get_or_init(Journal::default);
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("cpu")));
    let parent = entities.get::<Parent>(1_u64);
    parent.tell(Leave)?;
    sim.run_until_idle();
    let ends = ["closing child", "closed child"];
    let passivated = ["start child", "1 child", "2 child", ends[0], ends[1], "closing parent"];
    let taken = journal.take();
    assert_eq!(taken[..6], passivated);
    assert_eq!(taken[6..], ["ended parent"]);
    parent.tell(Fall)?;
    sim.run_until_idle();
    assert_eq!(journal.take(), ["ended parent", "start child", ends[0], ends[1], "start child"]);
    Ok(())
}

/// Loads something before its first message.
struct Loader {
    journal: Journal,
    is_loaded: bool,
}

struct Loaded;

impl Actor for Loader {
    type Error = OnPurpose;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), OnPurpose> {
        let loaded = cx.group().sleep(SECOND);
        cx.pipe(loaded, |_| Loaded);
        Ok(())
    }
}

impl Handler<Loaded> for Loader {
    type Reply = ();

    fn handle(&mut self, _: Loaded, _: &mut Context<'_, Self>) {
        self.is_loaded = true;
        self.journal.add("loaded".to_owned());
    }
}

impl Handler<Note> for Loader {
    type Reply = ();

    fn handle(&mut self, Note(number): Note, cx: &mut Context<'_, Self>) {
        self.journal.add(format!("{number} {}", self.is_loaded));
        // No part of a start any more: it blocks no message.
        let later = cx.group().sleep(SECOND);
        cx.pipe(later, |_| Loaded);
    }
}

impl Handler<Fall> for Loader {
    type Reply = ();

    fn handle(&mut self, _: Fall, _: &mut Context<'_, Self>) {
        panic!("on purpose");
    }
}

static LOADERS: OnceLock<Journal> = OnceLock::new();

impl Entity for Loader {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self { journal: LOADERS.get_or_init(Journal::default).clone(), is_loaded: false }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), OnPurpose> {
        cx.sleep(2 * SECOND).await.map_err(|_| OnPurpose)?;
        self.journal.add("active".to_owned());
        Ok(())
    }
}

#[test]
fn what_a_start_waits_for_holds_messages_back_at_a_restart_too() -> Outcome {
    let sim = Sim::fifo();
    let system = System::new(&sim.group("cpu"));
    let journal = Journal::default();
    let kept = journal.clone();
    let make = move || Loader { journal: kept.clone(), is_loaded: false };
    let loader = system.actor(make()).restart(Restart::default(), make).spawn()?;
    for number in [1, 3] {
        loader.tell(Note(number))?;
        loader.tell(Fall)?;
        loader.tell(Note(number + 1))?;
        loader.tell(Note(number + 2))?;
        sim.advance(10 * SECOND);
        let journal = journal.take();
        let words: Vec<_> = journal.iter().filter(|entry| *entry != "loaded").cloned().collect();
        let all = [number, number + 1, number + 2].map(|number| format!("{number} true"));
        assert_eq!(words, all, "{journal:?}");
    }
    Ok(())
}

#[test]
fn what_the_start_of_an_entity_waits_for_comes_after_its_activation() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("cpu")));
    let loader = entities.get::<Loader>(1_u64);
    loader.tell(Note(1))?;
    loader.tell(Fall)?;
    loader.tell(Note(2))?;
    sim.advance(10 * SECOND);
    let journal = LOADERS.get_or_init(Journal::default).take();
    assert_eq!(journal, ["active", "loaded", "1 true", "active", "loaded", "2 true", "loaded"]);
    Ok(())
}
