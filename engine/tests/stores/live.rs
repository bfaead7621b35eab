//! Live events around an entry that cannot be understood: what a listener is told, and how often
//! the store is read for it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use turnwheel_engine::store::{Seq, Store};
use turnwheel_engine::watch::{Cursor, Happening, Watch, WatchFilter, Watched};
use turnwheel_engine::{MemoryStore, PlanId, PlanState, StoreError, World};
use turnwheel_runtime::sim::Sim;
use turnwheel_testkit::FaultStore;

use crate::common::{Piece, Play, Script};
use crate::place::{append, entry, gone, stopped, write_rows};

struct Stage {
    sim: Sim,
    store: FaultStore,
    world: World,
}

impl Stage {
    /// The first so many places have no entries any more.
    fn after_a_gap(gap: Seq) -> Self {
        let memory = MemoryStore::new();
        if gap > 0 {
            let mut writer = memory.writer().expect("a writer");
            let entries: Vec<_> = (0..gap).map(|prev| entry(1, prev, "x")).collect();
            append(&mut *writer, &entries);
            write_rows(&mut *writer, &[stopped(1, gap, 5)], gap);
            assert_eq!(writer.remove(&[gone(1, gap)]).expect("it is answered"), 1);
        }
        let (sim, store) = (Sim::new(7), FaultStore::new(memory));
        let builder = World::builder().action(Play::new(&Script::default())).action(Piece).seed(1);
        let builder = builder.group(&sim.group("plans")).io_group(&sim.group("journal"));
        let world = sim.block_on(builder.open(store.clone())).expect("it ends");
        Self { sim, store, world: world.expect("the world begins") }
    }

    fn perform(&self) -> PlanId {
        let plan = self.sim.block_on(self.world.trigger::<Piece>("a b".to_owned()));
        let plan = plan.expect("it ends").expect("it is taken");
        self.sim.block_on(plan.finished()).expect("it ends").expect("it is there");
        self.sim.run_until_idle();
        plan.id()
    }

    fn newest(&self) -> Seq {
        self.store.reader().expect("a reader").last_place().expect("it reads")
    }

    /// Entries of the past that a listener for one plan is told, with the errors and the reads.
    fn told(&self, plan: PlanId) -> (Vec<Happening>, usize, u64) {
        let before = self.store.reads();
        let mut watch: Watch = self.world.watch(WatchFilter::new().after(Cursor::START).plan(plan));
        let (mut told, mut errors, mut pending) = (Vec::new(), 0, 0);
        while pending < 100 {
            match pin!(watch.next()).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(Watched::Happened(happening)))) => told.push(*happening),
                Poll::Ready(Some(Err(error))) => {
                    assert!(error.is_unreadable(), "{error}");
                    errors += 1;
                }
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => {
                    pending += 1;
                    self.sim.run_until_idle();
                }
            }
        }
        (told, errors, self.store.reads() - before)
    }
}

#[test]
fn entry_that_cannot_be_understood_in_the_middle_of_a_page_costs_some_reads() {
    let stage = Stage::after_a_gap(0);
    let first = stage.perform();
    let _others: Vec<PlanId> = (0..60).map(|_| stage.perform()).collect();
    let last = stage.perform();
    assert!(stage.newest() > 300, "{}", stage.newest());
    let [before, after] = [first, last].map(|plan| stage.told(plan));
    assert!(before.2 < 10, "{} reads of what is whole", before.2);
    let error = StoreError::Corrupt("a flipped bit".to_owned());
    stage.store.damage(200, error);
    for (plan, whole) in [(first, before), (last, after)] {
        let (told, errors, reads) = stage.told(plan);
        assert_eq!((told, errors), (whole.0, 1));
        assert!(reads <= whole.2 + 13, "{reads} reads beside {}", whole.2);
    }
}

#[test]
fn entry_that_cannot_be_understood_behind_removed_ones_costs_some_reads() {
    let stage = Stage::after_a_gap(5_000);
    let error = StoreError::Corrupt("a flipped bit".to_owned());
    stage.store.damage(stage.newest() + 1, error);
    stage.perform();
    let whole = stage.perform();
    let (told, errors, reads) = stage.told(whole);
    assert_eq!(told.last().and_then(Happening::plan_state), Some(PlanState::Stopped));
    assert_eq!(errors, 1);
    assert!(reads <= 15, "{reads} reads");
}

#[test]
fn run_of_entries_that_cannot_be_understood_is_told_as_one() {
    let stage = Stage::after_a_gap(0);
    let _others: Vec<PlanId> = (0..30).map(|_| stage.perform()).collect();
    let (from, until) = (10, stage.newest());
    let whole = stage.perform();
    for place in from..=until {
        stage.store.damage(place, StoreError::Corrupt("a bad disk".to_owned()));
    }
    let (told, errors, reads) = stage.told(whole);
    assert_eq!(told.last().and_then(Happening::plan_state), Some(PlanState::Stopped));
    assert_eq!(errors, 1);
    assert!(reads <= 2 * (until - from) + 20, "{reads} reads of {} entries", until - from);
}
