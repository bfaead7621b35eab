//! Creatures meet in pairs that one mall makes up. Known: each meeting is counted twice.

use turnwheel_runtime::{Group, Task};

use super::{done, Done, Outcome, Size};
use crate::error::{check, BenchError};
use crate::load::{sent, spawn, submit};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Blue,
    Red,
    Yellow,
}

impl Colour {
    fn complement(self, other: Self) -> Self {
        match (self, other) {
            (one, same) if one == same => one,
            (Self::Blue, Self::Red) | (Self::Red, Self::Blue) => Self::Yellow,
            (Self::Blue, Self::Yellow) | (Self::Yellow, Self::Blue) => Self::Red,
            _ => Self::Blue,
        }
    }
}

struct Mall {
    meetings_left: u64,
    waiting: Option<(Task<Creature>, Colour)>,
    creatures: u64,
    sum: u64,
    done: Done<u64>,
}

struct Creature {
    mall: Task<Mall>,
    me: Option<Task<Creature>>,
    colour: Colour,
    meetings: u64,
}

impl Mall {
    fn arrive(&mut self, who: Task<Creature>, colour: Colour) {
        if self.meetings_left == 0 {
            sent(who.submit(|creature, _| creature.leave()));
            return;
        }
        match self.waiting.take() {
            None => self.waiting = Some((who, colour)),
            Some((first, _)) => {
                self.meetings_left -= 1;
                // The first to come is told of the second, and answers it.
                sent(first.submit(move |creature, _| creature.meet(&who, colour)));
            }
        }
    }

    fn left(&mut self, meetings: u64) {
        self.sum += meetings;
        self.creatures -= 1;
        if self.creatures == 0 {
            self.done.tell(self.sum);
        }
    }
}

impl Creature {
    fn go(&self) {
        let Some(me) = self.me.clone() else { return };
        let colour = self.colour;
        sent(self.mall.submit(move |mall, _| mall.arrive(me, colour)));
    }

    fn meet(&mut self, other: &Task<Self>, colour: Colour) {
        self.colour = self.colour.complement(colour);
        self.meetings += 1;
        let mine = self.colour;
        sent(other.submit(move |other, _| other.change(mine)));
        self.go();
    }

    fn change(&mut self, colour: Colour) {
        self.colour = colour;
        self.meetings += 1;
        self.go();
    }

    fn leave(&mut self) {
        self.me = None;
        let meetings = self.meetings;
        sent(self.mall.submit(move |mall, _| mall.left(meetings)));
    }
}

pub(super) fn run(group: &Group, size: Size) -> Result<Outcome, BenchError> {
    let (creatures, meetings) = size.pick((10, 1_000), (100, 200_000));
    let (done, waiting) = done();
    let mall = Mall { meetings_left: meetings, waiting: None, creatures, sum: 0, done };
    let mall = spawn(group, mall)?;
    let colours = [Colour::Blue, Colour::Red, Colour::Yellow];
    for index in 0..creatures {
        let colour = colours[index as usize % colours.len()];
        let creature = Creature { mall: mall.clone(), me: None, colour, meetings: 0 };
        let creature = spawn(group, creature)?;
        let me = creature.clone();
        submit(&creature, move |creature, _| {
            creature.me = Some(me);
            creature.go();
        })?;
    }
    check("chameneos: sum of meetings", waiting.get("chameneos")?, 2 * meetings)?;
    Ok(Outcome::new(4 * meetings + 2 * creatures))
}
