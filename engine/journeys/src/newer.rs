//! Passes under way when their journey has newer versions, or was removed.

use crate::row::{Cause, Move, Why};
use crate::walk::Turn;

impl Turn<'_> {
    /// Ends passes of versions that were removed, as of their removal.
    pub(crate) fn leave_removed(&mut self) {
        let catalogue = self.catalogue;
        for pass in std::mem::take(&mut self.row.passes) {
            match catalogue.removed(pass.journey, pass.version) {
                Some(at) => self.end_at(pass, Why::Removed, at),
                None => self.row.passes.push(pass),
            }
        }
    }

    /// Ends passes of removed journeys, and moves others through the newer versions that say so.
    pub(crate) fn bring_up(&mut self) {
        self.leave_removed();
        for at in 0..self.row.passes.len() {
            self.move_on(at);
        }
    }

    /// Moves a pass to each newer version in turn that moves users and has a place for it: where it
    /// is then does not depend on how soon the versions were stored one after the other. The history
    /// has each wait whose element has another name then.
    fn move_on(&mut self, at: usize) {
        let catalogue = self.catalogue;
        let pass = &mut self.row.passes[at];
        let Some(old) = catalogue.chart(pass.journey, pass.version) else { return };
        let mut place = (old, pass.waits.iter().map(|wait| wait.element).collect::<Vec<u16>>());
        for newer in catalogue.newer(pass.journey, pass.version) {
            // Events of the user's platform are looked at only if a definition of it names them.
            if newer.moves_users() && self.key.starts_with(&format!("{}/", newer.settings.platform))
            {
                let moved = place.1.iter().map(|from| newer.place_of(place.0.id(*from)));
                // A pass without a place in this version stays where it is.
                if let Some(elements) = moved.collect::<Option<Vec<u16>>>() {
                    place = (newer, elements);
                }
            }
        }
        let (chart, elements) = place;
        if chart.version == pass.version {
            return;
        }
        let (after, version) = (self.now.saturating_sub(pass.began), chart.version);
        let mut moves = Vec::new();
        for (wait, to) in pass.waits.iter_mut().zip(elements) {
            if old.id(wait.element) != chart.id(to) {
                let cause = Cause::Moved { version: old.version, element: wait.element };
                let (wait, path, problem) = (wait.number, vec![to], None);
                moves.push(Move { after, version, cause, wait, path, problem });
            }
            // The newer element also says for how long.
            wait.due = chart.node(to).and_then(|node| node.due(wait.since));
            wait.element = to;
        }
        moves.into_iter().for_each(|made| pass.add(made));
        pass.version = version;
        self.is_changed = true;
    }
}
