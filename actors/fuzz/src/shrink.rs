//! Shrinks a program while its violation stays: deletes acts, hoists bodies, lowers arguments.

use crate::program::{Act, Program, Script};

/// A smaller program for which `fails` still holds, after at most `tries` runs.
pub fn shrink(program: &Program, tries: usize, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut left = tries;
    let mut try_one = |candidate: &Program, left: &mut usize| {
        *left = left.saturating_sub(1);
        *left > 0 && fails(candidate)
    };
    loop {
        let before = best.clone();
        for edit in [Edit::Delete, Edit::Empty, Edit::Hoist, Edit::ZeroA, Edit::ZeroB] {
            // From the end: later acts are needed less often.
            let mut index = best.len();
            while index > 0 {
                index = index.min(best.len());
                if index == 0 {
                    break;
                }
                index -= 1;
                let candidate = edited(&best, edit, index);
                if candidate != best && try_one(&candidate, &mut left) {
                    best = candidate;
                }
            }
        }
        let plain = Program { shape: 1, ..best.clone() };
        if plain != best && try_one(&plain, &mut left) {
            best = plain;
        }
        for seed in 0..3 {
            let candidate = Program { seed, ..best.clone() };
            if best.seed > seed && try_one(&candidate, &mut left) {
                best = candidate;
            }
        }
        if best == before || left == 0 {
            return best;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Edit {
    /// Removes the act with its body.
    Delete,
    /// Removes the body.
    Empty,
    /// Puts the body in the place of the act.
    Hoist,
    ZeroA,
    ZeroB,
}

/// The program with the act at this place, in the order in which it is printed, edited.
fn edited(program: &Program, edit: Edit, index: usize) -> Program {
    let mut left = index;
    let acts = edit_list(&program.acts, edit, &mut left);
    Program { acts, ..program.clone() }
}

fn edit_list(acts: &[Act], edit: Edit, left: &mut usize) -> Script {
    let mut list = Vec::with_capacity(acts.len());
    let mut is_done = false;
    for act in acts {
        if is_done {
            list.push(act.clone());
            continue;
        }
        if *left > 0 {
            *left -= 1;
            let inner = act_len(&act.body);
            if *left < inner {
                let body = edit_list(&act.body, edit, left);
                list.push(Act { body, ..act.clone() });
                is_done = true;
            } else {
                *left -= inner;
                list.push(act.clone());
            }
            continue;
        }
        is_done = true;
        match edit {
            Edit::Delete => {}
            Edit::Empty => list.push(Act { body: Script::from([]), ..act.clone() }),
            Edit::Hoist => list.extend(act.body.iter().cloned()),
            Edit::ZeroA => list.push(Act { a: 0, ..act.clone() }),
            Edit::ZeroB => list.push(Act { b: 0, ..act.clone() }),
        }
    }
    list.into()
}

fn act_len(acts: &[Act]) -> usize {
    acts.iter().map(|act| 1 + act_len(&act.body)).sum()
}
