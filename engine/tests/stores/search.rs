//! What every store promises of search: filters, pages, labels, counts.

use std::collections::BTreeMap;

use turnwheel_engine::store::{Count, Filter, Order, PlanRow, StoreReader};
use turnwheel_engine::{PlanResult, PlanState, StepId, Time, Waiting};

use super::place::*;

fn labels(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn list(reader: &mut dyn StoreReader, filter: &Filter) -> Vec<u8> {
    let rows = reader.list(filter).expect("it lists");
    rows.iter().map(|row| row.id.to_bytes()[15]).collect()
}

fn having(all: &[(&str, Option<&str>)]) -> Filter {
    let one = |(name, value): &(&str, Option<&str>)| ((*name).to_owned(), value.map(str::to_owned));
    Filter { labels: all.iter().map(one).collect(), ..Filter::default() }
}

pub(crate) fn plans_are_found_by_all_that_is_known_of_them(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[keyed(1, "order 1"), keyed(2, "order 2")]);
    let rows = [
        PlanRow { labels: labels(&[("who", "Ann"), ("urgent", "")]), ..row(1, 1) },
        PlanRow { labels: labels(&[("who", "Ann")]), action: "ship".into(), ..row(2, 2) },
        PlanRow { labels: labels(&[("who", "Bob"), ("urgent", "")]), ..row(3, 1) },
        PlanRow { by: "the shop".into(), caller: Some((plan(1), StepId(2))), ..row(4, 1) },
        PlanRow { waits: Waiting::Event, waits_for: "a word".to_owned(), ..row(5, 1) },
        PlanRow { waits: Waiting::Retry, caller: Some((plan(2), StepId(2))), ..row(6, 1) },
        stopped(7, 1, 70),
        stopped(8, 1, 80),
    ];
    write_rows(&mut *writer, &rows, 0);
    let mut list = |filter: Filter| list(&mut *reader, &filter);
    let any = Filter::default;
    assert_eq!(list(having(&[("who", Some("Ann"))])), [2, 1]);
    assert_eq!(list(having(&[("who", None)])), [3, 2, 1]);
    assert_eq!(list(having(&[("urgent", None), ("who", Some("Ann"))])), [1]);
    assert_eq!(list(having(&[("who", Some("Ann")), ("who", Some("Bob"))])), [] as [u8; 0]);
    assert_eq!(list(having(&[("urgent", Some(""))])), [3, 1], "a tag has an empty value");
    assert_eq!(list(having(&[("wh", None)])), [] as [u8; 0]);
    assert_eq!(list(having(&[("who' OR 1 --", Some("x"))])), [] as [u8; 0]);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(list(Filter { key: text("order 2"), ..any() }), [2]);
    assert_eq!(list(Filter { key: text("order 3"), ..any() }), [] as [u8; 0]);
    assert_eq!(list(Filter { action: text("ship"), ..any() }), [2]);
    assert_eq!(list(Filter { by: text("the shop"), ..any() }), [4]);
    assert_eq!(list(Filter { text: text("A WORD"), ..any() }), [5], "parts, in any case");
    assert_eq!(list(Filter { text: text("LABEL 1"), by: text("the shop"), ..any() }).len(), 0);
    assert_eq!(list(Filter { name: text("a word"), ..any() }), [] as [u8; 0], "names only");
    assert_eq!(list(Filter { name: text("BEL"), ..any() }), list(any()));
    for pattern in ["%", "_", "\\", "l%1"] {
        assert_eq!(list(Filter { name: text(pattern), ..any() }), [] as [u8; 0], "no pattern");
    }
    let long = "label".repeat(10_000);
    assert_eq!(list(Filter { name: Some(long), ..any() }), [] as [u8; 0], "longer than any");
    assert_eq!(list(Filter { caller: Some(plan(1)), ..any() }), [4]);
    assert_eq!(list(Filter { waits: vec![Waiting::Event, Waiting::Retry], ..any() }), [6, 5]);
    let (from, before) = (Some(Time(3)), Some(Time(5)));
    assert_eq!(list(Filter { created_from: from, created_before: before, ..any() }), [4, 3]);
    let (from, before) = (Some(Time(70)), Some(Time(80)));
    assert_eq!(list(Filter { ended_from: from, ended_before: before, ..any() }), [7]);
    assert_eq!(
        list(Filter { ended_from: Some(Time(0)), ..any() }),
        [8, 7],
        "others have not ended"
    );
    let both = Filter { states: vec![PlanState::Running], limit: 1, ..having(&[("who", None)]) };
    assert_eq!(list(both), [3]);
    let narrow =
        Filter { action: text("play"), key: text("order 1"), ..having(&[("urgent", None)]) };
    assert_eq!(list(narrow), [1]);
}

