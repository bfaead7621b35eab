//! A damaged row of a schedule is one schedule that says so: the world starts, and the others launch.

use std::time::SystemTime;

use turnwheel_engine::store::{slot_of_schedule, ScheduleWrite, Store, StoreView, Swap};
use turnwheel_engine::{MemoryStore, ScheduleError, StoreError, Time};

use crate::common::calendar::{every, launches, time, world_over, HOUR, MINUTE};
use crate::common::Script;

/// Writes bytes over a schedule that no world has.
fn damage(store: &MemoryStore, name: &str, data: &[u8]) {
    let mut reader = store.reader().expect("it is read");
    let row = reader.schedule(name).expect("it is read").expect("it is there");
    let epoch = reader.worlds().expect("they are read").owners()[slot_of_schedule(name)].epoch;
    let mut writer = store.writer().expect("nobody writes");
    let data = Some(data.to_vec());
    let write = ScheduleWrite { name: row.name, from: row.version, data, epoch };
    assert_eq!(writer.write_schedules(&[write]).expect("it is written"), [Swap::Done]);
}

#[test]
fn world_starts_over_a_damaged_schedule_and_the_others_launch() {
    let (store, script) = (MemoryStore::new(), Script::default());
    let wall = SystemTime::from(time("2026-03-01T00:30:00Z"));
    let (sim, world) = world_over(store.clone(), &script, wall);
    for name in ["bad", "empty", "good"] {
        let put = world.schedules().put(every(name, HOUR, "a"));
        sim.block_on(put).unwrap().unwrap().unwrap();
    }
    drop(world);
    damage(&store, "bad", b"\xde\xad\xbe\xef");
    damage(&store, "empty", b"");

    let (sim, world) = world_over(store.clone(), &script, wall);
    let said = |name: &str| sim.block_on(world.schedules().get(name)).unwrap().unwrap().unwrap();
    sim.advance(HOUR);
    assert_eq!(launches(&said("good")), ["01:00 launched"]);
    let listed = sim.block_on(world.schedules().list("", 10)).unwrap().unwrap().unwrap();
    let problems: Vec<_> = listed.iter().map(|view| view.problem.clone()).collect();
    let bad = problems[0].as_deref().unwrap();
    assert!(bad.contains("«bad» cannot be read: its format is 222, not 1; put it again"), "{bad}");
    assert!(problems[1].as_deref().unwrap().contains("«empty» cannot be read: it is empty"));
    assert_eq!(problems[2], None);
    let mut view = StoreView::of(&store).unwrap();
    assert_eq!(view.schedules("", 10).unwrap()[0].problem.as_deref(), Some(bad));

    // Nothing overwrites its bytes but a new schedule.
    let (at, all) = (Time(0), world.schedules());
    for refused in [
        sim.block_on(all.pause("bad", "eva", "why")).unwrap().unwrap().map(|_| ()),
        sim.block_on(all.unpause("bad")).unwrap().unwrap().map(|_| ()),
        sim.block_on(all.trigger_now("bad", "eva")).unwrap().unwrap().map(|_| ()),
        sim.block_on(all.backfill("bad", at, at)).unwrap().unwrap().map(|_| ()),
        sim.block_on(all.times("bad", at, 3)).unwrap().unwrap().map(|_| ()),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ScheduleError::Store(StoreError::Corrupt(_))), "{refused}");
    }
    let row = store.reader().unwrap().schedule("bad").unwrap().unwrap();
    assert_eq!(row.data, b"\xde\xad\xbe\xef");

    sim.block_on(all.put(every("bad", MINUTE, "a"))).unwrap().unwrap().unwrap();
    sim.block_on(all.remove("empty")).unwrap().unwrap().unwrap();
    sim.advance(MINUTE);
    let view = said("bad");
    assert_eq!((view.problem, view.counts.launched), (None, 1));
    drop(world);
    let (sim, world) = world_over(store, &script, wall);
    let listed = sim.block_on(world.schedules().list("", 10)).unwrap().unwrap().unwrap();
    let names: Vec<_> = listed.iter().map(|view| (&view.name[..], &view.problem)).collect();
    assert_eq!(names, [("bad", &None), ("good", &None)]);
}
