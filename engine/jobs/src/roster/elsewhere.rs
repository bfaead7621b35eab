//! Outputs of runs that are under way on other nodes: asked for, part by part, as long as somebody
//! follows them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_engine::internal::{pause, WeakWorld};
use turnwheel_engine::{Payload, World};

use super::serving::nodes_of;
use crate::live::Mirror;
use crate::node::Node;
use crate::registry::Executors;

/// Name of the service.
const LIVE: &str = "jobs.live";

/// Pause between two looks at an output.
const LOOK: Duration = Duration::from_millis(500);

/// Keys that are tried to find one of a node's slots: of 1,024 slots any node has some of these.
const KEYS_MAX: u32 = 8_192;

/// A question for the output of an attempt from a byte on.
#[derive(Debug, Serialize, Deserialize)]
struct Look {
    key: String,
    from: u64,
}

/// A part of an output.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    text: String,
    from: u64,
    is_over: bool,
}

/// Lets other nodes follow the runs of this one.
pub(crate) fn show_live(world: &World, executors: &Executors) {
    let executors = executors.clone();
    world.serve_keys(LIVE, move |_, request| {
        let answer = request.read::<Look>().map_err(|error| error.to_string()).and_then(|look| {
            let chunk = executors.live(&look.key).read(look.from);
            let part = Part { text: chunk.text, from: chunk.from, is_over: chunk.is_over };
            Payload::of(&part).map_err(|error| error.to_string())
        });
        Box::pin(async move { answer })
    });
}

/// A key that the world of a node owns.
fn key_of(world: &World, own: &Node, node: &str) -> Option<String> {
    let nodes = nodes_of(world, own);
    let (_, id) = nodes.into_iter().find(|(known, _)| known.name == node)?;
    let mut keys = (0..KEYS_MAX).map(|number| format!("{LIVE}/{number}"));
    keys.find(|key| world.owner_of_key(key).is_some_and(|owner| owner.id == id))
}

/// Copies the output of an attempt on another node until it is over or nobody follows it.
pub(crate) async fn copy(world: WeakWorld, own: Node, node: String, key: String, to: Mirror) {
    while to.is_followed() {
        let Some(world) = world.upgrade() else { return };
        if let Some(owned) = key_of(&world, &own, &node) {
            let look = Payload::of(&Look { key: key.clone(), from: to.next() });
            let Ok(look) = look else { return };
            let asked = world.ask_key_owner(LIVE, &owned, look).await;
            // Without an answer it is asked again: the end of the run is seen in its launch.
            if let Some(part) = asked.ok().and_then(|answer| answer.read::<Part>().ok()) {
                if to.add(part.from, part.text.as_bytes(), part.is_over) {
                    return;
                }
            }
        }
        pause(&world, LOOK).await;
    }
}