// D-239, D-240
pub(crate) fn pages_go_on_in_both_directions(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let of = |number: u8| if number % 3 == 0 { labels(&[("third", "yes")]) } else { labels(&[]) };
    let rows: Vec<PlanRow> =
        (1..=30).map(|number| PlanRow { labels: of(number), ..row(number, 1) }).collect();
    write_rows(&mut *writer, &rows, 0);
    let mut all_pages = |mut filter: Filter| {
        let mut seen = Vec::new();
        loop {
            let page = list(&mut *reader, &filter);
            assert!(page.len() <= filter.limit);
            let Some(last) = page.last() else { return seen };
            filter = filter.next_page(plan(*last));
            seen.extend(page);
        }
    };
    let by = |order: Order| Filter { order, limit: 7, ..Filter::default() };
    let upwards: Vec<u8> = (1..=30).collect();
    assert_eq!(all_pages(by(Order::OldestFirst)), upwards);
    assert_eq!(
        all_pages(by(Order::NewestFirst)),
        upwards.iter().rev().copied().collect::<Vec<_>>()
    );
    let third = having(&[("third", Some("yes"))]);
    let thirds = Filter { order: Order::OldestFirst, limit: 4, ..third.clone() };
    assert_eq!(all_pages(thirds), [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]);
    assert_eq!(all_pages(Filter { limit: 3, before: Some(plan(12)), ..third }), [9, 6, 3]);
    let between = Filter { after: Some(plan(4)), before: Some(plan(8)), ..Filter::default() };
    assert_eq!(list(&mut *reader, &between), [7, 6, 5]);
}

pub(crate) fn labels_are_found_as_they_are_now(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "a")]);
    let strange = [("«Größe»", "' \" \\ 漢字 \n"), ("$.a[0]", "")];
    let first = PlanRow { labels: labels(&strange), ..stopped(1, 1, 10) };
    let other = PlanRow { labels: labels(&[("a", "1")]), ..row(2, 2) };
    write_rows(&mut *writer, &[first.clone(), other], 2);
    let found = having(&[(strange[0].0, Some(strange[0].1)), (strange[1].0, None)]);
    assert_eq!(reader.list(&found).expect("it lists"), std::slice::from_ref(&first));
    let second = PlanRow { labels: labels(&[("a", "1"), ("$.a[0]", "")]), ..first };
    write_rows(&mut *writer, std::slice::from_ref(&second), 2);
    assert_eq!(list(&mut *reader, &having(&[(strange[0].0, Some(strange[0].1))])), [] as [u8; 0]);
    assert_eq!(list(&mut *reader, &having(&[("$.a[0]", Some(""))])), [1]);
    assert_eq!(list(&mut *reader, &having(&[("a", Some("1"))])), [2, 1]);
    write_rows(&mut *writer, &[second], 2);
    assert_eq!(writer.remove(&[gone(1, 1)]).expect("it answers"), 1);
    assert_eq!(list(&mut *reader, &having(&[("a", Some("1"))])), [2], "its labels went with it");
    assert_eq!(list(&mut *reader, &having(&[("$.a[0]", None)])), [] as [u8; 0]);
}

pub(crate) fn plans_are_counted_by_state_result_and_reason(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    let mut counts = || {
        let mut counts = reader.counts().expect("it counts");
        counts.sort_by_key(|count| (count.state.name(), count.waits));
        counts
    };
    assert_eq!(counts(), []);
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "a"), entry(3, 0, "a")]);
    let waits = |number| PlanRow { waits: Waiting::Event, ..row(number, 1) };
    write_rows(&mut *writer, &[waits(1), waits(2), row(3, 3)], 3);
    let count = |state, result, waits, plans| Count { state, result, waits, plans };
    let running = |waits, plans| count(PlanState::Running, PlanResult::Pending, waits, plans);
    assert_eq!(counts(), [running(Waiting::Nothing, 1), running(Waiting::Event, 2)]);
    write_rows(&mut *writer, &[waits(1), stopped(2, 2, 10)], 3);
    let over = count(PlanState::Stopped, PlanResult::Success, Waiting::Nothing, 1);
    assert_eq!(counts(), [running(Waiting::Nothing, 1), running(Waiting::Event, 1), over]);
    assert_eq!(writer.remove(&[gone(2, 2)]).expect("it answers"), 1);
    assert_eq!(counts(), [running(Waiting::Nothing, 1), running(Waiting::Event, 1)]);
}

pub(crate) fn plans_that_fit_a_filter_are_counted(place: &Place) {
    let mut writer = place.store.writer().expect("a writer");
    let mut reader = place.store.reader().expect("a reader");
    append(&mut *writer, &[entry(1, 0, "a"), entry(2, 0, "a"), entry(3, 0, "a"), entry(4, 0, "a")]);
    let labelled = |number| {
        let labels = [("customer".to_owned(), "Ann".to_owned())].into();
        PlanRow { labels, ..row(number, 1) }
    };
    let waits = PlanRow { waits: Waiting::Event, ..labelled(2) };
    let rows = [labelled(1), waits, row(3, 1), stopped(4, 4, 10)];
    write_rows(&mut *writer, &rows, 4);
    let mut of = |filter: Filter| {
        let mut counts = reader.counts_of(&filter).expect("it counts");
        counts.sort_by_key(|count| (count.state.name(), count.waits));
        let told = |count: &Count| (count.state, count.waits, count.plans);
        counts.iter().map(told).collect::<Vec<_>>()
    };
    let (runs, over) = (PlanState::Running, PlanState::Stopped);
    let all = [(runs, Waiting::Nothing, 2), (runs, Waiting::Event, 1), (over, Waiting::Nothing, 1)];
    assert_eq!(of(Filter { limit: 1, ..Filter::default() }), all, "whatever its limit is");
    let labels = vec![("customer".to_owned(), Some("Ann".to_owned()))];
    let of_ann = Filter { labels, ..Filter::default() };
    assert_eq!(of(of_ann.clone()), [(runs, Waiting::Nothing, 1), (runs, Waiting::Event, 1)]);
    assert_eq!(of(Filter { states: vec![over], ..of_ann }), []);
}
