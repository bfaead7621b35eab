//! The chain of calls that a call belongs to: who waits for whom.
//!
//! A call carries its caller by value and what is above it by a count, so that a caller that
//! handles no call itself counts nothing.

use std::ops::Deref;
use std::sync::Arc;

/// One actor of a call chain: it waits for the answer to its call.
#[derive(Clone, Debug)]
struct Link {
    asker: Asker,
    parent: Option<Arc<Link>>,
}

impl Drop for Link {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(parent) = self.parent.take() {
            Self::unlink(parent);
        }
    }
}

impl Link {
    /// Not by recursion: a chain may be longer than a stack.
    #[inline(never)]
    fn unlink(parent: Arc<Self>) {
        let mut next = Some(parent);
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.parent.take();
        }
    }
}

/// The actors that wait for a call, the nearest first. Empty if none does.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallChain(Option<Link>);

/// A chain at whose end many calls are made; shared by the first of them.
#[derive(Clone, Debug)]
pub(crate) struct Above(Arc<Link>);

impl CallChain {
    /// The chain of a call that an actor makes, and that it waits for.
    #[inline]
    pub(crate) fn of(asker: Asker, above: Option<Above>) -> Self {
        Self(Some(Link { asker, parent: above.map(|above| above.0) }))
    }

    /// This chain for those that come behind it; one allocation.
    pub(crate) fn above(&self) -> Option<Above> {
        self.0.clone().map(|link| Above(Arc::new(link)))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the actor waits somewhere in this chain.
    pub(crate) fn contains(&self, actor: u64) -> bool {
        self.links().any(|link| link.asker.actor == actor)
    }

    /// Whether the actor waits somewhere in this chain and takes nothing meanwhile.
    #[inline]
    pub(crate) fn blocks(&self, actor: u64) -> bool {
        self.links().any(|link| link.asker.blocks(actor))
    }

    /// How many wait.
    pub(crate) fn depth(&self) -> usize {
        self.links().count()
    }

    #[inline]
    fn links(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(self.0.as_ref(), |link| link.parent.as_deref())
    }

    /// The names of the chain, the first caller first.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.links().map(|link| link.asker.name.to_string()).collect();
        names.reverse();
        names
    }
}

/// An actor that waits for its calls. Its cell keeps it from call to call.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) actor: u64,
    pub(crate) name: Name,
    /// Whether it takes calls that come back to it.
    pub(crate) is_reentrant: bool,
}

impl Asker {
    /// Whether this is that actor, and takes nothing while it waits.
    #[inline(always)]
    pub(crate) fn blocks(&self, actor: u64) -> bool {
        self.actor == actor && !self.is_reentrant
    }
}

/// The name of an actor in a chain.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    /// By its type; costs no count.
    Type(&'static str),
    Own(Arc<str>),
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Type(name) => name,
            Self::Own(name) => name,
        }
    }
}
