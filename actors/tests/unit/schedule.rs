//! Units of the arithmetic of schedules.

use super::*;

fn row(first_ms: u64, period_ms: Option<u64>, missed: MissedTicks) -> ReminderRow {
    let mut row = ReminderRow::new(ReminderId::new("e", "k", "n"));
    (row.first_due_ms, row.planned_ms, row.due_ms) = (first_ms, first_ms, first_ms);
    (row.period_ms, row.missed) = (period_ms, missed);
    row
}

#[test]
fn occurrences_are_whole_periods_after_the_first() {
    for (time_ms, next_ms) in [(0, 5), (4, 5), (5, 15), (14, 15), (15, 25), (1_000, 1_005)] {
        assert_eq!(after(5, 10, time_ms), next_ms, "after {time_ms}");
    }
    assert_eq!(after(TIME_MAX_MS, 10, TIME_MAX_MS), TIME_MAX_MS);
}

#[test]
fn what_was_missed_is_skipped_made_up_for_once_or_every_time() {
    let skip = row(100, Some(10), MissedTicks::Skip);
    assert_eq!(step(&skip, 137, 137), Step::Skip { next_ms: 140, skipped: 4 });
    assert_eq!(step(&skip, 140, 140), Step::Tick { planned_ms: 140, skipped: 4 });
    assert_eq!(step(&skip, 142, 137), Step::Tick { planned_ms: 140, skipped: 4 });
    assert_eq!(step(&skip, 137, 100), Step::Tick { planned_ms: 100, skipped: 0 }, "late");
    let once = row(100, Some(10), MissedTicks::Once);
    assert_eq!(step(&once, 137, 137), Step::Tick { planned_ms: 130, skipped: 3 });
    let every = row(100, Some(10), MissedTicks::Every);
    assert_eq!(step(&every, 137, 137), Step::Tick { planned_ms: 100, skipped: 0 });
    let single = row(100, None, MissedTicks::Skip);
    assert_eq!(step(&single, 137, 137), Step::Tick { planned_ms: 100, skipped: 0 });
    let failed = ReminderRow { failures: 1, ..skip };
    assert_eq!(step(&failed, 137, 137), Step::Tick { planned_ms: 100, skipped: 0 });
}

#[test]
fn the_next_occurrence_keeps_the_cadence() {
    let skip = row(100, Some(10), MissedTicks::Skip);
    assert_eq!(next(&skip, 100, 103), Some((110, 0)));
    assert_eq!(next(&skip, 100, 133), Some((140, 3)));
    let every = row(100, Some(10), MissedTicks::Every);
    assert_eq!(next(&every, 100, 133), Some((110, 0)));
    assert_eq!(next(&row(100, None, MissedTicks::Every), 100, 133), None);
}

#[test]
fn a_time_that_is_past_counts_as_the_begin_of_the_cadence() -> Result<(), ReminderError> {
    let id = || ReminderId::new("e", "k", "n");
    let plan = |schedule: Schedule, now_ms| schedule.plan(id(), now_ms);
    let cadence = Schedule::every(Duration::from_millis(10)).first_at(time_of(5));
    for (now_ms, first_ms) in [(100, 105), (105, 105), (106, 115)] {
        assert_eq!(plan(cadence, now_ms)?.planned_ms, first_ms, "from {now_ms}");
    }
    assert_eq!(plan(Schedule::once_at(time_of(5)), 100)?.due_ms, 5, "at once");
    let early = plan(Schedule::once(Duration::from_nanos(1)), 100)?;
    assert_eq!(early.due_ms, 101, "rounded up");
    assert!(plan(Schedule::once(Duration::MAX), 100).is_err());
    assert!(plan(Schedule::every(Duration::MAX).first(Duration::ZERO), 1).is_err());
    Ok(())
}
