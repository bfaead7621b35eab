//! Promises of every store: searches with a limit, numbers by time.

use std::collections::BTreeMap;

use turnwheel_engine::limits::TALLY_TOOK_MS;
use turnwheel_engine::store::{search, Filter, Order, PlanRow, SearchPage, StoreReader, Tally};
use turnwheel_engine::{PlanResult, PlanState, Time, Waiting};

use super::place::*;

const MINUTE: u64 = 60_000_000;

/// All pages of a search that looks at so many plans for each.
fn all_pages(reader: &mut dyn StoreReader, filter: &Filter, most: usize) -> (Vec<u8>, usize) {
    let (mut page, mut found, mut early) = (filter.clone(), Vec::new(), 0);
    loop {
        let SearchPage { rows, looked_to } = search(reader, &page, most).expect("it searches");
        assert!(rows.len() <= page.limit);
        let last = rows.last().map(|row| row.id).filter(|_| rows.len() == page.limit);
        found.extend(rows.iter().map(|row| row.id.to_bytes()[15]));
        early += usize::from(looked_to.is_some());
        match looked_to.or(last) {
            Some(last) => page = page.next_page(last),
            None => return (found, early),
        }
    }
}

pub(crate) fn searches_that_stop_early_find_all_in_the_end(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let labels: BTreeMap<String, String> =
        [("of".to_owned(), "one".to_owned())].into_iter().collect();
    let rows: Vec<PlanRow> = (1..=200)
        .map(|number| PlanRow {
            state: if number % 7 == 0 { PlanState::Running } else { PlanState::Stopped },
            result: match number % 50 {
                3 => PlanResult::Error,
                9 => PlanResult::Cancelled,
                _ => PlanResult::Success,
            },
            waits: if number % 21 == 0 { Waiting::Timer } else { Waiting::Nothing },
            labels: if number % 2 == 0 { labels.clone() } else { BTreeMap::new() },
            waits_for: if number % 90 == 5 { "no route".to_owned() } else { String::new() },
            ended_at: (number % 7 != 0).then(|| Time(u64::from(number))),
            ..row(number, 1)
        })
        .collect();
    write_rows(&mut *writer, &rows, 0);
    let any = || Filter { limit: 3, ..Filter::default() };
    let text = Some("NO ROUTE".to_owned());
    let nothing = Some("nowhere".to_owned());
    let label = vec![("of".to_owned(), Some("one".to_owned()))];
    let filters = [
        any(),
        Filter { text: text.clone(), ..any() },
        Filter { text: nothing.clone(), ..any() },
        Filter { text: nothing, labels: label.clone(), ..any() },
        Filter { labels: label, text: text.clone(), ..any() },
        Filter { results: vec![PlanResult::Error], ..any() },
        Filter { results: vec![PlanResult::Error, PlanResult::Cancelled], ..any() },
        Filter { results: vec![PlanResult::Error], states: vec![PlanState::Stopped], ..any() },
        Filter { results: vec![PlanResult::Error, PlanResult::Success], text, ..any() },
        Filter { states: vec![PlanState::Running, PlanState::Running], ..any() },
        Filter { states: vec![PlanState::Running, PlanState::Paused], ..any() },
        Filter { waits: vec![Waiting::Timer], ..any() },
        Filter { waits: vec![Waiting::Timer, Waiting::Nothing], ended_from: None, ..any() },
        Filter { ended_from: Some(Time(190)), ..any() },
        Filter { created_from: Some(Time(20)), created_before: Some(Time(25)), ..any() },
        Filter { before: Some(plan(150)), after: Some(plan(40)), ..any() },
    ];
    let mut early = 0;
    for filter in filters {
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let filter = Filter { order, ..filter.clone() };
            let all = Filter { limit: usize::MAX, ..filter.clone() };
            let all = reader.list(&all).expect("it lists");
            let all: Vec<u8> = all.iter().map(|row| row.id.to_bytes()[15]).collect();
            let fits = rows.iter().filter(|row| all.contains(&row.id.to_bytes()[15])).count();
            assert_eq!(fits, all.len(), "once each: {filter:?}");
            for most in [1, 40, 1_000] {
                let (found, times) = all_pages(&mut *reader, &filter, most);
                assert_eq!(found, all, "looking at {most}: {filter:?}");
                early += times;
            }
        }
    }
    let mut reader = reader;
    let nowhere = Filter { text: Some("nowhere".to_owned()), ..any() };
    let is_counted = reader.plan_at(&nowhere, 40).expect("it counts").is_some();
    assert_eq!(early > 0, is_counted, "a store that counts places stops early");
}

pub(crate) fn ended_plans_are_counted_by_the_minute(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let hour = 1_000_000 * MINUTE;
    let ended = |number: u8, at: u64, took_ms: u64| PlanRow {
        state: PlanState::Stopped,
        result: PlanResult::Success,
        label: "shop/mail:1.0.0".into(),
        started_at: Some(Time(at - took_ms * 1_000)),
        ended_at: Some(Time(at)),
        ..row(number, 1)
    };
    let old = ended(9, hour - 2 * MINUTE, 1);
    write_rows(&mut *writer, &[old], 0);
    let failed = PlanRow {
        result: PlanResult::Error,
        label: "".into(),
        started_at: None,
        ..ended(3, hour + 90_000_000, 5_000)
    };
    let live = row(5, 1);
    let rows = [ended(1, hour + 1, 3), ended(2, hour + 7, 5), failed, live];
    write_rows(&mut *writer, &rows, 0);
    // Rows are written again, with a snapshot say, and a live plan ends later.
    write_rows(&mut *writer, &rows[..2], 0);
    write_rows(&mut *writer, &[ended(5, hour + 8, 4), ended(6, hour + 9, 9_999_999)], 0);
    let mut tallies = reader.tallies(Time(hour + 5)).expect("it counts");
    tallies.sort_by_key(|tally| (tally.minute, tally.took));
    let five = TALLY_TOOK_MS.iter().position(|limit| *limit == 5);
    let (success, name) = (PlanResult::Success, "shop/mail:1.0.0".to_owned());
    let minute = Time(hour);
    let longest = Some(TALLY_TOOK_MS.len());
    let later = Time(hour + MINUTE);
    assert_eq!(
        tallies,
        [
            Tally { minute, name: name.clone(), result: success, took: five, plans: 3 },
            Tally { minute, name, result: success, took: longest, plans: 1 },
            Tally {
                minute: later,
                name: "play".to_owned(),
                result: PlanResult::Error,
                took: None,
                plans: 1
            },
        ]
    );
}
