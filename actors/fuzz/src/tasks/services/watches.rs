//! Watching: a watcher is told once of each end, and not before it.

use turnwheel_actors::{Context, Handler};

use super::End;
use crate::program::Act;
use crate::run::Twin;
use crate::tasks::actors::{acting, Letter, Player};
use crate::tasks::slots::slot;
use crate::tasks::world::{with, World};
use crate::tasks::Here;

/// One watch.
#[derive(Debug)]
pub(super) struct Model {
    watched: End,
    watcher: u32,
    told: u32,
}

/// The end of a watched actor.
#[derive(Debug)]
struct Ended {
    watch: usize,
    has_failed: bool,
    letter: Letter,
}

pub(super) fn watch(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Handler(cx) = here else { return };
    let Some(own) = acting() else { return };
    let Some((address, _)) = with(|world| world.actors.addresses[slot(act.a)].clone()) else {
        return;
    };
    let watched = End::of(address.closed());
    let (watch, number) = with(|world| {
        world.services.watches.push(Model { watched, watcher: own, told: 0 });
        (world.services.watches.len() - 1, world.sent(Some(own), false, true))
    });
    let letter = Letter::apart(number, &act.body);
    cx.watch(&address, move |exit| Ended { watch, has_failed: exit.is_failure(), letter });
}

impl Handler<Ended> for Player {
    type Reply = ();

    fn handle(&mut self, ended: Ended, cx: &mut Context<'_, Self>) {
        with(|world| world.watcher_is_told(&ended));
        ended.letter.plays(self.number(), cx);
    }
}

impl World {
    fn watcher_is_told(&mut self, ended: &Ended) {
        if self.twin == Some(Twin::LosesWatches) {
            return;
        }
        let watch = ended.watch;
        let model = &mut self.services.watches[watch];
        model.told += 1;
        let (told, has_failed) = (model.told, model.watched.look());
        if told > 1 {
            self.violation(format!("watch {watch} tells of the end {told} times"));
        }
        if has_failed != Some(ended.has_failed) {
            let said = ended.has_failed;
            self.violation(format!("watch {watch} tells of failure {said}, it is {has_failed:?}"));
        }
    }

    /// Watchers that are free have been told of what is over.
    pub(super) fn check_watches(&mut self) {
        for watch in 0..self.services.watches.len() {
            let model = &mut self.services.watches[watch];
            let is_due = model.told == 0 && model.watched.look().is_some();
            let watcher = model.watcher;
            if is_due && !self.is_ending && self.actors.is_free(watcher) {
                self.violation(format!("idle, and watch {watch} has not told actor {watcher}"));
            }
        }
    }
}
