//! Links: when one actor fails, the other one fails too.

use turnwheel_actors::supervise::Link;

use super::End;
use crate::kind::Kind;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::slots::slot;
use crate::tasks::world::{with, World};

/// One link.
#[derive(Debug)]
pub(super) struct Model {
    ends: [End; 2],
    actors: [u32; 2],
    /// Until it is cut.
    link: Option<Link>,
}

pub(super) fn perform(act: &Act) {
    if act.kind == Kind::Unlink {
        let link =
            with(|world| world.services.links.last_mut().and_then(|model| model.link.take()));
        if let Some(link) = link {
            link.unlink();
        }
        return;
    }
    let pair = with(|world| {
        let addresses = &world.actors.addresses;
        Some((addresses[slot(act.a)].clone()?, addresses[slot(act.b)].clone()?))
    });
    let Some(((first, one), (second, other))) = pair else { return };
    if one == other {
        return;
    }
    with(|world| {
        world.actors.may_end(one);
        world.actors.may_end(other);
    });
    let ends = [End::of(first.closed()), End::of(second.closed())];
    let is_lost = with(|world| world.twin) == Some(Twin::LosesLinks);
    let link = if is_lost { first.link(&first) } else { first.link(&second) };
    let model = Model { ends, actors: [one, other], link: Some(link) };
    with(|world| world.services.links.push(model));
}

pub(super) fn give_up() {
    let links = with(|world| std::mem::take(&mut world.services.links));
    drop(links);
}

impl World {
    /// No actor outlives the failure of one that it is linked to.
    pub(super) fn check_links(&mut self) {
        for number in 0..self.services.links.len() {
            let model = &mut self.services.links[number];
            let looks = [model.ends[0].look(), model.ends[1].look()];
            let actors = model.actors;
            let is_linked = model.link.is_some();
            for (one, other) in [(0, 1), (1, 0)] {
                let is_left = looks[one] == Some(true) && looks[other].is_none();
                if is_left && is_linked && !self.is_ending && self.actors.is_ready(actors[other]) {
                    let (one, other) = (actors[one], actors[other]);
                    self.violation(format!("actor {other} outlives its linked actor {one}"));
                }
            }
        }
    }
}
