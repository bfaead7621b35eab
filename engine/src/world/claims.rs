//! Names that worlds claim for themselves: each is of one world, as long as that world is registered.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;

use super::{Hub, World};
use crate::error::{PayloadError, StoreError};
use crate::limits::{CLAIMS_MAX, CLAIM_DATA_MAX, CLAIM_NAME_MAX};
use crate::payload::Payload;
use crate::store::{Claim, WorldRow, Worlds, WorldsWrite};

/// A name that a world has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimView {
    /// The class of names that it is of.
    pub class: String,
    /// The name in its class.
    pub id: String,
    /// Data that its world wrote with it.
    pub data: Payload,
    /// The world that has it.
    pub world: u64,
    /// Name of that world.
    pub world_name: String,
}

/// Filter of claims; an empty one matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFilter {
    class: Option<String>,
    id: Option<String>,
    world: Option<u64>,
}

impl ClaimFilter {
    /// All claims.
    pub fn new() -> Self {
        Self::default()
    }

    /// Claims of one class.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        Self { class: Some(class.to_owned()), ..self }
    }

    /// Claims of one name.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        Self { id: Some(id.to_owned()), ..self }
    }

    /// Claims of one world.
    #[must_use]
    pub fn world(self, world: u64) -> Self {
        Self { world: Some(world), ..self }
    }

    fn fits(&self, world: u64, claim: &Claim) -> bool {
        self.world.is_none_or(|wanted| wanted == world)
            && self.class.as_ref().is_none_or(|wanted| *wanted == claim.class)
            && self.id.as_ref().is_none_or(|wanted| *wanted == claim.id)
    }
}

/// A name could not be claimed, or a claim could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Claimed already, perhaps by the same world.
    #[error("«{id}» of «{class}» is claimed by world {world} («{name}») already")]
    Taken {
        /// The class.
        class: String,
        /// The name.
        id: String,
        /// The world that has it.
        world: u64,
        /// Name of that world.
        name: String,
    },
    /// This world does not have it, so it can neither change it nor give it back.
    #[error("«{id}» of «{class}» is not claimed by this world: {}", Had(.by))]
    NotOwned {
        /// The class.
        class: String,
        /// The name.
        id: String,
        /// The world that has it, if one has.
        by: Option<u64>,
    },
    /// This world ends: it claims nothing new.
    #[error("world {world} is ending and claims nothing new")]
    Ending {
        /// Its number.
        world: u64,
    },
    /// This world is not registered any more: it has ended, or was said to be dead.
    #[error("world {world} is not registered any more: what it had claimed went with its record")]
    Gone {
        /// Its number.
        world: u64,
    },
    /// The world has claimed as much as it may.
    #[error("a world may claim {CLAIMS_MAX} names at once: give some back first")]
    TooMany,
    /// A text is longer than it may be.
    #[error("the {what} of a claim has {bytes} bytes, more than {limit}")]
    TooLong {
        /// The text.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The data cannot be written as JSON.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The holder of a claim, in words.
struct Had<'a>(&'a Option<u64>);

impl fmt::Display for Had<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(world) => write!(f, "world {world} has it"),
            None => f.write_str("nobody has it"),
        }
    }
}

