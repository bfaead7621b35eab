//! Changes that an event, a timer or an answer of a channel makes in the row of a user. Pure: the
//! same for the same row, event and time, whoever calls it, and however often.

use std::cell::LazyCell;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{json, Map, Value};

use crate::catalogue::Catalogue;
use crate::chart::{Chart, Node, Test};
use crate::element::{Entry, Kind, Unmatched};
use crate::event::Event;
use crate::limits::{DATA_BYTES_MAX, ENDED_MAX, PASSES_MAX, SEEN_MAX, STEPS_MAX, WAITS_MAX};
use crate::notes::{begin_of, Notes};
use crate::row::{Cause, Ended, Entered, Move, Pass, Row, Wait, Why};
use crate::view::Moved;

/// A change of a user's row.
pub(crate) struct Turn<'a> {
    pub(crate) catalogue: &'a Catalogue,
    /// Platform and user.
    pub(crate) key: &'a str,
    pub(crate) row: &'a mut Row,
    pub(crate) now: u64,
    pub(crate) event: Option<Arc<Event>>,
    /// Whether the row has changed.
    pub(crate) is_changed: bool,
    pub(crate) moved: Vec<Moved>,
    /// Problems that are in the history of no pass.
    pub(crate) notes: Notes,
}

/// A segment of a path while it is walked.
#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) path: Vec<u16>,
    pub(crate) notes: Notes,
    has_no_line: bool,
}

