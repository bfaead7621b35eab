//! A world enters the table of worlds, says something of itself there, and sees the leases of others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::hub::Hub;
use super::{shares, Asking, Meta, World, WorldView};
use crate::error::{BuildError, StoreError, TextTooLong};
use crate::limits::META_BYTES_MAX;
use crate::store::{WorldRow, Worlds, WorldsWrite};

/// Looks at the lease of a name within a lease.
const LOOKS: u32 = 4;

impl Hub {
    /// Registers a world. Its number, and those that were found dead by that. A node whose name
    /// another one has waits for the end of that lease: it may be that of its own last process.
    pub(super) async fn register(
        self: &Arc<Self>,
        row: WorldRow,
        checks: bool,
        is_named: bool,
    ) -> Result<(u64, Vec<WorldView>), BuildError> {
        let lease = self.node.as_ref().and(self.journal.lease()).map(|lease| lease.length());
        // One more, since the last heartbeat of a process that was killed may be under way.
        for _ in 0..=LOOKS + 1 {
            let found = match (lease, checks) {
                // A silent node may be alive: its lease says it.
                (Some(_), _) => self.lapsed().await?,
                (None, true) => self.dead().await,
                (None, false) => Vec::new(),
            };
            let over: Vec<u64> = found.iter().map(|world| world.id).collect();
            let needs_name = lease.is_some() && is_named;
            let joined = self.join(&row, over, needs_name).await?;
            if let Some(number) = joined {
                self.has_registered(number, row, needs_name).await?;
                return Ok((number, found));
            }
            self.pause(lease.unwrap_or_default() / LOOKS).await;
        }
        let worlds = self.worlds();
        let other = worlds.rows.iter().find(|other| other.name == row.name);
        let (world, meta) = other.map(|other| (other.epoch, Meta::of(other))).unwrap_or_default();
        let Meta { host, process, .. } = meta;
        Err(BuildError::NameTaken { name: row.name, world, host, process })
    }

    /// Enters the table; nothing if another world that is alive has the name.
    async fn join(
        self: &Arc<Self>,
        row: &WorldRow,
        over: Vec<u64>,
        needs_name: bool,
    ) -> Result<Option<u64>, StoreError> {
        let live = self.live_slots(row.kind).await?;
        let number = Arc::new(AtomicU64::new(0));
        let (told, joining) = (Arc::clone(&number), row.clone());
        // Those of nodes are declared dead with the next heartbeat.
        let dead = if self.node.is_none() { over.clone() } else { Vec::new() };
        let join = move |worlds: &Worlds| {
            if needs_name && has_name(worlds, &joining.name, &over) {
                return None;
            }
            // Relaxed: the answer to the change comes after it.
            told.store(worlds.version + 1, Ordering::Relaxed);
            Some(shares::join(worlds, joining.clone(), &dead, &live))
        };
        let is_in = self.change(join).await?;
        Ok(is_in.then(|| number.load(Ordering::Relaxed)))
    }
}

/// Whether a world has this name, without those whose leases are over.
pub(super) fn has_name(worlds: &Worlds, name: &str, over: &[u64]) -> bool {
    worlds.rows.iter().any(|row| row.name == name && !over.contains(&row.epoch))
}

impl World {
    /// Says something of this world in [`World::worlds`], in the place of what was said under this
    /// key before. An empty text takes it back.
    ///
    /// ```
    /// use turnwheel_engine::{MemoryStore, World};
    ///
    /// let world = World::builder().build(MemoryStore::new())?;
    /// world.describe("address", "http://10.0.0.1:7070").wait()?;
    /// assert_eq!(world.worlds()[0].meta.get("address"), Some("http://10.0.0.1:7070"));
    /// # world.shutdown()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(&self, key: &str, value: &str) -> Asking<(), StoreError> {
        let (hub, me) = (Arc::clone(self.shared().hub()), self.id());
        let (key, value) = (key.to_owned(), value.to_owned());
        Asking::new(async move {
            let refused = |error: TextTooLong| StoreError::Failed(error.to_string());
            let bytes = key.len() + value.len();
            TextTooLong::of("text that the world says of itself", bytes, META_BYTES_MAX)
                .map_err(refused)?;
            let say = move |worlds: &Worlds| {
                let row = worlds.find(me)?;
                let mut meta = Meta::of(row);
                meta.given.retain(|(known, _)| *known != key);
                if !value.is_empty() {
                    meta.given.push((key.clone(), value.clone()));
                }
                let row = WorldRow { meta: meta.to_text(), ..row.clone() };
                Some(WorldsWrite { from: worlds.version, put: vec![row], gone: Vec::new() })
            };
            hub.change(say).await?;
            if let (Some(node), Some(row)) = (&hub.node, hub.worlds().find(me)) {
                node.says(row);
            }
            Ok(())
        })
    }

    /// The registered worlds by their numbers, with what is left of their leases: nothing if a lease
    /// is over. Without any if one process has the store for itself.
    pub fn leases(&self) -> Asking<Vec<(u64, Duration)>, StoreError> {
        let hub = Arc::clone(self.shared().hub());
        Asking::new(async move {
            let beat = hub.journal.beat(Vec::new(), hub.group.now_ns()).await?;
            Ok(beat.left)
        })
    }
}