impl World {
    /// Claims a name for this world, with some data: from now on no other world, nor this one a
    /// second time, can claim it. It is released by [`World::give_back`], or with the record of
    /// this world, in the same commit, when the world ends or is [declared
    /// dead](World::invalidate).
    ///
    /// It costs one commit. The data is stored as it is, even if a codec encodes the data of plans.
    /// Use it for work that only one world may do: a nightly dump, a unique connection.
    ///
    /// ```
    /// use turnwheel_engine::{ClaimFilter, MemoryStore, SharedStore, World};
    ///
    /// let store = SharedStore::open(MemoryStore::new())?;
    /// let one = World::builder().name("one").client().join(&store)?;
    /// let two = World::builder().name("two").client().join(&store)?;
    /// let claims = turnwheel_runtime::completion::block_on(async {
    ///     one.claim("dump", "nightly", &"since noon").await?;
    ///     assert!(two.claim("dump", "nightly", &()).await.is_err());
    ///     let found = two.claims(&ClaimFilter::new().class("dump"));
    ///     one.give_back("dump", "nightly").await?;
    ///     Ok::<_, turnwheel_engine::ClaimError>(found)
    /// })??;
    /// assert_eq!((claims[0].world, claims[0].data.as_str()), (one.id(), "\"since noon\""));
    /// one.shutdown()?;
    /// two.shutdown()?;
    /// store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Another world has it; a text is too long; this world has [`CLAIMS_MAX`] of them, is ending,
    /// or is not registered any more; the store failed.
    pub async fn claim(
        &self,
        class: &str,
        id: &str,
        data: &(impl Serialize + ?Sized),
    ) -> Result<(), ClaimError> {
        let me = self.id();
        let claim = claim_of(class, id, data)?;
        if self.shared().is_ending() {
            return Err(ClaimError::Ending { world: me });
        }
        self.change_claims(move |worlds| {
            let mut row = registered(worlds, me)?;
            if let Some(has) = owner(worlds, &claim.class, &claim.id) {
                let (class, id) = (claim.class.clone(), claim.id.clone());
                let name = has.name.clone();
                return Err(ClaimError::Taken { class, id, world: has.epoch, name });
            }
            if row.claims.len() >= CLAIMS_MAX {
                return Err(ClaimError::TooMany);
            }
            row.claims.push(claim.clone());
            Ok(row)
        })
        .await
    }

    /// Claims a name, does something, and gives the name back, also when this is dropped before it is done.
    ///
    /// # Errors
    ///
    /// As [`World::claim`]: then nothing was done. Or it was done, and the name could not be given back,
    /// because this world is not registered any more or the store failed.
    pub async fn claim_while<T>(
        &self,
        class: &str,
        id: &str,
        data: &(impl Serialize + ?Sized),
        work: impl Future<Output = T>,
    ) -> Result<T, ClaimError> {
        self.claim(class, id, data).await?;
        let mut held = Held { world: self, name: Some((class.to_owned(), id.to_owned())) };
        let done = work.await;
        held.name = None;
        self.give_back(class, id).await?;
        Ok(done)
    }

    /// Writes other data beside a name that this world has claimed.
    ///
    /// # Errors
    ///
    /// This world does not have it; the data are too long; the store failed.
    pub async fn change_claim(
        &self,
        class: &str,
        id: &str,
        data: &(impl Serialize + ?Sized),
    ) -> Result<(), ClaimError> {
        let me = self.id();
        let claim = claim_of(class, id, data)?;
        self.change_claims(move |worlds| {
            let mut row = registered(worlds, me)?;
            let at = position(worlds, &row, &claim.class, &claim.id)?;
            row.claims[at] = claim.clone();
            Ok(row)
        })
        .await
    }

    /// Gives back a name that this world has claimed: anybody can claim it from then on.
    ///
    /// # Errors
    ///
    /// This world does not have it, and whoever has it keeps it; the store failed.
    pub async fn give_back(&self, class: &str, id: &str) -> Result<(), ClaimError> {
        let (me, class, id) = (self.id(), class.to_owned(), id.to_owned());
        self.change_claims(move |worlds| {
            let mut row = registered(worlds, me)?;
            let at = position(worlds, &row, &class, &id)?;
            row.claims.remove(at);
            Ok(row)
        })
        .await
    }