impl Segment {
    pub(crate) fn note(&mut self, problem: String) {
        self.notes.add(problem);
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(catalogue: &'a Catalogue, key: &'a str, row: &'a mut Row, now: u64) -> Self {
        let (moved, notes) = Default::default();
        Self { catalogue, key, row, now, event: None, is_changed: false, moved, notes }
    }

    /// Takes an event. Returns whether it was taken before.
    pub(crate) fn event(&mut self, event: &Arc<Event>) -> bool {
        let digest = event.digest();
        if self.row.seen.contains(&digest) {
            return true;
        }
        self.event = Some(Arc::clone(event));
        self.bring_up();
        let mut answered = Vec::new();
        for (pass, wait) in self.waits() {
            if let Some(journey) = self.answer(pass, wait) {
                answered.push(journey);
            }
        }
        for chart in self.catalogue.starts(&event.platform, &event.kind) {
            self.start(chart, answered.contains(&chart.journey));
        }
        if self.is_changed {
            self.row.seen.push(digest);
            let surplus = self.row.seen.len().saturating_sub(SEEN_MAX);
            self.row.seen.drain(..surplus);
        }
        false
    }

    /// Takes the default lines of all waits that are over.
    pub(crate) fn due(&mut self) {
        self.bring_up();
        let now = self.now;
        let waits = self.row.passes.iter().flat_map(|pass| {
            let due = |wait: &Wait| wait.due.filter(|due| *due <= now);
            pass.waits.iter().filter_map(move |wait| Some((due(wait)?, pass.number, wait.number)))
        });
        let mut waits: Vec<(u64, u64, u64)> = waits.collect();
        waits.sort_unstable();
        for (_, pass, wait) in waits {
            self.time_out(pass, wait);
        }
    }

    /// All waits, those of journeys of a higher priority first.
    fn waits(&self) -> Vec<(u64, u64)> {
        let mut waits = Vec::new();
        for pass in &self.row.passes {
            let chart = self.catalogue.chart(pass.journey, pass.version);
            let priority = chart.map_or(0, |chart| chart.settings.priority);
            let order = std::cmp::Reverse(priority);
            waits.extend(pass.waits.iter().map(|wait| (order, pass.number, wait.number)));
        }
        waits.sort_unstable();
        waits.into_iter().map(|(_, pass, wait)| (pass, wait)).collect()
    }

    /// The element at which a pass waits under this number.
    fn waiting(&self, pass: u64, wait: u64) -> Option<(usize, Arc<Chart>, u16)> {
        let at = self.row.passes.iter().position(|it| it.number == pass)?;
        let pass = &self.row.passes[at];
        let element = pass.waits.iter().find(|it| it.number == wait)?.element;
        let chart = self.catalogue.chart(pass.journey, pass.version)?;
        Some((at, Arc::clone(chart), element))
    }

    /// Lets the event answer a wait. Returns the journey if a line was followed.
    fn answer(&mut self, pass: u64, wait: u64) -> Option<u32> {
        let (at, chart, element) = self.waiting(pass, wait)?;
        let node = chart.node(element)?;
        let mut segment = Segment { path: vec![element], ..Segment::default() };
        let scope = self.scope(&self.row.passes[at].data);
        if !self.holds(node, &scope, &mut segment) {
            drop(scope);
            self.wait_fails(at, &chart, wait, segment);
            return None;
        }
        let mut lines = self.lines(&chart, node, &scope, &mut segment);
        drop(scope);
        if lines.is_empty() && node.unmatched == Unmatched::Otherwise {
            lines.extend(chart.default_line(node));
        }
        if lines.is_empty() {
            self.stay(at, &chart, wait, segment);
            return None;
        }
        self.go_on(at, &chart, (wait, Cause::Event), lines, segment);
        Some(chart.journey)
    }

    /// Records an event that leaves a wait as it is.
    fn stay(&mut self, at: usize, chart: &Chart, wait: u64, segment: Segment) {
        let mut pass = self.row.passes.remove(at);
        self.record(chart, &mut pass, Cause::Unmatched, wait, segment);
        self.row.passes.insert(at, pass);
    }

    /// Tells that the condition of a wait has failed, if it has. The history has it once for each
    /// wait and version, whatever the events are: each record is a write and takes the place of a
    /// move. Further failures are in the answers to their events.
    fn wait_fails(&mut self, at: usize, chart: &Chart, wait: u64, segment: Segment) {
        if segment.notes.text().is_none() {
            return;
        }
        // Problems of the lines behind a wait begin with the names of those.
        let own = begin_of(segment.path.first().map_or("?", |place| chart.id(*place)));
        let is_told = self.row.passes[at].moves.iter().any(|made| {
            let is_of = (made.wait, made.version, made.cause);
            is_of == (wait, chart.version, Cause::Unmatched)
                && made.problem.as_deref().is_some_and(|told| told.starts_with(&own))
        });
        match is_told {
            true => self.tell(chart, &segment),
            false => self.stay(at, chart, wait, segment),
        }
    }

    /// Tells problems that no pass has in its history.
    fn tell(&mut self, chart: &Chart, segment: &Segment) {
        let Some(problems) = segment.notes.text() else { return };
        self.notes.add(format!("journey {}, version {}, {problems}", chart.name, chart.version));
    }

    /// Takes the default line of a wait.
    fn time_out(&mut self, pass: u64, wait: u64) {
        let Some((at, chart, element)) = self.waiting(pass, wait) else { return };
        let line = chart.node(element).and_then(|node| chart.default_line(node));
        let segment = Segment { path: vec![element], ..Segment::default() };
        self.go_on(at, &chart, (wait, Cause::Timer), line.into_iter().collect(), segment);
    }

    /// Ends a wait, and follows lines from there.
    fn go_on(
        &mut self,
        at: usize,
        chart: &Arc<Chart>,
        (wait, cause): (u64, Cause),
        lines: Vec<u16>,
        mut segment: Segment,
    ) {
        let mut pass = self.row.passes.remove(at);
        pass.waits.retain(|it| it.number != wait);
        segment.has_no_line = lines.is_empty();
        self.follow(chart, &mut pass, lines, &mut segment);
        let has_no_line = segment.has_no_line;
        self.record(chart, &mut pass, cause, wait, segment);
        if !pass.waits.is_empty() {
            return self.row.passes.insert(at, pass);
        }
        let why = if has_no_line { Why::NoLine } else { Why::End };
        self.end(pass, why);
    }

    /// Begins a pass if a start accepts the event and the journey allows it.
    fn start(&mut self, chart: &Arc<Chart>, is_answered: bool) {
        let mut segment = Segment::default();
        let scope = self.scope(&None);
        let mut starts = chart.starts();
        let found = starts.find(|(_, node)| self.holds(node, &scope, &mut segment));
        drop(scope);
        let found = found.filter(|_| self.may_enter(chart, is_answered));
        let Some((number, node)) = found else {
            return self.tell(chart, &segment);
        };
        if chart.settings.entry == Entry::Replace {
            self.end_all(Why::Replaced, |pass| pass.journey == chart.journey);
        }
        if self.row.passes.len() >= PASSES_MAX {
            segment.note(format!("«{}»: the user has {PASSES_MAX} passes under way", node.id));
            return self.tell(chart, &segment);
        }
        let entered = entered(self.row, chart.journey);
        (entered.last, entered.times) = (self.now, entered.times + 1);
        self.row.last_pass += 1;
        let mut pass = Pass {
            journey: chart.journey,
            version: chart.version,
            number: self.row.last_pass,
            began: self.now,
            data: None,
            waits: Vec::new(),
            moves: Vec::new(),
            messages: 0,
        };
        segment.path.push(number);
        self.set(&mut pass, node, &mut segment);
        // The only line of a start is followed without a look at it, as the ancestor does.
        let lines = match node.next[..] {
            [line] => vec![line],
            _ => self.lines(chart, node, &self.scope(&pass.data), &mut segment),
        };
        segment.has_no_line = lines.is_empty();
        self.follow(chart, &mut pass, lines, &mut segment);
        let has_no_line = segment.has_no_line;
        self.record(chart, &mut pass, Cause::Event, 0, segment);
        match pass.waits.is_empty() {
            false => self.row.passes.push(pass),
            true if has_no_line => self.end(pass, Why::NoLine),
            true => self.end(pass, Why::End),
        }
    }

    fn may_enter(&self, chart: &Chart, is_answered: bool) -> bool {
        let settings = &chart.settings;
        if self.row.has_opted_out && !settings.essential {
            return false;
        }
        let of = |pass: &&Pass| pass.journey == chart.journey;
        let under_way = self.row.passes.iter().filter(of).count();
        let entered = self.row.entered.iter().find(|it| it.journey == chart.journey);
        let is_allowed = match settings.entry {
            Entry::Again => under_way == 0 && !is_answered,
            Entry::Once => entered.is_none_or(|entered| entered.times == 0),
            Entry::Replace => !is_answered,
            Entry::Parallel => true,
        };
        let last = entered.filter(|entered| entered.times > 0).map(|entered| entered.last);
        let every = settings.every.as_deref().and_then(ms).unwrap_or(0);
        let is_time = last.is_none_or(|last| last.saturating_add(every) <= self.now);
        is_allowed && is_time
    }

    /// Walks from some lines to the next waits and ends.
    fn follow(
        &mut self,
        chart: &Arc<Chart>,
        pass: &mut Pass,
        mut lines: Vec<u16>,
        segment: &mut Segment,
    ) {
        lines.reverse();
        let mut open = lines;
        while let Some(number) = open.pop() {
            if segment.path.len() >= STEPS_MAX {
                return segment.note(format!("the walk ended after {STEPS_MAX} elements"));
            }
            let Some(node) = chart.node(number) else { return };
            segment.path.push(number);
            match node.kind {
                Kind::End => {}
                Kind::Line => open.extend(node.next.first()),
                Kind::Trigger => self.wait(pass, number, node, segment),
                _ => {
                    self.set(pass, node, segment);
                    self.send(chart, pass, number, segment);
                    let lines = self.lines(chart, node, &self.scope(&pass.data), segment);
                    segment.has_no_line |= lines.is_empty();
                    open.extend(lines.into_iter().rev());
                }
            }
        }
    }

    fn wait(&mut self, pass: &mut Pass, element: u16, node: &Node, segment: &mut Segment) {
        if pass.waits.len() >= WAITS_MAX {
            return segment.note(format!("«{}» was left: {WAITS_MAX} waits are there", node.id));
        }
        self.row.last_wait += 1;
        let due = node.due(self.now);
        pass.waits.push(Wait { number: self.row.last_wait, element, since: self.now, due });
    }

    /// Adds to the data of a pass what an element says.
    fn set(&self, pass: &mut Pass, node: &Node, segment: &mut Segment) {
        let Some(set) = &node.set else { return };
        let added = match set.run(&self.scope(&pass.data), self.now) {
            Ok(Value::Object(added)) => added,
            Ok(_) => return segment.note(format!("«{}» sets no object", node.id)),
            Err(problem) => return segment.note(problem),
        };
        let mut data = object(pass.data.as_deref());
        data.extend(added);
        let text = Value::Object(data).to_string();
        if text.len() > DATA_BYTES_MAX {
            return segment.note(format!("«{}» sets more than {DATA_BYTES_MAX} bytes", node.id));
        }
        pass.data = Some(text);
    }

    /// The lines of an element that are followed.
    fn lines(
        &self,
        chart: &Chart,
        node: &Node,
        scope: &impl Deref<Target = Value>,
        segment: &mut Segment,
    ) -> Vec<u16> {
        let mut held = Vec::new();
        for number in &node.next {
            let Some(line) = chart.node(*number).filter(|line| !line.is_default) else { continue };
            if self.holds(line, scope, segment) {
                held.push(*number);
                if !node.is_parallel {
                    break;
                }
            }
        }
        if held.is_empty() && node.kind != Kind::Trigger {
            held.extend(chart.default_line(node));
        }
        held
    }

    /// Whether all conditions of an element hold.
    fn holds(
        &self,
        node: &Node,
        scope: &impl Deref<Target = Value>,
        segment: &mut Segment,
    ) -> bool {
        node.tests.iter().all(|test| match test {
            Test::Kind(kind) => self.event.as_ref().is_some_and(|event| event.kind == *kind),
            Test::Contains(part) => self.text().is_some_and(|text| text.contains(part.as_str())),
            Test::Equals(whole) => self.text() == Some(whole),
            Test::If(expression) => match expression.run(scope, self.now) {
                Ok(value) => !matches!(value, Value::Null | Value::Bool(false)),
                Err(problem) => {
                    segment.note(format!("«{}»: {problem}", node.id));
                    false
                }
            },
        })
    }

    fn text(&self) -> Option<&str> {
        self.event.as_ref().and_then(|event| event.text())
    }

    /// The input of expressions, made when the first one looks at it.
    pub(crate) fn scope<'s>(
        &'s self,
        data: &'s Option<String>,
    ) -> LazyCell<Value, impl FnOnce() -> Value + 's> {
        LazyCell::new(|| self.input(data))
    }

    fn input(&self, data: &Option<String>) -> Value {
        let user = object(self.row.attributes.as_deref());
        let event = self.event.as_ref().map_or(Value::Null, |event| event.scope());
        let (platform, name) = self.key.split_once('/').unwrap_or((self.key, ""));
        json!({
            "event": event, "user": user, "data": object(data.as_deref()),
            "id": name, "platform": platform,
        })
    }

    /// Adds a segment to the history of its pass.
    fn record(
        &mut self,
        chart: &Chart,
        pass: &mut Pass,
        cause: Cause,
        wait: u64,
        segment: Segment,
    ) {
        self.is_changed = true;
        let Segment { path, notes, .. } = segment;
        let (after, version) = (self.now.saturating_sub(pass.began), chart.version);
        let made = Move { after, version, cause, wait, path, problem: notes.text() };
        self.moved.push(Moved::new(self.catalogue, chart, pass, &made));
        pass.add(made);
    }

    fn end(&mut self, pass: Pass, why: Why) {
        self.end_at(pass, why, self.now);
    }

    pub(crate) fn end_at(&mut self, mut pass: Pass, why: Why, at: u64) {
        self.is_changed = true;
        pass.waits.clear();
        self.row.ended.push(Ended { pass, at, why });
        let surplus = self.row.ended.len().saturating_sub(ENDED_MAX);
        self.row.ended.drain(..surplus);
    }

    /// Ends passes without a walk; what they have not sent stays unsent.
    pub(crate) fn end_all(&mut self, why: Why, of: impl Fn(&Pass) -> bool) {
        let passes = std::mem::take(&mut self.row.passes);
        let (over, left): (Vec<Pass>, Vec<Pass>) = passes.into_iter().partition(of);
        self.row.passes = left;
        over.into_iter().for_each(|pass| self.end(pass, why));
    }
}

/// State of a journey in the row.
pub(crate) fn entered(row: &mut Row, journey: u32) -> &mut Entered {
    let at = row.entered.iter().position(|it| it.journey == journey).unwrap_or_else(|| {
        row.entered.push(Entered { journey, last: 0, times: 0, sent: Vec::new() });
        row.entered.len() - 1
    });
    &mut row.entered[at]
}

/// A duration in milliseconds.
pub(crate) fn ms(text: &str) -> Option<u64> {
    let duration = turnwheel_flow::internal::duration(text).ok()?;
    u64::try_from(duration.as_millis()).ok()
}

/// An object that was stored as JSON.
pub(crate) fn object(text: Option<&str>) -> Map<String, Value> {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
