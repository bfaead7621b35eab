//! What every store promises of schedules.

use turnwheel_engine::store::{ScheduleRow, ScheduleWrite, Swap};
use turnwheel_engine::StoreError;

use super::place::*;

fn put_of(name: &str, from: u64, data: &str) -> ScheduleWrite {
    ScheduleWrite { name: name.to_owned(), from, data: Some(data.as_bytes().to_vec()), epoch: 0 }
}

pub(crate) fn schedules_are_changed_from_the_version_that_was_read(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let swaps = writer.write_schedules(&[put_of("b", 0, "1"), put_of("a", 0, "1")]);
    assert_eq!(swaps.expect("they are written"), [Swap::Done, Swap::Done]);
    let stale = [put_of("a", 0, "x"), put_of("b", 1, "2"), put_of("c", 7, "x")];
    let swaps = writer.write_schedules(&stale).expect("one is written");
    let refused = |version| Swap::Changed { version };
    assert_eq!(swaps, [refused(1), Swap::Done, refused(0)]);
    let row = |name: &str, version, data: &str| ScheduleRow {
        name: name.to_owned(),
        version,
        data: data.as_bytes().to_vec(),
    };
    assert_eq!(reader.schedule("b").expect("it is read"), Some(row("b", 2, "2")));
    assert_eq!(reader.schedule("c").expect("it is read"), None);
    let all = reader.schedules("", 10).expect("they are read");
    assert_eq!(all, [row("a", 1, "1"), row("b", 2, "2")]);
    assert_eq!(reader.schedules("a", 10).expect("they are read"), all[1..]);
    assert_eq!(reader.schedules("", 1).expect("they are read"), all[..1]);
    let remove = |from| ScheduleWrite { name: "a".to_owned(), from, data: None, epoch: 0 };
    assert_eq!(writer.write_schedules(&[remove(9)]).expect("it is read"), [refused(1)]);
    assert_eq!(writer.write_schedules(&[remove(1)]).expect("it is removed"), [Swap::Done]);
    assert_eq!(writer.write_schedules(&[remove(0)]).expect("nothing is there"), [Swap::Done]);
    assert_eq!(reader.schedules("", 10).expect("they are read"), all[1..]);
}

pub(crate) fn schedules_of_a_fenced_writer_stay_as_they_are(place: &Place) {
    let mut first = place.store.writer().expect("a writer");
    first.write_schedules(&[put_of("a", 0, "1")]).expect("it is written");
    let mut second = place.store.writer().expect("a writer");
    let fenced = first.write_schedules(&[put_of("a", 1, "2")]);
    assert!(matches!(fenced, Err(StoreError::Fenced { .. })), "{fenced:?}");
    let swaps = second.write_schedules(&[put_of("a", 1, "2")]).expect("it is written");
    assert_eq!(swaps, [Swap::Done]);
}
