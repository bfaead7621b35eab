//! Draws programs from a seed.

use crate::kind::{Body, Kind, Place, ACTOR_HOOKS, HOOKS, KINDS};
use crate::program::{Act, Program, Script};
use crate::random::Random;
use crate::theme::{Theme, THEMES, THEME_FACTOR};

/// Acts at the top of a program, at least and at most.
const TOP: (usize, usize) = (3, 26);
/// Acts in one body, at most.
const BODY_MAX: usize = 3;
/// Bodies within one another, at most.
const DEPTH_MAX: usize = 4;
/// Acts of one program, about: what is drawn beyond has no body.
const ACTS_MAX: usize = 60;

/// The weights of one place, summed up.
#[derive(Debug)]
struct Table {
    kinds: Vec<(usize, Kind)>,
    sum: usize,
}

impl Table {
    fn new(place: Place, theme: Theme) -> Self {
        let mut sum = 0;
        let mut kinds = Vec::new();
        for kind in KINDS {
            let factor = if theme.kinds().contains(kind) { THEME_FACTOR } else { 1 };
            let weight = factor * kind.weight(place);
            if weight > 0 {
                sum += weight;
                kinds.push((sum, *kind));
            }
        }
        Self { kinds, sum }
    }

    fn draw(&self, random: &mut Random) -> Kind {
        let number = random.below(self.sum);
        let index = self.kinds.partition_point(|(upto, _)| *upto <= number);
        self.kinds[index].1
    }
}

/// The weights of all places.
#[derive(Debug)]
struct Tables {
    main: Table,
    job: Table,
    handler: Table,
    loose: Table,
}

impl Tables {
    fn new(theme: Theme) -> Self {
        Self {
            main: Table::new(Place::Main, theme),
            job: Table::new(Place::Job, theme),
            handler: Table::new(Place::Handler, theme),
            loose: Table::new(Place::Loose, theme),
        }
    }
}

/// Draws programs.
#[derive(Debug)]
pub struct Generator {
    /// For each theme its weights.
    themes: Vec<Tables>,
}

impl Default for Generator {
    fn default() -> Self {
        Self { themes: THEMES.iter().map(|theme| Tables::new(*theme)).collect() }
    }
}

impl Generator {
    /// The program of this seed.
    #[must_use]
    pub fn program(&self, seed: u64) -> Program {
        let mut random = Random::new(seed);
        let tables = &self.themes[random.below(self.themes.len())];
        let mut draw = Draw { tables, random, left: ACTS_MAX };
        let shape = draw.random.below(256) as u8;
        let count = TOP.0 + draw.random.below(TOP.1 - TOP.0);
        let mut acts = vec![draw.act_of(Kind::Spawn, 0)];
        acts.extend((0..count).map(|_| draw.act(Place::Main, 0)));
        Program { seed, shape, acts: acts.into() }
    }
}

struct Draw<'a> {
    tables: &'a Tables,
    random: Random,
    left: usize,
}

impl Draw<'_> {
    fn act(&mut self, place: Place, depth: usize) -> Act {
        let table = match place {
            Place::Main => &self.tables.main,
            Place::Job => &self.tables.job,
            Place::Handler => &self.tables.handler,
            Place::Loose => &self.tables.loose,
        };
        let kind = table.draw(&mut self.random);
        self.act_of(kind, depth)
    }

    fn act_of(&mut self, kind: Kind, depth: usize) -> Act {
        self.left = self.left.saturating_sub(1);
        let (a, b) = (self.random.below(16) as u8, self.random.below(32) as u8);
        // Two slots out of four are used most: acts meet more often.
        let a = if self.random.one_in(3) { a } else { a % 2 };
        Act { kind, a, b, body: self.body(kind, depth + 1) }
    }

    fn body(&mut self, kind: Kind, depth: usize) -> Script {
        if depth > DEPTH_MAX || self.left == 0 {
            return Script::from([]);
        }
        let mut acts = Vec::new();
        match kind.body() {
            Body::None => {}
            Body::Job => {
                self.some(&mut acts, Place::Job, depth, BODY_MAX);
                self.section(&mut acts, Kind::OnDrop, depth, 5);
            }
            Body::Hooks => {
                for hook in HOOKS {
                    self.section(&mut acts, *hook, depth, 6);
                }
                self.section(&mut acts, Kind::OnDrop, depth, 4);
            }
            Body::ActorHooks => {
                for hook in ACTOR_HOOKS {
                    self.section(&mut acts, *hook, depth, 4);
                }
                self.section(&mut acts, Kind::OnDrop, depth, 4);
            }
            Body::Message => {
                self.some(&mut acts, Place::Handler, depth, BODY_MAX);
                self.section(&mut acts, Kind::OnDrop, depth, 5);
            }
            Body::Future => self.future(&mut acts, depth),
            Body::Value => self.section(&mut acts, Kind::OnDrop, depth, 3),
            Body::Waker => {
                self.section(&mut acts, Kind::OnWake, depth, 2);
                self.section(&mut acts, Kind::OnDrop, depth, 3);
            }
            Body::Loose => {
                self.some(&mut acts, Place::Loose, depth, 2);
                if kind == Kind::Blocking {
                    self.section(&mut acts, Kind::Then, depth, 2);
                    self.section(&mut acts, Kind::OnDrop, depth, 4);
                }
            }
        }
        acts.into()
    }

    fn future(&mut self, acts: &mut Vec<Act>, depth: usize) {
        for _ in 0..self.random.below(BODY_MAX + 1) {
            let act = if self.random.one_in(2) {
                self.act_of(Kind::Pend, depth)
            } else {
                self.act(Place::Loose, depth)
            };
            acts.push(act);
        }
        self.section(acts, Kind::Then, depth, 2);
        self.section(acts, Kind::OnDrop, depth, 3);
    }

    fn some(&mut self, acts: &mut Vec<Act>, place: Place, depth: usize, most: usize) {
        for _ in 0..self.random.below(most + 1) {
            acts.push(self.act(place, depth));
        }
    }

    /// One time in `one_in`, a part of the body of this kind.
    fn section(&mut self, acts: &mut Vec<Act>, kind: Kind, depth: usize, one_in: usize) {
        if self.random.one_in(one_in) {
            acts.push(self.act_of(kind, depth));
        }
    }
}
