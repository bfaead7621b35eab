//! A pipeline with one stage a bit: each passes values without its bit on, and the others after the
//! last. Known: the result is sorted, and of the same values.

use turnwheel_runtime::{Context, Group, Task};

use super::{done, Done, Outcome, Size};
use crate::compare::trial::Random;
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

const SEED: u64 = 2_048;
/// Values that the source sends before it lets others run.
const CHUNK: usize = 1_000;

/// Who comes next.
enum Next {
    Stage(Task<Stage>),
    End(Task<Checker>),
}

impl Next {
    fn send(&self, value: u64) {
        match self {
            Self::Stage(stage) => sent(stage.submit(move |stage, _| stage.value(value))),
            Self::End(checker) => sent(checker.submit(move |checker, _| checker.value(value))),
        }
    }
}

struct Stage {
    bit: u64,
    left: u64,
    held: Vec<u64>,
    next: Next,
}

impl Stage {
    fn value(&mut self, value: u64) {
        self.left -= 1;
        if value & self.bit == 0 {
            self.next.send(value);
        } else {
            self.held.push(value);
        }
        if self.left == 0 {
            for value in std::mem::take(&mut self.held) {
                self.next.send(value);
            }
        }
    }
}

struct Checker {
    left: u64,
    last: u64,
    sum: u64,
    unsorted: u64,
    done: Done<(u64, u64)>,
}

impl Checker {
    fn value(&mut self, value: u64) {
        self.unsorted += u64::from(value < self.last);
        self.last = value;
        self.sum = self.sum.wrapping_add(value);
        self.left -= 1;
        if self.left == 0 {
            self.done.tell((self.unsorted, self.sum));
        }
    }
}

struct Source {
    values: std::vec::IntoIter<u64>,
    first: Task<Stage>,
}

impl Source {
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        for value in self.values.by_ref().take(CHUNK) {
            sent(self.first.submit(move |stage, _| stage.value(value)));
        }
        if self.values.len() > 0 {
            sent(cx.submit(Self::go_on));
        }
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (count, bits) = size.pick((1_000, 16), (50_000, 60));
    let mut random = Random::new(SEED);
    let values: Vec<u64> = (0..count).map(|_| random.below(1 << bits)).collect();
    let expected = values.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value));
    let (done, waiting) = done();
    let checker = Checker { left: count, last: 0, sum: 0, unsorted: 0, done };
    // From the end to the beginning: the highest bit sorts last.
    let last = Next::End(spawn(group, checker)?);
    let stage = |bit: u32, next| Stage { bit: 1 << bit, left: count, held: Vec::new(), next };
    let mut first = spawn(group, stage(bits - 1, last))?;
    for bit in (0..bits - 1).rev() {
        first = spawn(group, stage(bit, Next::Stage(first)))?;
    }
    let source = spawn(group, Source { values: values.into_iter(), first })?;
    submit(&source, Source::go_on)?;
    let (unsorted, sum) = waiting.get("radixsort")?;
    check("radixsort: values out of order", unsorted, 0)?;
    check("radixsort: checksum", sum, expected)?;
    Ok(Outcome::new(count * (u64::from(bits) + 1)))
}