    /// Releases all claims of a world, which may be another one. Returns their number.
    ///
    /// The world is not asked, and not notified: use it only when you know that the world has
    /// stopped the work behind the claims. [`World::invalidate`] does it for dead worlds.
    ///
    /// # Errors
    ///
    /// There is no such world; the store failed.
    pub async fn release_claims_of(&self, world: u64) -> Result<usize, ClaimError> {
        let count = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&count);
        self.change_claims(move |worlds| {
            let mut row = registered(worlds, world)?;
            // Relaxed: the answer comes after it.
            told.store(row.claims.len(), Ordering::Relaxed);
            row.claims.clear();
            Ok(row)
        })
        .await?;
        Ok(count.load(Ordering::Relaxed))
    }

    /// The names that are claimed, of the oldest world first, and of each in the order in which it has
    /// claimed them. It costs no look into the store.
    pub fn claims(&self, filter: &ClaimFilter) -> Vec<ClaimView> {
        let worlds = self.shared().hub().worlds();
        let of = |row: &WorldRow| -> Vec<ClaimView> {
            let fit = row.claims.iter().filter(|claim| filter.fits(row.epoch, claim)).cloned();
            fit.map(|Claim { class, id, data }| {
                let (world, world_name) = (row.epoch, row.name.clone());
                ClaimView { class, id, data, world, world_name }
            })
            .collect()
        };
        worlds.rows.iter().flat_map(of).collect()
    }

    /// Writes the row of a world, if it may be changed. The answer comes after the commit.
    async fn change_claims(
        &self,
        mut decide: impl FnMut(&Worlds) -> Result<WorldRow, ClaimError> + Send + 'static,
    ) -> Result<(), ClaimError> {
        let hub: &Arc<Hub> = self.shared().hub();
        let decided = Arc::new(Mutex::new(None));
        let told = Arc::clone(&decided);
        let change = move |worlds: &Worlds| {
            let (write, outcome) = match decide(worlds) {
                Ok(row) => {
                    let put = vec![row];
                    let write = WorldsWrite { from: worlds.version, put, gone: Vec::new() };
                    (Some(write), Ok(()))
                }
                Err(error) => (None, Err(error)),
            };
            *told.lock() = Some(outcome);
            write
        };
        hub.change(change).await?;
        let decided = decided.lock().take();
        decided.unwrap_or(Ok(()))
    }
}

/// A name that is given back when nobody waits for what it was claimed for.
struct Held<'a> {
    world: &'a World,
    name: Option<(String, String)>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Some((class, id)) = self.name.take() else { return };
        let world = self.world.clone();
        self.world.shared().hub().spawn(async move {
            if let Err(error) = world.give_back(&class, &id).await {
                tracing::warn!(%error, "a claim is not given back");
            }
        });
    }
}

fn claim_of(class: &str, id: &str, data: &(impl Serialize + ?Sized)) -> Result<Claim, ClaimError> {
    let data = Payload::of(data)?;
    let fits = |what, bytes, limit| {
        if bytes > limit {
            return Err(ClaimError::TooLong { what, bytes, limit });
        }
        Ok(())
    };
    fits("name", class.len() + id.len(), CLAIM_NAME_MAX)?;
    fits("data", data.as_str().len(), CLAIM_DATA_MAX)?;
    Ok(Claim { class: class.to_owned(), id: id.to_owned(), data })
}

fn registered(worlds: &Worlds, world: u64) -> Result<WorldRow, ClaimError> {
    worlds.find(world).cloned().ok_or(ClaimError::Gone { world })
}

/// The world that has a name.
fn owner<'a>(worlds: &'a Worlds, class: &str, id: &str) -> Option<&'a WorldRow> {
    let has =
        |row: &&WorldRow| row.claims.iter().any(|claim| claim.class == class && claim.id == id);
    worlds.rows.iter().find(has)
}

/// Index of a claim in a world's row.
fn position(worlds: &Worlds, row: &WorldRow, class: &str, id: &str) -> Result<usize, ClaimError> {
    let found = row.claims.iter().position(|claim| claim.class == class && claim.id == id);
    found.ok_or_else(|| ClaimError::NotOwned {
        class: class.to_owned(),
        id: id.to_owned(),
        by: owner(worlds, class, id).map(|row| row.epoch),
    })
}
